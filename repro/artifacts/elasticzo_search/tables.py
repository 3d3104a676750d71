"""Make the notebook's table of the grid."""

from collections.abc import Sequence

import pandas as pd

from repro.artifacts.elasticzo_search.selection import best, grids
from repro.measurement.records import Record


def combinations(records: Sequence[Record]) -> pd.DataFrame:
    """Return the held-out accuracy of every combination, with the chosen ones marked."""
    chosen = best(records)
    rows = [
        {
            "problem": group[0],
            "precision": group[1],
            "method": group[2],
            **dict(point),
            "held-out accuracy (%)": round(100 * accuracy, 2),
            "chosen": "yes" if dict(point) == chosen[group] else "",
        }
        for group, grid in grids(records).items()
        for point, accuracy in grid.items()
    ]
    return pd.DataFrame(rows).fillna("")
