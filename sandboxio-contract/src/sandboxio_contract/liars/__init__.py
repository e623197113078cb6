"""Deliberately broken backends: a suite that acquits one of them proves nothing.

Each liar names the requirements that must convict it and those that may. They are shipped so that whoever changes a row,
or writes one for another backend, can see that it still convicts. What core does for every backend none of them can break:
`sandboxio_contract.liars.cores` breaks core itself. `sandboxio_contract.liars.witnesses` blinds the suite's own controls.
"""

from sandboxio_contract.liars.liar import Liar

__all__ = ["LIARS", "Liar"]

_MANY, _BIG, _DELETED = (
    "many_small_files_hit_the_disk_cap",
    "one_big_file_hits_the_disk_cap",
    "deleted_files_that_are_open_hit_the_disk_cap",
)
_REACHED, _LEAVES = "secrets_reach_commands_by_their_environment_alone", "no_secret_leaves"
_CONNECTED, _ONCE = "a_tree_that_a_connection_started_is_gone", "each_command_runs_once"
_TREE, _RESISTING, _BESIEGED = (
    "a_timed_out_tree_is_gone",
    "a_command_that_resists_is_ended",
    "a_timeout_holds_against_resistance",
)
_BEYOND, _LABELLED = "what_the_host_lacks_is_refused", "metadata_reaches_the_providers_labels"
_TEARDOWN = {"TRD-02", "TRD-03", "TRD-04", "TRD-05", "TRD-07", "LOOP-01", "TMO-03"}

