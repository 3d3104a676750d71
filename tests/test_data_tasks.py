"""Rows, tasks and prompts against plain readings of the same files and direct tokenizer calls."""

import csv
import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from repro.core.errors import ReproError, UsageError
from repro.data import cache
from repro.data.base import BadContentError
from repro.data.text import tasks
from repro.data.text.published import RTE, SEEDS, SST2
from repro.data.text.rows import Row, encode_rows, read_rows
from repro.data.text.task import PromptTask
from repro.data.text.tasks import (
    data_of,
    get_task,
    read_task,
    register,
    task_of_seed,
)
from repro.data.text.tokens import tokenise

MIRROR = Path(os.environ.get("REPRO_DATA_MIRROR", "absent"))
needs_mirror = pytest.mark.skipif(
    not (MIRROR / "sst2").is_dir() or not (MIRROR / "rte").is_dir(),
    reason="needs SST-2 and RTE in REPRO_DATA_MIRROR",
)
REVIEWS = PromptTask(
    name="reviews",
    template="Review: {text}\nStars:",
    answers={"bad": " one", "fair": " two", "good": " three"},
    train="unused/train",
    validation="unused/validation",
    truncate="text",
)
SPECIAL = {"unk_token": "<unk>", "bos_token": "<s>"}
WORDS = ["<s>", "<unk>", "Review", ":", "Stars", "one", "two", "three", "a", "b", "c", "d"]


def words(vocabulary: list[str] = WORDS, *, start: bool = False) -> PreTrainedTokenizerFast:
    numbers = {word: number for number, word in enumerate(vocabulary)}
    backend = Tokenizer(models.WordLevel(numbers, "<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    if start:
        special = [("<s>", 0)]
        backend.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=special)
    return PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL)


def row(text: str, label: str = "good") -> Row:
    return Row({"text": text}, label, "reviews.tsv", 7)


printable = st.text(st.characters(exclude_characters="\t\n\r\0", exclude_categories=["Cs"]))
texts = printable.map(str.strip).filter(bool)


@given(st.lists(st.tuples(texts, st.sampled_from("01")), min_size=1))
def test_tab_separated_rows_are_those_of_the_csv_module(written: list[tuple[str, str]]) -> None:
    data = "".join(f"{text}\t{label}\n" for text, label in [("sentence", "label"), *written])
    found = read_rows(data.encode(), "x.tsv", ("sentence",), "label")
    reader = csv.reader(data.split("\n")[1:-1], delimiter="\t", quoting=csv.QUOTE_NONE)
    assert [[r.values["sentence"], r.label] for r in found] == list(reader)
    assert [r.line for r in found] == list(range(2, len(written) + 2))


@given(st.lists(st.tuples(texts, st.integers(0, 5)), min_size=1))
def test_json_lines_give_back_the_rows(written: list[tuple[str, int]]) -> None:
    data = bytes(encode_rows({"text": text, "label": label} for text, label in written))
    assert data.decode() == "".join(
        json.dumps({"text": text, "label": label}, ensure_ascii=False) + "\n"
        for text, label in written
    )
    found = read_rows(data, "x.jsonl", ("text",), "label")
    assert [(r.values["text"], int(r.label)) for r in found] == written


