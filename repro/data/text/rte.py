"""RTE: 2,490 + 277 pairs of texts; does the first entail the second? As in GLUE.

The test split has no published labels; results are on the validation split, as is usual.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repro.data.base import ArraySpec, DataSet, Value
from repro.data.sources.hub import HubDataset
from repro.data.sources.mirror import Mirror
from repro.data.text.rows import encode_rows, read_rows

LABELS = ("entailment", "not_entailment")
"""In the order of the hub's numbers."""
_FIELDS = ("sentence1", "sentence2")
_FILES = {"train": "train.tsv", "validation": "dev.tsv"}


def read_directory(directory: Path) -> Mapping[str, Value]:
    """Return both splits from GLUE's ``train.tsv`` and ``dev.tsv``."""
    return {
        split: encode_rows(
            {**row.values, "label": row.label}
            for row in read_rows((directory / file).read_bytes(), file, _FIELDS, "label")
        )
        for split, file in _FILES.items()
    }


def read_hub(splits: Any) -> Mapping[str, Value]:  # noqa: ANN401 - a datasets.DatasetDict
    """Return both splits from the rows of GLUE's ``rte``."""
    return {
        split: encode_rows(
            {**{field: row[field].strip() for field in _FIELDS}, "label": LABELS[row["label"]]}
            for row in splits[split]
        )
        for split in _FILES
    }


RTE = DataSet(
    name="rte",
    title="RTE textual entailment, 2,490 + 277, as JSON lines",
    licence="research use, no licence given",
    content={
        "train": ArraySpec(
            (948_347,), "|u1", "d5cd3b1afdb79d0718014919a82f913a0026e7a9c12ee2123ef3b4deef049b4f"
        ),
        "validation": ArraySpec(
            (101_933,), "|u1", "961beb2c6a40083e995c1e3c0cdb6a7f4b7570b48b9ca469dcc3a5a4191d29dd"
        ),
    },
    sources=(HubDataset("nyu-mll/glue", read_hub, "rte"), Mirror("rte", read_directory)),
)
DATA_SETS = (RTE,)
