"""yesno-facts: a generated yes/no reading set in BoolQ's format, for tests without a network.

Each passage states four facts about invented people; the question repeats one of them, truly or
with another value. Half of the answers are yes. It says nothing about language ability, so its
results are never shown as BoolQ's.
"""

from collections.abc import Mapping

import numpy as np

from repro.data.arrays import Array
from repro.data.base import DataSet, Value, generated
from repro.data.text.published import text_specs
from repro.data.text.rows import encode_rows

SIZES = {"train": 2000, "validation": 500}
SEED = 0
FACTS = 4
_NAMES = (
    "Alma", "Boris", "Clara", "Dario", "Edith", "Felix", "Greta", "Hugo",
    "Irene", "Jonas", "Karla", "Leon", "Mara", "Nils", "Olga", "Pavel",
)  # fmt: skip
_KINDS = (
    ("{name} lives in {value}.", "does {name} live in {value}",
     ("Oslo", "Lima", "Cairo", "Kyoto", "Quito", "Tunis")),
    ("{name} works as a {value}.", "does {name} work as a {value}",
     ("baker", "pilot", "nurse", "tailor", "judge", "farmer")),
    ("{name} drives a {value} car.", "does {name} drive a {value} car",
     ("red", "blue", "green", "white", "black", "yellow")),
    ("{name} owns {value} cats.", "does {name} own {value} cats",
     ("two", "three", "four", "five", "six", "seven")),
    ("{name} plays the {value}.", "does {name} play the {value}",
     ("flute", "cello", "drums", "harp", "trumpet", "violin")),
    ("{name} was born in {value}.", "was {name} born in {value}",
     ("March", "April", "June", "July", "August", "October")),
)  # fmt: skip
"""Sentence, question, and the values they can take."""


def make() -> Mapping[str, Value]:
    """Return both splits as JSON lines; no passage occurs twice."""
    stream = np.random.PCG64(SEED)
    examples: dict[str, dict[str, str | int]] = {}
    while len(examples) < sum(SIZES.values()):
        example = _example(stream, answer=len(examples) % 2 == 0)
        # after a repeated passage the answer stays the same, so exactly half are yes
        examples.setdefault(str(example["passage"]), example)
    ordered = list(examples.values())
    return {
        "train": encode_rows(ordered[: SIZES["train"]]),
        "validation": encode_rows(ordered[SIZES["train"] :]),
    }


def _example(stream: np.random.PCG64, *, answer: bool) -> dict[str, str | int]:
    """Draw by raw outputs of PCG64, which NumPy promises never to change (NEP 19)."""

    def below(limit: int) -> int:
        return int(stream.random_raw()) % limit

    def distinct(limit: int) -> Array:
        return np.argsort(stream.random_raw(limit), kind="stable")[:FACTS]

    names = [_NAMES[index] for index in distinct(len(_NAMES))]
    kinds = [_KINDS[index] for index in distinct(len(_KINDS))]
    values = [below(len(kind[2])) for kind in kinds]
    sentences = [
        sentence.format(name=name, value=options[value])
        for name, (sentence, _, options), value in zip(names, kinds, values, strict=True)
    ]
    asked = below(FACTS)
    _, question, options = kinds[asked]
    shift = 0 if answer else 1 + below(len(options) - 1)
    value = options[(values[asked] + shift) % len(options)]
    text = question.format(name=names[asked], value=value).lower()
    return {"question": text, "answer": answer, "passage": " ".join(sentences)}


DATA_SETS = (
    DataSet(
        name="yesno-facts",
        title="Generated yes/no reading set in BoolQ's format, 2,000 + 500",
        licence="MIT",
        content=text_specs(
            train=(330_794, "cf3152f80ef996db035406c7b41b3e0352ce58a285bf5e771ca9918de2253bd8"),
            validation=(82_853, "8edb34e62fcf00cdabd76bfb677433d2416337f3b450723cb9b0a4a4f320f269"),
        ),
        sources=(generated(make),),
    ),
)
