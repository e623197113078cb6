"""The listener that makes a sandbox a neighbour: it answers a hello with the nonce of its own key.

Like the probe it is sent to where it runs (`python3 - PORT KEY SECONDS < responder.py`), stdlib only, Python 3.8 or newer.
It prints `listening` when it is reachable and ends by itself after SECONDS.
"""

from __future__ import annotations

import hashlib
import select
import socket
import sys
import time


def reply(key: bytes, data: bytes) -> bytes:
    """Return the answer to a hello: HMAC-SHA256, spelled out because a minimal Python has no `hmac`."""
    message = data.strip().split(b" ", 1)[-1]
    padded = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(one ^ 0x36 for one in padded) + message).digest()
    digest = hashlib.sha256(bytes(one ^ 0x5C for one in padded) + inner).digest()
    return b"SBXN " + digest[:16].hex().encode() + b"\n"


def serve(port: int, key: bytes, seconds: float) -> None:
    """Answer whoever connects until the time is up."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", port))
    listener.listen(64)
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not select.select([listener], [], [], 1.0)[0]:
            continue
        accepted, _ = listener.accept()
        accepted.settimeout(2.0)
        try:
            data = accepted.recv(200)
            if data.startswith(b"SBXC "):
                accepted.sendall(reply(key, data))
        except OSError:
            continue  # the asker is gone: nobody to answer
        finally:
            accepted.close()


if __name__ == "__main__":
    serve(int(sys.argv[1]), bytes.fromhex(sys.argv[2]), float(sys.argv[3]))
