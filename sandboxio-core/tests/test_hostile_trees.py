"""FIL-03: whatever a sandbox answers, a download writes nothing outside its target and leaves nothing half done."""

import os
import stat
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sandboxio import FileSystemError, tree_rules
from sandboxio.downloading import download
from sandboxio.errors import CapabilityNotSupported
from sandboxio.port import FileInfo, HasFiles
from sandboxio.tree_rules import inner_link, plain_name

MAX = 1_000_000


@dataclass
class Liar:
    """A file service that answers what it was told to."""

    listings: Mapping[str, list[FileInfo]] = field(default_factory=dict[str, list[FileInfo]])
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    top: FileInfo = field(default_factory=lambda: a_folder("/t"))
    content: Callable[[str], list[bytes]] = lambda path: [b"content"]
    before_list: Callable[[str], None] = lambda path: None

    async def read(self, path: str) -> AsyncIterator[bytes]:
        for chunk in self.content(path):
            yield chunk

    async def list(self, path: str) -> list[FileInfo]:
        self.before_list(path)
        return self.listings.get(path, [])

    async def stat(self, path: str) -> FileInfo:
        return self.top

    async def read_link(self, path: str) -> str:
        return self.links.get(path, "")

    async def make_link(self, path: str, target: str) -> None: ...
    async def set_attributes(self, path: str, *, mode: int, modified: float) -> None: ...
    async def mkdir(self, path: str, *, parents: bool) -> None: ...
    async def remove(self, path: str, *, recursive: bool) -> None: ...
    async def write(
        self, path: str, chunks: AsyncIterator[bytes], *, mode: int | None = None, modified: float | None = None
    ) -> None: ...


def a_file(path: str, *, size: int = 7, mode: int = 0o644, modified: float = 1e9) -> FileInfo:
    return FileInfo(path, size, False, False, mode, modified)


def a_folder(path: str, *, mode: int = 0o755, modified: float = 1e9) -> FileInfo:
    return FileInfo(path, 0, True, False, mode, modified)


def a_link(path: str) -> FileInfo:
    return FileInfo(path, 7, False, True, 0o644, 1e9)


def everything(top: Path) -> dict[str, object]:
    return {
        str(path): os.readlink(path) if path.is_symlink() else path.is_dir() or path.read_bytes()
        for path in top.rglob("*")
    }


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    """A directory with a target's parent and things around it that must stay."""
    make_ground(tmp_path)
    return tmp_path


def make_ground(top: Path) -> None:
    (top / "a").write_text("precious")
    (top / "here").mkdir()
    (top / "here" / "b").write_text("precious")
    (top / "here" / "out").symlink_to("../a")


def refused(liar: HasFiles, ground: Path, match: str | None = None, error: type[Exception] = FileSystemError) -> None:
    before = everything(ground)
    with pytest.raises(error, match=match):
        anyio.run(download, liar, "/t", "t", str(ground / "here" / "t"), MAX)
    assert everything(ground) == before


NO_NAMES = ["/t/..", "/t/.", "/t/", "/t", "/t/a/b", "/t/../x", "/t/x\0y", "/etc/passwd", "x", "", "/tx", "/t/\ud800"]


@pytest.mark.parametrize("path", NO_NAMES)
@pytest.mark.parametrize("make", [a_file, a_folder, a_link])
def test_what_is_no_name_is_refused(ground: Path, path: str, make: Callable[..., FileInfo]) -> None:
    refused(Liar({"/t": [a_file("/t/first"), make(path)]}), ground)


@pytest.mark.parametrize("name", ["x" * 256, "é" * 128])
def test_a_name_that_is_too_long_is_refused(ground: Path, name: str) -> None:
    refused(Liar({"/t": [a_file(f"/t/{name}")]}), ground, "255 bytes")


@pytest.mark.parametrize(
    "target", ["/etc", "..", "../x", "s/../..", "s/..", "", "../..", "a\0b", "./..", "s/./../x", "x" * 4096, "\ud800"]
)
def test_a_link_that_could_lead_out_is_refused(ground: Path, target: str) -> None:
    refused(Liar({"/t": [a_folder("/t/s"), a_link("/t/l")]}, {"/t/l": target}), ground, "/t/l|name")


def test_a_link_that_comes_again_as_a_directory_is_not_followed(ground: Path) -> None:
    liar = Liar({"/t": [a_folder("/t/s"), a_link("/t/l"), a_folder("/t/l")], "/t/l": [a_file("/t/l/x")]}, {"/t/l": "s"})
    refused(liar, ground, "exists")
    refused(Liar({"/t": [a_link("/t/l"), a_file("/t/l")]}, {"/t/l": "s"}), ground, "exists")
    refused(Liar({"/t": [a_file("/t/x"), a_file("/t/x")]}), ground, "exists")


def test_a_directory_that_is_replaced_here_by_a_link_is_not_followed(ground: Path) -> None:
    """Somebody on this machine swaps what the download made; the descriptor is what counts."""

    def swap(path: str) -> None:
        (growing,) = (ground / "here").glob(".sandboxio-*")
        if path == "/t/s":
            (growing / "s").rename(ground / "moved")
            (growing / "s").symlink_to(ground)

    liar = Liar({"/t": [a_folder("/t/s")], "/t/s": [a_file("/t/s/a"), a_file("/t/s/new")]}, before_list=swap)
    anyio.run(download, liar, "/t", "t", str(ground / "here" / "t"), MAX)
    assert (ground / "a").read_text() == "precious"
    assert not (ground / "new").exists()
    assert sorted(os.listdir(ground / "moved")) == ["a", "new"]


def test_endless_depth_is_refused(ground: Path) -> None:
    class Deep(Liar):
        async def list(self, path: str) -> list[FileInfo]:
            return [a_folder(f"{path}/d")]

    refused(Deep(), ground, "deeper than 100")


