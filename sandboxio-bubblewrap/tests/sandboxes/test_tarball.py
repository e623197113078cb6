"""Templates that are one file: archives of a root, and images in layers; nothing is written elsewhere."""

import io
import json
import tarfile
from pathlib import Path

import pytest
from sandboxio.errors import ConfigurationError
from sandboxio_bubblewrap import tarball


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tarball, "cache", lambda: tmp_path / "cache")
    return tmp_path / "cache"


def archive(*entries: tuple[str, bytes | None], links: dict[str, str] | None = None) -> bytes:
    """Return a tar archive: files by content, directories by ``None``, links by target."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as made:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            info.type, info.mode = (tarfile.DIRTYPE, 0o700) if content is None else (tarfile.REGTYPE, 0o4711)
            info.size, info.uid = len(content or b""), 4711
            made.addfile(info, io.BytesIO(content or b""))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            made.addfile(info)
    return held.getvalue()


def unpacked(tmp_path: Path, content: bytes) -> Path:
    file = tmp_path / "template.tar"
    file.write_bytes(content)
    tarball.unpack(file)
    return tarball.place_of(file)


def test_a_root_is_unpacked_readable_for_any_user_and_without_special_bits(tmp_path: Path) -> None:
    place = unpacked(tmp_path, archive(("./", None), ("./usr", None), ("./usr/tool", b"x"), links={"bin": "usr/bin"}))
    assert (place / "usr").stat().st_mode & 0o7777 == 0o755
    assert (place / "usr/tool").stat().st_mode & 0o7777 == 0o755
    assert (place / "usr/tool").stat().st_uid != 4711
    assert str((place / "bin").readlink()) == "usr/bin"


def test_layers_lie_on_each_other_and_remove_what_they_say(tmp_path: Path) -> None:
    one = archive(
        ("etc", None), ("etc/kept", b"1"), ("etc/gone", b"1"), ("opt", None), ("opt/a", b"1"), ("opt/b", b"1")
    )
    two = archive(("etc/.wh.gone", b""), ("etc/kept", b"2"), ("opt/.wh..wh..opq", b""), ("opt/c", b"2"))
    manifest = json.dumps([{"Layers": ["1/layer.tar", "2/layer.tar"]}]).encode()
    place = unpacked(tmp_path, archive(("manifest.json", manifest), ("1/layer.tar", one), ("2/layer.tar", two)))
    assert sorted(str(path.relative_to(place)) for path in place.rglob("*")) == ["etc", "etc/kept", "opt", "opt/c"]
    assert (place / "etc/kept").read_bytes() == b"2"


@pytest.mark.parametrize(
    "content",
    [
        archive(("../escaped", b"x")),
        archive(("link/escaped", b"x"), links={}),
        archive(("../.wh.template.tar", b"")),
        b"no archive at all",
    ],
    ids=["above", "control", "whiteout above", "no archive"],
)
def test_what_would_be_written_elsewhere_is_refused_and_leaves_nothing(
    tmp_path: Path, cache: Path, content: bytes, request: pytest.FixtureRequest
) -> None:
    if request.node.callspec.id == "control":
        assert (unpacked(tmp_path, content) / "link/escaped").exists()
        return
    with pytest.raises(ConfigurationError):
        unpacked(tmp_path, content)
    assert list(cache.iterdir()) == []
    assert not (tmp_path / "escaped").exists()
    assert (tmp_path / "template.tar").exists()


def test_a_link_that_leads_out_is_not_followed(tmp_path: Path, cache: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as made:
        link = tarfile.TarInfo("way")
        link.type, link.linkname = tarfile.SYMTYPE, str(outside)
        made.addfile(link)
        file = tarfile.TarInfo("way/escaped")
        file.size = 1
        made.addfile(file, io.BytesIO(b"x"))
    with pytest.raises(ConfigurationError):
        unpacked(tmp_path, held.getvalue())
    assert list(outside.iterdir()) == []


def test_a_changed_file_is_another_template(tmp_path: Path) -> None:
    first = unpacked(tmp_path, archive(("a", b"1")))
    second = unpacked(tmp_path, archive(("b", b"12")))
    assert first != second
    tarball.unpack(tmp_path / "template.tar")  # once more is nothing
    assert (second / "b").exists()
