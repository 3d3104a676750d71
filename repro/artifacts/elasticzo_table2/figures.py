"""The table as a figure."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from repro.artifacts import scores
from repro.drawing.accuracy import dots
from repro.measurement.records import Record


def table2(records: Sequence[Record]) -> Figure:
    """Draw each column of the table: ours and published, method by method."""
    return dots(scores.columns(records))


FIGURES = {"table2": table2}
