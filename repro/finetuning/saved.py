"""Save trained language models in the format of transformers."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from repro.core.errors import ReproError
from repro.core.leftovers import new_directory
from repro.finetuning.base_models import load_base, placed
from repro.finetuning.learner import LanguageModelLearner
from repro.finetuning.replay import finish
from repro.finetuning.run import LanguageModelRun
from repro.models.pretrained import Pretrained
from repro.training.checkpoint import Checkpoint


def model_name(settings: Mapping[str, Any], seed: int | None, final_sha256: str) -> str:
    """Return a name for a run's model; runs with other weights have other names.

    Args:
        settings: settings of the run: ``dataset``, ``arm`` and ``model``.
        seed: its seed.
        final_sha256: hash of its final weights.
    """
    # a model may be a path, as in ./my-model
    task, model = Path(settings["dataset"]).stem, settings["model"].replace("/", "_").strip("._")
    return f"{task}-{settings['arm']}-{model}-{seed}-{final_sha256[:8]}"


def save_model(trained: Pretrained, directory: Path) -> None:
    """Save a model and its tokenizer, and replace the directory only when all files are written.

    Raises:
        OSError: the directory cannot be written.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with new_directory(directory) as whole:
        trained.model.save_pretrained(whole)
        trained.tokenizer.save_pretrained(whole)


@dataclass(frozen=True)
class TrainedRun:
    """A run that has ended; picklable, so that a process of its own can save its model."""

    run: LanguageModelRun
    checkpoint: Checkpoint
    """Its last state."""
    final_sha256: str
    """Hash of its final weights."""
    directory: Path
    """Where its model belongs."""


def save_trained(trained: TrainedRun) -> None:
    """Save the final model of a run, with adapters merged into the weights, in their format.

    Raises:
        ReproError: the checkpoint does not exist any more or belongs to another run, or its weights
            are not those with the recorded hash.
    """
    run, state = trained.run, trained.checkpoint.load()
    if state is None:
        raise ReproError(f"{run.label()}: trained by an earlier command, so its model is not saved")
    base = load_base(run.model, run.dtype)
    model = placed(base.model, run.device)
    config = deepcopy(model.config)  # training switches dropout off in it
    # answers serve only the loss
    learner = LanguageModelLearner(model, np.zeros(1, np.int32), run)
    with trained.checkpoint.explained():
        learner.load_state_dict(state["learner"])
    finish(base, config, run.arm, trained.final_sha256)
    save_model(base, trained.directory)
