"""Attacks on the processes by which a sandbox keeps its promises: the first one, and those that it started itself."""

_LIBRARY = r"""
import errno, os, signal, time
try:
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
except ImportError:
    ctypes = libc = None
X86 = os.uname().machine == "x86_64"
VMWRITE = 311 if X86 else 271

def check(result):
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result

def call(number, *values):
    if libc is None:
        raise NotImplementedError("ctypes")
    return check(libc.syscall(number, *[ctypes.c_long(value) for value in values]))

def ptrace(request, pid):
    if libc is None:
        raise NotImplementedError("ctypes")
    libc.ptrace.restype = ctypes.c_long
    check(libc.ptrace(ctypes.c_long(request), ctypes.c_long(pid), None, None))

def attach(pid):
    ptrace(16, pid)
    os.waitpid(pid, 0x40000000)
    ptrace(17, pid)

def vmwrite(pid):
    if libc is None:
        raise NotImplementedError("ctypes")
    data = ctypes.create_string_buffer(8)
    vector = (ctypes.c_ulong * 2)(ctypes.addressof(data), 8)
    call(VMWRITE, pid, ctypes.addressof(vector), 1, ctypes.addressof(vector), 1, 0)

def put(pid, name, data):
    fd = os.open("/proc/%d/%s" % (pid, name), os.O_WRONLY)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)

def look(pid, name):
    fd = os.open("/proc/%d/%s" % (pid, name), os.O_RDONLY)
    try:
        os.read(fd, 64)
    finally:
        os.close(fd)

def memory(pid):
    os.close(os.open("/proc/%d/mem" % pid, os.O_RDWR))

def descriptors(pid):
    for name in os.listdir("/proc/%d/fd" % pid):
        os.close(os.open("/proc/%d/fd/%s" % (pid, name), os.O_WRONLY | os.O_NONBLOCK))

def steal(pid):
    os.close(call(438, os.pidfd_open(pid), 0, 0))

def limits(pid):
    import resource
    try:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0))
    except AttributeError:
        raise NotImplementedError("prlimit")

ATTEMPTS = {
    "memory": memory,
    "ptrace attach": attach,
    "ptrace seize": lambda pid: ptrace(0x4206, pid),
    "process_vm_writev": vmwrite,
    "descriptors": descriptors,
    "pidfd_getfd": steal,
    "root": lambda pid: os.listdir("/proc/%d/root" % pid),
    "program": lambda pid: look(pid, "exe"),
    "environment": lambda pid: look(pid, "environ"),
    "memory map": lambda pid: look(pid, "maps"),
    "namespace": lambda pid: os.close(os.open("/proc/%d/ns/mnt" % pid, os.O_RDONLY)),
    "limits": limits,
    "priority": lambda pid: os.setpriority(os.PRIO_PROCESS, pid, 19),
    "scheduling": lambda pid: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
    "processors": lambda pid: os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))}),
}
FIRST_ONLY = ("priority", "scheduling", "processors")

def outcome(attempt, pid):
    try:
        attempt(pid)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    except (AttributeError, ImportError, NotImplementedError):
        return "missing"
    return "done"

def victim():
    pid = os.fork()
    if pid == 0:
        os.execvp("sleep", ["sleep", "600"])
    while b"sleep" not in open("/proc/%d/cmdline" % pid, "rb").read():
        time.sleep(0.001)
    return pid

def parent(pid):
    stat = open("/proc/%d/stat" % pid).read()
    return int(stat[stat.rindex(")") + 2 :].split()[1])

def guards():
    found = [1]
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and int(name) not in (1, os.getpid()) and parent(int(name)) == 1:
                found.append(int(name))
        except OSError:
            pass
    return found

def attempt_all():
    protected = guards()
    for name, attempt in ATTEMPTS.items():
        own = victim()
        control = outcome(attempt, own)
        os.kill(own, signal.SIGKILL)
        os.waitpid(own, 0)
        for pid in protected[:1] if name in FIRST_ONLY else protected:
            print("%s: %s, %s" % (name, control, outcome(attempt, pid)), flush=True)
"""

ATTEMPTS = (
    "memory",
    "ptrace attach",
    "ptrace seize",
    "process_vm_writev",
    "descriptors",
    "pidfd_getfd",
    "root",
    "program",
    "environment",
    "memory map",
    "namespace",
    "limits",
    "priority",
    "scheduling",
    "processors",
)
"""The names of `REACH`'s attempts."""

REACH = _LIBRARY + "attempt_all()\n"
"""Prints ``NAME: OUTCOME on a process of its own, OUTCOME on a protected one`` for each attempt and process."""

SIEGE = (
    _LIBRARY
    + r"""
attempt_all()
for number in range(1, 65):
    try:
        if number != signal.SIGCHLD:
            signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
own = victim()
os.kill(own, signal.SIGSTOP)
while open("/proc/%d/stat" % own).read().split()[2] not in "tT":
    time.sleep(0.001)
os.kill(own, signal.SIGKILL)
print("signals: done", flush=True)
mine = {os.getpid()}
SIGNALS = [number for number in range(1, 32) if number not in (signal.SIGKILL, signal.SIGSTOP)]

def child(work):
    pid = os.fork()
    if pid == 0:
        work()
    mine.add(pid)

def flood():
    while True:
        for number in SIGNALS:
            os.kill(1, number)

def exits():
    while True:
        if os.fork() == 0:
            if os.fork() == 0:
                os._exit(0)
            os._exit(0)
        os.wait()

def noise():
    while True:
        try:
            os.write(1, b"x" * 65536)
            os.write(2, b"x" * 65536)
        except OSError:
            time.sleep(0.01)

def hog():
    while True:
        pass

def descriptors_held():
    held = []
    while True:
        try:
            held.append(os.pipe())
        except OSError:
            time.sleep(1)

for work in [flood] * 4 + [exits] * 2 + [noise, descriptors_held] + [hog] * 24:
    child(work)
print("ready", flush=True)
while True:
    for pid in [1] + guards():
        if pid not in mine:
            for name in ("memory", "ptrace seize", "limits", "scheduling", "processors"):
                outcome(ATTEMPTS[name], pid)
            for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):
                try:
                    os.kill(pid, number)
                except OSError:
                    pass
    time.sleep(0.05)
"""
)
"""Attempts the same, says ``ready``, and goes on without end, with floods of signals, exits, output and busy processes."""
