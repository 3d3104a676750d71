"""Count the FLOPs of a step with PyTorch's own counter.

The counter covers matrix products and attention (all N x N scores, although causal attention needs
only half). Other operations, such as drawing noise, take time but few FLOPs. The count is a
polynomial of degree two in the width T of a batch, so three widths determine it.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from repro.finetuning.arms import SPECIFICATIONS, Arm
from repro.finetuning.base_models import load_config, random_model
from repro.finetuning.batches import Batch
from repro.finetuning.classifier import AnswerClassifier
from repro.finetuning.learner import prepared
from repro.memory.fake_models import partition_before
from repro.memory.setting import Setting
from repro.methods.parameters import split_at

_WIDTHS = (16, 32, 48)


def step_flops(arm: Arm, model: str, batch: int) -> Callable[[int], float]:
    """Return a function from the width of a batch to the FLOPs of a training step on it.

    Steps of three widths are counted on fake tensors, which takes seconds for a model of any size.

    Raises:
        ReproError: the model cannot be obtained.
    """
    counts = [_count(arm, model, batch, width) for width in _WIDTHS]
    polynomial = np.polynomial.Polynomial.fit(_WIDTHS, counts, deg=2)
    return lambda width: float(round(polynomial(width)))


def _count(arm: Arm, name: str, batch: int, width: int) -> int:
    with FakeTensorMode():
        model = prepared(random_model(load_config(name), "float32"), arm)
        classifier = AnswerClassifier(model, np.zeros(2, np.int32))
        tokens = torch.zeros(batch, width, dtype=torch.long)
        labels = torch.zeros(batch, dtype=torch.long)
        fake = Batch(tokens, labels, labels)
        counter = FlopCounterMode(display=False)
        specification = SPECIFICATIONS[arm]
        with counter, torch.no_grad():
            classifier.loss(fake)
        forward = counter.get_total_flops()
        if specification.method.estimator == "zeroth-order":
            return specification.passes * forward
        if specification.method.estimator == "both":  # one of the two passes has a backward pass
            before, _ = split_at(model, partition_before(model, Setting.tail))
            for parameter in before:
                parameter.requires_grad_(False)  # noqa: FBT003 - torch's own signature
        with counter:
            classifier.loss(fake).backward()  # type: ignore[no-untyped-call]
        backpropagated = counter.get_total_flops()
        return backpropagated + (forward if specification.estimates else 0)
