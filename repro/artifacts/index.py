"""The registry of artifacts: the only module that names them all.

``repro list``, the report, the site, the tox environments and the tests all read the artifacts from
here. Importing an artifact is cheap (see ``repro.artifacts.base``), so all of them are imported.
"""

from repro.artifacts import (
    elasticzo_discrepancies,
    elasticzo_fig2,
    elasticzo_fig3,
    elasticzo_fig4,
    elasticzo_fig5,
    elasticzo_fig6,
    elasticzo_fig7,
    elasticzo_int8_ablation,
    elasticzo_int8_sign,
    elasticzo_search,
    elasticzo_sparsity,
    elasticzo_table1,
    elasticzo_table2,
    mezo_fig3,
    mezo_fig3_gpu,
    mezo_fig4,
    mezo_step_time,
    zo_methods,
)
from repro.artifacts.base import Artifact
from repro.core.errors import UsageError
from repro.core.validation import unknown
from repro.measurement.renamed import PRESENT_SLUGS

_IN_THE_ORDER_OF_THE_PAPERS = (
    mezo_fig3,
    mezo_fig3_gpu,
    mezo_fig4,
    mezo_step_time,
    zo_methods,
    elasticzo_search,
    elasticzo_table1,
    elasticzo_table2,
    elasticzo_sparsity,
    elasticzo_int8_sign,
    elasticzo_int8_ablation,
    elasticzo_discrepancies,
    elasticzo_fig2,
    elasticzo_fig3,
    elasticzo_fig4,
    elasticzo_fig5,
    elasticzo_fig6,
    elasticzo_fig7,
)
ARTIFACTS: dict[str, Artifact] = {
    module.ARTIFACT.slug: module.ARTIFACT for module in _IN_THE_ORDER_OF_THE_PAPERS
}
SLUGS = tuple(ARTIFACTS)


def load(slug: str) -> Artifact:
    """Return the artifact named ``slug``, now or formerly.

    Raises:
        UsageError: no artifact has that name; the message suggests similar ones.
    """
    slug = PRESENT_SLUGS.get(slug, slug)
    if slug not in ARTIFACTS:
        raise UsageError(unknown("artifact", slug, SLUGS, "repro list"))
    return ARTIFACTS[slug]
