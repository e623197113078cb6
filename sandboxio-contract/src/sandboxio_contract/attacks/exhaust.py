"""Taking all there is of everything that a neighbour needs, too, and holding it."""

EXHAUST = r"""
import array, os, signal, sys, time
def holding(name, take, most=10**6):
    # Each in a process of its own, so that one that dies of it takes no other along.
    told, tell = os.pipe()
    if os.fork() == 0:
        os.close(told)
        count, why = 0, "enough"
        held = []
        try:
            while count < most:
                held.append(take(count))
                count += 1
        except (OSError, MemoryError) as error:
            why = getattr(error, "strerror", None) or "no memory"
        except (AttributeError, ImportError):
            why = "missing"
        os.write(tell, ("%s: %d, %s\n" % (name, count, why)).encode())
        os.close(tell)
        while True:
            time.sleep(60)
    os.close(tell)
    text = b""
    while not text.endswith(b"\n"):
        part = os.read(told, 4096)
        if not part:
            break
        text += part
    os.close(told)
    sys.stdout.write(text.decode() or name + ": 1, killed\n")
    sys.stdout.flush()

sockets = []
def in_flight(count):
    import resource, socket
    if not sockets:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if count % 200 == 0:
        sockets.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
    sockets[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 250))])

def pipe(count):
    import fcntl
    ends = os.pipe()
    fcntl.fcntl(ends[1], 1031, 1 << 20)
    return ends

def shared(count):
    fd = os.open("/dev/shm/full", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, bytes(1 << 20))
    os.close(fd)

def file(count):
    fd = os.open("/tmp/full-%d" % count, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(fd, bytes(1 << 20))
    os.close(fd)

def process(count):
    pid = os.fork()
    if pid == 0:
        while True:
            time.sleep(60)
    return pid

holding("descriptors in flight", in_flight)
holding("pipes", pipe)
holding("descriptors", lambda count: os.dup(0))
holding("shared memory", shared, 256)
holding("disk", file, 32)
holding("memory", lambda count: bytearray(os.urandom(4096) * 2048), 400)
holding("processes", process)
print("ready", flush=True)
while True:
    time.sleep(60)
"""
"""Prints ``NAME: COUNT, what ended it`` for each thing, then ``ready``, and keeps it all."""

THINGS = ("descriptors in flight", "pipes", "descriptors", "shared memory", "disk", "memory", "processes")
"""What `EXHAUST` takes."""
