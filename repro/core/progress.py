"""Progress of long work: a bar on a terminal, plain lines anywhere else."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(task: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show the progress of ``total`` items of ``task`` on standard error while the block runs.

    The context gives a function that counts one item as done; its argument says which.

    Without a terminal there is at most one line every five seconds, and one for the last item.
    """
    if not sys.stderr.isatty():
        done, last = 0, time.monotonic()

        def advance(label: str) -> None:
            nonlocal done, last
            done += 1
            now = time.monotonic()
            if now - last >= 5 or done == total:
                last = now
                sys.stderr.write(f"{task}: {done}/{total} ({label})\n")
                sys.stderr.flush()

        yield advance
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[label]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        identifier = bar.add_task(task, total=total, label="")
        yield lambda label: bar.update(identifier, advance=1, label=label)


def now_and_then(task: str) -> Callable[[str], None]:
    """Return a function that writes its text as a line of ``task``, at most every 20 seconds."""
    last = time.monotonic()

    def report(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= 20:
            last = time.monotonic()
            sys.stderr.write(f"  {task}: {text}\n")
            sys.stderr.flush()

    return report
