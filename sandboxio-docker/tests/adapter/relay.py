"""The engine's socket over TCP or TLS, as a remote engine is reached; in a process of its own."""

import contextlib
import os
import ssl
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSStream


@contextlib.contextmanager
def relay(certificates: Path | None = None) -> Generator[str, None, None]:
    """Serve the engine's socket on a port of the loopback interface; yields ``host:port``."""
    path = (os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock").removeprefix("unix://")
    command = [sys.executable, str(Path(__file__)), path, str(certificates or "")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


def make_certificates(folder: Path) -> None:
    """Write ``ca.pem``, ``cert.pem``, ``key.pem`` as Docker wants them, and the server's two."""

    def openssl(command: str) -> None:
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)

    key = "-newkey rsa:2048 -nodes"
    openssl(f"req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=ca -days 2")
    for name, files in (("server", ("server.key", "server.pem")), ("client", ("key.pem", "cert.pem"))):
        openssl(f"req {key} -keyout {files[0]} -out {name}.csr -subj /CN={name} -addext subjectAltName=IP:127.0.0.1")
        openssl(f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -out {files[1]} -days 1 -copy_extensions copy")


def _context(folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.pem"))
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    # As Go does: the end of the client's TCP stream between two records is the end of what it sends, no error.
    context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF
    return context


async def _serve(path: str, tls: ssl.SSLContext | None) -> None:
    async def accepted(plain: ByteStream) -> None:
        with contextlib.suppress(OSError, *LOST):
            near = plain
            if tls is not None:
                near = await TLSStream.wrap(plain, server_side=True, ssl_context=tls, standard_compatible=False)
            async with near, await anyio.connect_unix(path) as far, anyio.create_task_group() as group:
                group.start_soon(_copy, near, far)
                group.start_soon(_copy, far, near)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    print(listener.extra(SocketAttribute.local_port), flush=True)
    await listener.serve(accepted)


async def _copy(source: ByteStream, target: ByteStream) -> None:
    with contextlib.suppress(OSError, *LOST):
        async for data in source:
            await target.send(data)
    with contextlib.suppress(OSError, *LOST):
        await (target.aclose() if isinstance(target, TLSStream) else target.send_eof())


LOST = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)

if __name__ == "__main__":
    anyio.run(_serve, sys.argv[1], _context(Path(sys.argv[2])) if sys.argv[2] else None)
