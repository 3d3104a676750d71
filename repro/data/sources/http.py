"""Download files from a web address; an interrupted download resumes where it stopped."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import urlsplit

from repro.core.progress import progress
from repro.data.base import BadContentError, Request, Source, SourceUnavailableError, Value

_TIMEOUT_S = 30
_BLOCK = 1 << 20
_USER_AGENT = "zo-repro (research data set download)"


def web_file(url: str, read: Callable[[Path], Mapping[str, Value]]) -> Source:
    """Return a source of a set stored as one file at a web address.

    Args:
        url: the address, which is also the source's name.
        read: returns the content from the downloaded file.
    """

    def fetch(request: Request) -> Mapping[str, Value]:
        path = request.workspace / PurePosixPath(urlsplit(url).path).name
        if not path.exists():
            download(url, path)
        return read(path)

    return Source(url, fetch)


def download(url: str, path: Path) -> None:
    """Download ``url`` to ``path``, resuming the partial file of an earlier attempt.

    Raises:
        SourceUnavailableError: the server cannot be reached or answers with an error, or the
            connection broke off; the partial file is kept for the next attempt.
        BadContentError: the partial file is longer than the file at the address.
    """
    partial = path.with_name(f"{path.name}.part")
    present = partial.stat().st_size if partial.exists() else 0
    headers = {"User-Agent": _USER_AGENT} | ({"Range": f"bytes={present}-"} if present else {})
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - addresses are in the code
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_S)  # noqa: S310
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            msg = f"the server answered {error.code} {error.reason}"
            raise SourceUnavailableError(msg) from error
        # the header is "bytes */TOTAL"; if nothing is missing, only the renaming was
        if error.headers.get("Content-Range", "").rpartition("/")[2] != str(present):
            # as bad content, so that the cache removes the partial file
            msg = f"the partial download of {present} bytes is longer than the file at {url}"
            raise BadContentError(msg) from error
    except urllib.error.URLError as error:
        raise SourceUnavailableError(f"no connection ({error.reason})") from error
    # OSError: also those of TLS, and of a network without a route; ValueError: a bad address
    except (http.client.HTTPException, OSError, ValueError) as error:
        raise SourceUnavailableError(f"no answer from the server ({error})") from error
    else:
        with response:
            _receive(response, partial, present)
    partial.replace(path)


def _receive(response: http.client.HTTPResponse, partial: Path, present: int) -> None:
    """Append the body to ``partial``, or start again if the server sends the whole file."""
    resumed = response.status == http.HTTPStatus.PARTIAL_CONTENT
    received = present if resumed else 0
    length = response.headers.get("Content-Length")
    try:
        total = received + int(length) if length is not None else None
    except ValueError as error:
        raise SourceUnavailableError(f"the server gives {length!r} as a length") from error
    if total is None and not response.chunked:
        # it ends with the connection, so that nothing tells a whole body from a broken one
        raise SourceUnavailableError("the server does not give the length of the file")
    with (
        partial.open("ab" if resumed else "wb") as file,
        progress(f"downloading {partial.stem} (MiB)", -(-(total or 0) // _BLOCK)) as advance,
    ):
        for _ in range(received // _BLOCK):
            advance("resumed")
        while block := _read_block(response, received, total):
            file.write(block)
            received += len(block)
            advance("received")
    if total is not None and received != total:
        raise SourceUnavailableError(_broken_off(received, total))


def _read_block(stream: IO[bytes], received: int, total: int | None) -> bytes:
    try:
        return stream.read(_BLOCK)
    except (OSError, http.client.HTTPException) as error:
        raise SourceUnavailableError(f"{_broken_off(received, total)} ({error})") from error


def _broken_off(received: int, total: int | None) -> str:
    return (
        f"the connection broke off after {received} of {total or 'an unknown number of'} bytes; "
        "fetch again to resume"
    )
