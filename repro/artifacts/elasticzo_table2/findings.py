"""Our accuracy for every number of the table."""

from functools import partial

from repro.claims import accuracies

findings = partial(accuracies.findings, "elasticzo_table2")
