"""Rows about credentials: refused in a DSN, named where they are missing, written down nowhere."""

import base64
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import sandboxio
from sandboxio import AuthError, ConfigurationError, Sandbox, SandboxError

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import need_shell, output_of, raises
from sandboxio_contract.rows.refusing import recorded
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Part, Status, proven, require, summed, violated

NAMES = ("api_key", "API-KEY", "token", "access_token", "secret", "password", "passwd", "auth", "credential")
_BIGGEST = 2**20
_MOST_FILES = 20_000


@row("SEC-02")
async def a_dsn_carries_no_credential(target: Target) -> Finding:
    """Parameters that look like credentials, and user info, are refused; no message repeats what stood in the DSN."""
    word = f"Sec{secrets.token_hex(8)}"
    scheme = target.dsn.partition("://")[0]
    wrong = {name: f"{scheme}://image?{name}={word}" for name in NAMES}
    wrong |= {
        "user and password": f"{scheme}://user:{word}@image",
        "user alone": f"{scheme}://{word}@image",
        "quoted password": f"{scheme}://user:p%40{word}@image",
        "fragment": f"{scheme}://image?timeout=5#{word}",
        "timeout": f"{scheme}://image?timeout={word}",
        "second timeout": f"{scheme}://image?timeout=5&timeout={word}",
    }
    parts: list[Part] = []
    async with recorded(target) as asking:
        for name, dsn in wrong.items():
            error = await raises(ConfigurationError, sandboxio.create(dsn), f"a DSN with a {name}")
            _silent(f"the error about a DSN with a {name}", error, word)
            require(error.hint, f"the error about a DSN with a {name} names no fix")
        for name in NAMES:
            error = await raises(ConfigurationError, sandboxio.create(wrong[name]), name)
            require("environment variable" in str(error), f"the error about {name} does not lead to the environment")
        parts.append(Part("credentials", "refused", f"{len(wrong)} DSNs, no value repeated"))
        parts.append(await _parameters(target, scheme, word))
        require(not asking.calls(), f"a refused DSN led to {asking.calls()[:3]}")
    return summed(parts)


@row("SEC-05", uncredentialed=True)
async def a_missing_credential_is_named(target: Target) -> Finding:
    """Without a credential that the backend needs, the error is `AuthError` and names the variable."""
    needed = (await target.info()).credentials
    if not needed:
        return Finding("not applicable", "the backend declares no credentials")
    for name in needed:
        kept = os.environ.pop(name, None)
        try:
            error = await raises(AuthError, target.create(), f"create() without {name}")
        finally:
            if kept is not None:
                os.environ[name] = kept
        require(name in str(error), f"the error does not name {name}: {error.message}")
    return proven(f"AuthError names {', '.join(needed)}")


@row("SEC-04", within=90, world=True)
async def nothing_keeps_a_secret(target: Target) -> Finding:
    """A secret that commands see is in no file, label or description: not inside, not at the provider, not on the host."""
    word = f"canary{secrets.token_hex(12)}"
    forms = _forms(word)
    began = time.time()
    async with target.sandbox(secrets={"CANARY_SECRET": word}) as sb:
        await need_shell(sb)
        seen = await output_of(sb, ["sh", "-c", 'printf %s "$CANARY_SECRET"'])
        require(seen == word, "the secret does not reach a command: the search would prove nothing")
        await sb.run_code("echo $CANARY_SECRET > /dev/null", language="shell")
        await sb.files.write("beside", b"x")
        described = await target.look(target.ground.description, sb.id)
        require(sb.id[:12] in described, "the provider's description is not this sandbox's")
        inside = await _found_inside(sb, word)
    parts = [Part("provider", *_absent(described, forms, "the provider describes the sandbox with the secret in it"))]
    parts.append(Part("inside", *_absent(inside, forms, f"the secret is in files inside: {inside}")))
    kept = await target.look(lambda: [path for path in _written_since(began) if _holds(path, forms)])
    parts.append(Part("host", *_absent(" ".join(kept) and word, forms, f"the secret is in {', '.join(kept[:3])}")))
    return summed(parts)


async def _parameters(target: Target, scheme: str, word: str) -> Part:
    """Give each parameter of the backend's a value with a password in it: an error must not repeat that."""
    shown: list[str] = []
    for name in (await target.info()).config.model_fields:
        if name == "template":
            continue
        for value in (f"bad://user:{word}@host", f"tcp://user:{word}@host:1", f"tcp://{word}@host:1"):
            try:
                await sandboxio.plan(f"{scheme}://image?{name}={value}")
            except SandboxError as error:
                _silent(f"the error about the parameter {name}", error, word)
                shown.append(name)
    return Part("parameters", "proven", f"{len(shown)} wrong values of parameters are not repeated")


def _silent(what: str, error: BaseException, word: str) -> None:
    texts = [str(error), repr(error), *getattr(error, "__notes__", [])]
    if any(word in text for text in texts):
        violated(f"{what} repeats the value")


def _forms(word: str) -> list[str]:
    raw = word.encode()
    # Of base64 only what does not depend on what stands before and after it.
    inner = [base64.b64encode(b"\0" * shift + raw).decode()[4:-4] for shift in range(3)]
    return [word, raw.hex(), quote(word), *inner]


def _absent(text: str, forms: list[str], fact: str) -> tuple[Status, str]:
    held = any(form in text for form in forms)
    return ("violated", fact) if held else ("proven", "not there")


async def _found_inside(sb: Sandbox, word: str) -> str:
    """Return the files of the sandbox that hold the secret; the search itself does not carry it in its arguments."""
    places = "/etc /home /opt /root /run /srv /tmp /var /work /dev/shm"
    script = f'read -r word; for place in {places} "$PWD"; do grep -rl -- "$word" "$place" 2>/dev/null; done; true'
    control = f"echo {word} > /tmp/control 2>/dev/null || echo {word} > control"
    await output_of(sb, ["sh", "-c", control])
    found = await output_of(sb, ["sh", "-c", script], stdin=f"{word}\n")
    files = {line for line in found.splitlines() if line}
    own = {one for one in files if one.endswith("/control")}
    require(own, "the search inside does not even find what was written for it")
    return " ".join(sorted(files - own)) and f"{' '.join(sorted(files - own))} {word}"


def _written_since(began: float) -> Iterator[str]:
    """Yield files that were written on this host where programs keep their own things."""
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    config = os.environ.get("XDG_CONFIG_HOME", str(Path.home() / ".config"))
    state = os.environ.get("XDG_STATE_HOME", str(Path.home() / ".local"))
    left = _MOST_FILES
    for top in dict.fromkeys((tempfile.gettempdir(), cache, config, state, str(Path.home() / ".docker"), "/run/user")):
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)  # noqa: PTH118 - a Path for each of many files
                left -= 1
                if left < 0:
                    return
                try:
                    status = os.lstat(path)
                except OSError:
                    continue
                if status.st_mtime >= began - 1 and status.st_size <= _BIGGEST:
                    yield path


def _holds(path: str, forms: list[str]) -> bool:
    try:
        if not os.path.isfile(path) or os.path.islink(path):  # noqa: PTH113, PTH114
            return False
        content = Path(path).read_bytes().decode("latin-1")
    except OSError:
        return False
    return any(form in content for form in forms)
