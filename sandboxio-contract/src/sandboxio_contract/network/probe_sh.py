"""The probe's POSIX-sh form, for images without Python: all it can do honestly is list what the sandbox sees.

No tool is trusted to exist, and a shell alone speaks no network. So it never gives a denial: every check is `tool missing`.
What it sees can still be evidence of a lie: a link other than `lo` where there should be no network, or an engine's socket.
"""

from sandboxio_contract.network.outcome import SHELL_ONLY
from sandboxio_contract.network.probe import ENGINE_SOCKETS

_SCRIPT = f"""\
if [ -r /proc/net/dev ]; then
    while IFS=: read -r link rest; do
        [ -n "$rest" ] || continue
        set -f
        for name in $link; do printf 'seen interface %s\\n' "$name"; done
    done < /proc/net/dev
fi
for path in {" ".join(ENGINE_SOCKETS)}; do
    [ -S "$path" ] && printf 'seen socket %s\\n' "$path"
done
printf 'end ok\\n'
exit {SHELL_ONLY}
"""


def shell_command(shell: str = "sh") -> tuple[tuple[str, ...], bytes]:
    """Return what to run in a sandbox without Python, argv and standard input; read the answer with `parse_probe`."""
    return (shell, "-s"), _SCRIPT.encode()
