"""A command that does what it can to outlive its timeout."""

RESIST = r"""
import os, signal, time
try:
    import ctypes
    libc = ctypes.CDLL(None)
except ImportError:
    libc = None
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
keeper = os.getppid()

def beat(name):
    count = 0
    while True:
        count += 1
        with open("beat-" + name, "w") as file:
            file.write(str(count))
        time.sleep(0.05)

def fork(*steps):
    pid = os.fork()
    if pid == 0:
        for step in steps:
            step()
        os._exit(0)
    return pid

def daemon():
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)

def elusive():
    while True:
        if os.fork():
            os._exit(0)
        with open("beat-elusive", "w") as file:
            file.write(str(os.getpid()))
        time.sleep(0.002)

def reaper():
    if libc:
        libc.prctl(36, 1, 0, 0, 0)
    fork(daemon, lambda: beat("below a reaper of its own"))
    while True:
        time.sleep(1)

def traced():
    pid = fork(lambda: beat("traced"))
    if libc:
        libc.ptrace(ctypes.c_long(0x4206), ctypes.c_long(pid), None, None)
    while True:
        time.sleep(1)

def stopped():
    pid = fork(lambda: beat("stopped and continued"))
    while True:
        os.kill(pid, signal.SIGSTOP)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.01)

def saver():
    # Whoever stops the family is undone at once.
    while True:
        for pid in family:
            try:
                os.kill(pid, signal.SIGCONT)
            except OSError:
                pass

def besiege():
    # The process that should end this command, as far as it can be reached: it is one of the same user.
    while True:
        for pid in {keeper, 1} - {0}:
            for attempt in (
                lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
                lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
                lambda: os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))}),
                lambda: os.kill(pid, signal.SIGSTOP),
                lambda: os.kill(pid, signal.SIGCHLD),
            ):
                try:
                    attempt()
                except OSError:
                    pass

family = []
for steps in (
    (lambda: beat("plain"),),
    (os.setsid, lambda: beat("session")),
    (daemon, lambda: beat("daemon")),
    (daemon, elusive),
    (reaper,),
    (traced,),
    (stopped,),
):
    family.append(fork(*steps))
family += [fork(saver), fork(besiege), fork(daemon, besiege)]

def hog():
    while True:
        pass

for _ in range(12):
    fork(hog)
print("ready", flush=True)
while True:
    time.sleep(1)
"""
"""Says ``ready``; every part that must die writes a file ``beat-NAME`` again and again."""

MEMBERS = (
    "plain",
    "session",
    "daemon",
    "elusive",
    "below a reaper of its own",
    "traced",
    "stopped and continued",
)
"""The parts, by the names of their files."""
