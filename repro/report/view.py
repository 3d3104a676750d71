"""What a notebook imports: the newest records of an artifact, and its claims as a table."""

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from IPython.display import Image, Markdown
from matplotlib.figure import Figure

from repro.core.paths import results_dir
from repro.drawing.style import style
from repro.measurement.records import Record, read_run
from repro.report.claims_table import run_rows
from repro.report.markdown import claims_markdown
from repro.report.runs import newest_run

RECORDS = "REPRO_RECORDS"
"""Environment variable naming the file of records that a notebook shows."""
_DPI = 120


def records_file(slug: str) -> Path:
    """Return the file that ``REPRO_RECORDS`` names, else the newest records of ``slug``.

    These are looked for in ``REPRO_RESULTS``, else in the nearest ``results`` directory upwards.
    """
    if chosen := os.environ.get(RECORDS):
        return Path(chosen)
    here = Path.cwd()
    nearby = [above / "results" for above in (here, *here.parents) if (above / "results").is_dir()]
    override = os.environ.get("REPRO_RESULTS")
    return newest_run(Path(override) if override else (nearby or [results_dir()])[0], slug)


def newest_records(slug: str) -> list[Record]:
    """Return the records that tables and verdicts are made from.

    Raises:
        ReproError: there are none, or they are corrupted.
    """
    return read_run(records_file(slug))


def provenance(records: Sequence[Record]) -> pd.DataFrame:
    """Return how the records were made: profile, code, machine, libraries."""
    first = records[0]
    here = first.environment
    commit = "outside a checkout" if here.commit is None else here.commit[:12]
    rows = {
        "profile": first.profile,
        "records": len(records),
        "computed (UTC)": records[-1].utc,
        "commit": commit + (" with local changes" if here.dirty else ""),
        "CPU": f"{here.cpu}, {here.cores} cores, {here.cpu_capability}",
        "GPU": here.gpu or "none",
        "oneDNN": "on" if here.onednn else "off",
        "Python": here.python,
        **here.versions,
    }
    return pd.DataFrame({"": {name: str(value) for name, value in rows.items()}})


def claims(slug: str) -> Markdown:
    """Return the artifact's claims: published, ours, verdict and reason."""
    table = claims_markdown(run_rows(slug, records_file(slug)), reasons=True)
    return Markdown(table)  # type: ignore[no-untyped-call]


@contextmanager
def all_rows() -> Iterator[None]:
    """Show every row of the tables displayed inside the block."""
    with pd.option_context("display.max_rows", None):
        yield


def show(figure: Figure, description: str) -> Image:
    """Return ``figure`` as an image, with ``description`` for those who cannot see it."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    plt.close(figure)
    return Image(buffer.getvalue(), alt=description)  # type: ignore[no-untyped-call]
