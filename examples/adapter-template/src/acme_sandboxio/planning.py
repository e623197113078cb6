"""From what was asked for to a `docker run` and a receipt for each policy item; pure."""

import math
from functools import partial

from sandboxio.errors import CapabilityNotSupported, ConfigurationError
from sandboxio.exec_session import check_names
from sandboxio.planning import Absent, Enforcement, Plan, Receipt
from sandboxio.port import Facts
from sandboxio.spec import SandboxSpec

from acme_sandboxio.info import INFO, DockerCliConfig

MANAGED, META, NO_NEW = "acme.sandboxio.managed", "acme.sandboxio.meta.", "no-new-privileges"
# In the sandbox the one place that can be written to.
CWD, SOCKET, RESERVED = "/tmp", "unix:///var/run/docker.sock", "DOCKER_"  # noqa: S108
SOURCE = "https://docs.docker.com/reference/cli/docker/container/run/ (read 2026-11)"
VSOCK = "vsock sockets, which no network namespace confines, are not checked (accept_vsock)"
# Measured, Docker 20.10, 2026-11: an exec's output that is not read keeps the engine from noticing the container's end.
STUCK = "code in the sandbox that prints while its owner is stopped keeps its record, not itself, from ending in time"


def make_plan(spec: SandboxSpec, facts: Facts) -> Plan:
    """Translate ``spec``; whatever can't be enforced raises here, before anything exists."""
    _refuse(spec, facts)
    memory = _cap(spec, facts, "memory_mb", 32, 512)
    # What is written is held in memory: more than half of it, and who writes is killed instead of told that it is full.
    disk = _cap(spec, Facts(maxima={"disk_mb": memory // 2}), "disk_mb", 1, min(256, memory // 2))
    cpu, pids = _cap(spec, facts, "cpu", 0.01, 1.0), _cap(spec, facts, "pids", 16, 256)
    caps = {"cpu": cpu, "memory": memory, "disk": disk, "pids": pids}
    life = math.ceil(spec.timeout)
    return Plan(spec, {"run": _run(spec, caps, life)}, _receipts(spec, caps, life), INFO.tier, facts.assumed, CWD)


def _refuse(spec: SandboxSpec, facts: Facts) -> None:
    if spec.network.allow:
        raise CapabilityNotSupported("Docker filters no egress by host or address", hint="bake it into the image")
    if spec.network.egress != "deny" or spec.network.ingress_ports or spec.resources.gpu:
        raise CapabilityNotSupported("open egress, ports and GPUs are not offered", hint="leave it out", why="not_yet")
    if not (isinstance(spec.config, DockerCliConfig) and spec.config.accept_vsock):
        raise CapabilityNotSupported(f"egress is not denied for certain: {VSOCK}", hint="?accept_vsock=1 accepts that")
    if facts.values.get("volumes"):
        raise CapabilityNotSupported("the image declares volumes, which no cap bounds", hint="build it without VOLUME")
    if any("=" in key or len(key + value) > 100_000 for key, value in spec.metadata.items()):
        raise ConfigurationError("a label is too long, or its key has a '='", hint="choose another key or value")
    check_names([*spec.env, *spec.secrets], RESERVED)


def _cap(spec: SandboxSpec, facts: Facts, name: str, least: float, default: float) -> float:
    value: float = getattr(spec.resources, name) or default
    most = facts.maxima.get(name, math.inf)
    if not least <= value <= most or round(value, 9) != value:
        raise ConfigurationError(f"Resources({name}={value!r}) is out of range", hint=f"pass {least:g} to {most:g}")
    return value


def _run(spec: SandboxSpec, caps: dict[str, float], lifetime: int) -> list[str]:
    """Return the arguments of `docker run`; no secret is among them: those go with each command."""
    memory = f"{caps['memory']:.0f}m"
    return [
        # Without its configuration, whose proxies (and their passwords) the docker command would tell each container.
        *("--config=/nonexistent", "run", "--detach", "--rm", "--pull=never", f"--name={spec.create_id}"),
        *(f"--security-opt={NO_NEW}", "--read-only", "--ipc=none", "--log-driver=none", "--no-healthcheck"),
        # Root starts what ends the sandbox, and no command is root: none can signal it or write to its memory.
        *("--user=0:0", f"--workdir={CWD}", f"--env=HOME={CWD}", "--ulimit=core=0", "--ulimit=nofile=1024:4096"),
        f"--tmpfs={CWD}:rw,exec,nosuid,nodev,mode=1777,size={caps['disk']:.0f}m",
        # Swap is counted in, else the engine allows as much again.
        *(f"--cpus={caps['cpu']:.9f}", f"--memory={memory}", f"--memory-swap={memory}"),
        *(f"--label={META}{key}={value}" for key, value in spec.metadata.items()),
        *(f"--label={MANAGED}=true", f"--pids-limit={caps['pids']:.0f}", "--network=none", "--cap-drop=ALL"),
        *("--entrypoint=sleep", str(spec.template), str(lifetime)),
    ]


def _receipts(spec: SandboxSpec, caps: dict[str, float], lifetime: int) -> tuple[Receipt, ...]:
    held = partial(Enforcement, enforced_by="provider", evidence="attested", source=SOURCE)
    by_name = partial(held, enforced_by="sandboxio", evidence="documented")
    secrets = tuple(sorted(spec.secrets))
    return (
        held("network.egress", "deny", "--network=none", strength="interface", residuals=(VSOCK,)),
        held("cpu", caps["cpu"], "--cpus"),
        held("memory", caps["memory"], "--memory"),
        held("memory.swap", 0, "--memory-swap = --memory: one total for both"),
        held("pids", caps["pids"], "--pids-limit"),
        held("disk", caps["disk"], f"--read-only, and --tmpfs {CWD} of that size, which counts to the memory"),
        *(Absent(item, "not asked for, and not offered") for item in ("network.allow", "network.ingress", "gpu")),
        held("lifetime", lifetime, "root's `sleep` is the first process", evidence="documented", residuals=(STUCK,)),
        held("labels", dict(spec.metadata), f"container labels {META}*"),
        by_name("secrets", secrets, "`docker exec --env NAME`") if secrets else Absent("secrets", "none were given"),
        held("isolation", INFO.tier.value, "--cap-drop=ALL, no-new-privileges, default seccomp profile"),
    )
