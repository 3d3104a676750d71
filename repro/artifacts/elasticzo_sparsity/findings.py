"""Our accuracy of both arms, and what the schedule gains."""

from functools import partial

from repro.claims import accuracies

findings = partial(accuracies.findings, "elasticzo_sparsity")
