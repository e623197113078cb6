"""The receipt of each policy item: what holds it, how that is known, and what stays possible."""

from sandboxio.planning import Absent, Enforcement, Receipt
from sandboxio.spec import SandboxSpec

from sandboxio_bubblewrap.caps import Caps
from sandboxio_bubblewrap.facts import Machine
from sandboxio_bubblewrap.info import INFO

READ = "read 2026-11"
KERNEL = f"https://docs.kernel.org/admin-guide/cgroup-v1/ and cgroup-v2.html ({READ})"
NAMESPACES = f"https://man7.org/linux/man-pages/man7/network_namespaces.7.html ({READ})"
TMPFS = f"https://docs.kernel.org/filesystems/tmpfs.html ({READ})"
MEASURED = "measured with bubblewrap 0.11, Linux 6.18, 2026-11"


def receipts(spec: SandboxSpec, caps: Caps, machine: Machine | None) -> tuple[Receipt, ...]:
    """Answer every policy item."""
    return (
        _egress(spec.network.egress),
        Absent("network.allow", "no allowlist was asked for"),
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


def _egress(wanted: str) -> Enforcement:
    if wanted == "allow":
        residuals = (
            "this machine's own network is shared: all that listens on its loopback, and its abstract unix sockets, can be reached",
            "other sandboxes of this kind, and gateway and metadata addresses, can be reached, too",
        )
        return Enforcement(
            "network.egress",
            wanted,
            "no network namespace (share_network)",
            "provider",
            "attested",
            "address",
            residuals,
            NAMESPACES,
        )
    mechanism = (
        "a network namespace of its own with a loopback interface alone; the agent's filter refuses vsock sockets"
    )
    return Enforcement(
        "network.egress", wanted, mechanism, "provider", "attested", "interface", (), f"{NAMESPACES}; {MEASURED}"
    )


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
