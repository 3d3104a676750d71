"""The table as a figure: ours and published, method by method."""

from repro.artifacts.scores import figure as table1

FIGURES = {"table1": table1}
CAPTIONS = {
    "table1": (
        "Test accuracy of four methods on each data set and precision beside the published accuracy"
    ),
}
