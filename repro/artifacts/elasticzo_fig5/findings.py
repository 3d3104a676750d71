"""Our value for every claim on Fig. 5."""

from functools import partial

from repro.artifacts import memory_findings

findings = partial(memory_findings.findings, "elasticzo_fig5")
