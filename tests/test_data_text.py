import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.data import cache
from repro.data.base import BadContentError
from repro.data.text import yesno_facts
from repro.data.text.published import BOOLQ
from repro.data.text.rows import Row, encode_rows, read_rows
from repro.data.text.tasks import get_task


def decoded(lines: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in bytes(np.asarray(lines)).decode().splitlines()]


def passages(split: list[dict[str, Any]]) -> set[str]:
    return {example["passage"] for example in split}


texts = st.text(min_size=1).filter(str.strip).map(str.strip)
examples = st.fixed_dictionaries({"question": texts, "answer": st.booleans(), "passage": texts})


@given(st.lists(examples, min_size=1))
def test_lines_give_back_the_examples(written: list[dict[str, Any]]) -> None:
    rows = read_rows(bytes(encode_rows(written)), "set", ("question", "passage"), "answer")
    found = [{**row.values, "answer": row.label == "true"} for row in rows]
    assert found == written


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"question": "q", "passage": "p", "answer": 1}', "must be one of false, true"),
        (b'{"question": "q", "passage": " ", "answer": true}', "'passage' is ' '"),
        (b"\xff", "not UTF-8"),
        (b"", "not JSON"),
    ],
)
def test_a_bad_line_is_named_by_its_number(line: bytes, reason: str, tmp_path: Path) -> None:
    good = b'{"question": "q", "passage": "p", "answer": true}\n'
    (tmp_path / "train.jsonl").write_bytes(good + line + b"\n")
    with pytest.raises(BadContentError, match=f"train.jsonl:2: .*{reason}"):
        BOOLQ.read_directory(tmp_path)


def write_jsonl(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_mirror_and_hub_end_in_the_same_bytes(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"question": "is it é", "passage": "Café “x”", "answer": True},
        {"question": "is it b", "passage": "b", "answer": False},
    ]
    titled = [{"title": "T", **row} for row in rows]
    write_jsonl(tmp_path / "train.jsonl", rows)
    write_jsonl(tmp_path / "validation.jsonl", titled)
    from_mirror = BOOLQ.read_directory(tmp_path)
    from_hub = BOOLQ.read_hub({"train": rows, "validation": rows})
    for split in ("train", "validation"):
        np.testing.assert_array_equal(from_mirror[split], from_hub[split])


@pytest.mark.parametrize("question", ["is water wet", "is water wet?", " is water wet "])
def test_the_prompt_ends_in_a_capitalised_question(question: str) -> None:
    row = Row({"question": question.strip(), "passage": "Water is."}, "true", "set", 1)
    assert get_task("boolq").prompt(row).text == "Water is. Is water wet?"


def test_generated_facts_are_balanced_distinct_and_answerable() -> None:
    content = yesno_facts.make()
    splits = {name: decoded(lines) for name, lines in content.items()}
    assert {name: len(split) for name, split in splits.items()} == {
        "train": 2000,
        "validation": 500,
    }
    for split in splits.values():
        assert 2 * sum(example["answer"] for example in split) == len(split)
    assert not passages(splits["train"]) & passages(splits["validation"])
    assert all(
        _read(example) == example["answer"] for split in splits.values() for example in split
    )


def _read(example: dict[str, Any]) -> bool:
    """Answer as a reader would: some sentence has the name and the value that are asked for."""
    asked = example["question"].split()
    name, value = asked[1], asked[-2] if asked[-1] in {"car", "cats"} else asked[-1]
    sentences = example["passage"].lower().removesuffix(".").split(". ")
    return any({name, value} <= set(sentence.split()) for sentence in sentences)


@pytest.mark.skipif(
    not Path(os.environ.get("REPRO_DATA_MIRROR", "absent"), "boolq").is_dir(),
    reason="needs BoolQ in REPRO_DATA_MIRROR",
)
def test_boolq_has_its_published_sizes_and_721_shared_passages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_DATA_DIR", str(tmp_path))
    content = cache.load("boolq")
    train, validation = (decoded(content[split]) for split in ("train", "validation"))
    assert (len(train), sum(example["answer"] for example in train)) == (9427, 5874)
    assert (len(validation), sum(example["answer"] for example in validation)) == (3270, 2033)
    shared = passages(train) & passages(validation)
    assert len(shared) == 721
    assert sum(example["passage"] in shared for example in train) == 1434
