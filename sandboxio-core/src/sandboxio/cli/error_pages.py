"""The page of each error: what ``sandboxio errors CODE`` prints and ``docs/errors/`` holds."""

import inspect
import re
from collections.abc import Mapping

from sandboxio import errors
from sandboxio.errors import SandboxError, SandboxTimeout


def by_code() -> Mapping[str, type[SandboxError]]:
    """Map each code to the class that owns it."""
    classes = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, SandboxError)]
    owners = {cls.code: cls for cls in classes if "code" in vars(cls) and cls not in (SandboxError, SandboxTimeout)}
    return dict(sorted(owners.items()))


def page_of(error: type[SandboxError]) -> str:
    """Return an error's page as Markdown."""
    meaning = re.sub(r":param (\w+):", r"\n- `\1`:", inspect.cleandoc(error.__doc__ or ""))
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", meaning)]
    paragraphs = [part for part in paragraphs if part]
    body = "\n\n".join(part for part in paragraphs if not part.startswith("- "))
    fields = "\n".join(part for part in paragraphs if part.startswith("- "))
    kinds = ", ".join(f"`{base.__name__}`" for base in error.__mro__[1:] if issubclass(base, SandboxError))
    own = error.default_hint if error.default_hint != SandboxError.default_hint else ""
    fix = own or "see the message's own `Fix:` line, which names what to change"
    parts = [
        f"# {error.code} {error.__name__}",
        body,
        fields,
        f"**Fix**: {fix}.",
        f"An `except` for one of these catches it, too: {kinds}." if kinds else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
