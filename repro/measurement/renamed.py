"""Translate names in older records to the present ones; the files keep their bytes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from repro.measurement.records import Record

_COLUMN = "clouds"
"""A former data set name of Table 1; it meant the one of ``_CLOUDS`` that the cache held."""
_BODIES = {
    "smollm2-135m": 106_203_456,
    "gemma3-270m": 100_326_016,
    "qwen2.5-coder-1.5b": 1_310_340_608,
}
"""Parameters outside embedding and output layer, of the models in plans that do not state them."""
_CLOUDS = ("modelnet40", "modelnet40_hdf5", "shapes40")


def with_present_names(records: "Sequence[Record]") -> "list[Record]":
    """Return the records of one run file with present names in their configuration.

    - The data set ``clouds`` becomes the data set used for training. If the file does not name it,
      it is ``shapes40``, the one used without ModelNet40.
    - Records of counted signs from before the batch size was a setting get it in their point.
    - A fine-tuning run from before runs had steps and controls becomes a run without them.
    - The setting ``helped`` of a fine-tuning run becomes ``native_passes``.
    - The plan of a fine-tuning run gets the model's parameters outside embedding and output layer.
    """
    trained = [name for record in records if (name := record.point.get("dataset")) in _CLOUDS]
    clouds = trained[0] if trained else "shapes40"
    found = []
    for record in records:
        config, point, metrics = dict(record.config), record.point, record.metrics
        datasets = config.get("datasets")
        if isinstance(datasets, list) and _COLUMN in datasets:
            config["datasets"] = [clouds if name == _COLUMN else name for name in datasets]
        if record.artifact == "elasticzo_int8_sign" and "batch" not in point:
            point = {**point, "batch": record.metrics["settings"]["batch"]}
        if "grid_seconds" in config:
            config["grid_share"] = config.pop("grid_seconds") / config["seconds"]
            config |= {"bp_steps": 0, "zo_forwards": [0], "zero_shot": False}
        settings = metrics.get("settings")
        if isinstance(settings, dict) and "helped" in settings:
            native = {"native_passes": settings["helped"]}
            others = {name: value for name, value in settings.items() if name != "helped"}
            metrics = {**metrics, "settings": others | native}
        if record.kind == "plan" and "body_parameters" not in metrics:
            body = _BODIES.get(point["model"], metrics["parameters"])
            metrics = {**metrics, "body_parameters": body}
        found.append(msgspec.structs.replace(record, config=config, point=point, metrics=metrics))
    return found
