"""The table as a figure: ours and published, method by method."""

from repro.artifacts.scores import figure as table1

FIGURES = {"table1": table1}
