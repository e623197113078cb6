"""SEC-01, SEC-03: no known secret leaves core in a message, whatever form it has there."""

import asyncio
import base64
import html
import json
import logging
import re
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
from sandboxio.redacted_output import RedactedStream
from sandboxio.redaction import MASK, Redactor

from .stub import StubBackend, raising

PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSjAgEAAoIBAQ\n-----END PRIVATE KEY-----\n"

GIVEN = {"K": "s3cr3t-value"}
"""Named, so that tracebacks, which quote the source, do not show it."""


def for_a_page(text: str, case: str) -> str:
    return "".join(f"\\u{ord(sign):04{case}}" if sign in "<>&'" else sign for sign in text)


def in_octal(data: bytes) -> str:
    """As git shows a path, and bash a word (``$'…'``)."""
    return "".join(chr(byte) if " " <= chr(byte) <= "~" else f"\\{byte:03o}" for byte in data.replace(b"\\", b"\\\\"))


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
    "html of templates": lambda value: html.escape(value).replace("&#x27;", "&#39;"),
    "html of Go": lambda value: html.escape(value).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
    "repr of a regular expression": lambda value: repr(re.escape(value) + "'\"")[1:-4],
    "repr of json": lambda value: repr(json.dumps(value)[1:-1] + "'\"")[1:-4],
    "html text": lambda value: html.escape(value, quote=False),
    "html twice": lambda value: html.escape(html.escape(value)),
    "regular expression": re.escape,
    "json of Go": lambda value: for_a_page(json.dumps(value, ensure_ascii=False)[1:-1], "x"),
    "json of PHP": lambda value: for_a_page(json.dumps(value)[1:-1], "X"),
    "base64, lines": lambda value: base64.encodebytes(value.encode()).decode().rstrip("\n"),
    "base64, UTF-16": lambda value: base64.b64encode(value.encode("utf-16-le")).decode(),
    "base64, UTF-16 BE": lambda value: base64.b64encode(value.encode("utf-16-be")).decode(),
    "base32": lambda value: base64.b32encode(value.encode()).decode(),
    "base32, lower": lambda value: base64.b32encode(value.encode()).decode().lower(),
    "upper case": lambda value: value.upper() if len(value) >= 8 else value,
    "shell": shlex.quote,
    "shell, traced": lambda value: value.replace("'", "'\\''"),
    "SQL and YAML": lambda value: value.replace("'", "''"),
    "CSV": lambda value: value.replace('"', '""'),
    "git and bash": lambda value: in_octal(value.encode()),
    "Latin-1": lambda value: value.encode().decode("latin-1"),
    "ASCII": lambda value: value.encode().decode("ascii", "surrogateescape"),
    "ASCII, escaped": lambda value: value.encode().decode("ascii", "backslashreplace"),
    "stderr": lambda value: value.encode("ascii", "backslashreplace").decode(),
    "JSON in base64": lambda value: base64.b64encode(json.dumps(value)[1:-1].encode()).decode(),
}
EVERYWHERE = [form for form in FORMS if form != "url, lower"]

texts = st.text(st.characters(codec="utf-8", exclude_characters="*\0"), min_size=4, max_size=60)
around = st.text(st.characters(codec="utf-8", exclude_characters="*"), max_size=20)


ESCAPES: list[Callable[[str], str]] = [
    lambda sign: f"&#{ord(sign)};",
    lambda sign: f"&#x{ord(sign):X};",
    lambda sign: html.escape(sign) if sign in "<>&\"'" else f"&#{ord(sign)};",
    lambda sign: "".join(f"\\u{unit:04x}" for unit in units(sign)),
    lambda sign: "".join(f"\\u{unit:04X}" for unit in units(sign)),
    lambda sign: "".join(f"\\\\u{unit:04x}" for unit in units(sign)),
    lambda sign: re.escape(sign),
    lambda sign: f"\\x{ord(sign):02x}" if " " <= sign <= "~" else sign,
    lambda sign: quote(sign, safe="").lower() if sign in " !#$/:@+<>" else sign,
]


def units(sign: str) -> list[int]:
    data = sign.encode("utf-16-be")
    return [int.from_bytes(data[place : place + 2], "big") for place in range(0, len(data), 2)]


