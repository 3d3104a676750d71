"""Items of any task, biases of answers, and zero-shot accuracy against the model's own logits."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from transformers import GPT2Config

from made_up import fine_tuning
from reading import HostReads
from repro.artifacts.mezo_fig4 import Config
from repro.core.errors import ReproError, UsageError
from repro.data.text.task import PromptTask
from repro.data.text.tasks import get_task
from repro.finetuning import zero_shot as zero_shot_module
from repro.finetuning.base_models import random_model
from repro.finetuning.batches import Batch, collate, in_order
from repro.finetuning.classifier import AnswerClassifier
from repro.finetuning.items import load_items
from repro.finetuning.learner import LanguageModelLearner
from repro.finetuning.replay import rebuilt
from repro.finetuning.run import LanguageModelRun
from repro.finetuning.zero_shot import accuracy, answer_logits, best_threshold, biases, zero_shot
from repro.models.pretrained import Pretrained
from repro.models.tiny import tiny_llama, tiny_tokenizer
from repro.training.loop import score
from repro.training.store import CheckpointStore
from repro.training.trainer import TrainingTask, train_run

pytestmark = pytest.mark.usefixtures("kept_prompts")

CITIES = ["Oslo", "Lima", "Cairo"]
ANSWERS = {city.lower(): f" {city}" for city in CITIES}


def cities(directory: Path, rows: int = 60, *, tuning: bool = False) -> PromptTask:
    """A task of three answers, in words that the tiny model's tokenizer knows."""
    names = ["Alma", "Boris", "Clara", "Dario", "Edith", "Felix", "Greta", "Hugo"]
    files = {"train": rows, "validation": 30, "tuning": 12}
    for salt, (file, count) in enumerate(files.items()):
        rng = np.random.default_rng(salt)
        lines = []
        for n in range(count):
            who, city = " ".join(rng.choice(names, 1 + n % 7)), CITIES[n % 3]
            lines.append(f"{who} lives in {city} .\t{city.lower()}")
        if file == "train":
            first = lines[0]
        elif file == "validation":
            lines[0] = first  # stands in both
        (directory / f"{file}.tsv").write_text("\n".join(["text\tcity", *lines]) + "\n")
    return PromptTask(
        name="cities",
        template="{text} Alma lives in",
        answers=ANSWERS,
        train=directory / "train.tsv",
        validation=directory / "validation.tsv",
        tuning=directory / "tuning.tsv" if tuning else None,
        label="city",
        truncate="text",
    )


def test_items_are_stratified_and_share_no_text(tmp_path: Path) -> None:
    task = cities(tmp_path)
    found = load_items(task, tiny_tokenizer(), tuning=9, monitored=6)
    train, validation = (task.rows(split)[0] for split in ("train", "validation"))
    texts = [
        {train[i].values["text"] for i in found.training},
        {train[i].values["text"] for i in found.tuning},
        {validation[i].values["text"] for i in found.final},
    ]
    assert not texts[0] & texts[1]
    assert not (texts[0] | texts[1]) & texts[2]
    assert np.bincount(found.train.labels[found.tuning]).tolist() == [3, 3, 3]
    assert np.bincount(found.validation.labels[found.monitored]).tolist() == [2, 2, 2]
    shared = sum(row.values["text"] in texts[2] for row in train)
    assert found.left_out["validation"] == shared > 0
    left_out = len(train) - len(found.training) - len(found.tuning)
    assert sum(found.left_out.values()) == left_out
    assert found.majority("final") == pytest.approx(1 / 3)


def test_a_task_s_own_tuning_rows_are_all_held_out(tmp_path: Path) -> None:
    task = cities(tmp_path, tuning=True)
    found = load_items(task, tiny_tokenizer(), tuning=500, monitored=0)
    assert (found.tuning >= 60).all()
    assert (found.training < 60).all()
    rows, trained_on = task.rows("train")
    assert trained_on == 60
    assert {rows[i].file for i in found.tuning} == {str(tmp_path / "tuning.tsv")}


def test_a_prompt_that_does_not_fit_is_named(tmp_path: Path) -> None:
    task = cities(tmp_path)
    load_items(task, tiny_tokenizer(), tuning=9, monitored=6, context=3)
    with pytest.raises(
        UsageError, match=r"train.tsv:\d+: .* has 3 tokens, more than N = 2; .*--context 3"
    ):
        load_items(task, tiny_tokenizer(), tuning=9, monitored=6, context=2)


def test_a_sample_without_some_answer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"tuning items of task cities: some label has none"):
        load_items(cities(tmp_path), tiny_tokenizer(), tuning=2, monitored=6)


