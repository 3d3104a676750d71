"""The tasks: published or generated ones, and the user's own."""

import difflib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from repro.core.errors import UsageError
from repro.data.text.published import SEEDS
from repro.data.text.task import SPLITS, PromptTask


def _as_sentence(question: str) -> str:
    # not capitalize(), which makes all other letters small
    return question[:1].upper() + question[1:].removesuffix("?")


def _yes_no(name: str, dataset: str, title: str) -> PromptTask:
    """Return yes/no reading with the MeZO authors' prompt for large models.

    Appendix on prompts of arXiv 2305.17333, after LM-BFF: passage, then the question with a capital
    and a question mark.
    """
    return PromptTask(
        name=name,
        template="{passage} {question}?",
        answers={"false": " No", "true": " Yes"},
        train=f"{dataset}/train",
        validation=f"{dataset}/validation",
        label="answer",
        truncate="passage",
        apart=("passage",),
        edits={"question": _as_sentence},
        title=title,
        version="boolq-1",  # the name of this prompt before there were tasks (docs/data.md)
    )


def _sst2(name: str, title: str, train: str, tuning: str | None = None) -> PromptTask:
    return PromptTask(
        name=name,
        template="{sentence}\nSentiment:",
        answers={"0": " negative", "1": " positive"},
        train=train,
        validation="sst2/validation",
        tuning=tuning,
        truncate="sentence",
        title=title,
    )


def _few_shot(name: str, split: int) -> PromptTask:
    title = "SST-2, 16 examples a class"
    if name.endswith(f"-{split}"):
        title += f", split {split}"
    return _sst2(name, title, f"sst2-k16/train-{split}", f"sst2-k16/tuning-{split}")


_BOOLQ_QA = PromptTask(
    name="boolq-qa",
    template="{passage}\nQuestion: {question}?\nAnswer:",
    answers={"false": " No", "true": " Yes"},
    train="boolq/train",
    validation="boolq/validation",
    label="answer",
    truncate="passage",
    apart=("passage",),
    edits={"question": lambda question: question.removesuffix("?").rstrip()},
    title="BoolQ, question and answer",
)
_RTE = PromptTask(
    name="rte",
    template="{sentence1}\nQuestion: {sentence2} True or False?\nAnswer:",
    answers={"entailment": " True", "not_entailment": " False"},
    train="rte/train",
    validation="rte/validation",
    truncate="sentence1",
    apart=("sentence1",),
    title="RTE",
)
_TASKS = {
    task.name: task
    for task in (
        _yes_no("boolq", "boolq", "BoolQ"),
        _BOOLQ_QA,
        _sst2("sst2", "SST-2", "sst2/train"),
        _few_shot("sst2-k16", SEEDS[0]),
        *(_few_shot(f"sst2-k16-{seed}", seed) for seed in SEEDS),
        _RTE,
        _yes_no("yesno-facts", "yesno-facts", "generated questions"),
    )
}
_KEYS = {"template", "answers", "train", "validation", "tuning", "label", "truncate", "apart"}


def register(task: PromptTask) -> PromptTask:
    """Add a task of your own for this process, and return it.

    Raises:
        UsageError: another task has its name; ``-`` and ``_`` are the same.
    """
    if (_named(task.name) or task) != task:
        raise UsageError(f"task {task.name!r}: another task has this name; choose one that is free")
    return _TASKS.setdefault(task.name, task)


def _named(name: str) -> PromptTask | None:
    found = {known.replace("_", "-"): task for known, task in _TASKS.items()}
    return found.get(name.replace("_", "-"))


