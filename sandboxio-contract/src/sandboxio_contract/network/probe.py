"""The shipped probe: tries every way out at once and prints what it saw. It decides nothing; the runner does.

It is sent over stdin (`python3 - TOKEN DEADLINE DELAY CHECK... < probe.py`), so nothing is written to the sandbox, and it
runs on a Python without `json`, `ctypes` or `urllib` (Debian's python3-minimal), 3.8 or newer. It knows no secret: an
answer is printed as it came, and only the runner can tell a true one from a forged one.

CHECK is `name,kind,address[+address...],port`. Output: `check NAME STATUS DETAIL`, `seen interface NAME`, `seen socket PATH`,
last `end ok`. Exit code 40: nothing answered; 41: something did; 42: wrong arguments. 0, 1, 2, 126, 127, 137 mean that the
probe did not run to its end, whatever it printed.
"""

from __future__ import annotations

import errno
import os
import random
import select
import socket
import struct
import sys
import time

# From harmless to telling: a check with several attempts has the status of its most telling one.
ORDER = ("tool-missing", "error", "unreachable", "refused", "timeout", "resolved", "answered", "reached")
REFUSED = (errno.ECONNREFUSED, errno.ECONNRESET, errno.EPERM, errno.EACCES, errno.EPIPE)
UNREACHABLE = (
    errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EHOSTDOWN,
    errno.ENOENT, errno.ENODEV, errno.EPROTONOSUPPORT, errno.ENONET, errno.ESOCKTNOSUPPORT,
)  # fmt: skip
ENGINE_SOCKETS = (
    "/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock",
    "/run/crio/crio.sock", "/run/dbus/system_bus_socket", "/run/systemd/private",
)  # fmt: skip
RESEND = 0.4
NONCE_PREFIX = bytes((0x20, 0x01, 0x0D, 0xB8))


def words(path: str) -> list[list[str]]:
    """Return the words of each line of a file of the kernel, or nothing where it can't be read."""
    try:
        with open(path) as lines:  # noqa: PTH123 - no pathlib in a minimal Python
            return [line.split() for line in lines]
    except OSError:
        return []


def status_of(error: OSError) -> tuple[str, str]:
    """Translate an error of the socket layer."""
    name = errno.errorcode.get(error.errno or 0, str(error))
    if error.errno in REFUSED:
        return "refused", name
    return ("unreachable" if error.errno in UNREACHABLE else "error"), name


def interfaces() -> list[str]:
    """Return the names of the links that the sandbox sees, `lo` included."""
    return [line[0].split(":")[0] for line in words("/proc/net/dev") if line and ":" in line[0]]


def resolvers() -> list[str]:
    """Return the name servers that the sandbox is configured with; none means the local host, as in the C library."""
    found = [line[1] for line in words("/etc/resolv.conf") if len(line) > 1 and line[0] == "nameserver"]
    return found or ["127.0.0.1"]


def gateways() -> list[str]:
    """Return the routers that the sandbox sees, and the first address of each network that it is connected to."""
    found: list[str] = []
    for line in words("/proc/net/route")[1:]:
        network, via, mask = (int.from_bytes(bytes.fromhex(line[at]), sys.byteorder) for at in (1, 2, 7))
        number = via or (network + 1 if 0 < mask < 0xFFFFFFFF else 0)
        if number:
            found.append(socket.inet_ntoa(struct.pack(">I", number)))
    for line in words("/proc/net/ipv6_route"):
        if line[4] != "0" * 32:
            found.append(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(line[4])))
    return found


def host_name(token: str, name: str) -> str:
    """Return the name to look up; its first label begins with the magic that the guard knows."""
    return "sbxcanary-%s-%s.sandboxio-contract.example" % (token, name)  # noqa: UP031


def question(host: str) -> bytes:
    """Return a DNS query."""
    packed = b"".join(bytes((len(one),)) + one.encode() for one in host.split(".")) + b"\0"
    return struct.pack(">HHHHHH", random.getrandbits(16), 0x0100, 1, 0, 0, 0) + packed + struct.pack(">HH", 28, 1)