def batch(task: PromptTask) -> tuple[Batch, Any, list[list[int]]]:
    pretrained = tiny_llama()
    rows = task.rows("validation")[0]
    ids = pretrained.tokenizer([task.prompt(row).text for row in rows])["input_ids"]
    labels = torch.tensor([list(ANSWERS).index(row.label) for row in rows])
    width = max(map(len, ids))
    padded = torch.tensor([one + [0] * (width - len(one)) for one in ids])
    return Batch(padded, torch.tensor([len(one) - 1 for one in ids]), labels), pretrained, ids


def test_three_answers_have_the_loss_of_torch_in_float64(tmp_path: Path) -> None:
    given_batch, pretrained, ids = batch(cities(tmp_path))
    answers = pretrained.tokenizer.convert_tokens_to_ids(CITIES)
    classifier = AnswerClassifier(pretrained.model, np.array(answers))
    model = pretrained.model.double()
    alone = torch.stack(
        [model(input_ids=torch.tensor([one])).logits[0, -1, answers] for one in ids]
    )
    wanted = torch.nn.functional.cross_entropy(alone, given_batch.labels)
    model.float()
    assert classifier.loss(given_batch).item() == pytest.approx(wanted.item(), rel=1e-5)
    loss, right = classifier.score(given_batch)
    assert loss.item() == pytest.approx(wanted.item() * len(ids), rel=1e-5)
    assert torch.equal(right, alone.argmax(1) == given_batch.labels)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_zero_shot_is_that_of_the_model_s_own_logits(tmp_path: Path, size: int) -> None:
    task = cities(tmp_path)
    found = zero_shot("tiny-llama", task, context=64, batch=size, calibration_items=9)
    given_batch, pretrained, ids = batch(task)
    answers = pretrained.tokenizer.convert_tokens_to_ids(CITIES)
    alone = [pretrained.model(input_ids=torch.tensor([one])).logits[0, -1, answers] for one in ids]
    logits = torch.stack(alone).detach().double()
    right = (logits.argmax(1) == given_batch.labels).double().mean().item()
    assert found["accuracy"] == pytest.approx(right)
    wanted = torch.nn.functional.cross_entropy(logits, given_batch.labels).item()
    assert found["loss"] == pytest.approx(wanted, rel=1e-5)
    mean = torch.tensor(found["biases"]["mean"])
    calibrated = ((logits - mean).argmax(1) == given_batch.labels).double().mean().item()
    assert found["calibrated_accuracy"] == {"mean": pytest.approx(calibrated)}
    assert found["items"] == {"calibration": 9, "validation": 30}
    assert found["truncated"] == {"calibration": 0, "validation": 0}
    assert found["majority"] == pytest.approx(1 / 3)


def test_more_prompts_to_calibrate_with_than_there_are_are_refused(tmp_path: Path) -> None:
    task = cities(tmp_path)  # one training row is a validation row
    with pytest.raises(
        UsageError, match=r"cities: 512 training .* 59 of its 60 .*at most 58 .*calibration_items"
    ):
        zero_shot("tiny-llama", task, context=64)
    assert zero_shot("tiny-llama", task, context=64, calibration_items=50)["items"] == {
        "calibration": 50,
        "validation": 30,
    }


def test_a_prompt_longer_than_the_positions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def few_positions(*_: object) -> Pretrained:
        made = tiny_tokenizer()
        config = GPT2Config(vocab_size=len(made), n_positions=8, n_embd=16, n_layer=1, n_head=2)
        return Pretrained(random_model(config, "float32").eval(), made)

    monkeypatch.setattr(zero_shot_module, "load_base", few_positions)
    task = cities(tmp_path)
    with pytest.raises(UsageError, match=r"N = 64: prompts of 1\d tokens, and small has 8 .* 8$"):
        zero_shot("small", task, context=64, calibration_items=9)
    found = zero_shot("small", task, context=8, calibration_items=9)
    assert found["truncated"]["validation"] > 0


@pytest.mark.parametrize("items", [2.5, -1, True])
def test_a_number_of_items_is_whole(items: Any) -> None:
    with pytest.raises(UsageError, match=r"items = .*must be a whole number of at least 0"):
        zero_shot("tiny-llama", "yesno-facts", context=24, items=items)


def fine_tuned(path: Path) -> LanguageModelRun:
    return fine_tuning(
        dataset=str(path), context=32, seconds=0.2, evaluations=1, tuning_items=9,
        monitored_items=6, final_items=0, threads=torch.get_num_threads(),
    )  # fmt: skip


