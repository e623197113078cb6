"""The emulated provider as a whole: one address for the control API and for every sandbox, told apart by headers, as its proxy does."""

import contextlib
import secrets
import threading
from collections.abc import Generator, Mapping
from dataclasses import replace

from aiohttp import web
from sandboxio_contract.emulation import GuestGone, Outside, Recorder, Request, Serving
from sandboxio_contract.ground.emulated import Sight

from . import files
from .connect import Failed
from .control import TEMPLATES, Control
from .envd import Processes
from .machine import Machine
from .schema import Refused

KEY = "e2b_0123456789abcdef0123456789abcdef01234567"
"""The one key that this account has; it opens nothing anywhere else."""
ENVD, CODE = "49983", "49999"
SECRET_HEADERS = ("x-api-key", "x-access-token", "authorization", "e2b-traffic-access-token")
SECRET_FIELDS = ("envVars", "envs", "envdAccessToken", "trafficAccessToken", "env_vars")


class Emulator:
    """It is up from its making until `close`; what sandboxes reach is set up with the first."""

    def __init__(self) -> None:
        self.recorder = Recorder(SECRET_HEADERS, SECRET_FIELDS)
        self.processes = Processes()
        self.control = Control(self.outside, KEY)
        self._outside: Outside | None = None
        self._lock = threading.Lock()
        self.serving = Serving(self._answer, refusal, self.recorder)
        self.address = self.serving.address
        self.faults = self.serving.faults

    def outside(self) -> Outside:
        """Return what its sandboxes reach. :raises NotProvable: namespaces can't be had here."""
        with self._lock:
            if self._outside is None:
                self._outside = Outside.start()
            return self._outside

    def machine(self, sandbox_id: str) -> Machine | None:
        """Return a sandbox, from any thread."""
        return self.control.machines.get(sandbox_id)

    def sights(self) -> Mapping[str, Sight]:
        """Return every sandbox as the contract looks at it."""
        return {
            name: Sight(
                state=one.state,
                metadata={key: value for key, value in one.metadata.items() if not key.startswith("sandboxio_")},
                guest=one.guest,
                address=one.address,
                caps={
                    "cpu": one.template.cpu_count,
                    "memory": one.template.memory_mb,
                    "disk": one.template.disk_size_mb,
                },
                told={**one.detail(), "envVars": dict(one.env)},
            )
            for name, one in tuple(self.control.machines.items())
        }

    @contextlib.contextmanager
    def template_with(self, files: Mapping[str, bytes]) -> Generator[str]:
        """Have a template whose sandboxes hold these files."""
        name = f"prepared-{secrets.token_hex(4)}"
        self.control.templates[name] = replace(TEMPLATES[0], template_id=name, alias=name, files=files)
        try:
            yield name
        finally:
            del self.control.templates[name]

    def end(self, sandbox_id: str) -> None:
        """End a sandbox behind its owner's back, from any thread."""
        machine = self.machine(sandbox_id)
        if machine is not None:
            self.serving.call(self.control.end(machine))

    def close(self) -> None:
        """End everything."""
        self.faults.clear()
        self.recorder.open_gates()
        self.serving.call(self.control.close(), 60)
        self.serving.close()
        if self._outside is not None:
            self._outside.close()
            self._outside = None

    async def _answer(self, request: Request) -> web.StreamResponse:
        sandbox_id = request.headers.get("E2b-Sandbox-Id")
        try:
            if sandbox_id is None:
                return await self.control.answer(request)
            return await self._inside(request, sandbox_id, request.headers.get("E2b-Sandbox-Port", ENVD))
        except Refused as error:
            return refusal(error.status, error.message)
        except Failed as error:
            return error.response()
        except GuestGone:
            return nowhere(sandbox_id or "", "The sandbox was not found")

    async def _inside(self, request: Request, sandbox_id: str, port: str) -> web.StreamResponse:
        machine = self.control.machines.get(sandbox_id)
        if machine is None or machine.state != "running":
            return nowhere(sandbox_id, "The sandbox was not found")
        if port != ENVD:
            return nowhere(sandbox_id, "The sandbox is running but port is not open")
        if request.path == "/health":
            return web.Response(status=204)
        if request.headers.get("X-Access-Token") != machine.envd_token:
            return files.refusal(
                401, "unauthorized access, please provide a valid access token or method signing if supported"
            )
        if request.path.startswith("/process.Process/"):
            return await self.processes.answer(machine, request)
        if request.path.startswith("/filesystem.Filesystem/"):
            return await files.service(machine, request)
        if request.path == "/files":
            return await files.content(machine, request)
        return files.refusal(404, f"no such path: {request.path}")


def refusal(status: int, message: str) -> web.Response:
    """Return an error as the API words it."""
    return web.json_response({"code": status, "message": message}, status=status)


def nowhere(sandbox_id: str, message: str) -> web.Response:
    """Return what the provider's proxy says where there is no sandbox, or nobody listens in it."""
    return web.json_response({"sandboxId": sandbox_id, "message": message, "code": 502}, status=502)
