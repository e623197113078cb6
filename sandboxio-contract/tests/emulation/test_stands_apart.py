"""The ground of emulators imports nothing of ours that it may have to convict."""

import subprocess
import sys
from pathlib import Path

import pytest
from sandboxio_contract import emulation

SOURCES = sorted(Path(emulation.__file__).parent.rglob("*.py"))
PROGRAM = """
import sys
import sandboxio_contract.emulation
ours = sorted(name for name in sys.modules if name.startswith("sandboxio") and not name.startswith("sandboxio_contract"))
print(ours, "pydantic" in sys.modules)
"""


def test_neither_core_nor_an_adapter_is_loaded_with_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "[] False\n"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_no_module_names_core_or_a_provider(source: Path) -> None:
    text = source.read_text()
    assert "import sandboxio\n" not in text
    assert "from sandboxio " not in text
    assert "from sandboxio." not in text
    for provider in ("e2b", "modal", "vercel", "daytona", "docker"):
        assert provider not in text.lower()
