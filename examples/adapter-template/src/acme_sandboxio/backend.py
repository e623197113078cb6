"""The port over the docker command: `run`, `exec`, `inspect`, `ps` and `rm`."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from json import loads
from typing import Any, cast

import anyio.to_thread
from sandboxio.errors import BackendUnavailable, CreationError, SandboxError
from sandboxio.exec_session import ExecSession
from sandboxio.owner_watch import OwnerWatch
from sandboxio.planning import Plan
from sandboxio.port import Facts, Observation, Progress
from sandboxio.spec import SandboxSpec

from acme_sandboxio.info import INFO, DockerCliConfig
from acme_sandboxio.planning import CWD, MANAGED, META, NO_NEW, RESERVED, SOCKET, make_plan

HARDENED = {"CapDrop": ["ALL"], "CapAdd": None, "SecurityOpt": [NO_NEW], "Privileged": False, "IpcMode": "none"}


class DockerFailed(Exception):
    """The docker command failed; its text is the engine's, or its own."""


class DockerCli:
    """One engine. Every call is one run of the docker command, in a thread."""

    info = INFO
    plan = staticmethod(make_plan)
    # What runc says of a process that the kernel refused it (measured with runc 1.1).
    scratch, reserved, no_process = CWD, (RESERVED,), ("read init-p", "errno=11")

    def __init__(self, config: DockerCliConfig) -> None:
        # Named in any case: by its own choice the docker command would go by variables that a command of ours may have.
        self._docker = ["docker", f"--host={config.host or os.environ.get('DOCKER_HOST') or SOCKET}"]
        self._watches: list[OwnerWatch] = []

    async def probe(self, spec: SandboxSpec) -> Facts:
        """Ask for the size of the host, and for the image if it is there."""
        host = loads(await self.ask("info", "--format={{json .}}"))
        images = loads(await self.ask("image", "inspect", str(spec.template), absent="[]"))
        maxima = {**INFO.baseline.maxima, "cpu": host["NCPU"], "memory_mb": host["MemTotal"] // 2**20}
        return Facts({"volumes": [path for image in images for path in image["Config"].get("Volumes") or ()]}, maxima)

    async def prepare(self, plan: Plan, progress: Progress) -> bool:
        """Pull the image if the engine has none."""
        image = str(plan.spec.template)
        if missing := not await self.ask("image", "inspect", image, absent=""):
            progress(f"pulling {image}")
            await self.ask("pull", "--quiet", image)
        return missing

    async def provision(self, plan: Plan) -> str:
        """Run the container, watched over from before its beginning: it goes with its owner."""
        watch = OwnerWatch([*self._docker, "rm", "--force", plan.create_id])
        self._watches.append(watch)
        try:
            return (await self.ask(*cast("list[str]", plan.parameters["run"]))).strip()
        except BaseException:
            watch.fire()  # it may be made all the same
            raise

    async def find(self, create_id: str) -> str | None:
        """Return the id of the container of that name."""
        return next((one.sandbox_id for one in await self._inspect(create_id)), None)

    async def observe(self, sandbox_id: str) -> Observation | None:
        """Return what the engine holds; the docker command takes a part of an id as well, core does not."""
        return next((one for one in await self._inspect(sandbox_id) if sandbox_id in (one.sandbox_id, one.name)), None)

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> ExecSession:
        """Return a session; the container runs already, and nothing of the caller's in it."""
        return ExecSession(self, sandbox_id)

    def exec_argv(self, sandbox_id: str, names: Iterable[str], *, stdin: bool) -> list[str]:
        """Return a command's beginning; all commands are nobody's."""
        options = ["--user=65534:65534", *(f"--env={name}" for name in names), *(["--interactive"] if stdin else [])]
        return [*self._docker, "exec", *options, sandbox_id]

    async def limit_hit(self, sandbox_id: str, since: float) -> str | None:
        """Ask whether the kernel killed a process of the sandbox for want of memory."""
        window = [f"--since={since:.3f}", f"--until={datetime.now(UTC).timestamp():.3f}"]
        oom = await self.ask("events", *window, f"--filter=container={sandbox_id}", "--filter=event=oom")
        return "memory_mb" if oom else None

    async def list(self, labels: Mapping[str, str]) -> AsyncIterator[Observation]:
        """Iterate over our containers with these labels."""
        ids = (await self.ask("ps", "--all", "--quiet", "--no-trunc", f"--filter=label={MANAGED}=true")).split()
        for seen in await self._inspect(*ids) if ids else ():
            if labels.items() <= seen.labels.items():
                yield seen

    async def destroy(self, sandbox_id: str) -> None:
        """Remove the container."""
        await self.ask("rm", "--force", sandbox_id, absent="")

    def map_error(self, error: BaseException) -> SandboxError | None:
        """Translate what the docker command says."""
        if not isinstance(error, (DockerFailed, FileNotFoundError)):
            return None
        if isinstance(error, FileNotFoundError) or "Cannot connect to the Docker daemon" in str(error):
            return BackendUnavailable(str(error), hint="install Docker, and start it: sudo systemctl start docker")
        return CreationError(str(error), hint="check the image's name, and see the engine's log")

    async def aclose(self) -> None:
        """Stop watching over sandboxes that are gone, or given up to their lifetime."""
        while self._watches:
            self._watches.pop().close()

    async def ask(self, *arguments: str, absent: str | None = None) -> str:
        """Run the docker command to its end, whoever is cancelled meanwhile, and return its output.

        :param absent: what to return where there is no such object. :raises DockerFailed: it failed otherwise.
        """
        run = partial(subprocess.run, stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True)
        done = await anyio.to_thread.run_sync(run, [*self._docker, *arguments], abandon_on_cancel=True)
        if done.returncode and (absent is None or "No such" not in done.stderr):
            raise DockerFailed(f"docker {arguments[0]} {arguments[-1]}: {done.stderr.strip()}")
        return str(absent if done.returncode else done.stdout)

    async def _inspect(self, *names: str) -> "tuple[Observation, ...]":
        found = loads(await self.ask("container", "inspect", *names, absent="[]"))
        return tuple(_observation(one) for one in found if one["State"]["Status"] in ("created", "running", "paused"))


def _observation(one: Any) -> Observation:
    """Read back what the engine holds; whatever is not as it was sent shows as another value than was planned."""
    held, labels, name = one["HostConfig"], one["Config"]["Labels"], one["Name"].removeprefix("/")
    started = datetime.fromisoformat(one["State"]["StartedAt"][:19] + "+00:00").timestamp()
    bounded = held["ReadonlyRootfs"] and not one["Mounts"] and [*(held["Tmpfs"] or ())] == [CWD]
    applied: dict[str, Any] = {
        "network.egress": "deny" if held["NetworkMode"] == "none" else held["NetworkMode"],
        "cpu": held["NanoCpus"] / 1e9,
        "memory": held["Memory"] / 2**20,
        "memory.swap": (held["MemorySwap"] - held["Memory"]) / 2**20,
        "pids": held["PidsLimit"],
        "disk": float(held["Tmpfs"][CWD].rpartition("size=")[2].rstrip("m")) if bounded else None,
        "isolation": INFO.tier.value if HARDENED.items() <= held.items() else "unknown",
        "labels": {key.removeprefix(META): value for key, value in labels.items() if key.startswith(META)},
    }
    expires = started + float(one["Config"]["Cmd"][0])
    return Observation(one["Id"], name, one["State"]["Status"], applied["labels"], started, expires, applied)