def test_an_evaluation_reads_two_values_on_the_host(tmp_path: Path) -> None:
    pretrained = tiny_llama()
    items = load_items(cities(tmp_path), pretrained.tokenizer, tuning=9, monitored=6)
    run = fine_tuned(tmp_path / "cities.toml")
    learner = LanguageModelLearner(pretrained.model, items.train.answers, run)
    chosen = in_order(items.validation.lengths(64), items.final, 4)
    given = [collate(items.validation, some, 64) for some in chosen]
    with HostReads() as reads:
        loss, accuracy = score(learner, given)
    assert reads.count == 2
    logits = answer_logits(
        learner.classifier, items.validation, items.final, 64, 30, print
    ).double()
    labels = torch.tensor(items.validation.labels[items.final]).long()
    assert loss == pytest.approx(torch.nn.functional.cross_entropy(logits, labels).item())
    assert accuracy == pytest.approx((logits.argmax(1) == labels).double().mean().item())


def test_logits_that_are_no_numbers_are_no_accuracy(tmp_path: Path) -> None:
    pretrained = tiny_llama()
    items = load_items(cities(tmp_path), pretrained.tokenizer, tuning=9, monitored=6)
    classifier = AnswerClassifier(pretrained.model, items.train.answers)
    next(pretrained.model.parameters()).data[:] = torch.nan
    count = len(items.final)
    with pytest.raises(ReproError, match=f"the logits of {count} of {count} prompts are not fin"):
        answer_logits(classifier, items.validation, items.final, 64, 30, print)


def test_zero_shot_counts_the_prompts_that_it_cuts() -> None:
    found = zero_shot("tiny-llama", "yesno-facts", "bfloat16", context=24, items=40)
    assert found["calibrated_accuracy"].keys() == {"mean", "median", "threshold"}
    task, tokenizer = get_task("yesno-facts"), tiny_tokenizer()
    items = load_items(task, tokenizer, tuning=512, monitored=40, final=40)
    rows = task.rows("validation")[0]
    lengths = [len(tokenizer([task.prompt(rows[i]).text])["input_ids"][0]) for i in items.final]
    assert found["truncated"]["validation"] == sum(length > 24 for length in lengths) > 0


scores = arrays.arrays(np.float64, st.integers(2, 30), elements=st.integers(-5, 5).map(float))


@given(scores, st.data())
def test_no_threshold_is_better_than_the_best(values: Any, data: st.DataObject) -> None:
    size = len(values)
    labels = data.draw(arrays.arrays(np.int64, size, elements=st.integers(0, 1)))

    def right(threshold: float) -> int:
        return int(((values > threshold).astype(int) == labels).sum())

    best = best_threshold(values, labels)
    assert right(best) == max(right(v / 2) for v in range(-13, 14))
    # no equally good threshold between two values is nearer to 0
    ordered = sorted(set(values))
    between = [(low + high) / 2 for low, high in itertools.pairwise(ordered)]
    good = [abs(v) for v in (0.0, *between) if right(v) == right(best)]
    assert abs(best) <= min(good, default=math.inf)


def test_biases_of_two_answers_even_them_out() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    logits = rng.normal(size=(200, 2)) + np.array([3.0, 0.0])
    logits[:, 1] += 2 * labels
    found = biases(logits, labels)
    before = accuracy(logits, labels)
    assert ((logits - found["median"]).argmax(1)).mean() == 0.5
    assert (logits - found["mean"]).mean(0) == pytest.approx([0, 0])
    reached = {name: accuracy(logits, labels, bias) for name, bias in found.items()}
    assert max(reached.values()) == reached["threshold"]
    assert min(reached.values()) > before + 0.1


def test_a_task_file_is_trained_on(tmp_path: Path) -> None:
    cities(tmp_path)
    path = tmp_path / "cities.toml"
    path.write_text(
        'template = "{text} Alma lives in"\ntrain = "train.tsv"\nvalidation = "validation.tsv"\n'
        'label = "city"\n[answers]\noslo = " Oslo"\nlima = " Lima"\ncairo = " Cairo"\n'
    )
    run = fine_tuned(path)
    metrics = train_run(TrainingTask(run, CheckpointStore(tmp_path / "state", run.threads)))
    assert metrics["items"]["final"] == 30
    assert metrics["left_out"]["validation"] > 0
    assert metrics["majority"]["final"] == pytest.approx(1 / 3)
    rebuilt(run.as_dict(), metrics)
    Config(datasets=("sst2", "rte", "sst2-k16-13", str(path)))
    with pytest.raises(UsageError, match=r"task = 'sst3': must be one of .*did you mean sst2"):
        Config(datasets=("sst3",))