@given(st.text(st.characters(codec="utf-8", exclude_characters="*\0|"), min_size=8, max_size=30), st.data())
def test_whichever_characters_a_writer_escapes(secret: str, data: st.DataObject) -> None:
    """Each in its own way: what stands in the secret itself may look escaped, too."""
    writers: list[Callable[[str], str]] = [str, *ESCAPES]
    chosen = data.draw(st.lists(st.sampled_from(writers), min_size=len(secret), max_size=len(secret)))
    escaped = [escape(sign) for sign, escape in zip(secret, chosen, strict=True)]
    # What would be taken for the beginning of an escape is escaped by every writer.
    shown = "".join(f"&#{ord(text)};" if text in "&%\\" else text for text in escaped)
    assert Redactor([secret]).text(f"|{shown}|") == f"|{MASK}|"


def test_the_end_of_a_text_is_read_from_where_an_escaped_secret_may_begin() -> None:
    secret = "s3cr3t-" + "x9" * 40
    shown = "".join(f"&#x{ord(sign):06X};" for sign in secret)
    assert Redactor([secret]).end(f"a{shown}b", 9) == f"{MASK}b"


def test_what_stands_escaped_in_a_secret_and_what_was_escaped_in_the_text() -> None:
    masked = Redactor(["db://me:p%40ss+1@host"]).text("{'url': 'db://me:p%40ss\\u002B1@host'}")
    assert masked == "{'url': '***'}"


@given(st.binary(max_size=90), st.binary(min_size=18, max_size=120), st.sampled_from([60, 64, 70, 76]), st.data())
def test_a_secret_in_a_wrapped_base64_text_is_masked(
    before: bytes, raw: bytes, width: int, data: st.DataObject
) -> None:
    secret, ending = raw.hex(), data.draw(st.sampled_from(["\n", "\r\n", "\\n", "\\r\\n", "\n  "]))
    text = base64.b64encode(before + secret.encode() + b"0123456789").decode()
    wrapped = ending.join(text[start : start + width] for start in range(0, len(text), width))
    masked = Redactor([secret]).text(wrapped)
    rest = re.sub(r"\\r|\\n|\s", "", masked)
    assert MASK in rest
    assert len(rest) <= len(text) - len(secret) * 4 // 3 + 8


fragments = st.integers(0, 40).flatmap(lambda start: st.tuples(st.just(start), st.integers(start + 12, 52)))


@given(
    st.sampled_from(
        ["{0}", "[…{0}…]", "...{0}...", "a …{0} [truncated]", "(truncated) {0}", '…{0}" (truncated)', "… {0}"]
    ),
    st.text(st.sampled_from("abcdefghijklmnopqrstuvwxyz0123456789"), min_size=60, max_size=60),
    fragments,
)
def test_a_part_of_a_secret_between_two_cuts_is_masked(text: str, secret: str, part: tuple[int, int]) -> None:
    piece = secret[slice(*part)]
    for form in (piece, piece.encode().hex()):
        masked = Redactor([secret]).text(text.format(form))
        assert MASK in masked
        assert form[:8] not in masked
        assert form[-8:] not in masked


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


@pytest.mark.parametrize(
    "text",
    [
        "{0}",
        "a{0}",
        "got '{0}...' from",
        "{0}… cut",
        "{0}[...] cut",
        '"{0}..."',
        "{0} [truncated]",
        "{0}\n(truncated)",
        "{0} <12 bytes omitted>",
    ],
)
def test_a_secret_cut_short_is_masked_too(text: str) -> None:
    masked = Redactor(["tok_abcdefghijklmnop"]).text(text.format("tok_abcdefgh"))
    assert "tok_abc" not in masked


@pytest.mark.parametrize("text", ["{0}", "...{0} is wrong", "…'{0}'", "[truncated] {0}.", "[12 bytes omitted] {0}"])
def test_the_end_of_a_secret_after_a_cut_is_masked_too(text: str) -> None:
    assert "mnop" not in Redactor(["tok_abcdefghijklmnop"]).text(text.format("efghijklmnop"))


