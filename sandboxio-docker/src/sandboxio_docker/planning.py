"""From a spec and facts to what is sent to the engine; pure."""

import math
from collections.abc import Mapping
from typing import cast

from sandboxio.agent.bootstrap import agent_argv
from sandboxio.errors import CapabilityNotSupported, ConfigurationError
from sandboxio.planning import Plan
from sandboxio.port import Facts
from sandboxio.spec import SandboxSpec

from sandboxio_docker import gvisor, labels
from sandboxio_docker.caps import MESSAGE_QUEUES, OPEN_FILES, QUEUED_SIGNALS, Caps, resolve
from sandboxio_docker.config import DockerConfig
from sandboxio_docker.facts import image_of
from sandboxio_docker.hardening import WORK, Hardening
from sandboxio_docker.info import DEFAULT_TEMPLATE, distribution_version
from sandboxio_docker.receipts import receipts

DEFAULT_CWD = WORK


def make_plan(spec: SandboxSpec, facts: Facts) -> Plan:
    """Translate ``spec``; see `sandboxio.port.Backend.plan`."""
    hardening = Hardening.of(spec.config)
    _refuse_engine(facts, hardening)
    _refuse_policies(spec)
    labels.check_metadata(spec.metadata)
    _refuse_lifetime(spec, facts)
    caps = resolve(spec.resources, facts.maxima, disk_is_memory=hardening.read_only)
    transport = "exec" if "agent_unfit" in facts.values else "agent"
    _refuse_unchecked_vsock(spec, transport)
    _refuse_unproven_runtime(spec, hardening, transport)
    image = image_of(facts)
    if image and image["volumes"]:
        raise CapabilityNotSupported(
            f"the image {template_of(spec)} declares the volumes {', '.join(image['volumes'])},"
            " which no disk cap would bound",
            hint="build an image without VOLUME and name it in template=",
        )
    as_root = image is not None and hardening.is_root(image["user"])
    if image and hardening.capabilities and not as_root:
        raise ConfigurationError(
            f"{template_of(spec)} runs as {image['user']!r}, and only root has the capabilities that are given back",
            hint='add user="root", or leave capabilities= out',
        )
    workdir = hardening.workdir(image["workdir"] if image else "")
    cwd = default_cwd(workdir)
    parameters = {
        "transport": transport,
        "network": spec.network.egress == "allow",
        "network_pool": spec.config.network_pool if isinstance(spec.config, DockerConfig) else None,
        "engine_is_local": facts.values.get("is_local", False),
        # Read-only, there is nothing to watch: what can be written is bounded by its own size.
        "watch_disk_bytes": None if facts.values.get("disk_quota") or hardening.read_only else caps.disk_mb * 2**20,
        "lifetime": spec.timeout,
        "image_present": image is not None,
        "workdir": workdir,
        # An agent that is not root can't make it; the exec transport makes it by the engine's exec, as root.
        "make_workdir": transport == "agent" and not as_root and not hardening.read_only and cwd == WORK,
        "container": _container(spec, caps, facts, transport, as_root=as_root),
    }
    items = receipts(spec, caps, facts, transport)
    return Plan(spec, parameters, items, hardening.tier, facts.assumed, cwd if image else None)


def template_of(spec: SandboxSpec) -> str:
    """Return the image reference of a spec."""
    return spec.template or DEFAULT_TEMPLATE


def default_cwd(workdir: str) -> str:
    """Return where commands start: the image's WORKDIR unless that is the root."""
    return workdir if workdir not in ("", "/") else DEFAULT_CWD


def _refuse_policies(spec: SandboxSpec) -> None:
    network = spec.network
    if network.egress == "learn":
        raise CapabilityNotSupported(
            'egress="learn" is not offered yet', hint='use egress="deny" or egress="allow"', why="not_yet"
        )
    if network.allow:
        raise CapabilityNotSupported(
            f"Docker has no egress filter by host or address, so allow={network.allow!r} can't be enforced",
            hint="bake what is needed into the image; allowlists come with the adapters for E2B, Modal and Vercel",
        )
    if network.ingress_ports:
        raise CapabilityNotSupported(
            "ingress_ports is not offered on Docker yet", hint="leave ingress_ports empty", why="not_yet"
        )
    if spec.resources.gpu is not None:
        raise CapabilityNotSupported("GPUs are not offered on Docker yet", hint="leave gpu unset", why="not_yet")


def _refuse_lifetime(spec: SandboxSpec, facts: Facts) -> None:
    most = facts.maxima.get("lifetime")
    if most is not None and spec.timeout > most:
        raise ConfigurationError(
            f"timeout={spec.timeout:g} is over the maximum of {most:g} s", hint=f"pass at most {most:g}"
        )


def _refuse_engine(facts: Facts, hardening: Hardening) -> None:
    if facts.values.get("os", "linux") != "linux":
        raise CapabilityNotSupported("the Docker engine runs Windows containers", hint="switch it to Linux containers")
    missing = facts.values.get("missing_caps")
    if missing:
        raise CapabilityNotSupported(
            f"this {facts.values.get('engine', 'Docker')} engine can't apply caps on {missing} (by its /info)",
            hint=str(facts.values.get("caps_fix", "")),
        )
    if str(facts.values.get("engine", "")).endswith("Podman"):
        # Measured with 4.3.1: its inspect answers other CapDrop, PidMode, IpcMode, UTSMode, Runtime and Ulimits than were sent.
        raise CapabilityNotSupported(
            "Podman tells what it applied to a container in other words than Docker, which are not read yet:"
            " nothing would show that the sandbox is isolated",
            hint="use a Docker engine (DOCKER_HOST, DOCKER_CONTEXT)",
            why="not_yet",
        )
    if hardening.runtime:
        _refuse_runtime(hardening.runtime, facts)
    elif facts.values.get("runtime", "") is None:
        raise CapabilityNotSupported(
            "the engine's default runtime is not known to apply caps, and it has no runc", hint="install runc or crun"
        )