def test_endless_width_is_refused(ground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_rules, "MAX_ENTRIES", 10)
    wide = {"/t": [a_folder(f"/t/{number}") for number in range(6)]}
    wide["/t/0"] = [a_file(f"/t/0/{number}") for number in range(5)]
    refused(Liar(wide), ground, "more than 10 entries")


def test_a_size_that_lies_is_not_believed(ground: Path) -> None:
    liar = Liar({"/t": [a_file("/t/x", size=2**62), a_file("/t/y", size=0)]}, content=lambda path: [b"12", b"345"])
    anyio.run(download, liar, "/t", "t", str(ground / "here" / "t"), MAX)
    assert (ground / "here" / "t" / "y").read_bytes() == b"12345"
    refused(Liar({"/t": [a_file("/t/x")]}, content=lambda path: [bytes(1000)] * 1001), ground, "max_bytes")


@pytest.mark.parametrize("modified", [1e300, -1e300, float("nan"), float("inf")])
@pytest.mark.parametrize("make", [a_file, a_folder])
def test_a_time_that_can_not_be_is_refused(ground: Path, modified: float, make: Callable[..., FileInfo]) -> None:
    refused(Liar({"/t": [make("/t/x", modified=modified)]}), ground, "/t/x")


def test_modes_give_nothing_away_and_lock_nobody_out(ground: Path) -> None:
    folder = a_folder("/t/s", modified=5.0)
    liar = Liar({"/t": [a_file("/t/x", mode=0o7777), folder], "/t/s": [a_file("/t/s/y", mode=0o107000)]})
    liar.top = a_folder("/t", mode=0)
    top = ground / "here" / "t"
    anyio.run(download, liar, "/t", "t", str(top), MAX)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (top, *top.rglob("*"))}
    assert modes == {"t": 0o700, "x": 0o777, "s": 0o755, "y": 0}


def test_a_link_that_stands_here_is_replaced_not_followed(ground: Path) -> None:
    liar = Liar(top=a_file("/t"))
    anyio.run(download, liar, "/t", "t", str(ground / "here" / "out"), MAX)
    assert (ground / "a").read_text() == "precious"
    assert (ground / "here" / "out").read_bytes() == b"content"


def test_a_service_without_trees_transfers_files(ground: Path) -> None:
    class OnlyFiles:
        def __init__(self, liar: Liar) -> None:
            self.read, self.write, self.list, self.stat = liar.read, liar.write, liar.list, liar.stat
            self.mkdir, self.remove = liar.mkdir, liar.remove

    refused(OnlyFiles(Liar()), ground, error=CapabilityNotSupported)
    anyio.run(download, OnlyFiles(Liar(top=a_file("/t"))), "/t", "t", str(ground / "here" / "t"), MAX)
    assert (ground / "here" / "t").read_bytes() == b"content"


PARTS = st.sampled_from(["a", "b", "c", "..", ".", "", "/", "a/b", "\0", "x" * 256, "\udcff", "\ud800", "here", "t"])
NAMES = st.one_of(st.sampled_from(["a", "b", "c", "d"]), PARTS, st.text(max_size=4))
TARGETS = st.one_of(st.lists(PARTS, max_size=5).map("/".join), st.text(max_size=6))
KINDS = st.sampled_from([a_file, a_folder, a_folder, a_link, a_link])
BRANCH = st.lists(st.tuples(NAMES, KINDS, TARGETS), max_size=5)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(branches=st.lists(BRANCH, min_size=1, max_size=6))
def test_no_tree_writes_outside_its_target(branches: list[list[tuple[str, Callable[..., FileInfo], str]]]) -> None:
    listings: dict[str, list[FileInfo]] = {}
    links: dict[str, str] = {}
    waiting = ["/t"]
    for branch in branches:
        if not waiting:
            break
        folder = waiting.pop(0)
        listings[folder] = [make(f"{folder}/{name}") for name, make, _ in branch]
        links |= {f"{folder}/{name}": target for name, _, target in branch}
        waiting += [entry.path for entry in listings[folder] if entry.is_dir]
    with tempfile.TemporaryDirectory() as made:
        ground = Path(made)
        make_ground(ground)
        before, target = everything(ground), ground / "here" / "t"
        try:
            anyio.run(download, Liar(listings, links), "/t", "t", str(target), MAX)
        except FileSystemError:
            assert everything(ground) == before
            return
        after = everything(ground)
        assert {path: what for path, what in after.items() if not (path + "/").startswith(f"{target}/")} == before
        for path in target.rglob("*"):
            # Wherever the links lead, and through however many of them: it is inside.
            assert Path(os.path.realpath(path)).is_relative_to(os.path.realpath(target))


@given(st.text(max_size=8), st.sampled_from(["/", "/t", "/t/u"]))
def test_a_plain_name_is_one_component(name: str, folder: str) -> None:
    path = f"{folder}/{name}"
    try:
        plain = plain_name(a_file(path), folder)
    except FileSystemError:
        return
    assert "/" not in plain
    assert plain not in ("", ".", "..")
    assert os.path.dirname(os.path.join(folder, plain)) == folder


@given(st.lists(st.sampled_from(["..", ".", "", "a", "b"]), max_size=8), st.integers(0, 4))
def test_a_link_that_is_let_through_stays_inside_at_every_step(parts: list[str], depth: int) -> None:
    try:
        raw = inner_link("/".join(parts), depth, "l")
    except FileSystemError:
        return
    here, downwards = depth, False
    for part in raw.decode().split("/"):
        assert part != ".." or not downwards
        here += {"..": -1, ".": 0, "": 0}.get(part, 1)
        downwards |= part in ("a", "b")
        assert here >= 0
