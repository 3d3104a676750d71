"""Functions for notebooks: read an artifact's records; show its claims, figures and provenance."""

import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from IPython.display import Image, Markdown
from matplotlib.figure import Figure

from repro.artifacts.base import Artifact
from repro.core.paths import results_dir
from repro.measurement.environment import commit_label
from repro.measurement.records import Record, read_runs
from repro.plotting.style import style
from repro.report.claims_table import run_rows
from repro.report.markdown import claims_markdown, count_verdicts
from repro.report.runs import RECORDS, current_runs, require_runs

_DPI = 120

pd.set_option("display.max_colwidth", None)  # show commits and reasons whole
pd.set_option("display.max_rows", None)


def record_files(slug: str) -> list[Path]:
    """Return the files named by ``REPRO_RECORDS``, else the current records of ``slug``.

    The current records are searched in ``REPRO_RESULTS``, else in the nearest ``results`` directory
    upwards.
    """
    return _chosen() or require_runs(_results(), slug)


def _chosen() -> list[Path]:
    chosen = os.environ.get(RECORDS)
    return [Path(name) for name in chosen.split(os.pathsep)] if chosen else []


def _results() -> Path:
    if chosen := _chosen():
        return chosen[0].parents[1]
    here = Path.cwd()
    nearby = [above / "results" for above in (here, *here.parents) if (above / "results").is_dir()]
    override = os.environ.get("REPRO_RESULTS")
    return Path(override) if override else (nearby or [results_dir()])[0]


def newest_records(slug: str) -> list[Record]:
    """Return the records from which tables and verdicts are made.

    Raises:
        ReproError: there are none, or they are corrupted.
    """
    return read_runs(record_files(slug))


def records_beside(slug: str) -> list[Record]:
    """Return the records of another artifact in the same results; none if it has not run there.

    Raises:
        ReproError: they are corrupted.
    """
    return read_runs(current_runs(_results(), slug))


def provenance(records: Sequence[Record]) -> pd.DataFrame:
    """Return the provenance of the records: profile, code, machine, libraries."""
    environments = [record.environment for record in records]
    libraries = dict.fromkeys(name for here in environments for name in here.versions)
    rows = {
        "profile": _each(record.profile for record in records),
        "records": str(len(records)),
        "computed (UTC)": max(record.utc for record in records),
        "commit": _each(commit_label(*record.code) for record in records),
        "CPU": _each(
            f"{here.cpu}, {here.cores} cores, {here.cpu_capability}" for here in environments
        ),
        "GPU": _each(here.gpu or "none" for here in environments),
        "oneDNN": _each("on" if here.onednn else "off" for here in environments),
        "Python": _each(here.python for here in environments),
        **{
            name: _each(here.versions.get(name, "absent") for here in environments)
            for name in libraries
        },
    }
    return pd.DataFrame({"": rows})


def _each(values: Iterable[str]) -> str:
    """Join the distinct values; records of several runs may have several."""
    return "; ".join(dict.fromkeys(values))


def claims(slug: str) -> Markdown:
    """Return the artifact's claims: published, ours, verdict and reason."""
    table = claims_markdown(run_rows(slug, record_files(slug)), reasons=True)
    return Markdown(table)  # type: ignore[no-untyped-call]


def verdicts(slug: str) -> Markdown:
    """Return a sentence with the number of the artifact's claims by verdict."""
    count = count_verdicts(run_rows(slug, record_files(slug)))
    return Markdown(f"**{count}.** The table of all statements is at the end.")  # type: ignore[no-untyped-call]


def about(artifact: Artifact) -> Markdown:
    """Return the artifact's description, with its numbered deviations from the paper."""
    return Markdown(artifact.about)  # type: ignore[no-untyped-call]


def figure(artifact: Artifact, name: str, records: Sequence[Record]) -> Image:
    """Return a figure of an artifact as an image, with its caption."""
    return show(artifact.figures[name](records), artifact.captions[name])


def show(figure: Figure, description: str) -> Image:
    """Return ``figure`` as an image, with ``description`` as its alternative text."""
    buffer = io.BytesIO()
    with style():
        # without the version of matplotlib, so that equal figures have equal bytes
        figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    plt.close(figure)
    return Image(buffer.getvalue(), alt=description)  # type: ignore[no-untyped-call]
