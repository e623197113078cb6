"""Whether a runtime is gVisor, and whether the caps hold there: its name proves neither."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandboxio.agent.report import BootReport
from sandboxio.errors import PolicyNotEnforced

from sandboxio_docker.endpoint import Endpoint
from sandboxio_docker.hardening import Hardening

GREETING = "Starting gVisor"
"""How the log of gVisor's kernel begins (https://gvisor.dev/docs/user_guide/quick_start/docker/, read 2026-11)."""
CGROUPS, PROC = Path("/sys/fs/cgroup"), Path("/proc")
_UNCONFIRMED = "use runc, or gVisor's runsc without --ignore-cgroups on an engine of this machine"


def drops_caps(arguments: tuple[str, ...]) -> bool:
    """Whether a runtime is registered with the option by which runsc drops every cap (measured 2026-11)."""
    return any(one.lstrip("-").partition("=")[::2] in _DROPPING for one in arguments)


_DROPPING = {("ignore-cgroups", value) for value in ("", "true", "1", "t", "T", "TRUE", "True")}


def confirm(answer: Mapping[str, Any], report: BootReport, endpoint: Endpoint) -> None:
    """Have a runtime that is neither runc nor crun prove itself, before any command runs; blocks.

    :param answer: the engine's description of the running container.
    :raises PolicyNotEnforced: it is not gVisor, a cap is not in force, or that can't be seen from here.
    """
    chosen = Hardening.from_labels(answer["Config"].get("Labels") or {})
    if chosen is None or not chosen.is_foreign:
        return
    if GREETING not in report.kernel_log:
        raise PolicyNotEnforced(
            f"the runtime {chosen.runtime!r} is not gVisor: the kernel's log, as seen from inside, does not say so",
            hint="register gVisor's runsc under that name, or leave runtime= out",
        )
    if not endpoint.is_local:
        raise PolicyNotEnforced(
            f"whether caps hold under the runtime {chosen.runtime!r} can be read on the engine's own machine only",
            hint=_UNCONFIRMED,
        )
    wrong = _not_in_force(answer)
    if wrong:
        raise PolicyNotEnforced(
            f"under the runtime {chosen.runtime!r} these caps are not in force: {', '.join(wrong)}", hint=_UNCONFIRMED
        )
    if not report.descriptors_closed:
        # Seen with runsc 20221219: /proc/1/fd/1 opens although the agent is not dumpable. Each command could then forge
        # the output, the exit code and the end of any other.
        raise PolicyNotEnforced(
            f"under the runtime {chosen.runtime!r} a command can open the agent's descriptors, and so speak in its name",
            hint="use a release of gVisor that checks who opens /proc/PID/fd, or leave runtime= out",
        )


def _not_in_force(answer: Mapping[str, Any]) -> list[str]:
    """Compare the host's control groups with what the engine was asked for."""
    host: Mapping[str, Any] = answer["HostConfig"]
    groups = _groups(int(answer["State"]["Pid"]), str(answer["Id"]))
    unified = "memory" not in groups
    wanted = {"memory": host["Memory"], "memory.swap": 0, "pids": host["PidsLimit"], "cpu": host["NanoCpus"]}
    try:
        seen = _unified(groups[""]) if unified else _split(groups)
    except (OSError, KeyError, ValueError):
        return list(wanted)
    return [policy for policy, value in wanted.items() if not 0 <= seen[policy] <= value]


def _groups(pid: int, container_id: str) -> dict[str, str]:
    """Map each controller ("" for the unified hierarchy) to the group of a container's process."""
    try:
        lines = (PROC / str(pid) / "cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    fields = [line.split(":", 2) for line in lines]
    # The engine may be elsewhere (a forwarded socket): then this is somebody else's process.
    return {name: path.lstrip("/") for _, names, path in fields if container_id in path for name in names.split(",")}


def _unified(group: str) -> dict[str, int]:
    folder = CGROUPS / group
    quota, period = _read(folder / "cpu.max").split()
    return {
        "memory": _number(_read(folder / "memory.max")),
        "memory.swap": _number(_read(folder / "memory.swap.max")),
        "pids": _number(_read(folder / "pids.max")),
        "cpu": _number(quota) * 10**9 // int(period),
    }


def _split(groups: Mapping[str, str]) -> dict[str, int]:
    memory, cpu = CGROUPS / "memory" / groups["memory"], CGROUPS / "cpu" / groups["cpu"]
    bound = _number(_read(memory / "memory.limit_in_bytes"))
    return {
        "memory": bound,
        "memory.swap": _number(_read(memory / "memory.memsw.limit_in_bytes")) - bound,
        "pids": _number(_read(CGROUPS / "pids" / groups["pids"] / "pids.max")),
        "cpu": _number(_read(cpu / "cpu.cfs_quota_us")) * 10**9 // int(_read(cpu / "cpu.cfs_period_us")),
    }


def _read(file: Path) -> str:
    return file.read_text(encoding="ascii").strip()


def _number(text: str) -> int:
    return -1 if text == "max" else int(text)
