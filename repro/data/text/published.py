"""BoolQ, SST-2 and RTE, kept as JSON lines.

- BoolQ (arXiv 1905.10044): 9,427 + 3,270 yes/no questions about passages of Wikipedia. Both splits
  have 721 distinct passages in common: ``load_items`` leaves those out of training.
- SST-2, as in GLUE: 67,349 phrases and 872 sentences of film reviews, negative or positive. A
  second set holds LM-BFF's five few-shot splits (arXiv 2012.15723): 16 sentences of each class for
  training and 16 for tuning, drawn from the training sentences with one seed per split.
- RTE, as in GLUE: 2,490 + 277 pairs of texts; does the first entail the second?

The test splits have no published answers, so results are on the validation splits, as usual.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.data.arrays import Array
from repro.data.base import ArraySpec, BadContentError, DataSet, Value, mirror
from repro.data.sources.hub import hub_dataset
from repro.data.text.rows import encode_rows, read_rows

SEEDS = (13, 21, 42, 87, 100)
"""Seeds of LM-BFF's five splits."""
_JSON = {"train": "train.jsonl", "validation": "validation.jsonl"}
_GLUE = {"train": "train.tsv", "validation": "dev.tsv"}
_FEW_SHOT = {
    f"{key}-{seed}": f"16-{seed}/{file}"
    for seed in SEEDS
    for key, file in (("train", "train.tsv"), ("tuning", "dev.tsv"))
}


@dataclass(frozen=True)
class FileFormat:
    """The format in which the rows of a set are stored."""

    keys: tuple[str, ...]
    """Keys of a row, in the order of a stored line."""
    labels: Mapping[str, str | int]
    """Label in the source file -> stored label, in the order of the hub's label numbers."""
    files: Mapping[str, str]
    """Split -> its file in a mirror."""
    label: str = "label"
    """The key of the label; the other keys hold texts."""

    def read_directory(self, directory: Path) -> Mapping[str, Value]:
        """Return the splits from their files in ``directory``.

        Raises:
            BadContentError: a file is damaged, or a label is not one of ``labels``.
        """
        return {split: self._read(directory / file) for split, file in self.files.items()}

    def read_hub(self, splits: Any) -> Mapping[str, Value]:  # noqa: ANN401 - a datasets.DatasetDict
        """Return the splits from the rows of the hub.

        Raises:
            BadContentError: the rows have another form.
        """
        kept = list(self.labels.values())
        try:
            return {
                split: encode_rows(
                    {
                        key: kept[row[key]] if key == self.label else row[key].strip()
                        for key in self.keys
                    }
                    for row in splits[split]
                )
                for split in self.files
            }
        except (LookupError, TypeError, AttributeError) as error:
            raise BadContentError(f"the rows on the hub have another form ({error!r})") from error

    def _read(self, path: Path) -> Array:
        texts = [key for key in self.keys if key != self.label]
        rows = read_rows(path.read_bytes(), path.name, texts, self.label)
        for row in rows:
            if row.label not in self.labels:
                known = ", ".join(self.labels)
                msg = f"{row.where}: {self.label} is {row.label!r:.40}, must be one of {known}"
                raise BadContentError(msg)
        return encode_rows(
            {
                key: self.labels[row.label] if key == self.label else row.values[key]
                for key in self.keys
            }
            for row in rows
        )


BOOLQ = FileFormat(
    ("question", "answer", "passage"), {"false": False, "true": True}, _JSON, label="answer"
)
SST2 = FileFormat(("sentence", "label"), {"0": 0, "1": 1}, _GLUE)
SST2_FEW_SHOT = FileFormat(SST2.keys, SST2.labels, _FEW_SHOT)
RTE = FileFormat(
    ("sentence1", "sentence2", "label"),
    {"entailment": "entailment", "not_entailment": "not_entailment"},
    _GLUE,
)