@pytest.mark.parametrize("text", ["production", "the host production", "host production…", "production is a stage"])
def test_a_word_that_a_secret_contains_is_left_alone(text: str) -> None:
    assert Redactor(["db://me:hunter2@host/production"]).text(text) == text


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


@pytest.mark.parametrize("value", ["tok-abcdefgh\n", "\r\n  tok-abcdefgh\t", "\ntok-abcdefgh\n\n"])
def test_a_secret_from_a_file_is_masked_as_programs_use_it(value: str) -> None:
    """Without the line break that ends the file."""
    redactor = Redactor([value])
    assert redactor.text("the key tok-abcdefgh is wrong") == f"the key {MASK} is wrong"
    assert MASK in redactor.text(base64.b64encode(b"me:tok-abcdefgh").decode())


def test_a_line_of_a_secret_that_is_no_content_shreds_no_text() -> None:
    text = "name:          x\n----------\n==========\n"
    assert Redactor(["me: abcdefgh\n          \n----------\nkey: ijklmnop\n==========\n"]).text(text) == text


@pytest.mark.parametrize("value", ["tok-\\ud800-abcdef", "tok-&#55296;-abcdef", "tok-\ud800-abcdef"])
def test_half_a_character_in_a_secret_is_none_of_our_errors(value: str) -> None:
    redactor = Redactor([value])
    assert redactor.text(f"a {value} b") == f"a {MASK} b"
    stream = RedactedStream(redactor)
    shown = stream.feed(f"a {value} b".encode("utf-8", "surrogatepass")) + stream.finish()
    assert shown == f"a {MASK} b".encode()


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


def with_context(error: BaseException) -> BaseException:
    error.__context__ = NativeError("sent s3cr3t-value")
    return error


@pytest.mark.parametrize(
    "error",
    [
        with_context(KeyboardInterrupt()),
        with_context(asyncio.CancelledError()),
        KeyboardInterrupt("sent s3cr3t-value"),
        SystemExit("sent s3cr3t-value"),
        BaseExceptionGroup("both", [KeyboardInterrupt(), NativeError("sent s3cr3t-value")]),
        BaseExceptionGroup("both", [with_context(KeyboardInterrupt())]),
        BaseExceptionGroup("sent s3cr3t-value", [KeyboardInterrupt(), ExecutionError("sent s3cr3t-value")]),
    ],
    ids=range(7),
)
def test_an_interruption_leaves_as_what_it_is_and_shows_no_secret(error: BaseException) -> None:
    """SEC-01: Python prints what a Ctrl-C came upon, too."""
    redactor = Redactor(GIVEN.values())
    with pytest.raises(type(error)) as caught, redactor.border():
        raise error
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))
    assert "s3cr3t" not in f"{caught.value!r}{getattr(caught.value, 'code', None)}"
    assert caught.value is error or isinstance(error, BaseExceptionGroup)


class Halfway(SandboxError):
    def __init__(self, text: str) -> None:  # pyright: ignore[reportMissingSuperCall]
        """As an adapter may write it."""


@pytest.mark.parametrize("notes", [("n s3cr3t-value",), "n s3cr3t-value", [Unprintable()], [b"s3cr3t-value"], 7])
def test_an_error_that_others_filled_strangely_is_masked_all_the_same(notes: object) -> None:
    redactor = Redactor(GIVEN.values())
    for error in (ExecutionError("m s3cr3t-value"), Halfway("m s3cr3t-value")):
        error.__notes__ = notes  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(type(error)) as caught, redactor.border():
            raise error
        assert "s3cr3t" not in "".join(traceback.format_exception(caught.value)) + repr(caught.value)


def test_who_can_not_say_the_secrets_any_more_hides_none_of_those_before() -> None:
    answers: list[object] = [["s3cr3t-value"], RuntimeError("closed, s3cr3t-value"), [None], None]

    def ask() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    redactor = Redactor(["an0ther-one"])
    redactor.ask(ask)
    for _ in range(4):
        assert redactor.text("s3cr3t-value, an0ther-one") == f"{MASK}, {MASK}"
    assert answers == []


def test_what_can_not_be_shown_is_no_error() -> None:
    assert Redactor(["s3cr3t-value"]).plain({"k": [Unprintable()]}) == {"k": ["(its text can't be shown)"]}


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