def get_task(name: str | PromptTask) -> PromptTask:
    """Return the task called ``name``, or the task described by a TOML file.

    Args:
        name: a registered name (``-`` and ``_`` are interchangeable), the path of a ``.toml`` file
            (see ``read_task``), or a task, which is returned as it is.

    Raises:
        UsageError: the name is unknown, or the file does not describe a task.
    """
    if isinstance(name, PromptTask):
        return name
    if name.endswith(".toml"):
        return read_task(Path(name))
    if (task := _named(name)) is not None:
        return task
    near = difflib.get_close_matches(name, _TASKS, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UsageError(f"task = {name!r}: must be one of {', '.join(_TASKS)}, or a .toml file{hint}")


def task_name(name: str) -> str:
    """Return the registered name of a task; the path of a ``.toml`` file is returned as it is.

    Raises:
        UsageError: the name is unknown, or the file does not describe a task.
    """
    task = get_task(name)
    return name if name.endswith(".toml") else task.name


def task_of_seed(name: str | PromptTask, seed: int) -> PromptTask:
    """Return the task on which a run of ``seed`` trains: ``get_task(name)``, but for few-shot sets.

    LM-BFF (arXiv 2012.15723) publishes five splits of ``sst2-k16``; seeds 0 to 4 select them in the
    order of their numbers.

    Raises:
        UsageError: the name is unknown, or there is no split for this seed.
    """
    task = get_task(name)
    if task != _TASKS["sst2-k16"]:  # a file's task may have the same name
        return task
    if seed >= len(SEEDS):
        msg = f"task sst2-k16: there is no split for seed {seed}; use seeds 0 to {len(SEEDS) - 1}"
        raise UsageError(msg)
    return _TASKS[f"sst2-k16-{SEEDS[seed]}"]


def tasks_of_seeds(name: str | PromptTask, seeds: Iterable[int]) -> list[PromptTask]:
    """Return each task on which runs of ``seeds`` train, once; see ``task_of_seed``."""
    found = (task_of_seed(name, seed) for seed in seeds)
    return list({task.name: task for task in found}.values())


def data_of(name: str | PromptTask) -> str:
    """Return a fingerprint of a task's rows and prompts, which its name alone may not identify."""
    task = get_task(name)
    # rows that share these texts with a held-out row are not trained on
    apart = ",".join(task.apart or task.fields)
    return " ".join((*(task.fingerprint(split)[:16] for split in SPLITS), apart))


def read_task(path: Path) -> PromptTask:
    """Return the task described by a TOML file.

    Its keys are fields of ``PromptTask``: ``template``, ``train`` and ``validation`` (paths
    relative to the file's directory), a table ``answers``, and optionally ``tuning``, ``label``,
    ``truncate`` and ``apart``. The task is named after the file.

    Raises:
        UsageError: the file is missing, or does not describe a task.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise UsageError(f"task file {path} does not exist") from error
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"task file {path}: cannot be read as TOML ({error})") from error
    if unknown := sorted(given.keys() - _KEYS):
        msg = f"task file {path}: unknown key {unknown[0]!r}; use {', '.join(sorted(_KEYS))}"
        raise UsageError(msg)
    for key in ("template", "train", "validation", "answers"):
        if key not in given:
            msg = f"task file {path}: the key {key!r} is missing; add it (docs/finetuning.md)"
            raise UsageError(msg)
    _require_types(given, path)
    for key in ("train", "validation", "tuning"):
        if key in given:
            given[key] = path.parent / given[key]
    given["apart"] = tuple(given.get("apart", ()))
    name = re.sub(r"[^a-z0-9_-]+", "-", path.stem.lower())
    return PromptTask(name=name, **given)


def _require_types(given: dict[str, Any], path: Path) -> None:
    answers = given["answers"]
    if not isinstance(answers, dict) or not all(isinstance(a, str) for a in answers.values()):
        msg = f"task file {path}: 'answers' must be a table with a string for each label"
        raise UsageError(msg)
    apart = given.get("apart", [])
    if not isinstance(apart, list) or not all(isinstance(name, str) for name in apart):
        raise UsageError(f"task file {path}: 'apart' must be a list of field names")
    for key in given.keys() - {"answers", "apart"}:
        if not isinstance(given[key], str):
            raise UsageError(f"task file {path}: {key!r} = {given[key]!r}: must be a string")
