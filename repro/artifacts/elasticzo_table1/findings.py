"""Our accuracy for every number of the table, and the gaps the text speaks of."""

from functools import partial

from repro.claims import accuracies

findings = partial(accuracies.findings, "elasticzo_table1")
