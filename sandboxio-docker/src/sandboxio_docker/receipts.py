"""The receipt of each policy item: what holds it, how that is known, and what stays possible."""

from sandboxio.planning import Absent, EnforcedBy, Enforcement, Evidence, Receipt
from sandboxio.policy import Strength
from sandboxio.port import Facts
from sandboxio.spec import SandboxSpec

from sandboxio_docker.caps import Caps
from sandboxio_docker.config import SUBNET, DockerConfig
from sandboxio_docker.hardening import TEMPORARY, WORK, Hardening

READ = "read 2026-11"
CONSTRAINTS = f"https://docs.docker.com/engine/containers/resource_constraints/ ({READ})"
MEASURED = "measured on Docker 20.10, 2026-11"


def receipts(spec: SandboxSpec, caps: Caps, facts: Facts, transport: str) -> tuple[Receipt, ...]:
    """Answer every policy item."""
    hardening = Hardening.of(spec.config)
    return (
        _egress(spec, transport),
        Absent("network.allow", "no allowlist was asked for; Docker has none"),
        Absent("network.ingress", "no port of the sandbox is published"),
        _applied("cpu", caps.cpu, "NanoCpus (CFS quota)"),
        _applied("memory", caps.memory_mb, "Memory (memory control group)"),
        _applied("memory.swap", 0, "MemorySwap = Memory: one total for both"),
        _pids(caps, hardening),
        read_only_disk(caps.disk_mb, caps.shm_mb)
        if hardening.read_only
        else disk(caps.disk_mb, transport, quota=bool(facts.values.get("disk_quota")), is_gvisor=hardening.is_foreign),
        Absent("gpu", "no GPU was asked for, and none is passed through"),
        lifetime(
            spec.timeout,
            transport,
            unfiltered=spec.network.egress == "allow" or _accepts_vsock(spec),
            through_ssh=bool(facts.values.get("through_ssh")),
        ),
        _applied("labels", dict(spec.metadata), "container labels io.sandboxio.meta.*", MEASURED),
        _secrets(spec, transport),
        _gvisor(hardening) if hardening.is_foreign else _isolation(hardening, facts),
    )


def _applied(policy: str, requested: object, mechanism: str, source: str = CONSTRAINTS) -> Enforcement:
    return Enforcement(policy, requested, mechanism, "provider", "attested", source=source)


def _egress(spec: SandboxSpec, transport: str) -> Enforcement:
    pool = spec.config.network_pool if isinstance(spec.config, DockerConfig) else None
    return egress(spec.network.egress, transport, accepts_vsock=_accepts_vsock(spec), pool=pool)


def _accepts_vsock(spec: SandboxSpec) -> bool:
    return isinstance(spec.config, DockerConfig) and spec.config.accept_vsock


def egress(wanted: str, transport: str, *, accepts_vsock: bool, pool: str | None = None) -> Enforcement:
    """Say how the network is held."""
    if wanted == "allow":
        residuals = (
            "listeners of the host on the bridge's gateway address can be reached",
            "the metadata address 169.254.169.254 can be reached where the host can reach it",
        )
        own = f"a bridge network of its own, a /{SUBNET} of {pool}," if pool else "a bridge network of its own,"
        mechanism = f"{own} inter-container communication off"
        source = f"https://docs.docker.com/engine/network/drivers/bridge/ ({READ}); residuals {MEASURED}"
        return _network("allow", mechanism, "address", residuals, source)
    residual: tuple[str, ...] = ()
    if transport == "exec":
        residual = ("vsock sockets, which no network namespace confines, were not checked (accept_vsock)",)
    elif accepts_vsock:
        residual = ("vsock sockets may be possible where the agent can't install its filter (accept_vsock)",)
    source = f"https://docs.docker.com/engine/network/drivers/none/ ({READ}); vsock {MEASURED}"
    return _network("deny", "NetworkMode=none: only a loopback interface", "interface", residual, source)


def _network(
    requested: str, mechanism: str, strength: Strength, residuals: tuple[str, ...], source: str
) -> Enforcement:
    return Enforcement("network.egress", requested, mechanism, "provider", "attested", strength, residuals, source)


def _pids(caps: Caps, hardening: Hardening) -> Enforcement:
    mechanism = "PidsLimit (pids control group)"
    if hardening.is_foreign:
        mechanism += (
            ": counts the threads of gVisor's kernel on the host, of which each process of the sandbox has some"
        )
    return _applied(
        "pids", caps.pids, mechanism, f"https://docs.docker.com/reference/cli/docker/container/run/ ({READ})"
    )


def read_only_disk(disk_mb: object, shm_mb: int) -> Enforcement:
    """Say how what may be written is held where the root is read-only."""
    return Enforcement(
        "disk",
        disk_mb,
        f"ReadonlyRootfs; Tmpfs with a size on {TEMPORARY} and {WORK}, half of the cap each",
        "provider",
        "attested",
        residuals=(
            "what is written is memory: it counts to the memory cap, and is gone with the sandbox",
            f"shared memory ({shm_mb} MiB) and /dev (64 MiB, for root) are not counted to it, but to the memory cap",
        ),
        source=f"https://docs.docker.com/engine/storage/tmpfs/ ({READ}); {MEASURED}",
    )


