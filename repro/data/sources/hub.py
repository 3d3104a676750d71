"""The Hugging Face hub, through its own libraries: data sets and single files."""

import errno
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.data.base import Request, SourceUnavailableError, Value

_TIMEOUT = 10


@dataclass(frozen=True)
class HubDataset:
    """A data set of the hub, read by ``datasets``."""

    repository: str
    read: Callable[[Any], Mapping[str, Value]]
    """Returns the content from the ``datasets.DatasetDict``."""
    config: str | None = None
    """Which of the repository's sets to use, if it has several."""

    @property
    def name(self) -> str:
        """``datasets:``, the repository and its configuration, if it has several."""
        return f"datasets:{self.repository}" + (f":{self.config}" if self.config else "")

    def fetch(self, request: Request) -> Mapping[str, Value]:
        """Download and read all splits; see ``Source``."""
        with _hub_errors_explained():
            import datasets

            splits = datasets.load_dataset(
                self.repository, self.config, cache_dir=str(request.workspace)
            )
        # outside of the block, which would call bad content an unavailable hub
        return self.read(splits)


@dataclass(frozen=True)
class HubFile:
    """One file of a model repository of the hub; a broken download is resumed."""

    repository: str
    filename: str
    revision: str
    key: str
    """Name of the file in the set's content."""

    @property
    def name(self) -> str:
        """``hub:`` and the repository."""
        return f"hub:{self.repository}"

    def fetch(self, request: Request) -> Mapping[str, Value]:
        """Download the file; see ``Source``."""
        with _hub_errors_explained():
            from huggingface_hub import hf_hub_download

            path = hf_hub_download(
                self.repository,
                self.filename,
                revision=self.revision,
                local_dir=request.workspace,
            )
        return {self.key: Path(path)}


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
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise  # the disk is as full for the other sources
        message = f"{endpoint}: {' '.join(str(error).split())}"
        raise SourceUnavailableError(message) from error


def _require_reachable(url: str) -> None:
    head = urllib.request.Request(url, method="HEAD")  # noqa: S310 - the user's own endpoint
    try:
        urllib.request.urlopen(head, timeout=_TIMEOUT).close()  # noqa: S310
    except urllib.error.HTTPError as error:
        error.close()  # it answers
