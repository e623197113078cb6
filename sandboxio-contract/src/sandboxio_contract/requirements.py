"""Every requirement by its stable id: what a backend is judged by."""

from collections.abc import Mapping, Set

RULES: Mapping[str, str] = {
    # Network
    "NET-01": '`NetworkPolicy(egress="deny")` is the default, also for `create()` without arguments',
    "NET-02": "deny really denies: TCP to a raw IPv4 and IPv6 address, UDP, DNS through every resolver the sandbox has and through a resolver named by address, the metadata address 169.254.169.254, the host's own bridge or gateway address, host unix and vsock sockets, and other sandboxes",
    "NET-03": 'each denial is paired with a positive control that proves probe and canary: the same probe, tool and target from a *suite-made reference* (a plain container or namespace on a network that the suite made, IPv6 included); in addition, where the backend allows `egress="allow"`, such a sandbox reaches the outside canaries. A control that fails makes the row not-provable, never a pass',
    "NET-04": "`allow=(…)` (host names, wildcards, CIDRs) lets the listed targets through and nothing else, at the strength the receipt states; the denied target of the probe is one that answers when allowed",
    "NET-05": "what the backend cannot enforce raises `CapabilityNotSupported` before provisioning; never accepted and ignored; no silent stricter or looser substitute",
    "NET-06": '`egress="learn"` raises `CapabilityNotSupported` in v0.1',
    "NET-07": "blocked attempts, where the backend reports them, are counted in the audit record",
    "NET-08": "the image pull is host-side: a deny-egress sandbox starts from an image that had to be fetched (tested with a registry on loopback; Debian's `docker-registry`)",
    "NET-09": 'the policy is fixed for the sandbox\'s life; no "install, then lock down" window',
    "NET-10": "Docker: deny = network mode `none`; a non-empty `allow` raises",
    "NET-11": 'enforcement strength is data: each network receipt says at which layer the backend enforces it (`interface > address > sni > dns`) and lists known residuals, with a dated source. `NetworkPolicy(min_strength=…)` refuses what is weaker; default `"sni"`, so a `dns`-only allowlist is refused; names accepted at `sni`, and a deny with a named residual, emit `WeakEnforcementWarning` at create',
    "NET-12": "the two dependency patterns work under deny: image prep, and an offline wheelhouse (`files.upload()` of wheels, then an offline install)",
    "NET-13": '`egress="allow"` opens the outside, not the neighbours: no sandbox reaches another (Docker: an own bridge network each, made before, removed after, labelled, found by `reap`; the engine picks the subnet; its pools end at 30 by default: `CreationError` naming the pool, never "missing image"; `DockerConfig(network_pool=CIDR)` opts into /29s, checked against host routes on a local engine); what stays reachable (host listeners on the gateway, metadata address) is a residual',
    "NET-14": 'contradictions raise: `egress="allow"` with a non-empty `allow`, a `/0` entry, a URL, a port, an empty entry',
    # Timeouts
    "TMO-01": "`create()`, `run()`, `run_code()`, `stream()` refuse unbounded: `timeout` ≤ 0, NaN, infinity and (for `create`) `None` raise `ConfigurationError`; default 300 s",
    "TMO-02": "`timeout=None` on a call inherits the sandbox's",
    "TMO-03": "a timeout raises `CreateTimeout` / `ExecutionTimeout`, never hangs, never returns partial output as success; no builtin `TimeoutError` escapes",
    "TMO-04": "a timed-out command's whole process tree is gone (children that `setsid`, double-fork or ignore TERM too), other processes of the sandbox live on where the backend allows it",
    "TMO-05": "a sandbox whose lifetime ended raises `SandboxGone` on every operation",
    "TMO-06": "the lifetime is enforced on the provider's side: the sandbox dies within the provider's unit after `expires_at` (stated in the receipt) although the owner was SIGKILLed, also when code inside attacks the agent (ptrace, `/proc/1/mem`, STOP, fd closing, signal floods)",
    "TMO-07": "a background child that keeps stdout open does not make `run()` wait for it, and goes on living (and writing) after a successful run",
    # Resource caps
    "CAP-01": "CPU, memory and disk always have a concrete cap that something enforces; processes wherever the backend has a ceiling. Docker's disk: the storage driver's quota where there is one, else `enforced_by=sandboxio`: `ulimit fsize` = `disk_mb`, and while the agent reports a live user process the reaper asks the engine for the layer's size (next query after max(2 s, 20 × the last one's duration), one at a time per engine; a query costs 1–770 ms with the number of files), the agent adds blocks of deleted-but-open files; once more after each upload. Over the cap → destroyed, pending and next calls raise `ResourceLimitExceeded(\"disk_mb\")`; an end by SIGXFSZ raises it too. Residuals named: one interval's writes, inodes, block rounding. Rows: many files, one big file, unlinked files",
    "CAP-02": "a caller may raise a cap, never unset one: `None` means the backend's default; `0`, negative, NaN, infinity, strings, and values above what the probed host, account or template has (naming the maximum) are refused",
    "CAP-03": "the memory cap bounds memory and swap together: touch cap + 128 MiB with swap present, and the peak of memory + swap stays under the cap (the row's fixture makes a 256 MiB swap file, checks `/proc/swaps`, removes it in any case; its control: a plain container with twice the memory+swap does swap); where swap can't be observed, `evidence=\"unverified\"` and not-provable",
    "CAP-04": 'where the backend has a process ceiling it holds against a fork bomb: the host\'s count stays bounded; a running stream and files go on, a new `run` raises `ResourceLimitExceeded("pids")` at once, tree-killing the bomb succeeds, then `run` works; where it has none, `Absent(pids, …)` and `Resources(pids=…)` is refused',
    "CAP-05": "exceeding a cap surfaces as `ResourceLimitExceeded` naming the limit and its value, carrying the result, where the backend reports it; with several commands running only the one that died is convicted, others get `limits_hit`",
    "CAP-06": "template-owned caps: a non-default `Resources(…)` raises `ConfigurationError` naming the template; the backend declares `resource_caps_supported = False`",
    "CAP-07": "a backend that can neither apply caps nor name a template that does must not create",
    "CAP-08": "output is bounded: beyond `max_output` (8 MiB per stream, 1 byte … 1 GiB) output is drained and dropped, the command goes on, its exit code is true, `stdout_truncated` is set, the first bytes are kept; lossless output is `stream()`",
    # Teardown
    "TRD-01": "leaving the context kills the sandbox: normal exit, exception, every kind of cancellation, cancellation during teardown, a connected sandbox too",
    "TRD-02": "teardown is immune to both kinds of cancellation (trio: shielded scope; asyncio: a task of its own, cancellations remembered and re-raised) and bounded by `TEARDOWN_GRACE` (5 s; `SBX_TEARDOWN_GRACE`). The sweep delivers: an anyio scope cancel, one native `cancel()`, two 50 ms apart, `asyncio.timeout`, KeyboardInterrupt",
    "TRD-03": "when the grace expires `OrphanedSandboxWarning` names id, backend and labels; the caller's own exception is not replaced",
    "TRD-04": "`kill()` is idempotent, also concurrently, also after the provider lost the sandbox",
    "TRD-05": "cancelling `create()` at every await point leaves nothing behind (in flight, id just known, half attached)",
    "TRD-06": "a SIGKILLed owner leaks nothing (also with a live forked child holding its descriptors): the sandbox ends by itself, bounded by a stated time (Docker on a local socket: seconds; remote ≤ 60 s; clouds: the lifetime)",
    "LOOP-01": "enter in one task, run in a second, kill in a third; two event loops one after the other with one backend; both loops' kinds",
    "TRD-07": "zero labelled sandboxes remain after the test run",
    "TRD-08": "cancellation surfaces as cancellation, never wrapped",
    # Secrets
    "SEC-01": "`secrets=` is separate from `env=` (same key in both → `ConfigurationError`); they reach every command's environment, never argv, the sandbox object, the image; the values, the provider's own credentials and traffic tokens appear in no log record, exception message or note, repr (policy and plan objects included), audit event, span, CLI output or provider label, at any verbosity",
    "SEC-02": "a DSN with a credential-looking parameter, user info or password raises `ConfigurationError` naming the environment variable, without printing the value",
    "SEC-03": "brokered injection is preferred where the provider has one (Modal Secrets; Vercel header transforms where a domain is given)",
    "SEC-04": "nothing persists a credential: no file, no cache, no image layer, no label, no provider-side secret object that outlives the sandbox",
    "SEC-05": "a missing provider credential raises `AuthError` naming the exact variable",
    # Tenancy
    "TEN-01": "`metadata` reaches provider-native labels, so that orphans are findable; keys and values that the provider cannot carry raise, they are not cut",
    "TEN-02": "two sandboxes share no file, process, environment, network or secret",
    "TEN-03": "tenant-scoped storage is used where the backend has it (Modal Volume `sub_path`, Daytona volume subpath)",
    "TEN-04": "nothing is pooled or shared unless the caller asked",
    # Isolation
    "ISO-01": "`require_isolation=` is checked before provisioning; failure raises `ConfigurationError`, and a spy sees no provider call",
    "ISO-02": "the explicit rank orders escape resistance only",
    "ISO-03": "an `UNKNOWN` backend satisfies nothing; creating on it without a requirement emits `UnverifiedIsolationWarning`",
    "ISO-04": "`require_isolation=UNKNOWN` raises `ConfigurationError`",
    "ISO-05": "every tier above `CONTAINER` carries a dated source from the provider's documentation",
    "ISO-06": "Docker always applies: capabilities dropped (ALL; a typed opt-in may give back a closed list that ordinary images need as root), `no-new-privileges`, process ceiling, swap bounded with memory. Non-root user and read-only root are not applied by default (they break ordinary images); docs say so",
    # Behaviour (what makes the policies usable)
    "RUN-01": "argv goes through no shell; a string goes through `sh -c`; exit codes and signals exact (a process killed by signal N gives 128+N)",
    "RUN-02": "stdout and stderr apart; non-UTF-8 bytes intact; NUL bytes intact; 100 MB of output without loss where asked",
    "RUN-03": "stdin, `cwd`, `env` (values with newlines, `=`, unicode, empty), `user` where declared",
    "RUN-04": "a missing program is 127 and one that cannot be executed 126, with the text in stderr and nothing in stdout; a missing working directory or interpreter is a `ConfigurationError` naming it; never a provider message posing as stdout",
    "RUN-05": "run_code: one-shot for Python, shell and whatever interpreter the image has; syntax and runtime errors are a non-zero exit with the traceback; `context=` only with `STATEFUL_CODE`",
    "STR-01": "streaming delivers the first chunk before the command ends; order kept within a stream; leaving the block (end, `break`, exception, cancellation) ends the remote tree; a cancelled read loses no chunk; `wait()` without reading drains and counts what it dropped",
    "STR-02": 'a consumer that sleeps 6 s on 200 MB of output delays a concurrent `run(["true"])` and a kill to no more than 5 × the same calls without it, and never over 1 s; host memory stays flat',
    "FIL-01": "read, write, upload, download, ls, mkdir, remove, stat, exists: binary-safe, names with spaces, newlines and unicode, empty files, symlinks, missing path → `PathNotFound`, directory trees",
    "FIL-02": "1 GiB up and down in constant memory",
    "FIL-03": "no path of a download or upload can escape: a hostile tar, symlink or `..` in the sandbox writes nothing outside the target",
    "ERR-01": "every provider exception is mapped; its cause is the native exception, unless that holds a known secret anywhere in its formatted traceback: then core's redacted `ProviderError`; every error carries code, hint (the exact fix) and page",
    "CON-01": '`connect()` looks before it touches (no resume, no extension), refuses what is not labelled ours or does not match the given metadata, network, resources or tier; unreadable items are `unverified`, never "deny"',
    "PLAN-01": "offline refusals ⊆ probed refusals; `create()` enforces at least what the probed plan said; any spec gives a complete plan or a mapped error",
    "CAPA-01": "every declared capability has a passing row; every undeclared one raises `CapabilityNotSupported` when used",
    "OBS-01": "exactly one record per operation; a failing sink follows `on_sink_failure`",
    "SYN-01": "the sync facade mirrors the async surface; errors keep class and cause; Ctrl-C, fork and exit leave nothing",
    "TRIO-01": "every row passes on asyncio and on trio",
}
"""Requirement id → rule."""

NOT_BUILT: Set[str] = frozenset[str]()
"""Requirements that no row judges yet; they fail a strict run. Who builds the feature deletes its line here."""

DERIVED: Set[str] = frozenset({"TRIO-01"})
"""Requirements that are judged by the results of all other rows."""
