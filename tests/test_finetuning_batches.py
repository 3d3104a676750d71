"""Batches of prompts, and which questions are trained, tuned and evaluated on."""

import math
from itertools import pairwise

import numpy as np
import pytest

from repro.core.errors import ReproError, UsageError
from repro.data import cache
from repro.data.text.tasks import get_task
from repro.data.text.tokens import TokenisedSplit
from repro.finetuning import items as items_module
from repro.finetuning.batches import MULTIPLE, Sampler, by_tokens, collate, in_order
from repro.finetuning.items import load_items, obtainable
from repro.models.tiny import tiny_llama

LENGTHS = np.random.default_rng(0).integers(5, 90, 300)
EVERY = np.arange(300)


def split(lengths: list[int]) -> TokenisedSplit:
    """Prompts of the tokens 1, 2, 3, ..., whose last three ask the question."""
    return TokenisedSplit(
        tokens=np.concatenate([np.arange(1, n + 1) for n in lengths]).astype(np.int32),
        offsets=np.cumsum([0, *lengths]),
        prefix=np.zeros(len(lengths), np.int32),
        suffix=np.full(len(lengths), 3, np.int32),
        labels=np.arange(len(lengths), dtype=np.uint8) % 2,
        answers=np.array([7, 8], np.int32),
    )


def test_a_batch_is_as_wide_as_its_longest_prompt() -> None:
    batch = collate(split([5, 20, 3]), [0, 1], context=64)
    assert batch.tokens.shape == (2, 2 * MULTIPLE)
    assert batch.tokens[0].tolist() == [1, 2, 3, 4, 5] + [5] * 27  # no token for padding
    assert batch.last.tolist() == [4, 19]
    assert batch.labels.tolist() == [0, 1]


def test_no_batch_is_wider_than_the_context() -> None:
    batch = collate(split([50, 20]), [0, 1], context=21)
    assert batch.tokens.shape == (2, 21)
    assert batch.tokens[0].tolist() == list(range(30, 51))  # the passage's start is cut
    with pytest.raises(UsageError, match="max_length = 2: must be at least 3"):
        collate(split([50]), [0], context=2)


def test_an_epoch_takes_every_item_once_but_for_the_rest() -> None:
    sampler = Sampler(LENGTHS, EVERY[:290], size=8, seed=3)
    steps = 290 // 8
    for epoch in range(3):
        drawn = [sampler.batch(epoch * steps + n) for n in range(steps)]
        assert {len(batch) for batch in drawn} == {8}
        assert len(set(np.concatenate(drawn).tolist())) == steps * 8


def test_any_batch_is_told_from_its_number() -> None:
    one, other = (Sampler(LENGTHS, EVERY, size=8, seed=3) for _ in range(2))
    drawn = [one.batch(step).tolist() for step in range(100)]
    assert [other.batch(step).tolist() for step in (99, 0, 37)] == [drawn[99], drawn[0], drawn[37]]
    assert Sampler(LENGTHS, EVERY, size=8, seed=4).batch(0).tolist() != drawn[0]


def test_lengths_in_a_batch_are_alike_and_batches_come_in_no_order() -> None:
    sampler = Sampler(LENGTHS, EVERY, size=8, seed=0)
    drawn = [LENGTHS[sampler.batch(step)] for step in range(300 // 8)]
    spread = np.mean([batch.max() - batch.min() for batch in drawn])
    assert spread < 20  # of 85: a batch of any order spans 70
    means = np.array([batch.mean() for batch in drawn])
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.5


def test_evaluation_takes_every_item_by_length() -> None:
    batches = list(in_order(LENGTHS, EVERY[::2], 16))
    assert sorted(np.concatenate(batches).tolist()) == EVERY[::2].tolist()
    assert (np.diff(LENGTHS[np.concatenate(batches)]) >= 0).all()


@pytest.mark.parametrize("tokens", [90, 96, 640, 10_000])
def test_evaluation_fills_batches_with_as_many_prompts_as_the_tokens_hold(tokens: int) -> None:
    batches = list(by_tokens(LENGTHS, EVERY[::2], 90, tokens))
    assert sorted(np.concatenate(batches).tolist()) == EVERY[::2].tolist()
    assert (np.diff(LENGTHS[np.concatenate(batches)]) >= 0).all()

    def padded(chosen: list[int]) -> int:
        longest = max(LENGTHS[chosen])
        return len(chosen) * min(16 * math.ceil(longest / 16), 90)

    for batch, following in pairwise(batches):
        assert padded(batch.tolist()) <= tokens
        one_more = [*batch.tolist(), int(following[0])]
        assert padded(one_more) > tokens or len(one_more) > 64


def test_too_few_items_are_refused() -> None:
    with pytest.raises(UsageError, match="batch size B = 8: must be at most 7"):
        Sampler(LENGTHS, EVERY[:7], size=8, seed=0)


def test_no_passage_is_both_trained_on_and_evaluated() -> None:
    found = load_items("yesno-facts", tiny_llama().tokenizer, tuning=100, monitored=50, final=60)
    train, validation = (get_task("yesno-facts").rows(s)[0] for s in ("train", "validation"))
    passages = [
        {train[i].values["passage"] for i in found.training},
        {train[i].values["passage"] for i in found.tuning},
        {validation[i].values["passage"] for i in found.final},
    ]
    assert not passages[0] & passages[1]
    assert not (passages[0] | passages[1]) & passages[2]
    assert len(found.tuning) == 100
    assert set(found.monitored) <= set(found.final)  # 50 of the 60
    share = float(np.mean([row.label == "true" for row in validation]))
    assert found.majority("final") == pytest.approx(max(share, 1 - share), abs=1 / len(found.final))
    everything = load_items("yesno-facts", tiny_llama().tokenizer, tuning=100, monitored=50)
    assert everything.final.tolist() == list(range(500))
    assert everything.training.tolist() == found.training.tolist()


def test_the_stand_in_has_its_own_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(name: str) -> dict[str, str]:
        if name == "boolq":
            raise ReproError(name)
        return {}

    monkeypatch.setattr(cache, "load", absent)
    assert obtainable(["boolq", "yesno-facts"]) == ["yesno-facts"]
    assert "leaving out boolq: " in capsys.readouterr().err
    with pytest.raises(ReproError):
        obtainable(["boolq"])
    monkeypatch.setattr(items_module.cache, "load", lambda _: {})
    assert obtainable(["boolq", "yesno-facts"]) == ["boolq", "yesno-facts"]