@pytest.mark.parametrize(
    ("file", "data", "reason"),
    [
        ("x.tsv", b"text\tlabel\na\n", r"x.tsv:2: 1 columns, the header has 2"),
        ("x.tsv", b"text\tlabel\na\tb\tc\n", r"x.tsv:2: 3 columns, the header has 2"),
        ("x.tsv", b"text\tlabel\na\tgood\n \tgood\n", r"x.tsv:3: field 'text' is ' '"),
        ("x.tsv", b"text\tlabel\na\t\n", r"x.tsv:2: label 'label' is ''"),
        ("x.tsv", b"text\tkind\na\tgood\n", r"x.tsv:1: no column label; .*text, kind"),
        ("x.tsv", b"text\tlabel\na\tgood\n\xff\tgood\n", r"x.tsv:3: byte 0xff is not UTF-8"),
        ("x.tsv", b"\xef\xbb\xbftext\tlabel\na\tgood\n\xff\n", r"x.tsv:3: byte 0xff is not UTF-8"),
        ("x.tsv", b"text\tlabel\n", r"x.tsv: has no rows"),
        ("x.tsv", b"text\ttext\tlabel\na\tb\tgood\n", r"x.tsv:1: the column 'text' occurs twice"),
        (
            "x.jsonl",
            b'{"text": "a", "text": "b", "label": 1}\n',
            r"x.jsonl:1: .*'text' occurs twice",
        ),
        ("x.tsv", b"", r"x.tsv:1: no column label, text"),
        ("x.jsonl", b"", r"x.jsonl: has no rows"),
        ("x.jsonl", b'{"text": "a", "label": 1}\n{"text": "a"', r"x.jsonl:2: not JSON"),
        ("x.jsonl", b'["a", 1]\n', r"x.jsonl:1: must be a JSON object"),
        ("x.jsonl", b'{"text": "a"}\n', r"x.jsonl:1: label 'label' is missing"),
        ("x.jsonl", b'{"text": "a", "label": 1.5}\n', r"x.jsonl:1: label 'label' is 1.5"),
        ("x.jsonl", b'{"text": "a", "label": null}\n', r"x.jsonl:1: label 'label' is None"),
        ("x.jsonl", b'{"text": 3, "label": 1}\n', r"x.jsonl:1: field 'text' is 3"),
        ("x.jsonl", b'{"text": "", "label": 1}\n', r"x.jsonl:1: field 'text' is ''"),
        ("x.jsonl", b'{"label": 1}\n', r"x.jsonl:1: field 'text' is missing"),
        (
            "x.jsonl",
            b'{"text": "a", "label": 1}\n{"text": "ab\\ud800", "label": 1}\n',
            r"x.jsonl:2: field 'text': character 3 is a lone surrogate \(U\+D800\)",
        ),
    ],
)
def test_a_damaged_line_is_named(file: str, data: bytes, reason: str) -> None:
    with pytest.raises(BadContentError, match=reason):
        read_rows(data, file, ("text",), "label")


def test_lone_surrogates_are_not_written() -> None:
    with pytest.raises(BadContentError, match=r"record 1: .* lone surrogate \(U\+DFFF\)"):
        encode_rows([{"question": "is it", "passage": "a \udfff"}])


def test_labels_are_read_as_text() -> None:
    data = b"".join(
        b'{"text": "a", "label": %s}\n' % label for label in (b"true", b"false", b"1", b'" x "')
    )
    found = read_rows(data, "x.jsonl", ("text",), "label")
    assert [r.label for r in found] == ["true", "false", "1", "x"]
    windows = b"\xef\xbb\xbftext\tlabel\r\na\t1\r\n"
    assert read_rows(windows, "x.tsv", ("text",), "label") == [Row({"text": "a"}, "1", "x.tsv", 2)]


def test_prompts_are_the_template_filled_in() -> None:
    prompt = REVIEWS.prompt(row("a b"))
    assert prompt.text == "Review: a b\nStars:"
    assert prompt.text[prompt.start : prompt.stop] == "a b"
    braces = replace(REVIEWS, template="{{{text}}}")
    assert braces.prompt(row("{a}")).text == "{{a}}"


@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [
        ("sst2", {"sentence": "good ."}, "good .\nSentiment:"),
        ("sst2-k16-87", {"sentence": "good ."}, "good .\nSentiment:"),
        (
            "rte",
            {"sentence1": "A b.", "sentence2": "B a."},
            "A b.\nQuestion: B a. True or False?\nAnswer:",
        ),
        ("boolq", {"passage": "A b.", "question": "is a b"}, "A b. Is a b?"),
        (
            "boolq-qa",
            {"passage": "A b.", "question": "is a b?"},
            "A b.\nQuestion: is a b?\nAnswer:",
        ),
    ],
)
def test_prompts_of_the_tasks(name: str, values: dict[str, str], wanted: str) -> None:
    assert get_task(name).prompt(Row(values, "", "", 1)).text == wanted


