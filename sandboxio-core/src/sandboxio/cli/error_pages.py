"""The page of each error: what ``sandboxio errors CODE`` prints and ``docs/errors/`` holds."""

import inspect
import re

from sandboxio.errors import SandboxError


def page_of(error: type[SandboxError]) -> str:
    """Return an error's page as Markdown."""
    meaning = re.sub(r":param (\w+):", r"\n- `\1`:", inspect.cleandoc(error.__doc__ or ""))
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", meaning)]
    paragraphs = [part for part in paragraphs if part]
    body = "\n\n".join(part for part in paragraphs if not part.startswith("- "))
    fields = "\n".join(part for part in paragraphs if part.startswith("- "))
    kinds = ", ".join(f"`{base.__name__}`" for base in error.__mro__[1:] if issubclass(base, SandboxError))
    fix = error.default_hint or "see the message's own `Fix:` line, which names what to change"
    parts = [
        f"# {error.code} {error.__name__}",
        body,
        fields,
        f"**Fix**: {fix}.",
        f"An `except` for one of these catches it, too: {kinds}." if kinds else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
