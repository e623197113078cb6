"""SEC-01, SEC-03: no known secret leaves core in a message, whatever form it has there."""

import base64
import html
import json
import logging
import shlex
import traceback
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
import sandboxio
from hypothesis import given
from hypothesis import strategies as st
from sandboxio import ConfigurationError, ExecutionError, ProviderError, SandboxError, SandboxGone
from sandboxio.redaction import MASK, Redactor

from .stub import StubBackend, raising

PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSjAgEAAoIBAQ\n-----END PRIVATE KEY-----\n"

GIVEN = {"K": "s3cr3t-value"}
"""Named, so that tracebacks, which quote the source, do not show it."""

FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64, no padding": lambda value: base64.b64encode(value.encode()).decode().rstrip("="),
    "base64url": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    "hex": lambda value: value.encode().hex(),
    "HEX": lambda value: value.encode().hex().upper(),
    "url": lambda value: quote(value, safe=""),
    "url path": quote,
    "url form": quote_plus,
    "url component": lambda value: quote(value, safe="!'()*"),
    "url segment": lambda value: quote(value, safe="!$&'()*+,;=:@"),
    "url, RFC 3986 path": lambda value: quote(value, safe="!$&'()*+,;=:@/"),
    "url, whole": lambda value: quote(value, safe="!#$&'()*+,/:;=?@"),
    "url in url": lambda value: quote(quote(value, safe=""), safe=""),
    "HEX:": lambda value: value.encode().hex(":").upper(),
    "ascii": lambda value: ascii(value)[1:-1],
    "url, lower": lambda value: "".join(f"%{byte:02x}" for byte in value.encode()) if not value.isalnum() else value,
    "json": lambda value: json.dumps(value)[1:-1],
    "json, raw": lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
    "json in json": lambda value: json.dumps(json.dumps(value)[1:-1])[1:-1],
    "repr": lambda value: repr(value)[1:-1],
    "bytes repr": lambda value: repr(value.encode())[2:-1],
    "html": html.escape,
    "shell": shlex.quote,
}
EVERYWHERE = [form for form in FORMS if form != "url, lower"]

texts = st.text(st.characters(codec="utf-8", exclude_characters="*\0"), min_size=4, max_size=60)
around = st.text(st.characters(codec="utf-8", exclude_characters="*"), max_size=20)


@given(texts, st.sampled_from(EVERYWHERE), around, around)
def test_no_form_of_a_secret_survives(secret: str, form: str, before: str, after: str) -> None:
    shown = FORMS[form](secret)
    masked = Redactor([secret]).text(f"{before}{shown}{after}")
    outside = before + MASK + after
    assert shown not in masked or shown in outside
    assert secret not in masked or secret in outside


@given(
    st.binary(max_size=7),
    st.text(st.characters(codec="ascii", exclude_characters="*"), min_size=12, max_size=40),
    st.binary(max_size=7),
)
def test_a_secret_inside_something_encoded_is_masked(before: bytes, secret: str, after: bytes) -> None:
    """Such as ``user:password`` in a basic authorization header."""
    whole = base64.b64encode(before + secret.encode() + after).decode()
    masked = Redactor([secret]).text(whole)
    assert MASK in masked
    assert len(masked) < len(whole)


@given(st.lists(texts, min_size=2, max_size=4), st.data())
def test_overlapping_secrets_leave_no_tail(secrets: list[str], data: st.DataObject) -> None:
    first = secrets[0]
    cut = data.draw(st.integers(1, len(first) - 1))
    second = first[cut:] + secrets[1]
    shown = first + secrets[1]
    masked = Redactor([first, second]).text(f"<{shown}>")
    assert masked == f"<{MASK}>"


def test_of_two_secrets_with_one_beginning_no_tail_is_left() -> None:
    """SEC-03 case 1."""
    masked = Redactor(["abc123", "abc123456"]).text("the key abc123456 is wrong, abc123 too")
    assert masked == f"the key {MASK} is wrong, {MASK} too"


@pytest.mark.parametrize("text", ["{0}", "a{0}", "got '{0}...' from", "{0}… cut", "{0}[...] cut", '"{0}..."'])
def test_a_secret_cut_short_is_masked_too(text: str) -> None:
    masked = Redactor(["tok_abcdefghijklmnop"]).text(text.format("tok_abcdefgh"))
    assert "tok_abc" not in masked


def test_what_only_begins_alike_is_left_alone() -> None:
    text = "https://example.com/path is unreachable"
    assert Redactor(["https://user:pw@example.com"]).text(text) == text


def test_a_key_of_several_lines_is_masked_escaped_and_line_by_line() -> None:
    """SEC-03 case 4."""
    redactor = Redactor([PEM])
    for shown in (PEM, repr(PEM), json.dumps(PEM), "".join(f"  | {line}\n" for line in PEM.splitlines())):
        masked = redactor.text(shown)
        assert "MIIEvQ" not in masked
        assert "BAQEFA" not in masked


