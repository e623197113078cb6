"""The little DNS that the canary speaks: read one question, answer it with a nonce that a resolver can carry."""

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

PORT = 53
A, AAAA = 1, 28
_ANSWER = 0x8400  # response, authoritative
_REFUSED = 5


@dataclass(frozen=True, slots=True)
class Question:
    """One question: `raw` is its wire form, copied into the answer byte for byte."""

    identity: int
    flags: int
    name: str
    kind: int
    raw: bytes


def parse_question(packet: bytes) -> Question | None:
    """Return the first question of a query, or None for anything malformed, compressed, or not a query."""
    if len(packet) < 17:
        return None
    identity, flags, count = struct.unpack(">HHH", packet[:6])
    labels: list[str] = []
    at = 12
    while at < len(packet) and 0 < packet[at] < 64:
        labels.append(packet[at + 1 : at + 1 + packet[at]].decode("latin-1"))
        at += 1 + packet[at]
    if flags & 0x8000 or count < 1 or not labels or at + 5 > len(packet) or packet[at] != 0:
        return None
    (kind,) = struct.unpack(">H", packet[at + 1 : at + 3])
    return Question(identity, flags, ".".join(labels), kind, packet[12 : at + 5])


def answer(question: Question, address_of: Callable[[int], str | None] | None) -> bytes:
    """Return the answer: the address that `address_of` has for the record type, none, or `refused` for a foreign name."""
    if address_of is None:
        return _header(question, 0, _REFUSED) + question.raw
    text = address_of(question.kind)
    if text is None:
        return _header(question, 0, 0) + question.raw
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    data = socket.inet_pton(family, text)
    record = struct.pack(">HHHIH", 0xC00C, question.kind, 1, 0, len(data)) + data
    return _header(question, 1, 0) + question.raw + record


def _header(question: Question, answers: int, code: int) -> bytes:
    recursion = 0x0080 | (question.flags & 0x0100)
    return struct.pack(">HHHHHH", question.identity, _ANSWER | recursion | code, 1, answers, 0, 0)