def test_the_seed_selects_the_split_of_a_few_shot_task() -> None:
    splits = [task_of_seed("sst2_k16", seed).train for seed in range(5)]
    assert splits == [f"sst2-k16/train-{split}" for split in (13, 21, 42, 87, 100)]  # LM-BFF's
    with pytest.raises(UsageError, match=r"sst2-k16: there is no split for seed 5; use seeds 0 to"):
        task_of_seed("sst2-k16", 5)
    assert task_of_seed("sst2", 5) == get_task("sst2")
    assert task_of_seed("sst2-k16-21", 5).tuning == "sst2-k16/tuning-21"


@pytest.mark.parametrize("start", [False, True])
def test_a_long_prompt_loses_the_start_of_its_field_only(start: bool) -> None:
    tokenizer = words(start=start)
    split = tokenise(
        REVIEWS, [row("a b c d", "bad"), row("a", "good"), row("b", "fair")], tokenizer
    )
    head = "<s> Review :" if start else "Review :"
    for kept in ("a b c d", "b c d", "c d", "d", ""):
        wanted = f"{head} {kept} Stars :".split()
        found = split.prompt(0, len(wanted))
        assert [WORDS[token] for token in found] == wanted
    assert split.least_length == len(f"{head} Stars :".split())
    assert split.labels.tolist() == [0, 2, 1]
    assert [WORDS[token] for token in split.answers] == ["one", "two", "three"]
    direct = tokenizer(["Review: a b c d\nStars:"])["input_ids"][0]
    assert split.prompt(0, 100).tolist() == direct


def test_without_a_field_to_cut_nothing_is_cut() -> None:
    split = tokenise(replace(REVIEWS, truncate=None), [row("a b c d")], words())
    assert split.too_long(7).tolist() == [True]
    assert split.least_length == 8
    with pytest.raises(UsageError, match="max_length = 7: must be at least 8"):
        split.prompt(0, 7)


