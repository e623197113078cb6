"""How the agent gets into a sandbox: nothing is written there, its source comes over stdin."""

import functools
from importlib import resources
from struct import pack

STATUS_OWNER_GONE = 0
"""The agent's exit status when the end of its stdin ended it."""
STATUS_LIFETIME = 124
"""The agent's exit status when its lifetime was over."""

# Reads lengths, source and settings, and runs the source. With an argument it reads from that descriptor: a Python
# without ctypes starts itself a second time that way.
_PROGRAM = """\
import posix as o,sys
f=int((sys.argv[1:]or'0')[0])
def r(n):
 b=b''
 while len(b)<n:
  c=o.read(f,n-len(b))
  if not c:o._exit(0)
  b+=c
 return b
h=r(8);s=r(int.from_bytes(h[:4],'big'));t=r(int.from_bytes(h[4:],'big'))
g={'__name__':'sandboxio_agent'}
exec(compile(s,'sandboxio-agent','exec'),g)
g['main'](t,lambda:h+s+t,f>0)"""


def agent_argv() -> tuple[str, ...]:
    """Return the program that the sandbox must run, stdin and stdout attached, no terminal."""
    return ("python3", "-I", "-S", "-c", _PROGRAM)


def first_bytes(*, lifetime: float, owner_bound: bool, workdir: str | None) -> bytes:
    """Return what that program must read first: lengths, the agent's source, and settings."""
    source = _source()
    settings = pack(">d?", lifetime, owner_bound) + (workdir or "").encode("utf-8", "surrogateescape")
    return pack(">II", len(source), len(settings)) + source + settings


@functools.cache
def _source() -> bytes:
    return resources.files("sandboxio.agent").joinpath("inside.py").read_bytes()
