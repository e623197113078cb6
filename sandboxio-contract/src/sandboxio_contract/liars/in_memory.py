"""The liars that are stubs in memory."""

from sandboxio_contract.liars.liar import Liar

_REACHED, _LEAVES = "secrets_reach_commands_by_their_environment_alone", "no_secret_leaves"
_ONCE, _BEYOND = "each_command_runs_once", "what_the_host_lacks_is_refused"
_LABELLED = "metadata_reaches_the_providers_labels"
_TEARDOWN = {"TRD-02", "TRD-03", "TRD-04", "TRD-05", "TRD-07", "LOOP-01", "TMO-03"}

IN_MEMORY: tuple[Liar, ...] = (
    # Stubs: what is made, refused, cancelled and ended.
    Liar(
        "liar-forgets",
        "kill answers, and forgets the sandbox alive",
        "stubs",
        {"TRD-01"},
        _TEARDOWN | {"OBS-01", "SYN-01", "TEN-01"},
        rows={"leaving_the_block_kills", "leaving_a_connected_block_kills"},
    ),
    Liar(
        "liar-partial",
        "a command that is cut off is reported as success",
        "stubs",
        {"TMO-03"},
        {"OBS-01"},
        rows={"a_deadline_raises"},
    ),
    Liar("liar-swallows", "cancellation while preparing is swallowed", "stubs", {"TRD-05"}),
    Liar("liar-late", "a policy is refused after the sandbox was made", "stubs", {"NET-05"}),
    Liar("liar-chatty", "planning already asks the provider", "stubs", {"ISO-01"}, {"PLAN-01"}),
    Liar(
        "liar-orphans", "a creation that was given up is forgotten", "stubs", {"TRD-05"}, {"OBS-01", "TMO-03", "TRD-07"}
    ),
    Liar("liar-immortal", "only the client looks at the lifetime", "stubs", {"TMO-05"}),
    Liar("liar-extends", "connecting to a sandbox extends its lifetime", "stubs", {"CON-01"}),
    Liar("liar-twice", "killing what is gone is an error", "stubs", {"TRD-04"}),
    Liar(
        "liar-stops",
        "output that is too long ends the command",
        "stubs",
        {"CAP-08"},
        {"FIL-01", "FIL-02", "RUN-02", "STR-01", "STR-02", "TMO-03"},
        rows={"output_is_bounded", "endless_output_does_not_fill_this_process"},
    ),
    Liar(
        "liar-wraps",
        "a cancellation becomes an error",
        "stubs",
        {"TRD-08"},
        {"CAP-08", "FIL-01", "OBS-01", "STR-01", "SYN-01", "TMO-02", "TMO-03"},
    ),
    Liar(
        "liar-hoards",
        "all output is collected before any is returned",
        "stubs",
        {"FIL-02", "CAP-08"},
        {"RUN-02", "STR-01", "STR-02", "TMO-03", "TMO-07"},
        rows={"endless_output_does_not_fill_this_process", "a_gibibyte_goes_both_ways_in_constant_memory"},
    ),
    # Stubs: commands and files.
    Liar(
        "liar-retries",
        "an answer that is slow is asked for again, and a command run twice",
        "commands",
        {"RUN-01"},
        {"TMO-07"},
        rows={_ONCE},
    ),
    Liar("liar-merges", "stderr comes as stdout", "outputs", {"RUN-02"}, {"CAP-08", "RUN-04", "RUN-05", "STR-01"}),
    Liar("liar-blanks", "an empty argument is lost", "commands", {"RUN-01"}, rows={"argv_goes_through_no_shell"}),
    Liar(
        "liar-mistakes",
        "a command that a signal ended has another exit code",
        "commands",
        {"RUN-01"},
        rows={"argv_goes_through_no_shell"},
    ),
    Liar("liar-persists", "a variable of one call is there in the next", "commands", {"RUN-03"}, {"SEC-01"}),
    Liar("liar-stays", "a working directory is looked at, and not used", "commands", {"RUN-03"}),
    Liar("liar-lingers", "a command is said to be ended, and is not", "outputs", {"STR-01"}),
    Liar(
        "liar-shuffles",
        "much output comes in another order",
        "outputs",
        {"RUN-02"},
        {"FIL-01", "FIL-02", "STR-01", "CAP-08"},
    ),
    Liar("liar-trims", "of a variable only the first line arrives", "commands", {"RUN-03"}),
    Liar("liar-poses", "a provider's message poses as output", "commands", {"RUN-04"}),
    Liar("liar-cuts-code", "code is cut at 64 KiB", "commands", {"RUN-05"}),
    Liar("liar-drops", "a read that is cancelled loses output", "outputs", {"STR-01"}, {"CAP-08", "STR-02"}),
    Liar("liar-queues", "a command waits for another's reader", "outputs", {"STR-02"}),
    Liar("liar-swells", "what nobody reads is kept in this process", "outputs", {"STR-02"}, {"CAP-08", "FIL-02"}),
    Liar("liar-waits", "a call waits for what its command left running", "outputs", {"TMO-07"}),
    Liar("liar-reaps", "what a command left running ends with it", "outputs", {"TMO-07"}),
    Liar("liar-lines", "the line ends of files are changed", "outputs", {"FIL-01"}, {"FIL-02"}),
    Liar("liar-gathers", "an upload is collected before any of it is sent", "outputs", {"FIL-02"}),
    # Stubs: whose a sandbox is, and its end.
    Liar("liar-early", "a sandbox's end passes for its command's own", "ends", {"TMO-02"}, {"TMO-05"}),
    Liar("liar-threaded", "a client serves only the thread that was first", "ends", {"LOOP-01"}, {"SYN-01"}),
    Liar("liar-hurries", "gone is said before the provider has answered", "ends", {"TRD-03"}, {"TRD-05"}),
    Liar(
        "liar-twins",
        "a second sandbox of the same labels is forgotten",
        "ends",
        {"TRD-07"},
        {"OBS-01", "TEN-01", "TEN-04", "TMO-03", "TRD-03", "TRD-05"},
    ),
    Liar(
        "liar-pools",
        "a sandbox that is there is given to another, too",
        "ends",
        {"TEN-04"},
        {"TMO-03", "TRD-02", "TRD-05"},
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
    Liar(
        "liar-nameless", "an unknown isolation passes for a container's", "promises", {"ISO-03"}, {"ISO-01", "ISO-02"}
    ),
    Liar("liar-ranks", "a tier depends on the caps", "promises", {"ISO-02"}),
    Liar("liar-climbs", "it has whatever tier is required", "promises", {"ISO-01"}),
    Liar("liar-stateful", "a feature is declared that does not work", "promises", {"CAPA-01"}),
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
)
