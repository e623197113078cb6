"""Every error has its page under `docs/errors/`, and every page its error."""

from pathlib import Path

import pytest
from sandboxio import errors
from sandboxio.cli import main
from sandboxio.cli.error_pages import by_code, page_of

PAGES = Path(__file__).parents[1] / "docs/errors"


def test_every_error_has_its_page_and_every_page_its_error() -> None:
    """`.venv/bin/sandboxio errors --pages docs/errors` writes them."""
    written = {path.stem: path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")}
    assert written == {code: page_of(cls) for code, cls in by_code().items()}


def test_the_url_of_an_error_is_its_page() -> None:
    for cls in by_code().values():
        assert (PAGES / f"{cls.code}.md").is_file()


@pytest.mark.parametrize("code", ["E1101", "e1101", "SBX_E1101"])
def test_the_command_explains_a_code(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["errors", code]) == 0
    assert capsys.readouterr().out == page_of(errors.CapabilityNotSupported)


def test_an_unknown_code_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["errors", "E9999"]) == 2
    assert "E9999" in capsys.readouterr().err
