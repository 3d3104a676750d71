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
    """Return the useful number of threads: waking one takes as long as half a piece."""
    return max(1, min(torch.get_num_threads(), pieces // 2)) if device.type == "cpu" else 1


def parallel_for(
    pieces: Iterator[Piece], threads: int, work: Callable[[Iterator[Piece]], None]
) -> None:
    """Let ``threads`` threads, including this one, ``work`` on pieces until none is left.

    Autograd does not record them.
    """
    lock = Lock()

    def take() -> Iterator[Piece]:
        while True:
            with lock:  # two threads cannot advance one generator at a time
                try:
                    piece = next(pieces)
                except StopIteration:
                    return
            yield piece

    def run() -> None:
        with torch.no_grad():  # a setting of each thread
            work(take())

    others = [_pool(os.getpid(), threads).submit(run) for _ in range(threads - 1)]
    try:
        run()
    finally:
        wait(others)  # after it returns, no thread changes a weight
    for other in others:
        other.result()


@cache
def _pool(_process: int, threads: int) -> ThreadPoolExecutor:
    """Return the thread pool of this process; a forked process cannot use its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix="noise")
