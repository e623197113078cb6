"""From a spec and facts to what is sent to the engine; pure."""

import math
from collections.abc import Mapping

from sandboxio.agent.bootstrap import agent_argv
from sandboxio.errors import CapabilityNotSupported, ConfigurationError
from sandboxio.isolation import IsolationTier
from sandboxio.planning import Plan
from sandboxio.port import Facts
from sandboxio.spec import SandboxSpec

from sandboxio_docker import labels
from sandboxio_docker.caps import OPEN_FILES, Caps, resolve
from sandboxio_docker.config import DockerConfig
from sandboxio_docker.facts import image_of
from sandboxio_docker.info import DEFAULT_TEMPLATE, distribution_version
from sandboxio_docker.receipts import receipts

DEFAULT_CWD = "/work"
ROOT_USERS = ("", "0", "root", "0:0", "root:root")


def make_plan(spec: SandboxSpec, facts: Facts) -> Plan:
    """Translate ``spec``; see `sandboxio.port.Backend.plan`."""
    _refuse_engine(facts)
    _refuse_policies(spec)
    labels.check_metadata(spec.metadata)
    _refuse_lifetime(spec, facts)
    caps = resolve(spec.resources, facts.maxima)
    transport = "exec" if "agent_unfit" in facts.values else "agent"
    _refuse_unchecked_vsock(spec, transport)
    image = image_of(facts)
    if image and image["volumes"]:
        raise CapabilityNotSupported(
            f"the image {template_of(spec)} declares the volumes {', '.join(image['volumes'])},"
            " which no disk cap would bound",
            hint="build an image without VOLUME and name it in template=",
        )
    parameters = {
        "transport": transport,
        "network": spec.network.egress == "allow",
        "watch_disk_bytes": None if facts.values.get("disk_quota") else caps.disk_mb * 2**20,
        "lifetime": spec.timeout,
        "image_present": image is not None,
        "workdir": image["workdir"] if image else "",
        "container": _container(spec, caps, facts, transport),
    }
    items = receipts(spec, caps, facts, transport)
    cwd = default_cwd(str(image["workdir"])) if image else None
    return Plan(spec, parameters, items, IsolationTier.CONTAINER, facts.assumed, cwd)


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


def _refuse_engine(facts: Facts) -> None:
    if facts.values.get("os", "linux") != "linux":
        raise CapabilityNotSupported("the Docker engine runs Windows containers", hint="switch it to Linux containers")
    missing = facts.values.get("missing_caps")
    if missing:
        raise CapabilityNotSupported(
            f"this {facts.values.get('engine', 'Docker')} engine can't apply caps on {missing} (by its /info)",
            hint=str(facts.values.get("caps_fix", "")),
        )
    if facts.values.get("runtime", "") is None:
        raise CapabilityNotSupported(
            "the engine's default runtime is not known to apply caps, and it has no runc", hint="install runc or crun"
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


def _container(spec: SandboxSpec, caps: Caps, facts: Facts, transport: str) -> Mapping[str, object]:
    """Return the body of the create request; network and expiry are filled in when it is sent."""
    agent = transport == "agent"
    argv = agent_argv() if agent else ("sleep", str(math.ceil(spec.timeout)))
    image = image_of(facts)
    as_root = bool(image) and image["user"] in ROOT_USERS  # type: ignore[index]
    return {
        "Image": template_of(spec),
        "Entrypoint": [argv[0]],
        "Cmd": list(argv[1:]),
        "Labels": labels.make(spec.create_id, distribution_version(), transport, spec.metadata),
        "Tty": False,
        "OpenStdin": agent,
        # The engine ends the agent's stdin when we are gone: owner death ends the sandbox.
        "StdinOnce": agent,
        "AttachStdin": agent,
        "AttachStdout": agent,
        "AttachStderr": agent,
        "Healthcheck": {"Test": ["NONE"]},
        # Halves the start. Then nobody writes /etc/hosts, so only where the agent can (root).
        "NetworkDisabled": agent and as_root and spec.network.egress == "deny",
        "HostConfig": _host_config(caps, facts),
    }


def _host_config(caps: Caps, facts: Facts) -> Mapping[str, object]:
    memory = caps.memory_mb * 2**20
    quota = bool(facts.values.get("disk_quota"))
    ulimits = [_ulimit("core", 0, 0), _ulimit("nofile", *OPEN_FILES)]
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
        "Runtime": str(facts.values.get("runtime", "")),
        "LogConfig": {"Type": "none"},
        "NanoCpus": caps.nano_cpus,
        "Memory": memory,
        # The total of memory and swap: without it the engine allows as much swap again (measured, Docker 20.10).
        "MemorySwap": memory,
        "PidsLimit": caps.pids,
        "ShmSize": caps.shm_mb * 2**20,
        "StorageOpt": {"size": f"{caps.disk_mb}M"} if quota else {},
        "Ulimits": ulimits,
    }


def _ulimit(name: str, soft: int, hard: int) -> dict[str, object]:
    return {"Name": name, "Soft": soft, "Hard": hard}
