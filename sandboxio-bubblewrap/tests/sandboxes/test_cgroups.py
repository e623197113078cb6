"""Where control groups may be made, on trees of both versions that are laid out here as kernels lay them out (no real ones)."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from sandboxio_bubblewrap import cgroups
from sandboxio_bubblewrap.cgroups import CONTROLLERS, Home, Homeless, find_home

CAPS = {"memory": 64 * 2**20, "pids": 32, "quota_us": 50_000}
ME, ANOTHER = os.geteuid(), 0 if os.geteuid() else 1000


def own(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "own"
    path.write_text(text)
    return path


def split(tmp_path: Path, *groups: str) -> Path:
    """Lay version 1 out, with these groups below each controller."""
    root = tmp_path / "split"
    for controller in CONTROLLERS:
        for group in ("", *groups):
            (root / controller / group).mkdir(parents=True, exist_ok=True)
            if controller == "memory":
                (root / controller / group / "memory.memsw.limit_in_bytes").touch()
    return root


def unified(
    tmp_path: Path,
    group: str = "",
    *,
    offered: Iterable[str] = CONTROLLERS,
    on: Iterable[str] = CONTROLLERS,
    held: str = "",
) -> Path:
    """Lay version 2 out, with one group that may hand on controllers."""
    root = tmp_path / "unified"
    for place in dict.fromkeys((root, root / group)):
        place.mkdir(parents=True, exist_ok=True)
        (place / "cgroup.controllers").write_text(" ".join(offered))
        (place / "cgroup.subtree_control").write_text(" ".join(on))
        (place / "cgroup.procs").write_text(held)
    return root


def test_version_1_uses_the_group_that_this_process_is_in(tmp_path: Path) -> None:
    root = split(tmp_path, "mine")
    mine = own(tmp_path, "8:pids:/mine\n4:memory:/mine\n1:cpu,cpuacct:/mine\n0::/\n")
    found = find_home(None, mounted=root, own=mine)
    assert found == Home(1, tuple(str(root / name / "mine") for name in CONTROLLERS))


def test_version_1_uses_the_group_that_is_named(tmp_path: Path) -> None:
    root = split(tmp_path, "given/deep")
    found = find_home("/given/deep", mounted=root, own=own(tmp_path, ""))
    assert found == Home(1, tuple(str(root / name / "given/deep") for name in CONTROLLERS))


def test_a_group_that_is_not_there_is_refused_with_what_to_do(tmp_path: Path) -> None:
    found = find_home("/given", mounted=split(tmp_path), own=own(tmp_path, ""), uid=4711)
    assert isinstance(found, Homeless)
    assert "/given" in found.reason
    assert "chown 4711" in found.fix


def test_a_controller_that_is_missing_is_named(tmp_path: Path) -> None:
    root = split(tmp_path)
    (root / "pids").rmdir()
    found = find_home(None, mounted=root, own=own(tmp_path, ""))
    assert isinstance(found, Homeless)
    assert "pids" in found.reason


def test_a_kernel_that_does_not_count_swap_is_refused(tmp_path: Path) -> None:
    root = split(tmp_path)
    (root / "memory" / "memory.memsw.limit_in_bytes").unlink()
    found = find_home(None, mounted=root, own=own(tmp_path, "4:memory:/\n"))
    assert isinstance(found, Homeless)
    assert "swapaccount=1" in found.fix


def test_version_2_uses_a_group_that_hands_its_controllers_on(tmp_path: Path) -> None:
    root = unified(tmp_path, "given")
    assert find_home("/given", mounted=root, own=own(tmp_path, "0::/\n")) == Home(2, (str(root / "given"),) * 3)


@pytest.mark.parametrize(
    ("offered", "on", "held", "why"),
    [
        (("cpu", "pids"), (), "", "no controller for memory"),
        (CONTROLLERS, (), "17\n", "holds processes and was not delegated"),
    ],
)
def test_version_2_is_refused_with_the_reason_and_the_way_to_a_delegated_group(
    tmp_path: Path, offered: tuple[str, ...], on: tuple[str, ...], held: str, why: str
) -> None:
    root = unified(tmp_path, "user.slice/mine.scope", offered=offered, on=on, held=held)
    mine = own(tmp_path, "0::/user.slice/mine.scope\n")
    found = find_home(None, mounted=root, own=mine, uid=4711)
    assert isinstance(found, Homeless)
    assert why in found.reason
    assert "systemd-run --user --scope -p Delegate=yes" in found.fix


def test_version_2_uses_a_delegated_group_whose_processes_move_to_a_leaf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = unified(tmp_path, "mine.scope", on=(), held="")
    scope = root / "mine.scope"
    (scope / "cgroup.procs").write_text(f"{os.getpid()}\n")

    def is_delegated(place: Path) -> bool:
        return place == scope

    monkeypatch.setattr(cgroups, "_is_delegated", is_delegated)
    home = find_home(None, mounted=root, own=own(tmp_path, "0::/mine.scope\n"), uid=4711)
    assert home == Home(2, (str(scope),) * 3)
    assert isinstance(home, Home)
    cgroups.ready(home)
    assert (scope / "owner" / "cgroup.procs").read_text() == str(os.getpid())
    assert (scope / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"


def test_caps_of_version_2_are_written_and_read_back(tmp_path: Path) -> None:
    group = str(tmp_path / "sandboxio-a")
    cgroups.make(2, (group,), CAPS)
    assert Path(group, "cpu.max").read_text() == "50000 100000"
    assert not Path(group, "memory.swap.max").exists()  # a kernel without swap has none
    assert cgroups.applied(2, (group,)) == {"cpu": 0.5, "memory": 64, "memory.swap": 0, "pids": 32}
    Path(group, "memory.swap.max").write_text("1048576")
    assert cgroups.applied(2, (group,))["memory.swap"] == 1


def test_caps_of_version_1_are_written_and_read_back(tmp_path: Path) -> None:
    for name in CONTROLLERS:
        (tmp_path / name).mkdir()
    groups = cgroups.groups_of(Home(1, tuple(str(tmp_path / name) for name in CONTROLLERS)), "a")
    cgroups.make(1, groups, CAPS)
    assert cgroups.applied(1, groups) == {"cpu": 0.5, "memory": 64, "memory.swap": 0, "pids": 32}
    Path(groups[0], "memory.memsw.limit_in_bytes").write_text(str(65 * 2**20))
    assert cgroups.applied(1, groups)["memory.swap"] == 1
