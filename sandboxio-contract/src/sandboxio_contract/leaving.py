"""What leaves core while a row goes on: log records, warnings, audit records, spans, errors and all they are chained to."""

import base64
import html
import importlib.util
import json
import logging
import re
import tempfile
import traceback
import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sandboxio import AuditConfig, FileSink, LoggingSink, QueueSink, otel

CUT = 10
"""Characters of a secret that must not be left over where a text was cut."""
ENCODED = 16
"""The same of its base64 and base32."""


class Leaving:
    """Everything that left, by where it left."""

    def __init__(self, folder: Path) -> None:
        self.texts: dict[str, list[str]] = {}
        self.queue = QueueSink()
        self._file = folder / "audit.jsonl"
        self._log = _Log(self)
        self.spans = _Spans(self)

    @property
    def audit(self) -> AuditConfig:
        """Sinks of every kind, and with the code that is run."""
        sinks = (self.queue, FileSink(self._file), LoggingSink(logging.getLogger("sandboxio.audit")))
        return AuditConfig(sinks=sinks, capture_code=True)

    def add(self, source: str, *texts: object) -> None:
        """Note what was shown to whoever called."""
        self.texts.setdefault(source, []).extend(str(text) for text in texts)

    def error(self, error: BaseException) -> None:
        """Note all that a log, a crash report or a debugger shows of an error."""
        self.add("errors", *_everything_of(error, set()))

    def holding(self, forms: list[str]) -> dict[str, bool]:
        """Return, by source, whether one of the forms left there."""
        return {source: any(form in "\n".join(texts) for form in forms) for source, texts in self.texts.items()}

    @contextmanager
    def watching(self) -> Generator[None]:
        """Look at logs of every level, warnings and spans for the block, then at what the sinks took."""
        root, named = logging.getLogger(), logging.getLogger("sandboxio")
        levels = root.level, named.level
        with ExitStack() as stack:
            caught = stack.enter_context(warnings.catch_warnings(record=True))
            warnings.simplefilter("always")
            if importlib.util.find_spec("opentelemetry") is not None:
                stack.enter_context(otel.begun_with(self.spans))
            root.addHandler(self._log)
            root.setLevel(logging.DEBUG)
            named.setLevel(logging.DEBUG)
            try:
                yield
            finally:
                root.removeHandler(self._log)
                root.setLevel(levels[0])
                named.setLevel(levels[1])
        self.add("warnings", *(one.message for one in caught))
        self.add("audit queue", *(repr(event) + event.model_dump_json() for event in self.queue.drain()))
        self.add("audit file", self._file.read_text(encoding="utf-8") if self._file.exists() else "")


@contextmanager
def watched() -> Generator[Leaving]:
    """Have a place for what leaves; `Leaving.watching` fills it."""
    with tempfile.TemporaryDirectory(prefix="sandboxio-contract-") as folder:
        yield Leaving(Path(folder))


def shown_forms(word: str) -> list[str]:
    """Return a secret as it is, escaped, URL-quoted, in hex, in base64 and base32 wherever it stands in it, and cut."""
    raw = word.encode()
    plain, page = json.dumps(word, ensure_ascii=False)[1:-1], html.escape(word)
    escaped = [repr(word)[1:-1], json.dumps(word)[1:-1], quote(word), raw.hex(), raw.hex().upper(), re.escape(word)]
    escaped += ["".join(f"\\u{ord(one):04{case}}" if one in "<>&'" else one for one in plain) for case in "xX"]
    escaped += [page, page.replace("&#x27;", "&#39;"), word.upper(), word.lower()]
    wide = [word.encode("utf-16-le"), word.encode("utf-16-be")]
    inner = [base64.b64encode(b"\0" * shift + data).decode()[4:-4] for shift in range(3) for data in (raw, *wide)]
    inner += [base64.b32encode(b"\0" * shift + raw).decode()[8:-8] for shift in range(5)]
    # Either end of what is encoded: a line break may stand between them.
    encoded = [*(one[:ENCODED] for one in inner), *(one[-ENCODED:] for one in inner)]
    parts = [word[:CUT], word[-CUT:], word[5:-5]]
    return [word, *(form for form in (*escaped, *encoded, *parts) if len(form) >= CUT)]


def spoken_forms(word: str) -> dict[str, str]:
    """Return, by name, how a program may show a secret that it was given."""
    raw, plain = word.encode(), json.dumps(word, ensure_ascii=False)[1:-1]
    return {
        "base64": base64.b64encode(b"me:" + raw).decode(),
        "base64, lines": base64.encodebytes(b"-" * 48 + raw).decode(),
        "base64, UTF-16": base64.b64encode(word.encode("utf-16-le")).decode(),
        "base64, UTF-16 BE": base64.b64encode(word.encode("utf-16-be")).decode(),
        "base32": base64.b32encode(raw + b"\n").decode(),
        "hex": raw.hex(),
        "HEX": raw.hex().upper(),
        "regular expression": re.escape(word),
        "JSON in a page": "".join(f"\\u{ord(one):04x}" if one in "<>&'" else one for one in plain),
        "HTML": html.escape(word),
        "HTML of templates": html.escape(word).replace("&#x27;", "&#39;"),
        "upper case": word.upper(),
        "beginning": f"{word[:-5]} [truncated]",
        "end": f"…{word[5:]}",
        "middle": f"[…{word[3:-4]}…]",
    }


def _everything_of(error: BaseException | None, seen: set[int]) -> Iterator[str]:
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield from traceback.format_exception(error)
    yield from (str(error), repr(error), repr(error.args), *map(str, getattr(error, "__notes__", [])))
    # What a command printed is its caller's, and bytes.
    yield from (f"{name}={value!r}" for name, value in vars(error).items() if not name.endswith("_bytes"))
    yield from _everything_of(error.__cause__, seen)
    yield from _everything_of(error.__context__, seen)


class _Log(logging.Handler):
    def __init__(self, leaving: Leaving) -> None:
        super().__init__(logging.NOTSET)
        self._leaving = leaving

    def emit(self, record: logging.LogRecord) -> None:
        self._leaving.add("log", self.format(record), repr(record.args))


class _Spans:
    """What core takes for OpenTelemetry's module, tracer and span: it keeps what is set."""

    def __init__(self, leaving: Leaving) -> None:
        self._leaving = leaving

    def get_tracer(self, *_: object, **__: object) -> "_Spans":
        return self

    def start_span(self, name: str, attributes: Mapping[str, object]) -> "_Spans":
        self._leaving.add("spans", name, dict(attributes))
        return self

    def use_span(self, *_: object, **__: object) -> "nullcontext[None]":
        return nullcontext()

    def is_recording(self) -> bool:
        return True

    def set_attribute(self, name: str, value: object) -> None:
        self._leaving.add("spans", f"{name}={value!r}")

    def set_status(self, status: Any) -> None:
        self._leaving.add("spans", status.status_code, status.description)

    def end(self) -> None:
        pass
