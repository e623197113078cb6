"""A wheel of the suite's own, so that no row fetches a package from anywhere."""

import zipfile
from pathlib import Path

VERSION = "1.0"


def write_wheel(folder: Path, name: str, source: str) -> Path:
    """Write a wheel that holds one module, and return its path."""
    info = f"{name}-{VERSION}.dist-info"
    files = {
        f"{name}.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSION}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: sandboxio-contract\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    wheel = folder / f"{name}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, content)
    return wheel
