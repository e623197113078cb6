"""The engine's socket over TCP or TLS, as a remote engine is reached; in a process of its own."""

import asyncio
import contextlib
import os
import ssl
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path


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
    return context


async def _serve(path: str, tls: ssl.SSLContext | None) -> None:
    async def accepted(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        far, forth = await asyncio.open_unix_connection(path)
        await asyncio.gather(_copy(near, forth), _copy(far, back))

    server = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()
        else:
            target.close()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], _context(Path(sys.argv[2])) if sys.argv[2] else None))
