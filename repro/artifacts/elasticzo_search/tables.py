"""Make the notebook's table of the grids."""

from collections.abc import Sequence
from statistics import median

import pandas as pd

from repro.artifacts.elasticzo_search.figures import problems
from repro.artifacts.elasticzo_search.selection import best, grids
from repro.claims.elasticzo import PRECISIONS, ROW_LABELS
from repro.measurement.records import Record


def combinations(records: Sequence[Record]) -> pd.DataFrame:
    """Return for each grid its size, the best combination, and the spread of the accuracies."""
    chosen = best(records)
    rows = []
    for group, grid in grids(records).items():
        family, precision, method = group
        accuracies = [100 * accuracy for accuracy in grid.values()]
        rows.append(
            {
                "task": problems(records, family),
                "precision": PRECISIONS[precision],
                "method": ROW_LABELS[method],
                "combinations": len(grid),
                "best combination": ", ".join(f"{k} = {v:g}" for k, v in chosen[group].items()),
                "its held-out accuracy (%)": f"{max(accuracies):.1f}",
                "median (%)": f"{median(accuracies):.1f}",
                "worst (%)": f"{min(accuracies):.1f}",
            }
        )
    return pd.DataFrame(rows)
