"""Write the tables of the documents that come from records, between their marks."""

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from repro.artifacts.base import lazy
from repro.claims.elasticzo import CLOUD_EPOCHS
from repro.claims.index import CLAIMS
from repro.claims.trained import SeedGroups
from repro.core.names import METHOD_LABELS
from repro.measurement.records import Record, of_kind, read_runs
from repro.report.markdown import rewrite
from repro.report.recipes import recipes, table
from repro.report.runs import current_runs

if TYPE_CHECKING:
    import pandas as pd

_CLOUDS = {"dataset": "modelnet40", "precision": "fp32"}


def write_tables(documents: Path, results: Path) -> list[Path]:
    """Rewrite the tables of the documents in a directory, and return the documents.

    Raises:
        ReproError: marks are missing or in the wrong order.
    """
    for name, tables in TABLES.items():
        for mark, made in tables.items():
            rewrite(documents / name, mark, made(results))
    return [documents / name for name in TABLES]


def cloud_accuracies(results: Path) -> str:
    """Return PointNet's mean and published accuracies, by method and number of epochs."""
    groups = SeedGroups(_records(results, "elasticzo_table1"))
    rows = []
    for method, label in METHOD_LABELS.items():
        point = {**_CLOUDS, "method": method}
        leading = groups.get(point)
        every = [] if leading is None else [leading, *groups.others(point)]
        every = [group for group in every if group.made_like(every[0])]
        ends = {group.length: list(group.last.values()) for group in reversed(every)}
        cells = [f"{fmean(ends[n]):.1f} %" if ends.get(n) else "" for n in CLOUD_EPOCHS]
        published = CLAIMS[f"B-T1-modelnet40-fp32-{method}"].published
        rows.append([label, *cells, f"{published:.2f} %"])
    lengths = [f"{epochs} epochs" for epochs in CLOUD_EPOCHS]
    return table(["method", *lengths, "published"], rows)


def cloud_seconds(results: Path) -> str:
    """Return the seconds of PointNet's fastest epoch on one thread, by method and processor."""
    fastest: dict[tuple[str, str], float] = {}
    for record in of_kind(_records(results, "elasticzo_table1"), "run"):
        trained = record.metrics.get("trained", {})
        on_clouds = record.point["dataset"] == _CLOUDS["dataset"]
        if on_clouds and trained.get("threads") == 1 and record.metrics["seconds"]:
            cpu = record.environment.cpu.replace("(R)", "").replace(" Processor", "")
            where = str(record.point["method"]), cpu
            seconds = min(record.metrics["seconds"])
            fastest[where] = min(seconds, fastest.get(where, seconds))
    cpus = sorted({cpu for _, cpu in fastest})
    rows = [
        [label, *(f"{fastest[at]:.1f}" if (at := (method, cpu)) in fastest else "" for cpu in cpus)]
        for method, label in METHOD_LABELS.items()
    ]
    return table(["", *cpus], rows)


def _frame(path: str, *slugs: str) -> Callable[[Path], str]:
    """Return a function that writes the data frame of ``path``, from the records of artifacts."""

    def made(results: Path) -> str:
        frame: pd.DataFrame = lazy(path)(*(_records(results, slug) for slug in slugs))
        shown = frame.loc[:, [column for column in frame if any(frame[column])]]  # no empty columns
        return table(list(shown.columns), shown.to_numpy().tolist())

    return made


_ABLATION = "elasticzo_int8_ablation"
TABLES: Mapping[str, Mapping[str, Callable[[Path], str]]] = {
    "discrepancies.md": {
        "gains in integers": _frame(
            "repro.artifacts.elasticzo_discrepancies.tables:gains_in_integers",
            "elasticzo_discrepancies",
        ),
        "accuracies of PointNet": cloud_accuracies,
        "lengths of PointNet's training": _frame(
            "repro.artifacts.elasticzo_discrepancies.tables:long_point_clouds",
            "elasticzo_discrepancies",
            "elasticzo_table1",
        ),
    },
    "integer.md": {
        "differences": _frame(f"repro.artifacts.{_ABLATION}:accuracy_table", _ABLATION),
        "clipped weights": _frame(f"repro.artifacts.{_ABLATION}:clipped_weights_table", _ABLATION),
    },
    "methods.md": {"recipes": recipes},
    "ondevice.md": {"seconds of PointNet": cloud_seconds},
}
"""The document, the name in its marks, and the function that returns the table."""


def _records(results: Path, slug: str) -> list[Record]:
    return read_runs(current_runs(results, slug))