def test_answers_of_several_tokens_are_refused_with_those() -> None:
    several = replace(REVIEWS, answers={"bad": " one", "good": " one two"})
    with pytest.raises(ReproError, match=r"' one two' is 2 tokens, \[5, 6\] \['one', 'two'\]"):
        tokenise(several, [row("a")], words())
    same = replace(REVIEWS, answers={"bad": " x", "good": " y"})
    with pytest.raises(ReproError, match=r"' x' and ' y' are the same token 1"):
        tokenise(same, [row("a")], words())
    joined = replace(REVIEWS, template="{text} a", answers={"bad": "b", "good": " c"})
    with pytest.raises(ReproError, match=r"answer 'b' changes the tokens of the prompt"):
        tokenise(joined, [row("a")], words())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "My Task"}, "lower-case"),
        ({"answers": {"bad": " one"}}, "has 1 answers, must have 2"),
        ({"answers": {"bad": " one", "good": " one"}}, "answer of its own"),
        ({"answers": {"bad": " one", "good": ""}}, "answer of its own"),
        ({"template": "no field"}, "no field in braces"),
        ({"template": "{text"}, "template '{text'"),
        ({"template": "{text!r}"}, "must be a field's name"),
        ({"template": "{}", "truncate": None}, "must be a field's name"),
        ({"template": "{text} {label}"}, "shows the label"),
        ({"template": "{text} {text}"}, "twice"),
        ({"truncate": "other"}, "must be one of text"),
        ({"apart": ("other",)}, "must be one of text"),
    ],
)
def test_contradictory_tasks_are_refused(change: dict[str, object], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        replace(REVIEWS, **change)


TASK = """
template = "{text}\\nSentiment:"
train = "train.tsv"
validation = "dev.jsonl"
truncate = "text"
[answers]
0 = " negative"
1 = " positive"
"""


def test_a_task_of_one_s_own(tmp_path: Path) -> None:
    path = tmp_path / "reviews.toml"
    path.write_text(TASK)
    (tmp_path / "train.tsv").write_text("id\ttext\tlabel\n1\tgood\t1\n2\tbad\t0\n")
    (tmp_path / "dev.jsonl").write_text('{"text": "x", "label": 1}\n{"text": "y", "label": 0}')
    task = get_task(str(path))
    assert task.name == "reviews"
    assert [task.class_of(row) for row in task.rows("train")[0]] == [1, 0]
    assert [row.values for row in task.rows("validation")[0]] == [{"text": "x"}, {"text": "y"}]
    whole = data_of(str(path))
    path.write_text(f'\ufeffapart = ["id"]\n{TASK.replace("{text}", "{id} {text}")}')
    other = path.read_text()
    path.write_text(other.replace('apart = ["id"]\n', ""))
    assert data_of(str(path)) != whole
    alike = data_of(str(path))
    path.write_text(other)  # the same prompts and rows, but other rows are left out of training
    assert data_of(str(path)) != alike
    path.write_text(TASK)
    before = task.fingerprint("validation")
    (tmp_path / "dev.jsonl").write_text('{"text": "x", "label": 1}\n')
    assert task.fingerprint("validation") != before
    with pytest.raises(BadContentError, match=r"dev.jsonl: no row has the label '0'; .*'1': 1"):
        task.rows("validation")
    (tmp_path / "dev.jsonl").write_text('{"text": "x", "label": 3}\n')
    with pytest.raises(BadContentError, match=r"dev.jsonl:1: label '3' must be one of '0', '1'"):
        task.rows("validation")
    (tmp_path / "dev.jsonl").unlink()
    with pytest.raises(UsageError, match=r"validation = .*dev.jsonl does not exist"):
        task.rows("validation")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TASK.replace("truncate", "cut"), "unknown key 'cut'"),
        (TASK.replace("template", "# "), "the key 'template' is missing"),
        (TASK.replace('" negative"', "1"), "'answers' must be a table"),
        (TASK.replace('"train.tsv"', "1"), "'train' = 1: must be a string"),
        ("[", "cannot be read as TOML"),
    ],
)
def test_a_bad_task_file_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=reason):
        read_task(path)
    with pytest.raises(UsageError, match="does not exist"):
        read_task(tmp_path / "absent.toml")


def test_tasks_are_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_TASKS", dict(tasks._TASKS))
    assert get_task(register(REVIEWS).name) is REVIEWS
    register(REVIEWS)
    with pytest.raises(UsageError, match="another task has this name"):
        register(replace(REVIEWS, truncate=None))
    with pytest.raises(UsageError, match="did you mean reviews"):
        get_task("review")


def test_a_name_with_an_underscore_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_TASKS", dict(tasks._TASKS))
    with pytest.raises(UsageError, match="'boolq_qa': another task has this name"):
        register(replace(REVIEWS, name="boolq_qa"))
    register(replace(REVIEWS, name="my_reviews"))
    with pytest.raises(UsageError, match="'my-reviews': another task has this name"):
        register(replace(REVIEWS, name="my-reviews"))
    assert get_task("my-reviews").name == "my_reviews"


def test_a_file_named_after_a_published_task_keeps_its_own_rows(tmp_path: Path) -> None:
    path = tmp_path / "sst2-k16.toml"
    path.write_text(TASK.replace("Sentiment", "Verdict"))
    for seed in (0, 5):
        task = task_of_seed(str(path), seed)
        assert task.template == "{text}\nVerdict:"
        assert task.train == tmp_path / "train.tsv"


def test_files_of_unknown_format_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"must end in .jsonl or .tsv"):
        replace(REVIEWS, train=tmp_path / "train.csv").rows("train")


