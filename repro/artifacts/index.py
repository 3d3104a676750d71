"""The index of artifacts: the only module that names them all."""

import difflib
from importlib import import_module

from repro.artifacts.base import Artifact
from repro.core.errors import UsageError

SLUGS = (
    "mezo_fig3",
    "mezo_fig3_gpu",
    "mezo_fig4",
    "mezo_step_time",
    "elasticzo_search",
    "elasticzo_table1",
    "elasticzo_table2",
    "elasticzo_sparsity",
    "elasticzo_int8_sign",
    "elasticzo_int8_choices",
    "elasticzo_misses",
    "elasticzo_fig2",
    "elasticzo_fig3",
    "elasticzo_fig4",
    "elasticzo_fig5",
    "elasticzo_fig6",
    "elasticzo_fig7",
)
"""In the order of the papers. A test holds this equal to the packages, tox, results, notebooks."""


def load(slug: str) -> Artifact:
    """Return the artifact named ``slug``.

    Raises:
        UsageError: there is none of that name; the message gives the nearest.
    """
    if slug not in SLUGS:
        near = difflib.get_close_matches(slug, SLUGS, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(SLUGS)}"
        msg = f"no artifact named {slug!r}; {hint}"
        raise UsageError(msg)
    artifact: Artifact = import_module(f"repro.artifacts.{slug}").ARTIFACT
    return artifact
