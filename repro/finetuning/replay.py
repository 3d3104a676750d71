"""Rebuild the final weights of a MeZO run from its base model and log, and check their hash."""

import hashlib
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch

from repro.core.errors import ReproError
from repro.finetuning.arms import Arm, trains_adapters
from repro.finetuning.base_models import load_base, placed
from repro.finetuning.learner import can_run_passes, noise_of, prepared
from repro.methods.log import StepLog, replay
from repro.methods.parameters import trainable
from repro.models.adapters import merge_adapters
from repro.models.pretrained import Pretrained

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


def weights_sha256(parameters: Iterable[torch.Tensor]) -> str:
    """Return the hash of the bytes of all parameters, in their order."""
    total = hashlib.sha256()
    for parameter in parameters:
        # as bytes, since NumPy has no bfloat16
        flat = parameter.detach().cpu().contiguous().view(-1)
        total.update(flat.view(torch.uint8).numpy().data)
    return total.hexdigest()


def rebuilt(settings: Mapping[str, Any], metrics: Mapping[str, Any]) -> Pretrained:
    """Return the final model of a MeZO run, from the base model and the recorded log.

    Adapters are merged into the model's own weights, in their number format.

    Args:
        settings: settings of the run: ``model``, ``dtype``, ``arm``, ``device`` and, with adapters,
            ``seed``.
        metrics: metrics of its record: ``log``, ``steps``, ``base_sha256`` and ``final_sha256``.

    Raises:
        ReproError: the run needs a GPU and there is none; the base model differs from the run's;
            the rebuilt weights differ from the recorded hash, since another kind of processor may
            have other kernels for PyTorch's noise; or the engine drew the noise and is not built.
    """
    if settings["device"] == "cuda" and not torch.cuda.is_available():
        raise ReproError(
            "the run used a GPU's noise, which only a GPU reproduces, and PyTorch finds no CUDA "
            "device; replay it on a machine with a GPU"
        )
    base = load_base(settings["model"], settings["dtype"])
    model = placed(base.model, settings["device"])
    if (found := weights_sha256(model.parameters())) != metrics["base_sha256"]:
        raise ReproError(
            f"base model: SHA-256 of the weights is {found}, must be {metrics['base_sha256']}: the "
            f"weights that {settings['model']!r} names have changed since the run; replay with "
            "those of the run"
        )
    config = deepcopy(model.config)  # training switches dropout off in it
    prepared(model, settings["arm"], settings.get("seed", 0))
    log = StepLog.unpacked(metrics["log"], metrics["steps"][-1])
    native = can_run_passes(log.restore, settings["device"])
    noise = noise_of(log.noise, log.chunk, native_passes=native)
    replay(log, trainable(model.parameters()), noise)
    finish(base, config, settings["arm"], metrics["final_sha256"])
    return base


def finish(trained: Pretrained, config: "PreTrainedConfig", arm: Arm, sha256: str) -> None:
    """Merge the adapters of a trained model and give it the configuration of its base model.

    Raises:
        ReproError: the weights do not have the recorded hash.
    """
    if (found := weights_sha256(trained.model.parameters())) != sha256:
        raise ReproError(
            f"final weights: SHA-256 is {found}, must be {sha256}; replay with the processor type, "
            "the vector instructions and the versions that the record's environment names, with "
            "its commit, too, if a GPU drew the noise"
        )
    if trains_adapters(arm):
        merge_adapters(trained.model)
    trained.model.config = config
    trained.model.train(mode=False)
