"""Translate names in older records to the present ones; the files keep their bytes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from repro.measurement.records import Record

PRESENT_SLUGS = {
    "elasticzo_misses": "elasticzo_discrepancies",
    "elasticzo_int8_choices": "elasticzo_int8_ablation",
}
"""Present names of artifacts that had another one."""
_VALUES = {"int8s": "int8_star"}
"""Present names of values in configurations, points and settings."""
_COLUMN = "clouds"
"""A former data set name of Table 1; it meant the one of ``_CLOUDS`` that the cache held."""
_BODIES = {
    "smollm2-135m": 106_203_456,
    "gemma3-270m": 100_326_016,
    "qwen2.5-coder-1.5b": 1_310_340_608,
}
"""Parameters outside embedding and output layer, of the models in plans that do not state them."""
_STARTED_BY_ENGINE = (("none", "native"), ("none", "auto"))
"""Method and configured engine of networks pre-trained by the engine, in integers."""
_CLOUDS = ("modelnet40", "modelnet40_hdf5", "shapes40")


def with_present_names(records: "Sequence[Record]") -> "list[Record]":
    """Return the records of one run file with present names.

    - Artifacts get their present slug; INT8*, once ``int8s``, is ``int8_star``.
    - The data set ``clouds`` becomes the data set used for training. If the file does not name it,
      it is ``shapes40``, the one used without ModelNet40.
    - Points of counted signs, once without batch size and epochs, get them.
    - Configurations of the comparison of methods, once without device and workers, get them, and
      their points the device.
    - Table 1's number of epochs on clouds, once a single one, becomes a list.
    - In Table 2 a network without fine-tuning, once without its engine, gets it: the engine trains
      integers from scratch wherever it fine-tunes.
    - A fine-tuning run from before runs had steps and controls becomes a run without them.
    - The setting ``helped`` of a fine-tuning run becomes ``native_passes``.
    - A model's accuracy before training gets the numbers of items that its configuration names.
    - The plan of a fine-tuning run gets the model's parameters outside embedding and output layer.
    - The measured peak of LoRA gets Adam's moments, which the measurement once left out: two
      float32 numbers for each weight of the adapters.
    """
    named = [name for record in records if (name := record.point.get("dataset")) in _CLOUDS]
    clouds = named[0] if named else "shapes40"
    found = []
    for record in records:
        artifact = PRESENT_SLUGS.get(record.artifact, record.artifact)
        config, point = _present(record.config), _present(record.point)
        metrics = record.metrics
        datasets = config.get("datasets")
        if isinstance(datasets, list) and _COLUMN in datasets:
            config["datasets"] = [clouds if name == _COLUMN else name for name in datasets]
        if artifact == "elasticzo_int8_sign":
            trained = record.metrics["settings"]
            point = {"batch": trained["batch"], "epochs": trained["epochs"], **point}
        if artifact == "zo_methods":
            config = {"device": "cpu", "workers": 1, **config}
            point = {"device": config["device"], **point}
        if artifact == "elasticzo_table1" and isinstance(config.get("cloud_epochs"), int):
            config["cloud_epochs"] = [config["cloud_epochs"]]
        if "grid_seconds" in config:
            config["grid_share"] = config.pop("grid_seconds") / config["seconds"]
            config |= {"bp_steps": 0, "zo_forwards": [0], "zero_shot": False}
        if isinstance(metrics.get("settings"), dict):
            settings = _present(metrics["settings"])
            if "helped" in settings:
                settings["native_passes"] = settings.pop("helped")
            metrics = {**metrics, "settings": settings}
        if record.kind == "zero_shot":
            items = {"calibration_items": config["tuning_items"], "items": config["final_items"]}
            metrics = {**metrics, "settings": {**items, **metrics["settings"]}}
        if (
            artifact == "elasticzo_table2"
            and (point["method"], config.get("engine")) in _STARTED_BY_ENGINE
            and point["precision"] != "fp32"
        ):
            metrics = {"trained": {"engine": "native"}, **metrics}
        if record.kind == "plan" and "body_parameters" not in metrics:
            body = _BODIES.get(point["model"], metrics["parameters"])
            metrics = {**metrics, "body_parameters": body}
        if point.get("arm") == "lora":
            metrics = _with_moments(record, metrics, records)
        found.append(
            msgspec.structs.replace(
                record, artifact=artifact, config=config, point=point, metrics=metrics
            )
        )
    return found


def _with_moments(
    record: "Record", metrics: dict[str, Any], records: "Sequence[Record]"
) -> dict[str, Any]:
    """Return the metrics of LoRA's memory with Adam's moments in the measured peak."""
    prefix = {"plan": "measured_", "step": ""}.get(record.kind)
    peak, state = f"{prefix}peak_bytes", f"{prefix}state_bytes"
    if peak not in metrics or state in metrics:
        return metrics
    if record.kind == "plan":
        moments = metrics["simulated_optimizer_state_bytes"]
    else:  # the weights without adapters are those of another method on the same task
        bases = [
            one.metrics["parameters_bytes"]
            for one in records
            if one.kind == record.kind and one.point["task"] == record.point["task"]
        ]
        if (moments := 2 * (metrics["parameters_bytes"] - min(bases))) == 0:
            return metrics  # there is no other method
    return {**metrics, state: moments, peak: metrics[peak] + moments}


def _present(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a copy of a JSON value with the present names of the values in it."""
    if isinstance(value, dict):
        return {name: _present(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_present(item) for item in value]
    return _VALUES.get(value, value) if isinstance(value, str) else value
