"""SST-2: 67,349 phrases and 872 sentences of film reviews, negative or positive, as in GLUE.

The test split has no published labels; results are on the validation split, as is usual. The
second set holds LM-BFF's five few-shot splits (arXiv 2012.15723): 16 sentences a class to train on
and 16 to tune on, drawn from the training sentences with one seed each.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repro.data.base import Array, ArraySpec, BadContentError, DataSet, Value
from repro.data.sources.hub import HubDataset
from repro.data.sources.mirror import Mirror
from repro.data.text.rows import encode_rows, read_rows

SEEDS = (13, 21, 42, 87, 100)
"""Of LM-BFF's five splits."""
_FILES = {"train": "train.tsv", "validation": "dev.tsv"}


def read_directory(directory: Path) -> Mapping[str, Value]:
    """Return both splits from GLUE's ``train.tsv`` and ``dev.tsv``."""
    return {split: _encode(directory / file) for split, file in _FILES.items()}


def read_few_shot(directory: Path) -> Mapping[str, Value]:
    """Return the few-shot splits from ``16-SEED/train.tsv`` and ``16-SEED/dev.tsv``."""
    return {
        f"{key}-{seed}": _encode(directory / f"16-{seed}" / file)
        for seed in SEEDS
        for key, file in (("train", "train.tsv"), ("tuning", "dev.tsv"))
    }


def read_hub(splits: Any) -> Mapping[str, Value]:  # noqa: ANN401 - a datasets.DatasetDict
    """Return both splits from the rows of ``stanfordnlp/sst2`` or GLUE's ``sst2``."""
    return {
        split: encode_rows(
            {"sentence": row["sentence"].strip(), "label": int(row["label"])}
            for row in splits[split]
        )
        for split in _FILES
    }


def _encode(path: Path) -> Array:
    rows = read_rows(path.read_bytes(), path.name, ("sentence",), "label")
    for row in rows:
        if row.label not in {"0", "1"}:
            msg = f"{row.where}: label is {row.label!r}, must be 0 or 1"
            raise BadContentError(msg)
    return encode_rows({**row.values, "label": int(row.label)} for row in rows)


SST2 = DataSet(
    name="sst2",
    title="SST-2 sentiment of film reviews, 67,349 + 872, as JSON lines",
    licence="research use, no licence given",
    content={
        "train": ArraySpec(
            (5_489_791,), "|u1", "eb740eda3c4e0d1de43be38e372b9775f524be341af01f175d5f08b6da72ccb5"
        ),
        "validation": ArraySpec(
            (116_716,), "|u1", "97206a3c000cdf9078a61ff1724b77de091ad5d72a58e0ff779c9b7542cb9159"
        ),
    },
    sources=(
        HubDataset("stanfordnlp/sst2", read_hub),
        HubDataset("nyu-mll/glue", read_hub, "sst2"),
        Mirror("sst2", read_directory),
    ),
)
SST2_FEW_SHOT = DataSet(
    name="sst2-k16",
    title="LM-BFF's five few-shot splits of SST-2, 32 + 32 each, as JSON lines",
    licence="research use, no licence given",
    content={
        "train-13": ArraySpec(
            (4_570,), "|u1", "24bb1af752cb5d0266038d3116bf00741e30315b28797d28630ad9434c3271b0"
        ),
        "tuning-13": ArraySpec(
            (4_349,), "|u1", "101eb1975114f2f4bee8468709a44005eca8160b2fab388f7514c28aa0128e80"
        ),
        "train-21": ArraySpec(
            (3_913,), "|u1", "8dfb503b13ed5075b97560a01e613384a95e4be88ed0dd86dea019114848f1f4"
        ),
        "tuning-21": ArraySpec(
            (4_174,), "|u1", "6f4ef5f35d927179417809f8e3bb23bdd93543a29e346205eade33e31a8289c7"
        ),
        "train-42": ArraySpec(
            (3_779,), "|u1", "15eae5f2b24a673693b686e4e6494b71fbb94ef7d848f8c585918d90ebbe7fe1"
        ),
        "tuning-42": ArraySpec(
            (4_375,), "|u1", "df1de223061d1ed37caf7c4b60810ae64942da945697802c87e15b2386d731ad"
        ),
        "train-87": ArraySpec(
            (4_512,), "|u1", "1b291118349f88d3777a4e63a9c765123111d33ae5c9f5a420b838948d9b7a37"
        ),
        "tuning-87": ArraySpec(
            (3_637,), "|u1", "8fb6684057f7eac28d46a6f918ed14822bf787c9450c60f13a11c6b49dc5cdb2"
        ),
        "train-100": ArraySpec(
            (4_387,), "|u1", "1b570ab0cc77c94e602aec74049681a41580e8ff9a5c710c87ff11d9550b6b63"
        ),
        "tuning-100": ArraySpec(
            (4_830,), "|u1", "a5f55eb2b3bc90da0689a6c5a193225c221929b3b8a4c15fb6daae30938368b8"
        ),
    },
    sources=(Mirror("sst2/k-shot", read_few_shot),),
)
DATA_SETS = (SST2, SST2_FEW_SHOT)
