"""The receipt of each policy item: what holds it, how that is known, and what stays possible."""

from sandboxio.planning import Absent, Enforcement, Receipt
from sandboxio.policy import Strength
from sandboxio.spec import SandboxSpec

from sandboxio_bubblewrap.caps import Caps
from sandboxio_bubblewrap.config import BubblewrapConfig
from sandboxio_bubblewrap.facts import Machine
from sandboxio_bubblewrap.info import INFO

READ = "read 2026-11"
KERNEL = f"https://docs.kernel.org/admin-guide/cgroup-v1/ and cgroup-v2.html ({READ})"
NAMESPACES = f"https://man7.org/linux/man-pages/man7/network_namespaces.7.html ({READ})"
TMPFS = f"https://docs.kernel.org/filesystems/tmpfs.html ({READ})"
MEASURED = "measured with bubblewrap 0.11, Linux 6.18, 2026-11"
LINK = (
    "a network namespace of its own, linked to this machine, which forwards and hides it; nftables on this side of the link refuse"
    " this machine itself, other sandboxes and link-local addresses"
)
ONLY_IPV4 = ("it has IPv4 alone", "resolvers are this machine's, unless they listen on it: then no name is looked up")


def receipts(spec: SandboxSpec, caps: Caps, machine: Machine | None) -> tuple[Receipt, ...]:
    """Answer every policy item."""
    return (
        _egress(spec),
        _allow(spec),
        Absent("network.ingress", "no port of the sandbox is published"),
        _applied("cpu", caps.cpu, "CPU control group: quota in each period of 100 ms"),
        _applied("memory", caps.memory_mb, "memory control group"),
        _applied(
            "memory.swap", 0, "memory control group: one total for memory and swap (version 1), no swap (version 2)"
        ),
        _applied("pids", caps.pids, "pids control group; bwrap itself is one of them"),
        _disk(caps),
        Absent("gpu", "no GPU was asked for, and none is passed through"),
        Enforcement(
            "lifetime",
            spec.timeout,
            "the agent (the sandbox's first process) ends itself; the warden, its parent on the host, ends it 1 s later",
            "sandboxio",
            "documented",
            residuals=("counted by the clock of this machine", "it ends earlier with its owner"),
            source=MEASURED,
        ),
        Enforcement(
            "labels",
            dict(spec.metadata),
            "a record in a folder of this user's alone",
            "provider",
            "attested",
            source=MEASURED,
        ),
        _secrets(spec),
        _isolation(machine),
    )


def _applied(policy: str, requested: object, mechanism: str) -> Enforcement:
    return Enforcement(policy, requested, mechanism, "provider", "attested", source=KERNEL)


def _allow(spec: SandboxSpec) -> Receipt:
    if not spec.network.allow:
        return Absent("network.allow", "no allowlist was asked for")
    return _network("network.allow", spec.network.allow, f"{LINK}, to these addresses", "address", ONLY_IPV4)


def _network(
    policy: str, requested: object, mechanism: str, strength: Strength, residuals: tuple[str, ...] = ()
) -> Enforcement:
    source = f"{NAMESPACES}; {MEASURED}"
    return Enforcement(policy, requested, mechanism, "provider", "attested", strength, residuals, source)


def _egress(spec: SandboxSpec) -> Enforcement:
    wanted = spec.network.egress
    if spec.network.allow:
        return _network("network.egress", wanted, f"{LINK}, to the listed addresses alone", "address")
    if wanted == "allow" and not (isinstance(spec.config, BubblewrapConfig) and spec.config.share_network):
        routed = (
            "all that this machine has routes to can be reached, private networks and containers of an engine included"
        )
        return _network("network.egress", wanted, LINK, "address", (*ONLY_IPV4, routed))
    if wanted == "allow":
        residuals = (
            "this machine's own network is shared: all that listens on its loopback, and its abstract unix sockets, can be reached",
            "other sandboxes of this kind, and gateway and metadata addresses, can be reached, too",
        )
        return _network("network.egress", wanted, "no network namespace (share_network)", "address", residuals)
    mechanism = (
        "a network namespace of its own with a loopback interface alone; the agent's filter refuses vsock sockets"
    )
    return _network("network.egress", wanted, mechanism, "interface")


def _disk(caps: Caps) -> Enforcement:
    return Enforcement(
        "disk",
        caps.disk_mb,
        "a tmpfs of that size holds all that can be written to; what is mounted into it is read-only",
        "provider",
        "attested",
        residuals=(
            "what is written is memory: it counts to the memory cap, and is gone with the sandbox",
            f"shared memory (/dev/shm, {caps.shm_mb} MiB) is not counted to it, but to the memory cap",
        ),
        source=f"{TMPFS}; {MEASURED}",
    )


def _secrets(spec: SandboxSpec) -> Receipt:
    if not spec.secrets:
        return Absent("secrets", "no secret was given")
    mechanism = "environment of each command, passed in frames to the agent; in no record and no argument of a process"
    return Enforcement("secrets", tuple(sorted(spec.secrets)), mechanism, "sandboxio", "documented", source=MEASURED)


def _isolation(machine: Machine | None) -> Enforcement:
    residuals = [
        "one kernel is shared with the host: for trusted, development and CI code",
        "programs of this machine (/usr), or of the template, can be read and run",
    ]
    if machine is None or not machine.own_users:
        residuals.append(
            "unless root makes it, it is its owner's user for the kernel: what is counted by user id can be used up for that user"
        )
    return Enforcement(
        "isolation",
        INFO.tier.value,
        "user, mount, pid, network, ipc, uts and cgroup namespaces (the network's unless shared), further user namespaces disabled,"
        " all capabilities dropped, no-new-privileges, system calls filtered, nothing of the host's to write to",
        "provider",
        "attested",
        residuals=tuple(residuals),
        source=f"{INFO.tier_evidence}; {MEASURED}",
    )