@pytest.mark.parametrize("place", ["data/train.tsv", "boolq/training", "boolq"])
def test_a_text_that_names_no_split_is_refused(place: str) -> None:
    with pytest.raises(UsageError, match=f"'{place}' names no split of the catalogue; give "):
        replace(REVIEWS, train=place).fingerprint("train")


def test_rows_that_change_while_they_are_read_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("text\tlabel\na\tgood\nb\tbad\n")
    task = replace(REVIEWS, train=path)
    before = task.fingerprint("train")
    task.require_unchanged("train", before)
    path.write_text("text\tlabel\na\tbad\nb\tgood\n")
    with pytest.raises(ReproError, match="its train rows changed while they were read"):
        task.require_unchanged("train", before)


@pytest.mark.parametrize("row", [{"text": "a", "label": 1}, {"sentence": None, "label": 1}])
def test_rows_of_another_form_on_the_hub_are_bad_content(row: dict[str, object]) -> None:
    with pytest.raises(BadContentError, match="the rows on the hub have another form"):
        SST2.read_hub({"train": [row], "validation": [row]})


def test_mirror_and_hub_end_in_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("sentence\tlabel\ngood “film” \t1\nbad \t0\n")
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\nso so\t0\n")
    hub = {
        "train": [{"sentence": "good “film” ", "label": 1}, {"sentence": "bad ", "label": 0}],
        "validation": [{"sentence": "so so", "label": 0}],
    }
    mirror = SST2.read_directory(tmp_path)
    for split, found in SST2.read_hub(hub).items():
        np.testing.assert_array_equal(found, mirror[split])
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\nso so\t2\n")
    with pytest.raises(BadContentError, match=r"dev.tsv:2: label is '2'"):
        SST2.read_directory(tmp_path)


def test_rte_of_mirror_and_hub_end_in_the_same_bytes(tmp_path: Path) -> None:
    header = "index\tsentence1\tsentence2\tlabel\n"
    (tmp_path / "train.tsv").write_text(f"{header}0\tA “b”.\tB.\tnot_entailment\n")
    (tmp_path / "dev.tsv").write_text(f"{header}0\tC. \tD.\tentailment\n")
    hub = {
        "train": [{"sentence1": "A “b”.", "sentence2": "B.", "label": 1, "idx": 0}],
        "validation": [{"sentence1": "C.", "sentence2": "D.", "label": 0, "idx": 0}],
    }
    mirror = RTE.read_directory(tmp_path)
    for split, found in RTE.read_hub(hub).items():
        np.testing.assert_array_equal(found, mirror[split])


@needs_mirror
def test_published_sets_have_the_rows_of_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_DATA_DIR", str(tmp_path))
    files = {
        ("sst2", "train"): "sst2/train.tsv",
        ("sst2", "validation"): "sst2/dev.tsv",
        ("rte", "train"): "rte/train.tsv",
        ("rte", "validation"): "rte/dev.tsv",
        **{(f"sst2-k16-{seed}", "train"): f"sst2/k-shot/16-{seed}/train.tsv" for seed in SEEDS},
    }
    counts = {}
    for (name, split), file in files.items():
        task = get_task(name)
        with (MIRROR / file).open(newline="") as lines:
            wanted = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
        rows, trained_on = task.rows(split)
        assert [[*r.values.values(), r.label] for r in rows[:trained_on]] == [
            [*(line[field].strip() for field in task.fields), line["label"]] for line in wanted
        ]
        counts[name, split] = Counter(r.label for r in rows)
    assert counts["sst2", "train"] == {"0": 29_780, "1": 37_569}
    assert counts["sst2", "validation"] == {"0": 428, "1": 444}
    assert counts["rte", "train"] == {"entailment": 1249, "not_entailment": 1241}
    assert counts["rte", "validation"] == {"entailment": 146, "not_entailment": 131}
    for seed in SEEDS:
        assert counts[f"sst2-k16-{seed}", "train"] == {"0": 32, "1": 32}  # with those to tune on
    for name in ("sst2", "sst2-k16", "rte"):
        cache.verify(name)
