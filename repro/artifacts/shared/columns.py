"""Name and order the columns of the accuracy tables: data set, rotation, precision."""

from collections.abc import Mapping

from repro.claims.elasticzo import DATASETS, PRECISIONS, QUANTITIES, ROW_LABELS
from repro.claims.index import CLAIMS
from repro.claims.quantity import Accuracy, Key, Point, key

TITLES = {
    **DATASETS,
    "shapes40": "generated shapes (stand-in)",
    "shrec11": "SHREC11 (stand-in)",
    "modelnet40_hdf5": "ModelNet40 (HDF5)",
}
"""Title of each data set, the paper's first; a set with another network than the paper's has its
own."""


def headings(column: Point) -> tuple[str, ...]:
    """Return the headings of a column: data set, rotation if any, precision."""
    dataset = str(column["dataset"])
    rotation = (f"{column['angle']}°",) if "angle" in column else ()
    return TITLES[dataset], *rotation, PRECISIONS[str(column["precision"])]


def place(point: Point) -> tuple[int, int, int, int]:
    """Return the sort key of a point in the paper's order; points without a method come first."""
    methods = [None, *ROW_LABELS]
    return (
        [*TITLES].index(str(point["dataset"])),
        [*PRECISIONS].index(str(point["precision"])),
        int(point.get("angle") or 0),
        methods.index(point.get("method")),  # type: ignore[arg-type]
    )


def published() -> Mapping[Key, float]:
    """Return the published accuracy of each point, in per cent."""
    return {
        key(quantity.point): CLAIMS[claim_id].published
        for claim_id, quantity in QUANTITIES.items()
        if isinstance(quantity, Accuracy)
    }
