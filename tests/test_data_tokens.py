import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizer, PreTrainedTokenizerFast

from repro.core.errors import ReproError, UsageError
from repro.data import cache
from repro.data.text import tokens
from repro.data.text.rows import Row
from repro.data.text.task import PromptTask
from repro.data.text.tasks import get_task
from repro.data.text.tokens import TokenisedSplit, load_tokenised

WORDS = ["<s>", "<unk>", "Yes", "No", "Water", "is", "wet", "dry", ".", "?", "Is"]
UNKNOWN = {"unk_token": "<unk>"}
SPECIAL = {"bos_token": "<s>", **UNKNOWN}
WET = Row({"question": "is water wet", "passage": "Water is wet."}, "true", "set", 1)
DRY = Row({"question": "is water dry", "passage": "Water is wet. Water is wet."}, "false", "set", 2)


def tokenizer(words: Sequence[str] = WORDS, *, start: bool = False) -> PreTrainedTokenizerFast:
    """A tokenizer of whole words, with or without a start-of-text token before each text."""
    vocabulary = {word: number for number, word in enumerate(words)}
    backend = Tokenizer(models.WordLevel(vocabulary, **UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    if start:
        backend.post_processor = processors.TemplateProcessing(
            "<s> $A", special_tokens=[("<s>", 0)]
        )
    return PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL)


def tokenise(rows: Sequence[Row], tokenizer: PreTrainedTokenizerFast) -> TokenisedSplit:
    return tokens.tokenise(get_task("boolq"), rows, tokenizer)


def text(numbers: Sequence[int]) -> str:
    return " ".join(WORDS[number] for number in numbers)


def test_prompts_lie_one_after_the_other_with_their_answers() -> None:
    split = tokenise([WET, DRY], tokenizer())
    assert len(split) == 2
    assert text(split.prompt(0, 100)) == "Water is wet . Is <unk> wet ?"
    assert text(split.prompt(1, 100)) == "Water is wet . Water is wet . Is <unk> dry ?"
    assert split.labels.tolist() == [1, 0]
    assert text(split.answers) == "No Yes"


def test_a_long_prompt_loses_the_start_of_its_passage() -> None:
    split = tokenise([DRY], tokenizer())
    assert text(split.prompt(0, 6)) == "wet . Is <unk> dry ?"
    assert text(split.prompt(0, 4)) == "Is <unk> dry ?"


@pytest.mark.parametrize(("start", "least"), [(False, 4), (True, 5)])
def test_no_question_is_cut(start: bool, least: int) -> None:
    split = tokenise([DRY, WET], tokenizer(start=start))
    assert split.suffix.tolist() == [4, 4]
    assert split.prefix.tolist() == [int(start)] * 2
    assert split.least_length == least
    with pytest.raises(UsageError, match=f"max_length = {least - 1}: must be at least {least}"):
        split.prompt(0, least - 1)


def test_truncated_prompts_are_counted() -> None:
    split = tokenise([DRY, WET], tokenizer())
    assert split.lengths(10).tolist() == [10, 8]
    assert split.truncated(10).tolist() == [True, False]


def with_added(template: str, *special: tuple[str, int]) -> PreTrainedTokenizerFast:
    backend = tokenizer().backend_tokenizer
    backend.post_processor = processors.TemplateProcessing(template, special_tokens=list(special))
    return PreTrainedTokenizerFast(tokenizer_object=backend, **UNKNOWN)


@pytest.mark.parametrize(
    ("template", "special"),
    [("<s> $A", [("<s>", 0)]), ("<s> <unk> $A", [("<s>", 0), ("<unk>", 1)])],
)
def test_a_long_prompt_keeps_every_token_that_is_added_in_front(
    template: str, special: list[tuple[str, int]]
) -> None:
    split = tokenise([DRY], with_added(template, *special))
    front = template.removesuffix("$A")
    assert text(split.prompt(0, 5 + len(special))) == f"{front}. Is <unk> dry ?"


def test_a_tokenizer_that_ends_texts_is_refused() -> None:
    with pytest.raises(ReproError, match=r"the tokenizer adds '<s>' after each text"):
        tokenise([WET], with_added("$A <s>", ("<s>", 0)))


class Words(PreTrainedTokenizer):
    """A tokenizer written in Python."""

    vocab_size = len(WORDS)

    def get_vocab(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(WORDS)}

    def _tokenize(self, text: str, **_: object) -> list[str]:
        return text.split()

    def _convert_token_to_id(self, token: str) -> int:
        return self.get_vocab().get(token, 1)


def test_a_tokenizer_written_in_python_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Words is written in Python .* fast tokenizer"):
        load_tokenised("yesno-facts", "train", Words())
    with pytest.raises(UsageError, match="Words is written in Python"):
        tokenise([WET], Words())


def test_answers_must_be_one_token_each() -> None:
    backend = Tokenizer(models.BPE({"Y": 0, "e": 1, "s": 2, "N": 3, "o": 4, " ": 5}, []))
    letters = PreTrainedTokenizerFast(tokenizer_object=backend)
    with pytest.raises(ReproError, match=r"' No' is 3 tokens, \[5, 3, 4\] .*must be one"):
        tokenise([WET], letters)


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REPRO_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("REPRO_DATA_DIR", str(tmp_path / "data"))
    cache.fetch("yesno-facts")
    return tmp_path


@pytest.mark.usefixtures("caches")
def test_a_split_is_tokenised_once_for_each_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    tokenise = tokens.tokenise

    def counted(
        task: PromptTask, rows: Sequence[Row], tokenizer: tokens.Tokenizer
    ) -> TokenisedSplit:
        calls.append(len(rows))
        return tokenise(task, rows, tokenizer)

    monkeypatch.setattr(tokens, "tokenise", counted)
    first = load_tokenised("yesno-facts", "validation", tokenizer())
    again = load_tokenised("yesno-facts", "validation", tokenizer())
    assert calls == [500]
    assert (first.tokens == again.tokens).all()
    load_tokenised("yesno-facts", "validation", tokenizer([*WORDS, "lives"]))
    assert calls == [500, 500]
    monkeypatch.setattr(tokens, "source_sha256", lambda _: "other code")
    load_tokenised("yesno-facts", "validation", tokenizer())
    assert calls == [500, 500, 500]


@pytest.mark.usefixtures("caches")
def test_another_prompt_is_tokenised_again() -> None:
    task = get_task("yesno-facts")
    before = load_tokenised(task, "validation", tokenizer())
    shorter = replace(task, template="{question}?", truncate=None, apart=())
    after = load_tokenised(shorter, "validation", tokenizer())
    assert len(after.tokens) < len(before.tokens)
    edited = replace(task, edits={}, version="boolq-2")
    again = load_tokenised(edited, "validation", tokenizer([*WORDS, "does"]))
    assert (again.tokens == len(WORDS)).sum() > 50  # "does", no longer with a capital


@pytest.mark.usefixtures("caches")
def test_an_interrupted_tokenisation_leaves_nothing(
    caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tokens.np, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load_tokenised("yesno-facts", "validation", tokenizer())
    assert [path.suffix for path in (caches / "tokens").iterdir()] == [".lock"]


@pytest.mark.usefixtures("caches")
def test_a_cache_that_cannot_be_written_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("REPRO_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(ReproError, match=r"tokens of yesno-facts .*REPRO_CACHE_DIR"):
        load_tokenised("yesno-facts", "validation", tokenizer())


@pytest.mark.parametrize(("name", "split"), [("mnist", "train"), ("yesno-facts", "test")])
def test_other_tasks_and_splits_are_usage_errors(name: str, split: str) -> None:
    with pytest.raises(UsageError, match="must be one of"):
        load_tokenised(name, split, tokenizer())


def test_the_data_package_does_not_import_transformers() -> None:
    code = "import sys, repro.data.text.tokens; sys.exit('transformers' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
