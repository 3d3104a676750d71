"""The memory of one fine-tuning step: planned, simulated from its tensors, and measured."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from repro.core.names import Dtype
from repro.finetuning.arms import SPECIFICATIONS, Arm
from repro.finetuning.base_models import load_architecture, load_config, random_model
from repro.finetuning.batches import blank
from repro.finetuning.classifier import AnswerClassifier
from repro.finetuning.learner import prepared, restore_of
from repro.measurement.device import Device, require_device
from repro.memory.measured import measure_step
from repro.memory.setting import Setting
from repro.memory.simulation import make_optimizer, simulate_step
from repro.memory.step import EPS
from repro.methods.torch_noise import TorchNoise
from repro.planner.formula import estimate
from repro.planner.paper import effective_layers, paper_bytes

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ANSWERS = np.array([0, 1], np.int32)  # no byte depends on them


@dataclass(frozen=True)
class ArmStep:
    """One arm on one model at full width; picklable. Weights are random: no byte depends on them.

    The memory of MeZO does not depend on how many estimates a step averages.
    """

    arm: Arm
    model: str
    dtype: Dtype
    batch: int
    context: int
    device: Device
    threads: int

    def as_dict(self) -> dict[str, Any]:
        """Return the set-up as plain values, for records and cache keys."""
        return asdict(self)


def memory_of_step(setup: ArmStep) -> dict[str, Any]:
    """Return the memory of a step in bytes: by the planner's formula, simulated, and measured.

    For the methods that the paper's equations describe, their values are added, and L' for MeZO.

    Raises:
        UsageError: the device does not exist here, or the planner does not know the model.
        ReproError: the model cannot be obtained.
    """
    require_device(setup.device)
    torch.set_num_threads(setup.threads)
    torch.manual_seed(0)
    config = load_config(setup.model)
    size, method = load_architecture(setup.model), SPECIFICATIONS[setup.arm].method
    setting = Setting(context=setup.context, batch=setup.batch, format=setup.dtype)
    metrics: dict[str, Any] = {
        "parameters": size.parameters,
        "body_parameters": size.body_parameters,
        "formula_bytes": round(estimate(size, method, setting).total),
    }
    published = paper_bytes(size, method, setting)
    if published is not None:
        metrics["published_formula_bytes"] = published

    def build() -> "PreTrainedModel":
        return prepared(random_model(config, setup.dtype), setup.arm)

    def start(model: "PreTrainedModel") -> Callable[[], object]:
        batch = blank(setup.batch, setup.context, setup.device)
        classifier = AnswerClassifier(model, _ANSWERS)
        restore = restore_of(setup.arm, setup.dtype)
        optimizer = make_optimizer(
            model,
            method,
            eps=EPS,
            restore=restore,
            trace=lambda: classifier.loss(blank(1, 2, setup.device)),
            noise=TorchNoise(),
        )
        return lambda: optimizer.step(lambda: classifier.loss(batch))

    simulated = simulate_step(
        build,
        lambda: blank(setup.batch, setup.context),
        lambda model, batch: AnswerClassifier(model, _ANSWERS).loss(batch),
        method,
    )
    peaks = {"simulated": simulated.as_metrics("peak")}
    measured = measure_step(build, start, setup.device)
    if measured is None:
        metrics["out_of_memory"] = True
    else:
        peaks["measured"] = measured.as_metrics()
    for kind, found in peaks.items():
        metrics |= {f"{kind}_{name}": value for name, value in found.items()}
        # L' is MeZO's: of BP it would count the gradients as layers
        if published is not None and method.estimator == "zeroth-order":
            layers = effective_layers(size, setting, found["peak_bytes"])
            metrics[f"{kind}_effective_layers"] = layers
    return metrics
