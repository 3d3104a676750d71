"""Build the training of a language model from its run, and compute its metrics."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from repro.data.splits import Indices
from repro.data.text.tasks import task_of_seed
from repro.data.text.tokens import TokenisedSplit
from repro.finetuning.arms import SPECIFICATIONS, Arm
from repro.finetuning.base_models import load_base, load_config, placed, random_model
from repro.finetuning.batches import (
    Batch,
    Sampler,
    blank,
    by_tokens,
    collate,
    padded_width,
    places_by_length,
)
from repro.finetuning.classifier import AnswerClassifier
from repro.finetuning.items import Items, load_items
from repro.finetuning.learner import LanguageModelLearner, prepared
from repro.finetuning.replay import weights_sha256
from repro.finetuning.run import LanguageModelRun, PromptRun
from repro.finetuning.sources import require_sources
from repro.measurement.device import require_device
from repro.memory.fake_models import partition_before
from repro.memory.setting import Setting
from repro.methods.elasticzo import used
from repro.methods.parameters import split_at
from repro.methods.step_info import DivergedError
from repro.training.loop import Curve, EqualParts, Training, finite_mean
from repro.training.run import ORDER, derived_seed


def language_training(run: LanguageModelRun) -> Training[Batch]:
    """Return learner, prompts and duration of ``run``; its metrics evaluate the trained model.

    Raises:
        UsageError: the device does not exist here, or a setting is out of range.
        ReproError: the model or the data cannot be obtained, or changed since the run was made.
    """
    require_device(run.device)
    require_sources(run.sources, run.model, run.dataset)
    pretrained = load_base(run.model, run.dtype)
    items = load_items(
        task_of_seed(run.dataset, run.seed),
        pretrained.tokenizer,
        tuning=run.tuning_items,
        monitored=run.monitored_items,
        final=run.final_items,
        context=run.context,
    )
    model = placed(pretrained.model, run.device)
    # before the learner adds adapters, as a replay compares it
    base = None if run.tuning else weights_sha256(model.parameters())
    learner = LanguageModelLearner(model, items.train.answers, run)
    data = Prompts(items, run)
    flops = None if run.tuning else step_flops(run.arm, run.model, run.batch)

    def metrics(curve: Curve) -> dict[str, Any]:
        final: dict[str, Any] = {}
        if not run.tuning and not curve.divergence:
            # only without divergence: a failed step leaves the rounding errors of its passes in the
            # weights
            try:
                final = _final(learner, data)
            except DivergedError as error:
                curve.divergence = f"after step {curve.steps[-1]}: {error}"
            else:
                final["final_sha256"] = weights_sha256(model.parameters())
        found = _curve_metrics(curve, run, data, flops)
        if run.tuning:
            return found
        found |= {"base_sha256": base, **counts_of(items, run.context), **final}
        log = learner.log
        return found if log is None else found | {"log": log.packed()}

    duration = EqualParts(run.evaluations, run.steps, run.seconds, only_at_end=run.tuning)
    return Training(learner, data, duration, metrics)


class Prompts:
    """The minibatches of a run: prompts of similar length, the same in every run."""

    def __init__(self, items: Items, run: PromptRun) -> None:
        """Take the items and the run's settings."""
        self._items, self._run = items, run
        self._lengths = items.train.lengths(run.context)
        self._sampler = Sampler(
            self._lengths, items.training, run.batch, derived_seed(run.seed, ORDER)
        )

    @property
    def steps_per_epoch(self) -> int:
        """Minibatches of an epoch."""
        return self._sampler.steps_per_epoch

    def batch(self, step: int) -> Batch:
        """Return the minibatch of ``step``."""
        return self._collated(self._items.train, self._sampler.batch(step))

    def width(self, step: int) -> int:
        """Return the width T of the minibatch of ``step``."""
        return padded_width(self._lengths[self._sampler.batch(step)], self._run.context)

    def evaluation(self) -> Iterator[Batch]:
        """Yield the tuning items if this is a run of the grid search, else the monitored items."""
        return self.of("tuning" if self._run.tuning else "monitored")

    def training_sample(self) -> None:
        """Return ``None``: the training loss is the mean loss of the steps."""

    def of(self, which: str) -> Iterator[Batch]:
        """Yield the ``tuning``, ``monitored`` or ``final`` items, by length.

        A batch holds at most as many tokens as a training step at full width, so it takes about as
        much memory.
        """
        run, (split, lengths, items) = self._run, self._chosen(which)
        for chosen in by_tokens(lengths, items, run.context, run.batch * run.context):
            yield self._collated(split, chosen)

    def by_length(self, which: str) -> Indices:
        """Return the places of the items in the order in which ``of`` yields them."""
        _, lengths, items = self._chosen(which)
        return places_by_length(lengths, items)

    def _chosen(self, which: str) -> tuple[TokenisedSplit, Indices, Indices]:
        split = self._items.train if which == "tuning" else self._items.validation
        return split, split.lengths(self._run.context), getattr(self._items, which)

    def _collated(self, split: TokenisedSplit, chosen: Indices) -> Batch:
        return collate(split, chosen, self._run.context, self._run.device)