def text_specs(**splits: tuple[int, str]) -> dict[str, ArraySpec]:
    """Return the specifications of splits from their sizes and hashes; ``_`` means ``-``."""
    return {
        split.replace("_", "-"): ArraySpec((size,), "|u1", sha256)
        for split, (size, sha256) in splits.items()
    }


DATA_SETS = (
    DataSet(
        name="boolq",
        title="BoolQ yes/no questions with passages, 9,427 + 3,270, as JSON lines",
        licence="CC BY-SA 3.0",
        content=text_specs(
            train=(6_209_190, "a571c7ee84d7a5d954fe97d7528dd5c49fc6e7d1f50fbf9d351ae558bf65cad4"),
            validation=(
                2_129_849,
                "dbad2984e58eaa2184b6d0acfe2e94a73b9868381046255d6be6c3bed9088b68",
            ),
        ),
        sources=(
            hub_dataset("google/boolq", BOOLQ.read_hub),
            mirror("boolq", BOOLQ.read_directory),
        ),
    ),
    DataSet(
        name="sst2",
        title="SST-2 sentiment of film reviews, 67,349 + 872, as JSON lines",
        licence="research use, no licence given",
        content=text_specs(
            train=(5_489_791, "eb740eda3c4e0d1de43be38e372b9775f524be341af01f175d5f08b6da72ccb5"),
            validation=(
                116_716,
                "97206a3c000cdf9078a61ff1724b77de091ad5d72a58e0ff779c9b7542cb9159",
            ),
        ),
        sources=(
            hub_dataset("stanfordnlp/sst2", SST2.read_hub),
            hub_dataset("nyu-mll/glue", SST2.read_hub, "sst2"),
            mirror("sst2", SST2.read_directory),
        ),
    ),
    DataSet(
        name="sst2-k16",
        title="LM-BFF's five few-shot splits of SST-2, 32 + 32 each, as JSON lines",
        licence="research use, no licence given",
        content=text_specs(
            train_13=(4_570, "24bb1af752cb5d0266038d3116bf00741e30315b28797d28630ad9434c3271b0"),
            tuning_13=(4_349, "101eb1975114f2f4bee8468709a44005eca8160b2fab388f7514c28aa0128e80"),
            train_21=(3_913, "8dfb503b13ed5075b97560a01e613384a95e4be88ed0dd86dea019114848f1f4"),
            tuning_21=(4_174, "6f4ef5f35d927179417809f8e3bb23bdd93543a29e346205eade33e31a8289c7"),
            train_42=(3_779, "15eae5f2b24a673693b686e4e6494b71fbb94ef7d848f8c585918d90ebbe7fe1"),
            tuning_42=(4_375, "df1de223061d1ed37caf7c4b60810ae64942da945697802c87e15b2386d731ad"),
            train_87=(4_512, "1b291118349f88d3777a4e63a9c765123111d33ae5c9f5a420b838948d9b7a37"),
            tuning_87=(3_637, "8fb6684057f7eac28d46a6f918ed14822bf787c9450c60f13a11c6b49dc5cdb2"),
            train_100=(4_387, "1b570ab0cc77c94e602aec74049681a41580e8ff9a5c710c87ff11d9550b6b63"),
            tuning_100=(4_830, "a5f55eb2b3bc90da0689a6c5a193225c221929b3b8a4c15fb6daae30938368b8"),
        ),
        sources=(mirror("sst2/k-shot", SST2_FEW_SHOT.read_directory),),
    ),
    DataSet(
        name="rte",
        title="RTE textual entailment, 2,490 + 277, as JSON lines",
        licence="research use, no licence given",
        content=text_specs(
            train=(948_347, "d5cd3b1afdb79d0718014919a82f913a0026e7a9c12ee2123ef3b4deef049b4f"),
            validation=(
                101_933,
                "961beb2c6a40083e995c1e3c0cdb6a7f4b7570b48b9ca469dcc3a5a4191d29dd",
            ),
        ),
        sources=(
            hub_dataset("nyu-mll/glue", RTE.read_hub, "rte"),
            mirror("rte", RTE.read_directory),
        ),
    ),
)
