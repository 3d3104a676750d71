"""Share work among PyTorch's number of threads, piece by piece."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from threading import Lock
from typing import TypeVar

import torch

Piece = TypeVar("Piece")


def threads_for(device: torch.device, pieces: int) -> int:
    """Return how many threads are worth it: waking one takes as long as half a piece."""
    return max(1, min(torch.get_num_threads(), pieces // 2)) if device.type == "cpu" else 1


def parallel_for(
    pieces: Iterator[Piece], threads: int, work: Callable[[Iterator[Piece]], None]
) -> None:
    """Let ``threads`` threads, of which this is one, ``work`` on pieces until none is left.

    Autograd does not record them.
    """
    lock = Lock()

    def take() -> Iterator[Piece]:
        while True:
            with lock:
                try:
                    piece = next(pieces)
                except StopIteration:
                    return
            yield piece

    def run() -> None:
        with torch.no_grad():  # which every thread decides for itself
            work(take())

    others = [_pool(os.getpid(), threads).submit(run) for _ in range(threads - 1)]
    try:
        run()
    finally:
        wait(others)  # nothing changes a weight when this has returned
    for other in others:
        other.result()


@cache
def _pool(_process: int, threads: int) -> ThreadPoolExecutor:
    """Return the threads of this process; a forked one has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix="noise")
