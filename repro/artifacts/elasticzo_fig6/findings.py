"""Our value for every claim on Fig. 6."""

from functools import partial

from repro.artifacts import memory_findings

findings = partial(memory_findings.findings, "elasticzo_fig6")