def read_hello(data: bytes) -> tuple[str, str]:
    """Return what came back for a hello; a closed connection is an answer, by whomever."""
    at = data.find(b"SBXN ")
    text = data[at + 5 : at + 37]
    if at >= 0 and len(text) == 32 and text.isalnum():
        return "reached", text.decode("ascii", "replace")
    return "answered", "closed" if not data else "other-data"


def read_dns(data: bytes) -> tuple[str, str]:
    """Return what came back for a query: the nonce rides in an IPv6 address at the end of the answer."""
    if len(data) < 12:
        return "answered", "short"
    code = data[3] & 15
    at = data.rfind(b"\0\x10" + NONCE_PREFIX)
    if at > 12 and len(data) >= at + 18:
        return "reached", socket.inet_ntop(socket.AF_INET6, data[at + 2 : at + 18])
    return "answered", "rcode=%d" % code  # noqa: UP031


class Attempt:
    """One socket on its way: what it sends first, and how its answer is read."""

    def __init__(self, name: str, kind: str, payload: bytes) -> None:
        self.name, self.kind, self.payload = name, kind, payload
        self.status, self.detail = "timeout", "silent"
        self.done = False
        self.stream = kind in ("tcp", "dns-tcp", "unix")
        self.connected = False
        self.sock: socket.socket | None = None
        self.target: tuple[str, int, int, int] | None = None
        self.data = b""
        self.next_send = 0.0

    def start(self, address: str, port: int) -> None:
        """Open the socket and set out, without waiting for anything."""
        try:
            bare, _, link = address.partition("%")
            self.sock = self.open(bare)
            self.sock.setblocking(False)
            scoped = (bare, port, 0, socket.if_nametoindex(link)) if link else None
            if bare.startswith("ff02:"):
                self.target = scoped  # answers come from another address, so this socket can't be connected
                return
            path = ("\0" + bare[1:] if bare.startswith("@") else bare) if self.kind == "unix" else None
            code = self.sock.connect_ex(path or scoped or (bare, port))
            if code not in (0, errno.EINPROGRESS, errno.EAGAIN):
                raise OSError(code, os.strerror(code))
        except OSError as error:
            self.finish(*status_of(error))

    def open(self, address: str) -> socket.socket:
        """Return a socket of the right kind."""
        if self.kind == "unix":
            return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        if self.kind != "icmp":
            return socket.socket(family, socket.SOCK_STREAM if self.stream else socket.SOCK_DGRAM)
        protocol = socket.IPPROTO_ICMPV6 if ":" in address else socket.IPPROTO_ICMP
        try:
            return socket.socket(family, socket.SOCK_DGRAM, protocol)
        except OSError:
            return socket.socket(family, socket.SOCK_RAW, protocol)

    def finish(self, status: str, detail: str) -> None:
        """Settle, once."""
        if not self.done:
            self.done, self.status, self.detail = True, status, detail
            if self.sock is not None:
                self.sock.close()

    def write(self, now: float) -> None:
        """Send what there is to send: once on a stream, again and again otherwise."""
        assert self.sock is not None
        try:
            if self.stream:
                code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code:
                    raise OSError(code, os.strerror(code))
                self.connected, self.detail = True, "connected"
                self.sock.send(self.payload)
            elif self.target is not None:
                self.sock.sendto(self.payload, self.target)
            else:
                self.sock.send(self.payload)
            self.next_send = now + (1e9 if self.stream else RESEND)
        except OSError as error:
            self.fail(error)

    def read(self) -> None:
        """Take in what came; a stream is read to its end or to a whole answer."""
        assert self.sock is not None
        try:
            data = self.sock.recv(4096)
        except BlockingIOError:
            return
        except OSError as error:
            self.fail(error)
            return
        self.data = self.data + data if self.stream else data
        reader = read_dns if self.kind in ("dns", "dns-tcp") else read_hello
        status, detail = reader(self.data)
        if status == "reached" or (not self.stream and self.kind != "icmp") or not data:
            self.finish(status, detail)

    def fail(self, error: OSError) -> None:
        """Settle after an error; whoever accepted the connection before has answered."""
        if self.connected:
            self.finish("answered", "accepted-then-" + status_of(error)[1])
        else:
            self.finish(*status_of(error))

    def expire(self) -> None:
        """Settle at the deadline."""
        if self.connected:
            self.finish("answered", "accepted-then-silent")
        self.finish(self.status, self.detail)


