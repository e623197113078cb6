"""Keep known secrets out of everything that leaves core: one place, upstream of every message."""

import re
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from operator import is_
from types import FunctionType, MethodType, ModuleType, TracebackType
from typing import NoReturn, cast

from sandboxio.errors import ProviderError, SandboxError
from sandboxio.escaping import WIDEST, layers
from sandboxio.secret_cuts import Forms
from sandboxio.secret_forms import SHORTEST, WORD, forms_of
from sandboxio.secret_places import found, found_whole, merged, unfinished

MASK = "***"
_DEPTH, _NODES = 5, 2000
"""How far an exception's attributes are searched; what has more objects is taken to hold a secret."""
_PLAIN_DEPTH, _PLAIN_NODES = 50, 10_000_000
_WORD = re.compile(r"[A-Za-z_-]{1,32}[0-9]{0,2}\Z")

Source = Callable[[], Iterable[str]]


class Redactor:
    """Replaces secrets in text: as they are, encoded and escaped as is usual, and cut where a text was cut.

    It may learn more while it is in use: credentials are known once an adapter is loaded, a sandbox's own tokens once
    the provider made it.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._values: set[str] = set()
        self._sources: list[Source] = []
        self._forms = Forms()
        self.learn(secrets)

    def __repr__(self) -> str:
        return f"<Redactor of {len(self._forms)} forms>"

    def learn(self, secrets: Iterable[str]) -> None:
        """Mask these, too."""
        # What was read from a file ends with a line break, which whoever uses it takes off.
        texts = (text for value in secrets for text in (value, value.strip()))
        new = {text for text in texts if len(text) >= SHORTEST} - self._values
        if new:
            self._values |= new
            forms = {form for value in new for form in forms_of(value) if len(form) >= SHORTEST}
            # A text is read for escapes that stand in the secret itself, too: "p%40ss" in a URL, and "&" as "\\u0026" there.
            read = {layer.text for form in forms for layer in layers(form) if len(layer.text) >= WORD}
            self._forms = Forms(sorted(forms | read | set(self._forms)))

    def ask(self, source: Source) -> None:
        """Mask whatever ``source`` returns at the moment when something is masked, and what it returned before."""
        self._sources.append(source)

    @property
    def forms(self) -> Forms:
        """Every form of every secret that is known at this moment."""
        for source in self._sources:
            with suppress(Exception):  # a provider's own code: what it said before is masked all the same
                self.learn(source())
        return self._forms

    def text(self, text: str) -> str:
        """Return ``text`` with every secret masked."""
        return _masked(text, merged(found(self.forms, text)), 0)

    def end(self, text: str, size: int, *, cut_off: bool = False) -> str:
        """Return the last ``size`` characters of ``text``, masked before they are cut out.

        :param cut_off: whether more followed once: then the beginning of a secret, however short, is masked at the end.
        """
        forms = self.forms
        first = max(0, len(text) - size)
        text = text[max(0, first - WIDEST * max(map(len, forms), default=0)) :]
        first = max(0, len(text) - size)
        spans = found(forms, text)
        if cut_off and (start := unfinished(forms, text)) < len(text):
            spans.append((start, len(text)))
        return _masked(text, [span for span in merged(spans) if span[1] > first], first)

    def plain(self, value: object) -> object:
        """Return plain data (text, bytes, mappings, sequences, sets, numbers) with every secret masked, keys included.

        This is what a record, an audit event or a span goes through before it leaves.
        """
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, (bytes, bytearray)):
            return self.text(bytes(value).decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        if isinstance(value, Mapping):
            return {self.plain(key): self.plain(item) for key, item in value.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        if isinstance(value, (list, tuple, set, frozenset)):
            masked = (self.plain(item) for item in value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            return tuple(masked) if isinstance(value, tuple) else list(masked)
        return value if value is None or isinstance(value, (bool, int, float)) else self.text(safe_str(value))

    def holds_secret(self, text: str) -> bool:
        """Whether a secret stands in ``text``, in any form."""
        return bool(found(self.forms, text))

    def holds_whole(self, value: object) -> bool:
        """Whether plain data holds a whole secret, in any form; what only begins like one is none."""
        forms = self.forms
        return any(found_whole(forms, text) for text in _texts(value, depth=_PLAIN_DEPTH, nodes=_PLAIN_NODES))

    def border(self) -> AbstractContextManager[None]:
        """Around a public call: no error that leaves it, nor what it is chained to, holds a secret."""
        return _Border(self)

    def leaving(self, error: BaseException) -> BaseException:
        """Return an error as it may leave: ours masked in place, another's as `cause` says, an interruption as it is.

        What an interruption came upon is masked, and what a group holds beside it: Python prints both.
        """
        if isinstance(error, SandboxError):
            return self.error(error)
        if isinstance(error, Exception):
            return self.cause(error)
        self._chain(error, {id(error): error})
        if not isinstance(error, BaseExceptionGroup):
            return self._own_texts(error)
        group = cast("BaseExceptionGroup[BaseException]", error)
        text, kept = self.text(group.message), tuple(map(self.leaving, group.exceptions))
        is_clean = text == group.message and all(map(is_, kept, group.exceptions))
        return group if is_clean else BaseExceptionGroup(text, kept)

    def error(self, error: SandboxError) -> SandboxError:
        """Mask the secrets in an error's texts and notes, in place, and in what it is chained to."""
        self._clean(error, {id(error): error})
        return error

    def cause(self, error: BaseException) -> BaseException:
        """Return ``error``, or where it holds a secret anywhere a redacted `ProviderError` in its place."""
        if not self.forms:
            return error
        try:
            shown = "".join(traceback.format_exception(error))
            held = self.holds_secret(shown) or any(self.holds_secret(text) for text in _texts(error))
        except Exception:  # noqa: BLE001 - what can't be looked through may hold a secret
            held = True
        return ProviderError(f"{type(error).__name__}: {self.text(safe_str(error))}") if held else error

    def _own_texts(self, error: BaseException) -> BaseException:
        texts = tuple(self.text(text) if isinstance(text, str) else text for text in error.args)
        if texts != error.args:
            error.args = texts
        if isinstance(error, SystemExit) and isinstance(error.code, str):  # Python prints it at the program's end
            error.code = self.text(error.code)
        return error

    def _clean(self, error: SandboxError, seen: dict[int, BaseException]) -> None:
        for name, value in vars(error).items():
            if (
                isinstance(value, str) and name != "why"
            ):  # a message, hint or reason; what a command printed is bytes, and its caller's
                setattr(error, name, self.text(value))
        error.args = (error.message,) if "message" in vars(error) else tuple(map(self.plain, error.args))
        self._chain(error, seen)

    def _chain(self, error: BaseException, seen: dict[int, BaseException]) -> None:
        """Mask an error's notes and what it is chained to, in place."""
        notes: object = getattr(error, "__notes__", [])
        told = cast("Iterable[object]", notes) if isinstance(notes, (list, tuple)) else [notes]
        if told:
            error.__notes__ = [self.text(safe_str(note)) for note in told]
        shown = error.__suppress_context__
        error.__context__ = self._link(error.__context__, seen)
        error.__cause__ = self._link(error.__cause__, seen)
        error.__suppress_context__ = shown  # assigning a cause sets it

    def _link(self, error: BaseException | None, seen: dict[int, BaseException]) -> BaseException | None:
        """Return what may stand in the place of ``error`` in a chain; most are there twice, as cause and as context."""
        if error is None:
            return None
        if id(error) not in seen:
            seen[id(error)] = error if isinstance(error, SandboxError) else self.cause(error)
            if isinstance(error, SandboxError):
                self._clean(error, seen)
        return seen[id(error)]


