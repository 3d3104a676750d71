"""Progress of long work: a bar on a terminal, plain lines anywhere else."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """The object that long work notifies after each item."""

    def advance(self, label: str) -> None:
        """Count one item as done; ``label`` says which."""


@contextmanager
def progress(task: str, total: int) -> Iterator[Progress]:
    """Show the progress of ``total`` items of ``task`` on standard error while the block runs."""
    if sys.stderr.isatty():
        with _bar(task, total) as shown:
            yield shown
    else:
        yield _Lines(task, total)


def now_and_then(task: str, seconds: float = 20) -> Callable[[str], None]:
    """Return a function that writes its text as a line of ``task``, at most every ``seconds``."""
    last = time.monotonic()

    def report(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            sys.stderr.write(f"  {task}: {text}\n")
            sys.stderr.flush()

    return report


class _Lines:
    """Write at most one line every five seconds, and one for the last item."""

    def __init__(self, task: str, total: int) -> None:
        self.task, self.total, self.done = task, total, 0
        self.last = time.monotonic()

    def advance(self, label: str) -> None:
        self.done += 1
        now = time.monotonic()
        if now - self.last >= 5 or self.done == self.total:
            self.last = now
            sys.stderr.write(f"{self.task}: {self.done}/{self.total} ({label})\n")
            sys.stderr.flush()


@contextmanager
def _bar(task: str, total: int) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[label]}"),
    )
    with RichProgress(*columns, console=Console(stderr=True)) as bar:
        identifier = bar.add_task(task, total=total, label="")

        class Bar:
            def advance(self, label: str) -> None:
                bar.update(identifier, advance=1, label=label)

        yield Bar()