class Lookup:
    """The C library's own lookup, in a child that can be ended: it has no other deadline."""

    def __init__(self, name: str, host: str) -> None:
        self.name, self.status, self.detail, self.done = name, "timeout", "silent", False
        self.reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.environ["RES_OPTIONS"] = "timeout:1 attempts:1"
                os.write(writer, self.ask(host).encode())
            finally:
                os._exit(0)
        os.close(writer)

    @staticmethod
    def ask(host: str) -> str:
        """Return status and detail of one lookup."""
        try:
            found = [one[4][0] for one in socket.getaddrinfo(host, 80, 0, socket.SOCK_STREAM)]
        except socket.gaierror as error:
            again = error.errno in (socket.EAI_AGAIN, socket.EAI_FAIL, getattr(socket, "EAI_SYSTEM", None))
            return "%s gai=%s" % ("unreachable" if again else "answered", error.errno)  # noqa: UP031
        except OSError as error:
            return "%s %s" % status_of(error)  # noqa: UP031
        nonces = [one for one in found if str(one).startswith("2001:db8:")]
        return "reached %s" % nonces[0] if nonces else "resolved %s" % found[0]  # noqa: UP031

    def read(self) -> None:
        """Take in the child's answer."""
        answer = os.read(self.reader, 200).decode("ascii", "replace").split()
        self.done = True
        self.status, self.detail = (answer[0], answer[1]) if len(answer) == 2 else ("error", "child-died")

    def close(self) -> None:
        """End the child, if it still waits."""
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.close(self.reader)


