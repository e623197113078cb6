"""SEC-01: with ``redact_output=True`` no secret stands in what a command prints, wherever its pieces end."""

import base64
from collections.abc import Callable
from itertools import pairwise

import pytest
import sandboxio
from hypothesis import given
from hypothesis import strategies as st
from sandboxio import ConfigurationError, ExecutionTimeout
from sandboxio.port import Chunk, Exit
from sandboxio.redacted_output import RedactedStream
from sandboxio.redaction import MASK, Redactor

from .stub import Program, StubBackend

SECRET = "s3cr3t-value"

FORMS: list[Callable[[str], str]] = [
    str,
    lambda value: base64.b64encode(value.encode()).decode(),
    lambda value: base64.b64encode(b"user:" + value.encode() + b"@").decode(),
    lambda value: value.encode().hex(),
    repr,
]


def in_pieces(redactor: Redactor, data: bytes, cuts: list[int]) -> bytes:
    stream = RedactedStream(redactor)
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    shown = [stream.feed(data[start:end]) for start, end in pairwise(places)]
    return b"".join([*shown, stream.finish()])


# Few letters, so that secrets overlap, contain and continue one another.
letters = st.text(st.sampled_from("abé"), min_size=4, max_size=9)


@given(
    st.lists(letters, min_size=1, max_size=3), st.text(st.sampled_from("abé "), max_size=60), st.lists(st.integers(0))
)
def test_what_is_shown_does_not_depend_on_where_the_pieces_end(secrets: list[str], text: str, cuts: list[int]) -> None:
    redactor, data = Redactor(secrets), text.encode()
    shown = in_pieces(redactor, data, cuts)
    assert shown == in_pieces(redactor, data, [])
    assert not any(secret.encode() in shown for secret in secrets)


@given(st.sampled_from(FORMS), st.binary(max_size=40), st.binary(max_size=40), st.lists(st.integers(0), max_size=9))
def test_each_form_is_found_in_any_pieces(
    form: Callable[[str], str], before: bytes, after: bytes, cuts: list[int]
) -> None:
    data = form(SECRET).encode()
    shown = in_pieces(Redactor([SECRET]), before + b"|" + data + b"|" + after, cuts)
    assert shown.startswith(before + b"|")
    assert shown.endswith(b"|" + after)
    assert data not in shown
    assert MASK.encode() in shown


@given(st.binary(max_size=200), st.lists(st.integers(0)))
def test_without_a_secret_nothing_is_changed(data: bytes, cuts: list[int]) -> None:
    assert in_pieces(Redactor([]), data, cuts) == data
    assert in_pieces(Redactor(["a secret that is not there"]), data, cuts) == data


@pytest.mark.parametrize("unit", [b"a", b"aaab", b"s3cr3t-valu"])
def test_memory_is_bounded_by_the_longest_form(unit: bytes) -> None:
    redactor = Redactor(["aaaa", "aaabaaab", SECRET])
    stream, longest = RedactedStream(redactor), max(map(len, redactor.forms))
    for _ in range(2000):
        stream.feed(unit)
        assert len(stream._held) < longest


def test_a_secret_that_was_only_begun_at_the_end_is_masked_where_that_can_be_told() -> None:
    assert in_pieces(Redactor([SECRET]), b"it is s3cr3t-va", []) == b"it is ***"
    assert in_pieces(Redactor([SECRET]), b"it is s", []) == b"it is s"


def printing(*pieces: bytes, hangs: bool = False) -> Callable[[object], Program]:
    chunks = tuple(Chunk("stderr" if number % 2 else "stdout", piece) for number, piece in enumerate(pieces))
    return lambda command: Program(chunks, Exit(0), hangs=hangs)


@pytest.mark.anyio
async def test_a_command_prints_its_secrets_unless_that_is_not_wanted(stub: StubBackend, target: str) -> None:
    # Both streams in turn: what one holds back is not mixed with the other.
    stub.programs["say"] = stub.programs["python3"] = printing(b"a s3cr", b"b s3c", b"3t-value c", b"r3t-value", b" s3")
    for redacted, stdout, stderr in (
        (False, b"a s3cr3t-value c s3", b"b s3cr3t-value"),
        (True, b"a *** c s3", b"b ***"),
    ):
        async with sandboxio.create(target, secrets={"K": SECRET}, redact_output=redacted) as sandbox:
            for result in (await sandbox.run(["say"]), await sandbox.run_code("1")):
                assert (result.stdout_bytes, result.stderr_bytes) == (stdout, stderr)
            async with sandbox.stream(["say"]) as process:
                chunks = [chunk async for chunk in process]
                assert await process.wait() == 0
            assert b"".join(chunk.data for chunk in chunks if chunk.stream == "stdout") == stdout
            assert b"".join(chunk.data for chunk in chunks if chunk.stream == "stderr") == stderr
            assert all(chunk.data for chunk in chunks)


@pytest.mark.anyio
async def test_partial_output_is_masked_too_and_output_is_bounded_after_it(stub: StubBackend, target: str) -> None:
    stub.programs["hang"] = printing(b"a s3cr3t-value s3cr3t-v", hangs=True)
    stub.programs["say"] = printing(b"s3cr3t-value12345")
    async with sandboxio.create(target, secrets={"K": SECRET}, redact_output=True) as sandbox:
        with pytest.raises(ExecutionTimeout) as caught:
            await sandbox.run(["hang"], timeout=0.2)
        assert caught.value.stdout_bytes == b"a *** "
        result = await sandbox.run(["say"], max_output=5)
        assert (result.stdout_bytes, result.stdout_truncated) == (b"***12", True)


@pytest.mark.anyio
async def test_files_are_never_altered(stub: StubBackend, target: str) -> None:
    stub.programs["sh"] = printing(b"s3cr3t-value")
    async with sandboxio.create(target, secrets={"K": SECRET}, redact_output=True) as sandbox:
        assert await sandbox.files.read("a") == b"s3cr3t-value"


@pytest.mark.anyio
async def test_redact_output_is_yes_or_no(target: str) -> None:
    with pytest.raises(ConfigurationError, match="redact_output= takes a bool"):
        await sandboxio.create(target, redact_output="yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