def _masked(text: str, spans: list[tuple[int, int]], end: int) -> str:
    """Return ``text`` from ``end`` on with the spans masked."""
    parts: list[str] = []
    for start, stop in spans:
        parts += [text[end:start], MASK]
        end = stop
    return "".join([*parts, text[end:]])


class _Border:
    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and (masked := self._redactor.leaving(error)) is not error:
            raise_from(masked, None)


def raise_from(error: BaseException, cause: BaseException | None) -> NoReturn:
    """Raise ``error`` from ``cause``, without the context that Python adds: it may be what `cause` replaces."""
    try:
        raise error from cause
    finally:
        error.__context__ = cause


def safe_str(error: object) -> str:
    """Return the text of an exception, or of what else others made, also where its own `__str__` fails."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an error about an error would hide both
        return "(its text can't be shown)"


def shown_name(name: object) -> str:
    """Return a name that a caller passed as a message may show it: a word as it is, nothing that may be a token.

    A key and its value are easily swapped, and a message is written before anybody knows what is secret.
    """
    return repr(name) if isinstance(name, str) and _WORD.match(name) else "(a name that is not shown)"


def shown_number(value: object) -> str:
    """Return a number that a caller passed as a message may show it; of anything else only the type."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f"(a {type(value).__name__})"
    # The digits of a huge integer are refused by Python itself.
    return repr(value) if isinstance(value, float) or abs(value) < 10**20 else "(a huge number)"


def _texts(root: object, *, depth: int = _DEPTH, nodes: int = _NODES) -> Iterator[str]:
    """Yield the texts in a value: its items and attributes, an exception's arguments and causes.

    :raises RuntimeError: there are more than can be looked at.
    """
    pending: deque[tuple[object, int]] = deque([(root, 0)])
    seen: dict[int, object] = {}
    while pending:
        value, level = pending.popleft()
        if id(value) in seen:
            continue
        if len(seen) >= nodes:
            raise RuntimeError("too many objects to look at")
        seen[id(value)] = value
        if isinstance(value, str):
            yield value
        elif isinstance(value, (bytes, bytearray)):
            yield value.decode("utf-8", "surrogateescape")
        elif level < depth:
            pending.extend((inner, level + 1) for inner in _inside(value))


def _inside(value: object) -> Iterator[object]:
    if isinstance(value, BaseException):
        yield from (value.args, value.__cause__, value.__context__)
    if isinstance(value, Mapping):
        items: list[tuple[object, object]] = list(value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        for item in items:
            yield from item
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    elif not isinstance(value, (type, ModuleType, FunctionType, MethodType)):
        yield from vars(value).values() if hasattr(value, "__dict__") else ()
        for name in getattr(type(value), "__slots__", ()):
            yield getattr(value, name, None)
