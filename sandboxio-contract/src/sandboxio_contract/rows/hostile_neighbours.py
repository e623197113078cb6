"""Rows about a sandbox whose code takes all it can get, or changes what the next start would use: others don't feel it."""

import time
from contextlib import suppress

import anyio
from sandboxio import Sandbox, SandboxError

from sandboxio_contract.attacks import EXHAUST, SHELL_EXHAUST
from sandboxio_contract.attacks.exhaust import THINGS
from sandboxio_contract.rows import row
from sandboxio_contract.rows.caps import PIDS
from sandboxio_contract.rows.inside import attack, need_shell, output_of
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Inconclusive, proven, require

PATIENCE = 30.0
AT_ONCE = 5.0
"""Seconds that anything may take in a sandbox beside one that takes all it can get."""
SHELL_THINGS = ("disk", "shared memory", "processes")
TAMPER = """
changed=0
for path in /bin/* /usr/bin/* /usr/local/bin/*; do
    case ${path##*/} in python3 | sh | cat | echo | true | env | sleep | mkdir | mktemp) ;; *) continue ;; esac
    printf '#!/bin/tampered\\n' >"$path.new" && mv -f "$path.new" "$path" && changed=$((changed+1))
done 2>/dev/null
for folder in /usr/lib/python3*; do echo 'raise SystemExit(99)' >"$folder/sitecustomize.py"; done 2>/dev/null
echo /tampered.so >/etc/ld.so.preload
printf 'root:x:0:0::/:/bin/tampered\\n' >/etc/passwd
echo $changed
"""


@row("TEN-02", within=120, world=True, hostile=True)
async def a_greedy_neighbour_is_not_felt(target: Target) -> Finding:
    """One takes all processes, descriptors, memory and space it can get; one beside it and a new one answer as ever."""
    resources = {"resources": _resources()} if (await target.info()).resource_caps_supported else {}
    async with target.sandbox() as other, target.sandbox(**resources) as greedy:
        command = await attack(greedy, EXHAUST, SHELL_EXHAUST)
        things = THINGS if command[0] == "python3" else SHELL_THINGS
        await _answers(other)
        async with greedy.stream(command, timeout=60) as proc:
            said = b""
            with anyio.move_on_after(PATIENCE):
                while b"ready\n" not in said:
                    said += (await proc.__anext__()).data
            taken = [line for line in said.decode().splitlines() if ": " in line]
            none = [name for name in things if not any(line.startswith(f"{name}: ") for line in taken)]
            if none or any(": 0, " in line and not line.endswith("missing") for line in taken):
                raise Inconclusive(f"the attack took nothing of {none or taken}")
            if resources:
                with suppress(Inconclusive):
                    count = await target.look(target.ground.processes, greedy.id)
                    require(count <= PIDS, f"the host counts {count} processes and threads, the ceiling is {PIDS}")
            slowest = await _answers(other)
            async with target.sandbox() as later:
                slowest = max(slowest, await _answers(later))
    return proven(f"{'; '.join(taken)}. Beside it nothing took more than {slowest:.1f} s")


@row("TEN-02", within=90, world=True, hostile=True)
async def tampering_stays_inside(target: Target) -> Finding:
    """One changes every program that its next start would use: others, and new ones of the same image, are as before."""
    async with target.sandbox() as other, target.sandbox() as changed:
        await need_shell(changed)
        said = (await changed.run(["sh", "-c", TAMPER])).stdout.strip()
        if said in ("", "0"):
            raise Inconclusive("the image lets its user change no program, so there is nothing that could spread")
        with suppress(SandboxError):
            result = await changed.run(["sh", "-c", "exit 0"], timeout=AT_ONCE)
            require(result.exit_code != 0, "the control failed: a changed program still works")
        await _answers(other)
        async with target.sandbox() as later:
            await _answers(later)
        await changed.kill()
        require(not await target.look(target.ground.exists, changed.id), "the changed sandbox can't be ended")
    return proven(f"{said} programs changed in one; the one beside it and a new one work as before")


def _resources() -> object:
    from sandboxio import Resources

    return Resources(pids=PIDS)


async def _answers(sb: Sandbox) -> float:
    """Have a sandbox do one of everything; return how long the slowest took."""
    slowest = 0.0
    for _ in range(2):
        started = time.monotonic()
        result = await sb.run(["sh", "-c", "cat; echo err >&2; exit 3"], stdin=b"in", timeout=AT_ONCE)
        require((result.exit_code, result.stdout, result.stderr) == (3, "in", "err\n"), f"a command gave {result!r}")
        slowest = max(slowest, time.monotonic() - started)
    started = time.monotonic()
    await sb.files.write("kept", b"kept")
    require(await sb.files.read("kept") == b"kept", "a file has another content")
    async with sb.stream(["echo", "line"], timeout=AT_ONCE) as proc:
        chunks = [chunk.data async for chunk in proc]
    require(b"".join(chunks) == b"line\n", f"a stream gave {chunks!r}")
    require(await output_of(sb, ["echo", "on"], timeout=AT_ONCE) == "on\n", "a command's output is not its own")
    return max(slowest, time.monotonic() - started)