class Probe:
    """All checks of one run, and the one loop that drives them."""

    def __init__(self, token: str, deadline: float) -> None:
        self.token, self.deadline = token, deadline
        self.names: list[str] = []
        self.attempts: list[Attempt] = []
        self.lookups: list[Lookup] = []
        self.settled: list[tuple[str, str, str]] = []

    def add(self, name: str, kind: str, addresses: list[str], port: int) -> None:
        """Set out for one check."""
        self.names.append(name)
        if kind == "lookup":
            self.look_up(name)
        elif kind == "vsock":
            self.vsock(name)
        else:
            payload, kind, targets = self.plan(name, kind, addresses)
            for address in targets:
                attempt = Attempt(name, kind, payload)
                self.attempts.append(attempt)
                attempt.start(address, port)
            if not targets:
                self.settled.append((name, "unreachable", "nothing-to-reach"))

    def plan(self, name: str, kind: str, addresses: list[str]) -> tuple[bytes, str, list[str]]:
        """Return what to send, how, and to which addresses; what the sandbox names itself is only used where allowed."""
        hello = ("SBXC %s.%s\n" % (self.token, name)).encode()  # noqa: UP031
        if kind == "gateway":
            return hello, "tcp", [one for one in dict.fromkeys(gateways()) if one in addresses or addresses == ["*"]]
        if kind == "multicast":
            return hello, "udp", ["ff02::1%" + link for link in interfaces() if link != "lo"]
        if kind == "dns-configured":
            allowed = [one for one in resolvers() if one in addresses or addresses == ["*"]]
            return question(host_name(self.token, name)), "dns", allowed
        if kind in ("dns", "dns-tcp"):
            query = question(host_name(self.token, name))
            return (struct.pack(">H", len(query)) + query if kind == "dns-tcp" else query), kind, addresses
        if kind == "icmp":
            echo = 128 if ":" in addresses[0] else 8
            return ping(echo, hello), kind, addresses
        return hello, kind, addresses

    def look_up(self, name: str) -> None:
        """Start the one check that needs a process of its own."""
        try:
            self.lookups.append(Lookup(name, host_name(self.token, name)))
        except OSError as error:
            self.settled.append((name, "error", status_of(error)[1]))

    def vsock(self, name: str) -> None:
        """Create a vsock socket and nothing more: a connection could leave the machine."""
        try:
            socket.socket(getattr(socket, "AF_VSOCK", 40), socket.SOCK_STREAM).close()
            self.settled.append((name, "answered", "created"))
        except OSError as error:
            self.settled.append((name, "refused", status_of(error)[1]))

    def run(self) -> None:
        """Drive everything to its end, at the latest at the deadline."""
        end = time.monotonic() + self.deadline
        while True:
            now = time.monotonic()
            waiting = [one for one in self.attempts if not one.done and one.sock is not None]
            asking = [one for one in self.lookups if not one.done]
            if now >= end or not (waiting or asking):
                break
            self.step(waiting, asking, now, end)
        for attempt in self.attempts:
            attempt.expire()
        for lookup in self.lookups:
            lookup.close()

    def step(self, waiting: list[Attempt], asking: list[Lookup], now: float, end: float) -> None:
        """Wait for the next event and handle it."""
        due = [one for one in waiting if one.next_send <= now]
        later = [one.next_send for one in waiting if one.next_send > now]
        timeout = max(0.0, min([end, *later]) - now)
        readable = [one.sock for one in waiting if one.sock is not None]
        writable = [one.sock for one in due if one.sock is not None]
        numbers = [one.fileno() for one in readable] + [one.reader for one in asking]
        ready, free, _ = select.select(numbers, writable, [], timeout)
        for attempt in waiting:
            if attempt.sock is not None and attempt.sock.fileno() in ready:
                attempt.read()
        for attempt in due:
            if attempt.sock in free and not attempt.done:
                attempt.write(now)
        for lookup in asking:
            if lookup.reader in ready:
                lookup.read()

    def report(self) -> int:
        """Print the results; return the exit code."""
        results = [(one.name, one.status, one.detail) for one in self.attempts]
        results += [(one.name, one.status, one.detail) for one in self.lookups]
        results += self.settled
        lines: list[str] = []
        telling = False
        for name in self.names:
            mine = [one for one in results if one[0] == name]
            best = max(mine, key=lambda one: ORDER.index(one[1]))
            lines.append("check %s %s %s" % best)  # noqa: UP031
            telling = telling or best[1] in ("resolved", "answered", "reached")
        lines += ["seen interface " + one for one in interfaces()]
        lines += ["seen socket " + one for one in ENGINE_SOCKETS if os.path.exists(one)]  # noqa: PTH110
        sys.stdout.write("\n".join([*lines, "end ok"]) + "\n")
        return 41 if telling else 40


def ping(kind: int, data: bytes) -> bytes:
    """Return an echo request; the kernel fills in identity and checksum, except on a raw IPv4 socket."""
    packet = struct.pack(">BBHHH", kind, 0, 0, os.getpid() & 0xFFFF, 1) + data
    padded = packet + b"\0" * (len(packet) % 2)
    total = sum(struct.unpack(">%dH" % (len(padded) // 2), padded))  # noqa: UP031
    total = (total & 0xFFFF) + (total >> 16)
    return packet[:2] + struct.pack(">H", ~(total + (total >> 16)) & 0xFFFF) + packet[4:]


def main(arguments: list[str]) -> int:
    """Run the probe."""
    if len(arguments) < 4:
        return 42
    probe = Probe(arguments[0], float(arguments[1]))
    time.sleep(float(arguments[2]))
    for text in arguments[3:]:
        name, kind, addresses, port = text.split(",")
        probe.add(name, kind, addresses.split("+"), int(port))
    probe.run()
    code = probe.report()
    sys.stdout.flush()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
