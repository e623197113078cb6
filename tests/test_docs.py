"""Every Python block of the documentation runs. CONTRIBUTING.md says how blocks are marked."""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from markdown_it import MarkdownIt

from engine import daemon

ROOT = Path(__file__).parents[1]
PAGES = [
    path
    for pattern in ("README.md", "docs/**/*.md", "sandboxio-*/README.md", "examples/*/README.md")
    for path in sorted(ROOT.glob(pattern))
]
TAGS = {"bubblewrap", "docker", "either", "network", "continued"}
MADE_BY = "docker" if daemon.answers() else "bubblewrap"
"""What makes the sandboxes of a block that is tagged `either`."""
GUIDE = "guide"
"""Blocks of this tag are files of a session that `test_adapter_template.py` follows."""


@dataclass(frozen=True)
class Block:
    """One fenced block: its tags are the words after `python` in the fence's first line."""

    page: str
    line: int
    tags: frozenset[str]
    source: str

    def run(self) -> None:
        """Execute it as a reader would in a fresh file; `await` is allowed at top level."""
        padded = "\n" * self.line + self.source  # so that a traceback shows the page's line
        code = compile(padded, self.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        namespace: dict[str, Any] = {"__name__": "__main__"}
        if code.co_flags & inspect.CO_COROUTINE:
            anyio.run(lambda: eval(code, namespace))
        else:
            exec(code, namespace)


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """Yield the Python blocks of a page; one that is `continued` begins with the blocks it continues."""
    before = ""
    for token in MarkdownIt().parse(text):
        words = token.info.split()
        if token.type != "fence" or not words or words[0] not in {"python", "py"} or GUIDE in words:
            continue
        tags, line = frozenset(words[1:]), (token.map or [0])[0] + 1
        assert tags <= TAGS, f"{page}:{line} has an unknown tag: {sorted(tags - TAGS)}"
        if "continued" in tags:
            line, before = 0, before + token.content
        else:
            before = token.content
        yield Block(page, line, tags, before)


def cases() -> Iterator[Any]:
    for page in PAGES:
        for block in blocks_of(str(page.relative_to(ROOT)), page.read_text()):
            tags = {MADE_BY if tag == "either" else tag for tag in block.tags - {"continued"}}
            marks = [getattr(pytest.mark, tag) for tag in sorted(tags)]
            yield pytest.param(block, id=f"{block.page}:{block.line}", marks=marks)


@pytest.mark.parametrize("block", list(cases()))
def test_every_block_of_the_documentation_runs(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded = "either" in block.tags and MADE_BY == "bubblewrap"
    # The default image is not on every machine.
    monkeypatch.setenv("SANDBOXIO_BACKEND", "bubblewrap://" if embedded else "docker://sandboxio-test/python")
    block.run()


def test_blocks_carry_their_line_and_tags() -> None:
    text = "# Page\n\n```python docker\nx = 1\n```\n\n```console\nmake\n```\n\n```py\ny = 2\n```\n"
    assert [(block.line, block.tags, block.source) for block in blocks_of("page", text)] == [
        (3, {"docker"}, "x = 1\n"),
        (11, frozenset(), "y = 2\n"),
    ]


def test_a_continued_block_begins_with_the_one_before() -> None:
    text = "```python\nx = 1\n```\n```python continued\nassert x == 1\n```\n"
    list(blocks_of("page", text))[1].run()


def test_a_failing_block_names_the_line_of_the_page() -> None:
    block = next(blocks_of("page.md", "text\n\n```python\nok = True\nassert not ok\n```\n"))
    with pytest.raises(AssertionError) as failure:
        block.run()
    last = failure.traceback[-1]
    assert (str(last.path).endswith("page.md"), last.lineno + 1) == (True, 5)


def test_an_unknown_tag_is_an_error() -> None:
    with pytest.raises(AssertionError, match="unknown tag"):
        list(blocks_of("page", "```python norun\n```\n"))


def test_a_block_may_await() -> None:
    next(blocks_of("page", "```python\nimport anyio\nawait anyio.sleep(0)\n```\n")).run()
