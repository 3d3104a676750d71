"""BoolQ: 9,427 + 3,270 yes/no questions about passages of Wikipedia (arXiv 1905.10044).

The test split has no published answers; results are on the validation split, as in the MeZO paper.
Both splits have 721 distinct passages in common: ``load_items`` leaves those out of training.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repro.data.base import ArraySpec, DataSet, Value
from repro.data.sources.hub import HubDataset
from repro.data.sources.mirror import Mirror
from repro.data.text.examples import Example, decode_lines, encode_lines

SPLITS = ("train", "validation")


def read_directory(directory: Path) -> Mapping[str, Value]:
    """Return the splits from ``train.jsonl`` and ``validation.jsonl``, titles left out."""
    arrays: dict[str, Value] = {}
    for split in SPLITS:
        path = directory / f"{split}.jsonl"
        arrays[split] = encode_lines(decode_lines(path.read_bytes(), path.name))
    return arrays


def read_hub(splits: Any) -> Mapping[str, Value]:  # noqa: ANN401 - a datasets.DatasetDict
    """Return the splits from the rows of ``google/boolq``."""
    return {
        split: encode_lines(
            Example(row["question"], row["passage"], row["answer"]) for row in splits[split]
        )
        for split in SPLITS
    }


BOOLQ = DataSet(
    name="boolq",
    title="BoolQ yes/no questions with passages, 9,427 + 3,270, as JSON lines",
    licence="CC BY-SA 3.0",
    content={
        "train": ArraySpec(
            (6_209_190,),
            "|u1",
            "a571c7ee84d7a5d954fe97d7528dd5c49fc6e7d1f50fbf9d351ae558bf65cad4",
        ),
        "validation": ArraySpec(
            (2_129_849,),
            "|u1",
            "dbad2984e58eaa2184b6d0acfe2e94a73b9868381046255d6be6c3bed9088b68",
        ),
    },
    sources=(HubDataset("google/boolq", read_hub), Mirror("boolq", read_directory)),
)
DATA_SETS = (BOOLQ,)