def _refuse_runtime(name: str, facts: Facts) -> None:
    known = facts.values.get("runtimes")
    if not isinstance(known, Mapping):
        return
    registered = cast("Mapping[str, tuple[str, ...]]", known)
    # Newer engines start a containerd shim by its own name; what they don't know they refuse themselves.
    if name not in registered and not name.startswith("io.containerd."):
        raise ConfigurationError(
            f"the Docker engine has no runtime {name!r}; it has: {', '.join(sorted(registered))}",
            hint='register it in daemon.json under "runtimes" and reload the engine, or name one that it has',
        )
    if gvisor.drops_caps(registered.get(name, ())):
        raise CapabilityNotSupported(
            f"the runtime {name!r} is registered with --ignore-cgroups, under which no cap on memory, CPU or processes holds",
            hint="register it without --ignore-cgroups",
        )


def _refuse_unproven_runtime(spec: SandboxSpec, hardening: Hardening, transport: str) -> None:
    if hardening.is_foreign and transport == "exec":
        raise CapabilityNotSupported(
            f"{template_of(spec)} has no Python for the agent, so nothing inside can show that {hardening.runtime!r} is gVisor",
            hint="use an image with python3 and ctypes, or leave runtime= out",
        )


def _refuse_unchecked_vsock(spec: SandboxSpec, transport: str) -> None:
    config = spec.config
    if transport == "exec" and spec.network.egress == "deny" and not accepts_vsock(config):
        raise CapabilityNotSupported(
            f"{template_of(spec)} has no Python for the agent, so nothing shows that vsock sockets, which no network"
            ' namespace confines, are refused: egress="deny" would have an unknown hole',
            hint="use an image with python3, or accept it: DockerConfig(accept_vsock=True), docker://IMAGE?accept_vsock=1",
        )


def accepts_vsock(config: object) -> bool:
    """Whether the caller accepts that vsock sockets may be possible."""
    return isinstance(config, DockerConfig) and config.accept_vsock


def _container(spec: SandboxSpec, caps: Caps, facts: Facts, transport: str, *, as_root: bool) -> Mapping[str, object]:
    """Return the body of the create request; network and expiry are filled in when it is sent."""
    agent = transport == "agent"
    argv = agent_argv() if agent else ("sleep", str(math.ceil(spec.timeout)))
    hardening = Hardening.of(spec.config)
    return {
        "Image": template_of(spec),
        "Entrypoint": [argv[0]],
        "Cmd": list(argv[1:]),
        "Labels": labels.make(
            spec.create_id,
            distribution_version(),
            transport,
            spec.metadata,
            hardening.label(),
            accepts_vsock=accepts_vsock(spec.config),
        ),
        "Tty": False,
        "OpenStdin": agent,
        # The engine ends the agent's stdin when we are gone: owner death ends the sandbox.
        "StdinOnce": agent,
        "AttachStdin": agent,
        "AttachStdout": agent,
        "AttachStderr": agent,
        "Healthcheck": {"Test": ["NONE"]},
        # Halves the start. Then nobody writes /etc/hosts, so only where the agent can (root, on a writable root).
        "NetworkDisabled": agent and as_root and not hardening.read_only and spec.network.egress == "deny",
        "HostConfig": _host_config(caps, facts, hardening),
        **hardening.container(),
    }


def _host_config(caps: Caps, facts: Facts, hardening: Hardening) -> Mapping[str, object]:
    memory = caps.memory_mb * 2**20
    quota = bool(facts.values.get("disk_quota"))
    ulimits = [
        _ulimit("core", 0, 0),
        _ulimit("nofile", *OPEN_FILES),
        _ulimit("sigpending", QUEUED_SIGNALS, QUEUED_SIGNALS),
        _ulimit("msgqueue", MESSAGE_QUEUES, MESSAGE_QUEUES),
    ]
    if not quota:
        ulimits.append(_ulimit("fsize", caps.disk_mb * 2**20, caps.disk_mb * 2**20))
    return {
        "NetworkMode": "none",
        "AutoRemove": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true"],
        "Privileged": False,
        "Init": False,
        "IpcMode": "private",
        "Runtime": hardening.runtime or str(facts.values.get("runtime", "")),
        "LogConfig": {"Type": "none"},
        "NanoCpus": caps.nano_cpus,
        "Memory": memory,
        # The total of memory and swap: without it the engine allows as much swap again (measured, Docker 20.10).
        "MemorySwap": memory,
        "PidsLimit": caps.pids,
        "ShmSize": caps.shm_mb * 2**20,
        "StorageOpt": {"size": f"{caps.disk_mb}M"} if quota else {},
        "Ulimits": ulimits,
        **hardening.host_config(caps.disk_mb),
    }


def _ulimit(name: str, soft: int, hard: int) -> dict[str, object]:
    return {"Name": name, "Soft": soft, "Hard": hard}
