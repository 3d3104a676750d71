"""The accuracy of a model on a task before any training, plain and calibrated.

Calibration subtracts a bias from each answer's logit, chosen on training items.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from repro.core.errors import ReproError, UsageError
from repro.core.names import Dtype
from repro.core.progress import now_and_then
from repro.core.validation import require_choice, require_positive_int, require_whole
from repro.data.splits import Indices
from repro.data.text.task import PromptTask
from repro.data.text.tasks import get_task
from repro.data.text.tokens import TokenisedSplit
from repro.finetuning.base_models import load_base, placed
from repro.finetuning.batches import collate, in_order, padded_width, places_by_length
from repro.finetuning.classifier import NOT_FINITE, AnswerClassifier
from repro.finetuning.items import load_items
from repro.measurement.device import Device, require_device

Logits = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


def zero_shot(
    model_name: str,
    task: str | PromptTask,
    dtype: Dtype = "float32",
    device: Device = "cpu",
    *,
    context: int = 512,
    batch: int = 16,
    calibration_items: int = 512,
    items: int = 0,
) -> dict[str, Any]:
    """Return the accuracy and loss of a model on a task without training.

    Args:
        model_name: a name that ``load_base`` accepts.
        task: name of the task, or the task.
        dtype: number format of the weights and activations.
        device: ``cpu`` or ``cuda``.
        context: N, the longest prompt in tokens.
        batch: prompts evaluated together; they are sorted by length.
        calibration_items: number of training items for choosing the biases, stratified by answer;
            they share no text with validation.
        items: number of validation items, stratified by answer; 0 for all.

    Returns:
        ``accuracy`` (argmax), ``calibrated_accuracy`` and ``biases`` by calibration rule (see
        ``biases``), ``loss`` in nats, ``majority`` (accuracy of the most frequent
        answer), and for ``validation`` and ``calibration`` the number of ``items``, of
        ``truncated`` prompts, and the ``seconds`` of the evaluation.

    Raises:
        UsageError: the device does not exist here, a number is out of range, the model scales or
            transforms the logits of its output layer, or a batch has more tokens in a row than the
            model has positions.
        ReproError: the model or the data cannot be obtained.
    """
    require_device(device)
    require_choice("dtype", dtype, get_args(Dtype))
    for name, value in (("N", context), ("batch", batch), ("calibration_items", calibration_items)):
        require_positive_int(name, value)
    require_whole("items", items)
    task = get_task(task)
    pretrained = load_base(model_name, dtype)
    found = load_items(
        task,
        pretrained.tokenizer,
        tuning=calibration_items,
        monitored=items,
        final=items,
        context=context,
    )
    model = placed(pretrained.model, device)
    classifier = AnswerClassifier(model, found.train.answers)
    sides = {
        "calibration": (found.train, found.tuning),
        "validation": (found.validation, found.final),
    }
    width = max(padded_width(s.lengths(context)[chosen], context) for s, chosen in sides.values())
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None) or 0
    if 0 < positions < width:
        raise UsageError(
            f"context N = {context}: prompts of {width} tokens, and {model_name} has {positions} "
            f"positions; give at most context = {positions}"
        )
    logits: dict[str, Logits] = {}
    labels: dict[str, Labels] = {}
    seconds: dict[str, float] = {}
    for side, (split, chosen) in sides.items():
        report = now_and_then(f"{model_name} on {task.name}, {side}")
        start = time.perf_counter()
        found_logits = answer_logits(classifier, split, chosen, context, batch, report)
        seconds[side] = time.perf_counter() - start  # the logits on the host wait for a GPU
        logits[side] = found_logits.double().numpy()
        labels[side] = split.labels[chosen].astype(np.int64)
    chosen_biases = biases(logits["calibration"], labels["calibration"])
    tensors = torch.from_numpy(logits["validation"]), torch.from_numpy(labels["validation"])
    return {
        "accuracy": accuracy(logits["validation"], labels["validation"]),
        "calibrated_accuracy": {
            name: accuracy(logits["validation"], labels["validation"], bias)
            for name, bias in chosen_biases.items()
        },
        "biases": {name: bias.tolist() for name, bias in chosen_biases.items()},
        "loss": float(torch.nn.functional.cross_entropy(*tensors)),
        "majority": found.majority("final"),
        "items": {side: len(chosen) for side, (_, chosen) in sides.items()},
        "truncated": {
            side: int(split.truncated(context)[chosen].sum())
            for side, (split, chosen) in sides.items()
        },
        "seconds": seconds,
    }


@torch.no_grad()
def answer_logits(
    classifier: AnswerClassifier,
    split: TokenisedSplit,
    items: Indices,
    context: int,
    size: int,
    report: Callable[[str], None],
) -> Tensor:
    """Return the float32 logits of all answers on the host, [M, K], in the order of ``items``.

    Args:
        classifier: the model with its answers.
        split: the prompts.
        items: indices of the M prompts to evaluate.
        context: N, the longest prompt in tokens.
        size: prompts in a batch; a batch holds prompts of similar length.
        report: called with the progress after each batch.

    Raises:
        ReproError: a logit is not finite.
    """
    order = list(in_order(split.lengths(context), items, size))
    found = []
    for number, chosen in enumerate(order, start=1):
        found.append(classifier.logits(collate(split, chosen, context, classifier.device)))
        report(f"{number} of {len(order)} batches")
    logits = torch.empty(len(items), found[0].shape[1])
    logits[places_by_length(split.lengths(context), items)] = torch.cat(found).cpu()
    wrong = int((~logits.isfinite()).any(1).sum())
    if wrong:  # of such logits, argmax takes the first answer
        raise ReproError(NOT_FINITE.format(f"the logits of {wrong} of {len(items)} prompts"))
    return logits


def accuracy(logits: Logits, labels: Labels, bias: Logits | None = None) -> float:
    """Return the fraction of items whose label has the highest logit after subtracting the bias.

    Args:
        logits: [M, K].
        labels: [M], 0 to K - 1.
        bias: [K], subtracted from every row; zero if not given.
    """
    shifted = logits if bias is None else logits - bias
    return float((shifted.argmax(1) == labels).mean())


def biases(logits: Logits, labels: Labels) -> Mapping[str, Logits]:
    """Return the biases [K] that each rule chooses from the logits of training items.

    - ``mean``: the mean logit of each answer; uses no labels.
    - ``median``, for two answers: the median of the second logit minus the first, so that each
      answer is predicted for half of the training items; uses no labels.
    - ``threshold``, for two answers: the difference above which the second answer is predicted,
      chosen for the highest training accuracy; among ties, the one nearest to 0.

    Args:
        logits: logits of training items, [M, K].
        labels: [M], 0 to K - 1.
    """
    found = {"mean": logits.mean(0)}
    if logits.shape[1] == 2:
        difference = logits[:, 1] - logits[:, 0]
        found["median"] = np.array([0.0, np.median(difference)])
        found["threshold"] = np.array([0.0, best_threshold(difference, labels)])
    return found


def best_threshold(values: Logits, labels: Labels) -> float:
    """Return the threshold that classifies most items rightly, with label 1 above it.

    Args:
        values: [M].
        labels: [M], 0 or 1.

    Returns:
        0, the midpoint of two neighbouring values, or a number 1 below or above all values. Among
        equally good thresholds it is the one nearest to 0.
    """
    ordered = np.unique(values)
    between = (ordered[:-1] + ordered[1:]) / 2
    candidates = np.concatenate([[0.0, ordered[0] - 1, ordered[-1] + 1], between])
    ones = np.sort(values[labels == 1])
    zeros = np.sort(values[labels == 0])
    right = (
        len(ones)
        - np.searchsorted(ones, candidates, side="right")
        + np.searchsorted(zeros, candidates, side="right")
    )
    best = candidates[right == right.max()]
    return float(best[np.abs(best).argmin()])