def disk(disk_mb: object, transport: str, *, quota: bool, is_gvisor: bool = False) -> Enforcement:
    """Say how the writable layer is held."""
    if quota:
        source = f"https://docs.docker.com/reference/cli/docker/container/create/ ({READ})"
        return _applied("disk", disk_mb, "StorageOpt size (the storage driver's quota)", source)
    unseen = (
        "what a process holds that runs as another user or closed itself to the agent, what is mapped without a descriptor"
        ", and descriptors on their way through a socket"
        if transport == "agent"
        else "deleted files that are still open, and /etc/hosts, /etc/hostname and /etc/resolv.conf beside the layer"
    )
    return Enforcement(
        "disk",
        disk_mb,
        "ulimit fsize for one file; while the sandbox is in use, and once more after that, the host-side reaper asks for"
        " the layer's size"
        + (", the agent adds deleted files that are still open" if transport == "agent" else "")
        + "; over the cap the sandbox is destroyed",
        "sandboxio",
        "attested",
        residuals=(
            *(("gVisor keeps /tmp in memory: that counts to the memory cap instead",) if is_gvisor else ()),
            "what is written between two looks may pass the cap: they are 2 s apart, more where a look takes long",
            f"not counted: {unseen}",
            "after detach() nobody starts the reaper again, should it be killed: then one file's size is bounded alone",
            "inodes are not counted, and blocks are rounded",
        ),
        source=f"{MEASURED}; this storage driver has no quota",
    )


def lifetime(seconds: float, transport: str, *, unfiltered: bool, through_ssh: bool) -> Enforcement:
    """Say how the end of the lifetime is held.

    :param unfiltered: whether an agent without a filter of its own is accepted.
    :param through_ssh: whether the reaper reaches the engine so.
    """
    inside = "the agent (the sandbox's first process)" if transport == "agent" else "the first process, sleep,"
    mechanism = f"{inside} ends itself; the host-side reaper destroys the sandbox at the same time"
    by: EnforcedBy = "sandboxio"
    evidence: Evidence = "documented"
    residuals: tuple[str, ...] = (
        "counted from the create request, by the owner's clock",
        "after the end of owner and reaper it is the first process alone, then the next start of this adapter",
    )
    if transport == "exec":
        residuals += (
            "code in the sandbox can write to the memory of sleep, and so keep it from ending: then owner or reaper end it",
        )
    elif unfiltered:
        residuals += (
            "where the agent can't install its filter, code in the sandbox can make it wait for a processor: then the reaper ends it",
        )
    if through_ssh:
        residuals += (
            "the reaper logs in through ssh: if that stops working later, the first process is alone as well",
        )
    return Enforcement("lifetime", seconds, mechanism, by, evidence, residuals=residuals, source=MEASURED)


def _secrets(spec: SandboxSpec, transport: str) -> Receipt:
    if not spec.secrets:
        return Absent("secrets", "no secret was given")
    where = "frames to the agent" if transport == "agent" else "each exec's environment (exec inspect shows none of it)"
    mechanism = f"environment of each command, passed in {where}; never in the container's configuration"
    return Enforcement("secrets", tuple(sorted(spec.secrets)), mechanism, "sandboxio", "documented", source=MEASURED)


def _isolation(hardening: Hardening, facts: Facts) -> Enforcement:
    residuals = [
        "one kernel is shared with the host: for trusted, development and CI code",
        (
            "what the kernel counts by user id (inotify instances, epoll watches, queued signals, message queues) can be used"
            " up for other sandboxes of the same user id, the first two also for the host's own where the engine remaps no users"
        ),
    ]
    if facts.values.get("seccomp") is False:
        residuals.append("this engine runs containers without its seccomp profile")
    return Enforcement(
        "isolation",
        hardening.tier.value,
        f"namespaces and control groups; {_hardened(hardening)}",
        "provider",
        "attested",
        residuals=tuple(residuals),
        source=f"https://docs.docker.com/engine/security/ ({READ})",
    )


def _gvisor(hardening: Hardening) -> Enforcement:
    return Enforcement(
        "isolation",
        hardening.tier.value,
        f"the runtime {hardening.runtime}: gVisor's own kernel, recognised from inside by its log before any command runs,"
        f" its caps read back from the host's control groups; {_hardened(hardening)}",
        "runtime",
        "attested",
        residuals=(
            "defence in depth, not equivalent to a virtual machine",
            "over the memory or process cap the whole sandbox ends, not one command",
        ),
        source=f"https://gvisor.dev/docs/architecture_guide/security/ ({READ}); {MEASURED}, runsc 20221219",
    )


def _hardened(hardening: Hardening) -> str:
    given_back = ", ".join(hardening.capabilities)
    parts = [f"all capabilities dropped but {given_back}" if given_back else "all capabilities dropped"]
    parts += ["no-new-privileges", "no mounts", "log driver none"]
    if hardening.user:
        parts.append(f"user {hardening.user}")
    if hardening.read_only:
        parts.append("read-only root")
    return ", ".join(parts)
