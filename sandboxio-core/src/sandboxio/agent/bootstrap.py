"""How the agent gets into a sandbox: nothing is written there, its source comes over stdin."""

import functools
import marshal
from importlib import resources
from struct import pack

STATUS_OWNER_GONE = 0
"""The agent's exit status when the end of its stdin ended it."""
STATUS_LIFETIME = 124
"""The agent's exit status when its lifetime was over."""

# Reads two lengths, the modules (names and sources, joined by NUL, or code by name) and the settings; imports a module when
# it is first needed, compiled by itself: compiling all at once keeps 4 MiB more resident. With an argument it reads from that
# descriptor instead of stdin: a Python without ctypes starts itself a second time that way.
_PROGRAM = """\
import posix as o,sys,_frozen_importlib as b,marshal as u
f=int((sys.argv[1:]or'0')[0])
def r(n):
 d=b''
 while len(d)<n:
  c=o.read(f,n-len(d))
  if not c:o._exit(0)
  d+=c
 return d
h=r(8);s=r(int.from_bytes(h[:4],'big'));t=r(int.from_bytes(h[4:],'big'))
if s[:1]==b's':p=s.decode().split('\\0');p=dict(zip(p[::2],p[1::2]))
else:p=u.loads(s)
class L:
 def find_spec(q,n,*a):
  return b.ModuleSpec(n,q,is_package=n=='sandboxio_agent')if n in p else None
 def create_module(q,s):pass
 def exec_module(q,m):
  c=p.pop(m.__name__)
  exec(u.loads(c)if type(c)is bytes else compile(c,m.__name__,'exec'),m.__dict__)
sys.meta_path.insert(0,L())
from sandboxio_agent.boot import main
main(t,lambda:h+s+t,f>0)"""


def agent_argv() -> tuple[str, ...]:
    """Return the program that the sandbox must run, stdin and stdout attached, no terminal."""
    return ("python3", "-I", "-S", "-c", _PROGRAM)


def first_bytes(
    *, lifetime: float, owner_bound: bool, workdir: str | None, watch_disk: bool = False, same_python: bool = False
) -> bytes:
    """Return what that program must read first: lengths, the agent's modules, and settings.

    :param same_python: the program's interpreter is this very one: it takes the modules compiled, which saves their start
        some 30 ms (measured 2026-11).
    """
    source = agent_code() if same_python else agent_source()
    settings = pack(">d??", lifetime, owner_bound, watch_disk) + (workdir or "").encode("utf-8", "surrogateescape")
    return pack(">II", len(source), len(settings)) + source + settings


@functools.cache
def agent_source() -> bytes:
    """Return the agent's modules as its bootstrap takes them."""
    parts = ["sandboxio_agent", ""]
    for file in sorted(resources.files("sandboxio.agent.inside").iterdir(), key=lambda file: file.name):
        name = file.name.removesuffix(".py")
        if file.name.endswith(".py") and name != "__init__":
            parts += [f"sandboxio_agent.{name}", file.read_text("utf-8")]
    return "\0".join(parts).encode()


@functools.cache
def agent_code() -> bytes:
    """Return the same modules compiled by this interpreter, each by itself, for one that is the same."""
    parts = agent_source().decode().split("\0")
    modules = dict(zip(parts[::2], parts[1::2], strict=True))
    return marshal.dumps({name: marshal.dumps(compile(source, name, "exec")) for name, source in modules.items()})