LIARS: tuple[Liar, ...] = (
    # Stubs: what is made, refused, cancelled and ended.
    Liar(
        "liar-forgets",
        "kill answers, and forgets the sandbox alive",
        "stubs",
        {"TRD-01"},
        _TEARDOWN,
        rows={"leaving_the_block_kills", "leaving_a_connected_block_kills"},
    ),
    Liar(
        "liar-partial",
        "a command that is cut off is reported as success",
        "stubs",
        {"TMO-03"},
        rows={"a_deadline_raises"},
    ),
    Liar("liar-swallows", "cancellation while preparing is swallowed", "stubs", {"TRD-05"}),
    Liar("liar-late", "a policy is refused after the sandbox was made", "stubs", {"NET-05"}),
    Liar("liar-chatty", "planning already asks the provider", "stubs", {"ISO-01"}),
    Liar("liar-orphans", "a creation that was given up is forgotten", "stubs", {"TRD-05"}),
    Liar("liar-immortal", "only the client looks at the lifetime", "stubs", {"TMO-05"}),
    Liar("liar-extends", "connecting to a sandbox extends its lifetime", "stubs", {"CON-01"}),
    Liar("liar-twice", "killing what is gone is an error", "stubs", {"TRD-04"}),
    Liar(
        "liar-stops",
        "output that is too long ends the command",
        "stubs",
        {"CAP-08"},
        rows={"output_is_bounded", "endless_output_does_not_fill_this_process"},
    ),
    Liar("liar-wraps", "a cancellation becomes an error", "stubs", {"TRD-08"}),
    Liar(
        "liar-hoards",
        "all output is collected before any is returned",
        "stubs",
        {"FIL-02", "CAP-08"},
        rows={"endless_output_does_not_fill_this_process", "a_gibibyte_goes_both_ways_in_constant_memory"},
    ),
    # Stubs: commands and files.
    Liar(
        "liar-retries",
        "an answer that is slow is asked for again, and a command run twice",
        "commands",
        {"RUN-01"},
        rows={_ONCE},
    ),
    Liar("liar-merges", "stderr comes as stdout", "commands", {"RUN-02"}, {"RUN-04"}),
    Liar("liar-blanks", "an empty argument is lost", "commands", {"RUN-01"}, rows={"argv_goes_through_no_shell"}),
    Liar("liar-trims", "of a variable only the first line arrives", "commands", {"RUN-03"}),
    Liar("liar-poses", "a provider's message poses as output", "commands", {"RUN-04"}),
    Liar("liar-cuts-code", "code is cut at 64 KiB", "commands", {"RUN-05"}),
    Liar("liar-drops", "a read that is cancelled loses output", "commands", {"STR-01"}),
    Liar("liar-queues", "a command waits for another's reader", "commands", {"STR-02"}),
    Liar("liar-swells", "what nobody reads is kept in this process", "commands", {"STR-02"}),
    Liar("liar-waits", "a call waits for what its command left running", "commands", {"TMO-07"}),
    Liar("liar-reaps", "what a command left running ends with it", "commands", {"TMO-07"}),
    Liar("liar-lines", "the line ends of files are changed", "commands", {"FIL-01"}, {"FIL-02"}),
    Liar("liar-gathers", "an upload is collected before any of it is sent", "commands", {"FIL-02"}),
    # Stubs: whose a sandbox is, and its end.
    Liar("liar-early", "a sandbox's end passes for its command's own", "ends", {"TMO-02"}, {"TMO-05"}),
    Liar("liar-threaded", "a client serves only the thread that was first", "ends", {"LOOP-01"}, {"SYN-01"}),
    Liar("liar-hurries", "gone is said before the provider has answered", "ends", {"TRD-03"}, {"TRD-05"}),
    Liar(
        "liar-twins",
        "a second sandbox of the same labels is forgotten",
        "ends",
        {"TRD-07"},
        {"TRD-03", "TRD-05", "TEN-04"},
    ),
    Liar("liar-lists", "every tenant's sandboxes are listed to each", "ends", {"TEN-01"}, rows={_LABELLED}),
    Liar("liar-boundless", "a cap is taken that the host can't have", "ends", {"CAP-02"}, rows={_BEYOND}),
    Liar("liar-asyncio", "it works on asyncio alone", "ends", {"TRIO-01"}),
    Liar(
        "liar-deaf",
        "a command of a synchronous program lives on after Ctrl-C",
        "programs",
        {"SYN-01"},
        rows={"a_synchronous_program_leaves_nothing"},
    ),
    # Stubs: promises made before a sandbox exists.
    Liar("liar-unsaid", "caps of a template are said to be the sandbox's", "promises", {"CAP-06"}),
    Liar("liar-anonymous", "a missing credential is not named", "promises", {"SEC-05"}),
    Liar("liar-nameless", "an unknown isolation passes for a container's", "promises", {"ISO-03"}),
    Liar("liar-ranks", "a tier depends on the caps", "promises", {"ISO-02"}),
    Liar("liar-unsourced", "a virtual machine is claimed without a source", "promises", {"ISO-05"}),
    Liar("liar-undated", "receipts name no source", "promises", {"NET-11"}, rows={"strength_is_stated_and_dated"}),
    Liar("liar-shrinks", "the sandbox gets less than was planned", "promises", {"PLAN-01"}),
    Liar("liar-gpu", "a feature that is not declared is accepted and ignored", "promises", {"CAPA-01"}),
    Liar("liar-echo", "an error repeats what stood in the DSN", "promises", {"SEC-02"}),
    Liar("liar-warm", "a spare sandbox is made with each", "promises", {"TEN-04"}),
    Liar("liar-cuts", "a label is cut to 63 characters", "promises", {"TEN-01"}, rows={_LABELLED}),
    Liar("liar-mute", "an error does not say what is missing", "promises", {"ERR-01"}),
    # Stubs: what a provider offers, and secrets.
    Liar("liar-unbrokered", "the provider's broker for secrets is not used", "offers", {"SEC-03"}),
    Liar("liar-commons", "one sandbox reaches the storage of every tenant", "offers", {"TEN-03"}),
    Liar("liar-hushed", "what was blocked is not told", "offers", {"NET-07"}),
    Liar("liar-arguments", "secrets are in the arguments of a process", "offers", {"SEC-01"}, rows={_REACHED}),
    Liar("liar-labels", "secrets are in a label of the adapter's own", "offers", {"SEC-01"}, rows={_LEAVES}),
    # Docker: the network.
    Liar("liar-open", "the network is open although the plan says deny", "networks", {"NET-02"}, {"NET-10", "ISO-06"}),
    Liar(
        "liar-toolless",
        "the network is open, and the image has no tool to show it",
        "networks",
        {"NET-02"},
        {"NET-10", "ISO-06"},
        template="sandboxio-test/busybox?accept_vsock=1",
    ),
    Liar(
        "liar-claims",
        "the interface layer is claimed, and there is one",
        "networks",
        {"NET-11"},
        {"NET-02", "NET-10", "ISO-06"},
        rows={"the_interface_layer_is_seen_inside"},
    ),
    Liar("liar-six", "deny is for IPv4 only", "networks", {"NET-02"}, {"NET-10"}),
    Liar("liar-resolves", "deny leaves questions for names open", "networks", {"NET-02"}, {"NET-10"}),
    Liar("liar-window", "the network is open until the sandbox is ready", "networks", {"NET-09"}),
    Liar("liar-decorative", "an allowlist opens everything", "networks", {"NET-04"}),
    Liar("liar-names", "an allowlist keeps names from being looked up, and no address", "networks", {"NET-04"}),
    Liar("liar-otherwise", "deny is another switch than the promised one", "networks", {"NET-10"}),
    Liar("liar-bridge", "every sandbox that may go out shares one bridge", "networks", {"NET-13"}),
    # Docker: caps and hardening.
    Liar("liar-shrugs", "the cap that ended a command is not named", "caps", {"CAP-05"}),
    Liar("liar-uncapped", "the cpu cap is only in the receipt", "caps", {"CAP-07"}),
    Liar("liar-forgetful", "the memory cap is only in the receipt", "caps", {"CAP-07"}, {"CAP-03", "CAP-05", "ISO-06"}),
    Liar("liar-unbounded", "the disk cap is only in the receipt", "caps", {"CAP-01"}, rows={_MANY, _BIG, _DELETED}),
    Liar("liar-unmeasured", "only single files are held to the disk cap", "caps", {"CAP-01"}, rows={_MANY, _DELETED}),
    Liar("liar-unlooked", "deleted files do not count for the disk cap", "caps", {"CAP-01"}, rows={_DELETED}),
    Liar("liar-swaps", "memory is capped, swap is not", "caps", {"CAP-03"}, {"ISO-06"}),
    Liar("liar-forks", "the process ceiling is only in the receipt", "caps", {"CAP-04"}, {"ISO-06"}),
    Liar(
        "liar-unconfined",
        "system calls are filtered in the receipt only",
        "caps",
        {"ISO-06"},
        rows={"docker_is_hardened"},
    ),
    Liar(
        "liar-generous",
        "who gives one capability back gives seven",
        "caps",
        {"ISO-06"},
        rows={"what_is_given_back_is_exact"},
    ),
    Liar(
        "liar-writable", "a read-only root can be written to", "caps", {"ISO-06"}, rows={"user_and_read_only_root_hold"}
    ),
    Liar(
        "liar-rooted",
        "commands are root whatever user was asked for",
        "caps",
        {"ISO-06"},
        rows={"user_and_read_only_root_hold"},
    ),
    # Docker: what a sandbox is made of, and its end.
    Liar("liar-substitutes", "an image that is missing is replaced by another", "lives", {"NET-08"}),
    Liar(
        "liar-template",
        "another image than the named one is started",
        "lives",
        {"NET-12"},
        rows={"a_prepared_template_has_its_dependencies"},
    ),
    Liar(
        "liar-shortens",
        "of a file that is uploaded the beginning arrives",
        "lives",
        {"NET-12"},
        {"FIL-01", "FIL-02", "FIL-03", "CAP-04", "SEC-01"},
        rows={"a_wheelhouse_is_uploaded_and_installed_offline"},
    ),
    Liar(
        "liar-shares",
        "one directory of this machine is in every sandbox",
        "lives",
        {"TEN-02"},
        {"TEN-03", "ISO-06"},
        rows={"tampering_stays_inside", "two_sandboxes_share_nothing"},
    ),
    Liar(
        "liar-shadows",
        "a second container outlives the owner",
        "lives",
        {"TRD-06"},
        rows={"a_killed_owner_leaks_nothing", "a_killed_owner_with_a_forked_child_leaks_nothing"},
    ),
    Liar("liar-spares", "a further connection's kill says tree, and spares it", "lives", {"TMO-04"}, rows={_CONNECTED}),
    Liar("liar-keeps", "secrets are in the container's configuration", "lives", {"SEC-04"}),
    Liar(
        "liar-undying",
        "the lifetime is kept by the client alone",
        "lives",
        {"TMO-06"},
        {"TMO-05"},
        rows={"the_lifetime_holds"},
    ),
    Liar(
        "liar-glass",
        "commands reach the agent's memory and descriptors",
        "agents",
        {"TMO-06", "RUN-01"},
        rows={"code_inside_reaches_nothing_that_holds_it", "nobody_speaks_in_the_agents_name"},
    ),
    Liar(
        "liar-leader",
        "a kill ends the command and not its tree",
        "agents",
        {"TMO-04"},
        rows={_TREE},
        also={_RESISTING},
    ),
    Liar(
        "liar-worn",
        "a sandbox in which a command was ended fails the next",
        "lives",
        {"TMO-04"},
        {"STR-01", "STR-02", "CAP-04", "FIL-03", "TMO-06", "RUN-01", "ISO-06"},
        rows={_TREE, _RESISTING, _BESIEGED},
    ),
    Liar(
        "liar-crowded",
        "a neighbour's descriptors in flight keep commands from starting",
        "agents",
        {"TEN-02"},
        rows={"a_greedy_neighbour_is_not_felt"},
    ),
    Liar(
        "liar-credulous",
        "the agent takes its frames' word from any command",
        "agents",
        {"RUN-01"},
        {"TMO-06"},
        rows={"nobody_speaks_in_the_agents_name"},
    ),
)
