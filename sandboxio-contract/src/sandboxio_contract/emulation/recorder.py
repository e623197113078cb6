"""What was said on the wire, kept with secrets masked, and gates that hold a request where a row wants it held."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from sandboxio_contract.ground.wire import PATIENCE, Call, Gate, Place

MASK = "<masked>"
_POLL = 0.005


@dataclass(slots=True)
class Exchange:
    """One request and what became of it. ``status`` stays ``None`` where nothing was answered."""

    call: Call
    query: str
    headers: Mapping[str, str]
    body: bytes = b""
    status: int | None = None
    fault: str | None = None
    answer: bytearray = field(default_factory=bytearray)
    when: float = field(default_factory=time.monotonic)

    @property
    def data(self) -> Any:
        """The body as JSON; nothing where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class Recorder:
    """Keeps every exchange. It may be asked from any thread.

    :param secret_headers: those whose values are masked in `lines`, lower case.
    :param secret_fields: the fields of JSON bodies whose values are.
    """

    def __init__(self, secret_headers: Iterable[str] = (), secret_fields: Iterable[str] = ()) -> None:
        self._secret_headers, self._secret_fields = frozenset(secret_headers), frozenset(secret_fields)
        self._exchanges: list[Exchange] = []
        self._gates: list[Gate] = []
        self._lock = threading.Lock()

    @property
    def calls(self) -> tuple[Call, ...]:
        """The requests so far, in the order in which they came."""
        return tuple(one.call for one in self.exchanges)

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """The same with what was said."""
        with self._lock:
            return tuple(self._exchanges)

    def note(self, exchange: Exchange) -> None:
        """Keep one from its beginning."""
        with self._lock:
            self._exchanges.append(exchange)

    def forget(self) -> None:
        """Begin anew."""
        with self._lock:
            self._exchanges.clear()

    def gate(self, matches: Callable[[Call], bool], place: Place) -> Gate:
        """Hold each matching request from now on: before it is carried out, or after that, before it is answered."""
        gate = Gate(matches, place)
        self._gates.append(gate)
        return gate

    def open_gates(self) -> None:
        """Let everything through and forget the gates."""
        while self._gates:
            self._gates.pop().open()

    async def hold(self, call: Call, place: Place) -> None:
        """Wait at the gates that are about this request and place."""
        for gate in tuple(self._gates):
            if gate.place == place and not gate.opened.is_set() and gate.matches(call):
                gate.reached.set()
                end = time.monotonic() + PATIENCE
                while not gate.opened.is_set() and time.monotonic() < end:
                    await asyncio.sleep(_POLL)

    def lines(self) -> str:
        """Return everything as JSON lines, secrets masked."""
        return "".join(json.dumps(self._masked(one), ensure_ascii=False) + "\n" for one in self.exchanges)

    def places_of(self, word: str) -> list[str]:
        """Return where a word was said, unmasked: ``METHOD path header NAME``, ``… query``, ``… body`` or ``… answer``."""
        found: list[str] = []
        for one in self.exchanges:
            found += [f"{one.call} header {name}" for name, value in one.headers.items() if word in value]
            raw = word.encode()
            parts = {"path": one.call.path.encode(), "query": one.query.encode(), "body": one.body}
            parts["answer"] = bytes(one.answer)
            found += [f"{one.call} {name}" for name, value in parts.items() if raw in value]
        return found

    def _masked(self, one: Exchange) -> Mapping[str, object]:
        headers = {name: MASK if name.lower() in self._secret_headers else value for name, value in one.headers.items()}
        data = self._without_secrets(one.data) if one.data is not None else f"{len(one.body)} bytes"
        return {
            "request": str(one.call),
            "query": one.query,
            "headers": headers,
            "body": data,
            "status": one.status,
            "fault": one.fault,
        }

    def _without_secrets(self, value: Any) -> Any:
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            return {name: MASK if name in self._secret_fields else self._without_secrets(one) for name, one in items}
        if isinstance(value, list):
            return [self._without_secrets(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
        return value
