"""The emulators' server: it says what was said, holds what it is told to hold, and fails as it is told to fail."""

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator

import pytest
from aiohttp import web
from sandboxio_contract.emulation import KINDS, Kind, Recorder, Request, Serving

pytestmark = pytest.mark.network


class Provider:
    """Makes a thing for each POST, and lists them."""

    def __init__(self) -> None:
        self.made: list[str] = []

    async def answer(self, request: Request) -> web.StreamResponse:
        if request.method == "GET" and request.path == "/stream":
            async with request.stream({"Content-Type": "text/plain"}) as stream:
                for number in range(3):
                    await stream.send(f"{number}---".encode())
                return stream.response
        if request.method == "POST":
            self.made.append(json.loads(await request.body())["name"])
        return web.json_response(self.made)


def error(status: int, message: str) -> web.Response:
    return web.json_response({"code": status, "message": message}, status=status)


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def serving(provider: Provider) -> Iterator[Serving]:
    made = Serving(provider.answer, error, Recorder({"x-api-key"}, {"secret"}))
    yield made
    made.close()


def ask(serving: Serving, method: str = "POST", path: str = "/things?x=1", timeout: float = 5.0) -> tuple[int, bytes]:
    client = http.client.HTTPConnection(serving.address.removeprefix("http://"), timeout=timeout)
    with contextlib.closing(client):
        body = json.dumps({"name": "a", "secret": "hidden"}) if method == "POST" else None
        client.request(method, path, body, {"X-Api-Key": "hidden"})
        answer = client.getresponse()
        return answer.status, answer.read()


def test_it_records_what_was_said_with_secrets_masked(serving: Serving) -> None:
    assert ask(serving) == (200, b'["a"]')
    assert ask(serving, "GET", "/stream") == (200, b"0---1---2---")
    (first, second) = [json.loads(line) for line in serving.recorder.lines().splitlines()]
    assert (first["request"], first["query"], first["status"]) == ("POST /things", "x=1", 200)
    assert (first["body"], second["status"]) == ({"name": "a", "secret": "<masked>"}, 200)
    assert "hidden" not in serving.recorder.lines()
    assert serving.recorder.places_of("hidden") == [
        "POST /things header X-Api-Key",
        "POST /things body",
        "GET /stream header X-Api-Key",
    ]
    assert serving.recorder.places_of("---") == ["GET /stream answer"]


def test_a_gate_holds_before_the_request_is_carried_out_or_after(serving: Serving, provider: Provider) -> None:
    for place, made in (("before send", 0), ("after commit", 2)):
        gate = serving.recorder.gate(lambda call: call.method == "POST", place)  # type: ignore[arg-type]
        asking = threading.Thread(target=ask, args=(serving,))
        asking.start()
        assert gate.reached.wait(5)
        time.sleep(0.05)
        assert len(provider.made) == made
        gate.open()
        asking.join(5)
        assert not asking.is_alive()
        serving.recorder.open_gates()


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_strikes_the_request_that_it_is_for_and_no_other(
    serving: Serving, provider: Provider, kind: Kind
) -> None:
    fault = serving.faults.strike(kind, lambda call: call.method == "POST")
    assert ask(serving, "GET", "/") == (200, b"[]")
    if kind == "stall":
        with pytest.raises(TimeoutError):
            ask(serving, timeout=0.3)
    elif kind == "reset":
        with pytest.raises(OSError, match=r"reset|closed|without"):
            ask(serving)
    elif kind == "cut":
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
            ask(serving)
    elif kind == "garbage":
        status, data = ask(serving)
        assert status == 200
        with pytest.raises(ValueError, match=r".*"):
            json.loads(data)
    else:
        assert ask(serving)[0] == int(kind[:3])
    carried_out = kind in ("504 after commit", "garbage", "cut")
    assert provider.made == ["a"] * carried_out
    assert fault.spent
    assert ask(serving)[0] == 200


def test_a_fault_strikes_an_answer_that_is_streamed(serving: Serving) -> None:
    serving.faults.strike("cut", lambda _: True)
    with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
        ask(serving, "GET", "/stream")
    serving.faults.strike("504 after commit", lambda _: True)
    assert ask(serving, "GET", "/stream")[0] == 504
    serving.faults.clear()
    assert ask(serving, "GET", "/stream")[0] == 200


def test_its_end_breaks_what_is_open_and_comes_at_once(serving: Serving) -> None:
    serving.faults.strike("stall", lambda _: True)
    failed: list[BaseException] = []

    def asking() -> None:
        try:
            ask(serving, timeout=30)
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    thread = threading.Thread(target=asking)
    thread.start()
    while not serving.recorder.calls:
        time.sleep(0.01)
    serving.close()
    thread.join(10)
    assert failed
    serving.close()