@pytest.mark.parametrize("value", ["", "x", "abc"])
def test_a_value_too_short_to_be_one_shreds_no_text(value: str) -> None:
    assert Redactor([value]).text("an excellent abc text") == "an excellent abc text"


def test_a_redactor_shows_no_secret() -> None:
    assert "s3cr3t" not in repr(Redactor(["s3cr3t-value"]))


class Request:
    def __init__(self, headers: object) -> None:
        self.headers = headers


class NativeError(Exception):
    """What a provider's SDK raises."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def with_attribute(value: object) -> NativeError:
    error = NativeError("refused")
    error.request = value  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    return error


def with_note() -> NativeError:
    error = NativeError("refused")
    error.add_note("sent s3cr3t-value")
    return error


def with_cause() -> NativeError:
    error = NativeError("refused")
    error.__cause__ = ValueError("sent s3cr3t-value")
    return error


@pytest.mark.parametrize(
    "error",
    [
        NativeError("bad s3cr3t-value"),
        NativeError(b"bad s3cr3t-value"),
        NativeError({"key": ["s3cr3t-value"]}),
        with_note(),
        with_cause(),
        with_attribute("s3cr3t-value"),
        with_attribute(b"s3cr3t-value"),
        with_attribute(Request({"Authorization": "Bearer s3cr3t-value"})),
        with_attribute(Request([Request({b"k": b"s3cr3t-value"})])),
        with_attribute(ValueError("s3cr3t-value")),
    ],
    ids=range(10),
)
def test_a_native_exception_that_holds_a_secret_anywhere_is_no_cause(error: Exception) -> None:
    """ERR-01."""
    cause = Redactor(["s3cr3t-value"]).cause(error)
    assert isinstance(cause, ProviderError)
    assert "s3cr3t" not in str(cause)
    assert "NativeError" in str(cause)


def test_a_native_exception_without_a_secret_stays_the_cause() -> None:
    error = with_attribute(Request({"Accept": "text/plain"}))
    error.again = error  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    assert Redactor(["s3cr3t-value"]).cause(error) is error
    assert Redactor([]).cause(NativeError("s3cr3t-value")).args == ("s3cr3t-value",)


def test_an_exception_that_cannot_be_looked_at_is_no_cause() -> None:
    cause = Redactor(["s3cr3t-value"]).cause(with_attribute(Unprintable()))
    assert isinstance(cause, (ProviderError, NativeError))
    assert isinstance(Redactor(["s3cr3t-value"]).cause(Unprintable("s3cr3t-value")), ProviderError)


def test_message_hint_reason_and_notes_are_masked_in_place() -> None:
    error = SandboxGone("m s3cr3t-value", hint="h s3cr3t-value", reason="r s3cr3t-value")
    error.add_note("n s3cr3t-value")
    masked = Redactor(["s3cr3t-value"]).error(error)
    assert masked is error
    assert "s3cr3t" not in f"{error}{error!r}{error.args}{error.hint}{error.reason}{error.__notes__}"


@pytest.mark.anyio
@pytest.mark.parametrize("call", ["probe", "prepare", "provision", "observe", "open", "start", "receive", "wait"])
@pytest.mark.parametrize("known", [False, True])
async def test_no_error_of_any_call_shows_a_secret_in_its_traceback(
    stub: StubBackend,
    target: str,
    call: str,
    known: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SEC-01: the caller's secrets and the provider's own credentials."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("STUB_API_KEY", "pr0vider-key")
    shown = f"bad s3cr3t-value, {base64.b64encode(b's3cr3t-value').decode()} and pr0vider-key"
    error = NativeError(shown)
    error.add_note(shown)
    if known:
        stub.errors[NativeError] = lambda native: ExecutionError(f"refused: {native}", hint=str(native))
    stub.gates.at(call, "before", raising(error))
    with pytest.raises(SandboxError) as caught:
        async with sandboxio.create(target, secrets=GIVEN) as sandbox:
            await sandbox.run(["true"])
    text = "".join(traceback.format_exception(caught.value)) + caplog.text
    seen: BaseException | None = caught.value
    while seen is not None:
        text += f"{seen}{seen!r}{seen.args}"
        seen = seen.__context__
    for secret in ("s3cr3t", "czNjcjN0", "pr0vider"):
        assert secret not in text
    assert MASK in text


@pytest.mark.anyio
async def test_plans_and_specifications_show_no_secret(target: str) -> None:
    plan = await sandboxio.plan(target, secrets={"K": "s3cr3t-value"}, env={"A": "plain-value"})
    assert "s3cr3t" not in repr(plan) + str(plan) + repr(plan.spec)


@pytest.mark.anyio
async def test_a_secret_that_the_provider_would_show_is_refused(stub: StubBackend, target: str) -> None:
    """SEC-04."""
    cases: list[dict[str, Any]] = [{"metadata": {"k": "s3cr3t-value"}}, {"template": "img:s3cr3t-value"}]
    for arguments in cases:
        with pytest.raises(ConfigurationError, match="secret 'K'"):
            await sandboxio.create(target, secrets={"K": "s3cr3t-value"}, **arguments)
    assert stub.calls == []
