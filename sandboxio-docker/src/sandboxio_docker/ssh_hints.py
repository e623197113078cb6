"""What to do about what ssh said."""

from sandboxio_docker.address import ssh_parts
from sandboxio_docker.endpoint import Endpoint


def fix(endpoint: Endpoint, words: str) -> str:
    """Return the fix for a connection through ssh that failed."""
    user, host, port = ssh_parts(endpoint.base_url)
    target = f"{f'-p {port} ' if port else ''}{f'{user}@' if user else ''}{host}"
    for signs, text in _FIXES:
        if any(sign in words for sign in signs):
            return text.format(target=target)
    return f"check that `ssh {target} docker version` works and prints no other line, or correct DOCKER_HOST"


_FIXES = (
    (
        ("Host key verification failed", "HOST IDENTIFICATION HAS CHANGED", "host key is known"),
        (
            "compare the host's key with what its owner says, then `ssh {target}` once to accept it;"
            " for one that changed, `ssh-keygen -R` the old one first"
        ),
    ),
    (
        ("daemon socket", "docker.sock: connect: permission denied"),
        "add the user on that host to the group that owns the socket (sudo usermod -aG docker USER)",
    ),
    (
        ("Permission denied", "Too many authentication failures"),
        (
            "log in with a key that needs no question: `ssh -o BatchMode=yes {target} true` must succeed"
            " (ssh-agent holds keys that have a passphrase)"
        ),
    ),
    (
        ("docker: not found", "docker: command not found", "dial-stdio", "unknown command"),
        "install the docker command on that host, 18.09 or newer, in the PATH of a login without a terminal",
    ),
    (("Cannot connect to the Docker daemon",), "start it on that host: sudo systemctl start docker"),
    (("program ssh can't be started",), "install the OpenSSH client (openssh-client)"),
    (
        ("what answers is no Docker engine",),
        "the shell's start-up files on that host must print nothing for a login without a terminal",
    ),
)
