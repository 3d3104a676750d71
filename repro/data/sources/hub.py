"""The Hugging Face hub, through its own libraries: data sets and single files."""

import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from repro.data.base import FULL_DISK, Request, Source, SourceUnavailableError, Value

_TIMEOUT = 10


def hub_dataset(
    repository: str, read: Callable[[Any], Mapping[str, Value]], config: str | None = None
) -> Source:
    """Return a source of all splits of a data set of the hub.

    Args:
        repository: its name on the hub.
        read: returns the content from the ``datasets.DatasetDict``.
        config: which of the repository's sets to use, if it has several.
    """

    def fetch(request: Request) -> Mapping[str, Value]:
        with _hub_errors_explained():
            import datasets

            splits = datasets.load_dataset(repository, config, cache_dir=str(request.workspace))
        # outside of the block, which would call bad content an unavailable hub
        return read(splits)

    return Source(f"datasets:{repository}" + (f":{config}" if config else ""), fetch)


def hub_file(repository: str, filename: str, revision: str, key: str) -> Source:
    """Return a source of one file of a model repository; a broken download is resumed.

    Args:
        repository: its name on the hub.
        filename: the file in it.
        revision: branch or commit of the repository.
        key: name of the file in the set's content.
    """

    def fetch(request: Request) -> Mapping[str, Value]:
        with _hub_errors_explained():
            from huggingface_hub import hf_hub_download

            path = hf_hub_download(
                repository, filename, revision=revision, local_dir=request.workspace
            )
        return {key: Path(path)}

    return Source(f"hub:{repository}", fetch)


def repository_file(repository: str, filename: str) -> Path:
    """Return a file of a model repository, from the local cache or else from the hub.

    Raises:
        SourceUnavailableError: the file is not in the cache, and the hub does not answer or does
            not give this file to the user.
    """
    with _hub_errors_explained(ask=False):
        from huggingface_hub import hf_hub_download, try_to_load_from_cache

        cached = try_to_load_from_cache(repository, filename)
        if isinstance(cached, str):
            return Path(cached)
    with _hub_errors_explained():
        return Path(hf_hub_download(repository, filename))


@contextmanager
def _hub_errors_explained(*, ask: bool = True) -> Iterator[None]:
    """Check first that the hub answers at all, since its libraries retry for half a minute."""
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    try:
        if ask:
            _require_reachable(endpoint)
        yield
    except Exception as error:  # the libraries of the hub have no common error
        if isinstance(error, OSError) and error.errno in FULL_DISK:
            raise  # the disk is as full for the other sources
        if isinstance(error, ModuleNotFoundError):
            msg = f"{error.name} is not installed: in the clone, pip install '.[suite]'"
            raise SourceUnavailableError(msg) from error
        raise SourceUnavailableError(f"{endpoint}: {' '.join(str(error).split())}") from error


def _require_reachable(url: str) -> None:
    head = urllib.request.Request(url, method="HEAD")  # noqa: S310 - the user's own endpoint
    try:
        urllib.request.urlopen(head, timeout=_TIMEOUT).close()  # noqa: S310
    except urllib.error.HTTPError as error:
        error.close()  # it answers
