"""Downloads that break off and go on, against a server on this machine."""

import errno
import http.server
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from repro.data.base import BadContentError, Request, SourceUnavailableError
from repro.data.sources.http import download, web_file

BODY = bytes(range(256)) * 10_000


class Server(http.server.ThreadingHTTPServer):
    """Serves BODY at any path but /missing and /hang-up; what it may send is limited at first."""

    limit: int | None = None
    ranges_supported = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requested_ranges: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/set.zip"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if self.path == "/missing":
            self.send_error(404)
            return
        if self.path == "/no-length":
            self.send_response(200)
            self.send_header("Content-Length", "abc")
            self.end_headers()
            return
        if self.path == "/without-length":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(BODY)
            return
        if self.path == "/hang-up":
            self.close_connection = True
            return
        asked = self.headers["Range"]
        self.server.requested_ranges.append(asked)
        resuming = asked is not None and self.server.ranges_supported
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if resuming else 0
        if start >= len(BODY):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(BODY)}")
            self.end_headers()
            return
        self.send_response(206 if resuming else 200)
        self.send_header("Content-Length", str(len(BODY) - start))
        self.end_headers()
        self.wfile.write(BODY[start : self.server.limit])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_downloads_a_whole_file(server: Server, tmp_path: Path) -> None:
    download(server.url, tmp_path / "set.zip")
    assert (tmp_path / "set.zip").read_bytes() == BODY
    assert [path.name for path in tmp_path.iterdir()] == ["set.zip"]


def test_a_body_whose_end_nothing_tells_is_refused(server: Server, tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailableError, match="does not give the length"):
        download(server.url.replace("set.zip", "without-length"), tmp_path / "set.zip")
    assert not list(tmp_path.iterdir())


def test_goes_on_where_the_connection_broke_off(server: Server, tmp_path: Path) -> None:
    server.limit = 1_000_000
    with pytest.raises(SourceUnavailableError, match="broke off after 1000000 of 2560000 bytes"):
        download(server.url, tmp_path / "set.zip")
    assert [path.name for path in tmp_path.iterdir()] == ["set.zip.part"]
    server.limit = None
    download(server.url, tmp_path / "set.zip")
    assert (tmp_path / "set.zip").read_bytes() == BODY
    assert server.requested_ranges == [None, "bytes=1000000-"]


def test_starts_again_where_the_server_cannot_resume(server: Server, tmp_path: Path) -> None:
    server.ranges_supported = False
    (tmp_path / "set.zip.part").write_bytes(b"something else")
    download(server.url, tmp_path / "set.zip")
    assert (tmp_path / "set.zip").read_bytes() == BODY


def test_a_partial_file_that_is_too_long_is_bad_content(server: Server, tmp_path: Path) -> None:
    (tmp_path / "set.zip.part").write_bytes(BODY + b"more")
    with pytest.raises(BadContentError, match="partial download of 2560004 bytes"):
        download(server.url, tmp_path / "set.zip")


def test_a_partial_file_that_is_whole_is_kept(server: Server, tmp_path: Path) -> None:
    """As after a kill between the last byte and the renaming."""
    (tmp_path / "set.zip.part").write_bytes(BODY)
    download(server.url, tmp_path / "set.zip")
    assert [path.name for path in tmp_path.iterdir()] == ["set.zip"]
    assert server.requested_ranges == ["bytes=2560000-"]


def test_says_why_a_server_cannot_be_used(server: Server, tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailableError, match="the server answered 404 Not Found"):
        download(server.url.replace("set.zip", "missing"), tmp_path / "set.zip")
    with pytest.raises(SourceUnavailableError, match=r"no answer from the server \(Remote end"):
        download(server.url.replace("set.zip", "hang-up"), tmp_path / "set.zip")
    with pytest.raises(SourceUnavailableError, match="gives 'abc' as a length"):
        download(server.url.replace("set.zip", "no-length"), tmp_path / "set.zip")
    with pytest.raises(SourceUnavailableError, match="no connection"):
        download("http://127.0.0.1:1/set.zip", tmp_path / "set.zip")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "error", [ssl.SSLError(1, "bad record"), OSError(errno.EHOSTUNREACH, "No route to host")]
)
def test_a_network_error_is_one_of_the_source(
    error: OSError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first has the number of a missing permission."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(urllib.request, "urlopen", fail)
    with pytest.raises(SourceUnavailableError, match="no answer from the server"):
        download("http://127.0.0.1/set.zip", tmp_path / "set.zip")


def test_a_source_reads_what_it_downloaded_once(server: Server, tmp_path: Path) -> None:
    source = web_file(server.url, lambda path: {"file": path})
    request = Request(tmp_path, None, load=lambda _: {})
    assert source.fetch(request) == source.fetch(request) == {"file": tmp_path / "set.zip"}
    assert len(server.requested_ranges) == 1
