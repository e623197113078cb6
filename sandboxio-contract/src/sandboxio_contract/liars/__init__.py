"""Deliberately broken backends: a suite that acquits one of them proves nothing.

Each liar names the requirements that must convict it and those that may. They are shipped so that whoever changes a row,
or writes one for another backend, can see that it still convicts.
"""

from collections.abc import Set
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Liar:
    """One broken backend.

    :param name: its DSN scheme, and the attribute of its module that holds its hooks.
    :param lie: what it does wrong.
    :param base: what it is built on: the stub in memory (in three modules), or the real Docker adapter.
    :param must: requirements that convict it. :param may: requirements that also may.
    :param rows: where a requirement has rows for several ways to break it: exactly those that convict this liar.
    """

    name: str
    lie: str
    base: Literal["stub", "promises", "offers", "docker", "agents"]
    must: Set[str]
    may: Set[str] = frozenset()
    rows: Set[str] = frozenset()

    @property
    def adapter(self) -> str:
        """Where its hooks are, as `sandboxio.register` takes it."""
        module = {"stub": "stubs", "docker": "dockers"}.get(self.base, self.base)
        return f"sandboxio_contract.liars.{module}:{self.name.replace('-', '_')}"


_MANY, _BIG, _DELETED = (
    "many_small_files_hit_the_disk_cap",
    "one_big_file_hits_the_disk_cap",
    "deleted_files_that_are_open_hit_the_disk_cap",
)
_REACHED, _LEAVES = "secrets_reach_commands_by_their_environment_alone", "no_secret_leaves"
_CONNECTED = "a_tree_that_a_connection_started_is_gone"
_TEARDOWN = {"TRD-02", "TRD-03", "TRD-04", "TRD-05", "TRD-07", "LOOP-01", "TMO-03"}

LIARS: tuple[Liar, ...] = (
    Liar("liar-forgets", "kill answers, and forgets the sandbox alive", "stub", {"TRD-01"}, _TEARDOWN),
    Liar("liar-partial", "a command that is cut off is reported as success", "stub", {"TMO-03"}),
    Liar("liar-swallows", "cancellation while preparing is swallowed", "stub", {"TRD-05"}),
    Liar("liar-late", "a policy is refused after the sandbox was made", "stub", {"NET-05"}),
    Liar("liar-chatty", "planning already asks the provider", "stub", {"ISO-01"}),
    Liar("liar-orphans", "a creation that was given up is forgotten", "stub", {"TRD-05"}),
    Liar("liar-immortal", "only the client looks at the lifetime", "stub", {"TMO-05"}),
    Liar("liar-extends", "connecting to a sandbox extends its lifetime", "stub", {"CON-01"}),
    Liar("liar-twice", "killing what is gone is an error", "stub", {"TRD-04"}),
    Liar("liar-stops", "output that is too long ends the command", "stub", {"CAP-08"}),
    Liar("liar-wraps", "a cancellation becomes an error", "stub", {"TRD-08"}),
    Liar("liar-hoards", "all output is collected before any is returned", "stub", {"FIL-02", "CAP-08"}),
    Liar("liar-unsaid", "caps of a template are said to be the sandbox's", "promises", {"CAP-06"}),
    Liar("liar-anonymous", "a missing credential is not named", "promises", {"SEC-05"}),
    Liar("liar-nameless", "an unknown isolation passes for a container's", "promises", {"ISO-03"}),
    Liar("liar-ranks", "a tier depends on the caps", "promises", {"ISO-02"}),
    Liar("liar-unsourced", "a virtual machine is claimed without a source", "promises", {"ISO-05"}),
    Liar("liar-undated", "receipts name no source", "promises", {"NET-11"}),
    Liar("liar-shrinks", "the sandbox gets less than was planned", "promises", {"PLAN-01"}),
    Liar("liar-gpu", "a feature that is not declared is accepted and ignored", "promises", {"CAPA-01"}),
    Liar("liar-echo", "an error repeats what stood in the DSN", "promises", {"SEC-02"}),
    Liar("liar-warm", "a spare sandbox is made with each", "promises", {"TEN-04"}),
    Liar("liar-cuts", "a label is cut to 63 characters", "promises", {"TEN-01"}),
    Liar("liar-mute", "an error does not say what is missing", "promises", {"ERR-01"}),
    Liar("liar-unbrokered", "the provider's broker for secrets is not used", "offers", {"SEC-03"}),
    Liar("liar-commons", "one sandbox reaches the storage of every tenant", "offers", {"TEN-03"}),
    Liar("liar-hushed", "what was blocked is not told", "offers", {"NET-07"}),
    Liar("liar-arguments", "secrets are in the arguments of a process", "offers", {"SEC-01"}, rows={_REACHED}),
    Liar("liar-labels", "secrets are in a label of the adapter's own", "offers", {"SEC-01"}, rows={_LEAVES}),
    Liar("liar-window", "the network is open until the sandbox is ready", "docker", {"NET-09"}),
    Liar("liar-decorative", "an allowlist opens everything", "docker", {"NET-04"}),
    Liar("liar-substitutes", "an image that is missing is replaced by another", "docker", {"NET-08"}),
    Liar("liar-template", "another image than the named one is started", "docker", {"NET-12"}),
    Liar("liar-shadows", "a second container outlives the owner", "docker", {"TRD-06"}),
    Liar("liar-shrugs", "the cap that ended a command is not named", "docker", {"CAP-05"}),
    Liar("liar-uncapped", "the cpu cap is only in the receipt", "docker", {"CAP-07"}),
    Liar("liar-unbounded", "the disk cap is only in the receipt", "docker", {"CAP-01"}, rows={_MANY, _BIG, _DELETED}),
    Liar("liar-unmeasured", "only single files are held to the disk cap", "docker", {"CAP-01"}, rows={_MANY, _DELETED}),
    Liar("liar-unlooked", "deleted files do not count for the disk cap", "docker", {"CAP-01"}, rows={_DELETED}),
    Liar(
        "liar-spares", "a further connection's kill says tree, and spares it", "docker", {"TMO-04"}, rows={_CONNECTED}
    ),
    Liar("liar-keeps", "secrets are in the container's configuration", "docker", {"SEC-04"}),
    Liar("liar-open", "the network is open although the plan says deny", "docker", {"NET-02"}, {"NET-10", "ISO-06"}),
    Liar("liar-swaps", "memory is capped, swap is not", "docker", {"CAP-03"}, {"ISO-06"}),
    Liar("liar-forks", "the process ceiling is only in the receipt", "docker", {"CAP-04"}, {"ISO-06"}),
    Liar("liar-bridge", "every sandbox that may go out shares one bridge", "docker", {"NET-13"}),
    Liar("liar-generous", "who gives one capability back gives seven", "docker", {"ISO-06"}),
    Liar("liar-writable", "a read-only root can be written to", "docker", {"ISO-06"}),
    Liar("liar-rooted", "commands are root whatever user was asked for", "docker", {"ISO-06"}),
    Liar("liar-undying", "the lifetime is kept by the client alone", "docker", {"TMO-06"}, {"TMO-05"}),
    Liar("liar-glass", "commands reach the agent's memory and descriptors", "agents", {"TMO-06", "RUN-01"}),
    Liar("liar-leader", "a kill ends the command and not its tree", "agents", {"TMO-04"}),
    Liar("liar-crowded", "a neighbour's descriptors in flight keep commands from starting", "agents", {"TEN-02"}),
    Liar("liar-credulous", "the agent takes its frames' word from any command", "agents", {"RUN-01"}, {"TMO-06"}),
)
