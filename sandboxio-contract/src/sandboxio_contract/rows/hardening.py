"""Rows about what a typed configuration of the Docker adapter gives back or hardens further."""

from typing import cast

import sandboxio
from sandboxio import ConfigurationError, ExecutionTimeout, Resources, Sandbox
from sandboxio.target import BackendConfig, parse_target, resolve_config

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import ends_one_tree, need_shell, output_of, raises
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Part, refused, require, summed, violated

BITS = {"CHOWN": 0, "KILL": 5, "SETGID": 6, "SETUID": 7}
NEVER = ("ALL", "SYS_ADMIN", "SYS_PTRACE", "NET_ADMIN", "NET_RAW", "MKNOD", "SYS_CHROOT", "SETFCAP")
NOBODY = "65534"
DISK_MB = 8


@row("ISO-06", backend="docker", world=True)
async def what_is_given_back_is_exact(target: Target) -> Finding:
    """Capabilities outside the closed list can't be asked for; those asked for are there and no others, for root alone."""
    config = await _config(target)
    if "capabilities" not in type(config).model_fields:
        return refused("the configuration has no field by which a capability comes back")
    parts = [_never(config)]
    async with target.sandbox(dsn=config.replace(capabilities=tuple(BITS), user="root")) as sb:
        await need_shell(sb)
        held = (await target.look(target.ground.inspect, sb.id)).get("CapAdd")
        names = {name.removeprefix("CAP_") for name in cast("list[str] | None", held) or ()}
        require(names == set(BITS), f"the engine holds CapAdd {held!r}")
        wanted = sum(1 << bit for bit in BITS.values())
        root = await _capabilities(sb)
        require(root == {"CapEff": wanted, "CapPrm": wanted, "CapBnd": wanted}, f"root has {root!r}, not {wanted:#x}")
        parts.append(Part("given back", "proven", f"root has exactly {', '.join(BITS)}"))
        parts.append(await _another_user(sb))
    return summed(parts)


@row("ISO-06", backend="docker", world=True)
async def user_and_read_only_root_hold(target: Target) -> Finding:
    """Where they are asked for: no command is root, and only bounded places can be written to."""
    config = await _config(target)
    if not {"user", "read_only"} <= set(type(config).model_fields):
        return refused("the configuration offers neither a user nor a read-only root")
    async with target.sandbox(dsn=config.replace(user=f"{NOBODY}:{NOBODY}")) as sb:
        await need_shell(sb)
        ids = (await output_of(sb, "grep -E '^[UG]id:' /proc/self/status")).split()
        require(set(ids) == {"Uid:", "Gid:", NOBODY}, f"commands of user {NOBODY} run as {ids}")
        await output_of(sb, "echo x > /tmp/there")
        await raises(ConfigurationError, sb.run(["true"], user="0"), f"a command as root where user={NOBODY}")
    async with target.sandbox(dsn=config.replace(read_only=True), resources=Resources(disk_mb=DISK_MB)) as sb:
        held = await target.look(target.ground.inspect, sb.id)
        require(held.get("ReadonlyRootfs") is True, "the engine holds a root file system that can be written to")
        for place in ("/probe", "/etc/probe", "/usr/probe", "/var/probe", "/bin/probe"):
            wrote = await sb.run(["sh", "-c", 'echo x > "$1"', "sh", place])
            require(not wrote.ok, f"{place} could be written to on a read-only root")
        fill = 'for at in . /tmp; do head -c 16777216 /dev/zero > "$at/big"; wc -c < "$at/big"; done'
        written = [int(size) for size in (await output_of(sb, fill)).split()]
        require(len(written) == 2 and all(written), f"the two places took {written} bytes")
        require(sum(written) <= DISK_MB * 2**20, f"{sum(written)} bytes were written under disk_mb={DISK_MB}")
    return summed(
        [
            Part("user", "proven", f"commands run as {NOBODY}, and not as root"),
            Part("read-only root", "proven", f"two places took {sum(written)} bytes of {DISK_MB} MiB, others none"),
        ]
    )


async def _config(target: Target) -> BackendConfig:
    info = await sandboxio.backend_info(target.dsn)
    return resolve_config(parse_target(target.dsn), info.config, None)


def _never(config: BackendConfig) -> Part:
    for name in NEVER:
        try:
            config.replace(capabilities=(name,))
        except ConfigurationError:
            continue
        violated(f"the capability {name} can be given back")
    return Part("closed list", "refused", f"{len(NEVER)} capabilities outside it raise ConfigurationError")


async def _capabilities(sb: Sandbox, **options: str) -> dict[str, int]:
    lines = (await output_of(sb, "grep -E '^Cap(Eff|Prm|Bnd):' /proc/self/status", **options)).splitlines()
    return {name.strip(":"): int(value, 16) for name, value in (line.split() for line in lines)}


async def _another_user(sb: Sandbox) -> Part:
    """Run a command as another user: it has no capability, and its tree ends as any other's does."""
    other = await _capabilities(sb, user=NOBODY)
    require((other["CapEff"], other["CapPrm"]) == (0, 0), f"a command of user {NOBODY} has capabilities: {other!r}")
    require((await output_of(sb, ["id", "-u"], user=NOBODY)) == f"{NOBODY}\n", f"user={NOBODY} runs as somebody else")
    unknown = sb.run(["true"], user="no-such-user")
    await raises(ConfigurationError, unknown, "a command of a user that does not exist")
    if not ends_one_tree(sb):
        return Part("another user", "proven", f"a command ran as {NOBODY}; a kill ends the sandbox")
    call = sb.run("sleep 300 & (sleep 300 &) & wait", user=NOBODY, timeout=2)
    await raises(ExecutionTimeout, call, "a command of another user past its timeout")
    left = await sb.run(f"cat /proc/[0-9]*/status 2>/dev/null | grep -c '^Uid:.{NOBODY}'")
    require(left.stdout == "0\n", f"{left.stdout.strip()} processes of user {NOBODY} survived the kill")
    return Part("another user", "proven", f"a command ran as {NOBODY}, without capabilities; its tree was ended")
