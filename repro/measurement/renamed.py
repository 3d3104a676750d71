"""Present names for what older records call otherwise; the files keep their bytes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from repro.measurement.records import Record

_COLUMN = "clouds"
"""A former data set of Table 1: whichever of ``_CLOUDS`` the cache held."""
_CLOUDS = ("modelnet40", "modelnet40_hdf5", "shapes40")


def with_present_names(records: "Sequence[Record]") -> "list[Record]":
    """Return the records of one run file with present names in their configuration.

    The data set ``clouds`` becomes the one that the run trained on; ``shapes40``, which it was
    without ModelNet40, if the file does not say.
    """
    trained = [name for record in records if (name := record.point.get("dataset")) in _CLOUDS]
    clouds = trained[0] if trained else "shapes40"
    return [_without_steps(_with_batch(_renamed(record, clouds))) for record in records]


def _without_steps(record: "Record") -> "Record":
    """Describe a fine-tuning run from before runs had steps and controls as one without them."""
    if "grid_seconds" not in record.config:
        return record
    config = {name: value for name, value in record.config.items() if name != "grid_seconds"}
    config["grid_share"] = record.config["grid_seconds"] / record.config["seconds"]
    config |= {"bp_steps": 0, "zo_forwards": [0], "zero_shot": False}
    return msgspec.structs.replace(record, config=config)


def _with_batch(record: "Record") -> "Record":
    """Name the batch size of signs that were counted before there was a choice of it."""
    if record.artifact != "elasticzo_int8_sign" or "batch" in record.point:
        return record
    batch = record.metrics["settings"]["batch"]
    return msgspec.structs.replace(record, point={**record.point, "batch": batch})


def _renamed(record: "Record", clouds: str) -> "Record":
    datasets = record.config.get("datasets")
    if not isinstance(datasets, list) or _COLUMN not in datasets:
        return record
    named = [clouds if name == _COLUMN else name for name in datasets]
    return msgspec.structs.replace(record, config={**record.config, "datasets": named})