def _final(learner: LanguageModelLearner, data: Prompts) -> dict[str, Any]:
    """Return the accuracy and loss of the final items, and which of them were answered rightly.

    Raises:
        DivergedError: the loss is not finite.
    """
    loss, right = zip(*map(learner.classifier.score, data.of("final")), strict=True)
    by_length = torch.cat(right).cpu().numpy()
    in_order = np.empty_like(by_length)
    in_order[data.by_length("final")] = by_length
    return {
        "final_accuracy": float(in_order.mean()),
        "final_loss": finite_mean(torch.stack(loss).double().sum(), len(in_order)),
        "final_right": np.packbits(in_order).tobytes().hex(),
    }


def _curve_metrics(
    curve: Curve, run: LanguageModelRun, data: Prompts, flops: Callable[[int], float] | None
) -> dict[str, Any]:
    """Return the curve for a record, with the cumulative forward passes and FLOPs."""
    found: dict[str, Any] = {
        "seconds": curve.seconds,
        "cpu_seconds": curve.cpu_seconds,
        "steps": curve.steps,
        "forward_passes": [steps * SPECIFICATIONS[run.arm].passes for steps in curve.steps],
    }
    if flops is not None:
        total = [0.0]
        for step in range(max(curve.steps, default=0)):
            total.append(total[-1] + flops(data.width(step)))
        found["flops"] = [total[steps] for steps in curve.steps]
    return found | {
        "accuracy": curve.accuracy,
        "loss": curve.loss,
        "train_loss": curve.train_loss,
        "divergence": curve.divergence,
    }


def counts_of(items: Items, context: int) -> dict[str, Any]:
    """Count the items, and the prompts cut to fit the context, for a record."""
    truncated = {
        "training": items.train.truncated(context)[items.training],
        "final": items.validation.truncated(context)[items.final],
    }
    return {
        "items": {n: len(getattr(items, n)) for n in ("training", "tuning", "monitored", "final")},
        "truncated": {name: int(which.sum()) for name, which in truncated.items()},
        "left_out": dict(items.left_out),
        "majority": {name: items.majority(name) for name in ("monitored", "final")},
    }


@cache
def step_flops(arm: Arm, model: str, batch: int) -> Callable[[int], float]:
    """Return a function from the width T of a batch to the FLOPs of a training step on it.

    PyTorch's counter covers matrix products and attention (all N x N scores, although causal
    attention needs only half). Other operations, such as drawing noise, take time but few FLOPs.
    The count is a polynomial of degree two in T, so three widths determine it. They are counted on
    fake tensors, which takes seconds for a model of any size.

    Raises:
        ReproError: the model cannot be obtained.
    """
    specification = SPECIFICATIONS[arm]
    estimator = specification.method.estimator

    def count(width: int) -> int:
        with FakeTensorMode():
            fake = prepared(random_model(load_config(model), "float32"), arm)
            classifier = AnswerClassifier(fake, np.zeros(2, np.int32))
            prompts = blank(batch, width)
            counter = FlopCounterMode(display=False)
            with counter, torch.no_grad():
                classifier.loss(prompts)
            forward = counter.get_total_flops()
            if estimator == "zeroth-order":
                return specification.passes * forward
            if estimator == "both":  # one of the two passes has a backward pass
                order = used(fake, lambda: classifier.loss(prompts))
                before, _ = split_at(fake, partition_before(fake, Setting.tail), order)
                for parameter in before:
                    parameter.requires_grad_(False)  # noqa: FBT003 - torch's own signature
            with counter:  # which begins at 0 again
                classifier.loss(prompts).backward()  # type: ignore[no-untyped-call]
            backpropagated = counter.get_total_flops()
            return backpropagated + (forward if specification.estimates else 0)

    widths = (16, 32, 48)
    polynomial = np.polynomial.Polynomial.fit(widths, list(map(count, widths)), deg=2)
    return lambda width: float(round(polynomial(width)))  # the counts are whole, not the fit
