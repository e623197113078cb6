"""The client against servers that are slow, wrong or hostile: a whole answer in time, or an error."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sandboxio_docker.reaper import http_answer
from sandboxio_docker.reaper.engine_http import Engine, EngineSlow, EngineVanished, Where, quote
from sandboxio_docker.reaper.http_answer import EngineAway


class Server:
    """Answers every connection with the given pieces, ``pause`` seconds after each, and closes or keeps it."""

    def __init__(self, path: Path) -> None:
        self.engine = Engine(Where(path=str(path)))
        self.pieces: list[bytes] = []
        self.pause = 0.0
        self.keep = False
        self.asked = b""
        self._ended = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        self.asked = connection.recv(65_536)
        for piece in self.pieces:
            try:
                connection.sendall(piece)
            except OSError:
                return
            if self._ended.wait(self.pause):
                return
        if self.keep:
            self._ended.wait()


@pytest.fixture
def server() -> Iterator[Server]:
    with TemporaryDirectory(prefix="sbxr") as folder:
        running = Server(Path(folder) / "s")
        yield running
        running.close()


def test_one_request(server: Server) -> None:
    server.pieces = [b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{"a":1}']
    answer = server.engine.request("GET", "/containers/x/json", 5)
    assert (answer.status, answer.ok, answer.json()) == (200, True, {"a": 1})
    assert server.asked.startswith(b"GET /containers/x/json HTTP/1.1\r\nHost: docker\r\n")


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"h", b"i"], b"hi"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n", b"1;x=y\r\ni\r\n0\r\n\r\n"], b"hi"),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], b""),
        ([b"HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n"], b""),
    ],
)
def test_answers_over_a_connection_that_stays_open(server: Server, pieces: list[bytes], body: bytes) -> None:
    server.pieces, server.keep = pieces, True
    assert server.engine.request("GET", "/x", 5).body == body


def test_an_answer_that_ends_with_its_connection(server: Server) -> None:
    server.pieces = [b"HTTP/1.0 500 Internal\r\n\r\n", b"bad"]
    answer = server.engine.request("GET", "/x", 5)
    assert (answer.status, answer.ok, answer.body) == (500, False, b"bad")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nab\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"\xff\xfe\r\n\r\n",
    ],
)
def test_what_is_no_whole_answer_is_no_answer(server: Server, answer: bytes) -> None:
    server.pieces = [answer]
    with pytest.raises(EngineAway):
        server.engine.request("GET", "/x", 5)


def test_a_body_that_is_no_json_is_no_answer(server: Server) -> None:
    server.pieces = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"]
    answer = server.engine.request("GET", "/x", 5)
    with pytest.raises(EngineAway, match="not JSON"):
        answer.json()


def test_an_engine_that_takes_the_request_and_never_answers(server: Server) -> None:
    server.keep = True
    begun = time.monotonic()
    with pytest.raises(EngineSlow, match=r"no answer to GET /x within 0.2 s"):
        server.engine.request("GET", "/x", 0.2)
    assert time.monotonic() - begun < 20


def test_an_engine_that_drips_bytes_gets_no_more_time(server: Server) -> None:
    server.pieces, server.pause = [b"H"] * 1000, 0.05
    begun = time.monotonic()
    with pytest.raises(EngineSlow):
        server.engine.request("GET", "/x", 0.3)
    assert time.monotonic() - begun < 20


def test_an_endless_answer_is_cut(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_answer, "ANSWER_LIMIT", 100_000)
    server.pieces, server.keep = [b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 200_000], True
    with pytest.raises(EngineAway, match="more than 100000 bytes"):
        server.engine.request("GET", "/x", 5)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/nonexistent/engine.sock", EngineVanished), ("/x" * 100, EngineVanished), ("/tmp/no-engine.sock", EngineAway)],
)
def test_no_engine_there(path: str, kind: type[EngineAway]) -> None:
    with pytest.raises(EngineAway, match="no connection") as caught:
        Engine(Where(path=path)).request("GET", "/x", 1)
    assert caught.type is kind


def test_a_query_is_quoted() -> None:
    assert quote('{"label":["a=b"]}') == "%7B%22label%22%3A%5B%22a%3Db%22%5D%7D"
    assert quote("ü&#") == "%C3%BC%26%23"
