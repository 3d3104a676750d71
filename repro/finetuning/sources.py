"""Identify the weights and the prompts that a run's names refer to now, which may change later."""

import hashlib
from pathlib import Path
from typing import Any

from repro.core.errors import ReproError
from repro.data.language_models import DATA_SETS
from repro.data.text.tasks import data_of
from repro.finetuning.base_models import TINY, load_config
from repro.finetuning.run import PromptRun


def fingerprint(name: str) -> str:
    """Return an identifier of the weights of the model ``name``.

    For a model on the hub it is the commit; for a directory or a file, names, sizes and
    modification times, as hashing the weights would take seconds. It is empty for the models of the
    catalogue, which never change.
    """
    if name == TINY or name in {dataset.name for dataset in DATA_SETS}:
        return ""
    path = Path(name)
    if path.exists():
        files = [path] if path.is_file() else sorted(p for p in path.iterdir() if p.is_file())
        return " ".join(f"{p.name}:{p.stat().st_size}:{p.stat().st_mtime_ns}" for p in files)
    return str(load_config(name)._commit_hash)


def sources_of(model: str, task: str) -> str:
    """Return an identifier of a model's weights and of the rows and prompts of a task.

    It leaves out the suite's own models and tasks, which never change, and is empty for two such.
    """
    rows = data_of(task) if task.endswith(".toml") else ""
    return " ".join(filter(None, (fingerprint(model), rows)))


def require_sources(sources: str, model: str, task: str) -> None:
    """Refuse to use other weights or prompts than those that ``sources`` identifies.

    Raises:
        ReproError: a file changed since the command began.
    """
    if sources and sources != sources_of(model, task):
        raise ReproError(
            f"the prompts of {task} or the weights of {model} have changed since the command "
            "began, so its runs would not be alike; give the command again"
        )


def recorded_settings(run: PromptRun) -> dict[str, Any]:
    """Return all settings of a run but its seed, as a record keeps them."""
    settings = run.as_dict() | recorded_sources(run.sources)
    del settings["seed"]
    return settings


def identifying_settings(run: PromptRun) -> dict[str, Any]:
    """Return the settings of a run whose model or prompts may change, as metrics.

    For the suite's own, the configuration tells whether a recorded result is this one.
    """
    return {"settings": recorded_settings(run)} if run.sources else {}


def recorded_sources(sources: str) -> dict[str, str]:
    """Return ``sources`` for a run's recorded settings, hashed; nothing if it is empty."""
    return {"sources": hashlib.sha256(sources.encode()).hexdigest()[:16]} if sources else {}
