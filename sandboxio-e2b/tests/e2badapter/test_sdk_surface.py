"""What of the SDK is used: an update that changes it fails here and not at a user's."""

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import pytest

USED = {
    "e2b:AsyncSandbox.create": "template timeout metadata allow_internet_access network lifecycle idempotency_key",
    "e2b:AsyncSandbox._cls_kill": "sandbox_id",
    "e2b:AsyncSandbox.list": "query",
    "e2b:AsyncSandbox.__init__": "",
    "e2b:ConnectionConfig.__init__": "domain debug api_key api_url sandbox_url request_timeout extra_sandbox_headers",
    "e2b.sandbox_async.filesystem.filesystem:Filesystem.read": "path format",
    "e2b.sandbox_async.filesystem.filesystem:Filesystem.write": "path data request_timeout use_octet_stream",
    "e2b.api.client_async:get_api_client": "config",
    "e2b.api:handle_api_exception": "e",
    "e2b.api.client.api.sandboxes.get_sandboxes_sandbox_id:asyncio_detailed": "sandbox_id client",
    "e2b.api.client.api.templates.get_default_templates:asyncio_detailed": "client",
    "e2b.api.client.api.templates.get_templates_template_id:asyncio_detailed": "template_id client",
    "e2b.envd.client_async:create_rpc_client": "client_cls base_url config",
    "e2b.envd.rpc:handle_rpc_exception": "e",
    "e2b.envd.utils:timeout_to_ms": "timeout",
    "e2b.envd.process.process_connect:ProcessClient.start": "request headers timeout_ms",
    "e2b.envd.process.process_connect:ProcessClient.send_input": "request",
    "e2b.envd.process.process_connect:ProcessClient.close_stdin": "request",
}


def found(name: str) -> Callable[..., Any]:
    module, _, path = name.partition(":")
    value: Any = importlib.import_module(module)
    for part in path.split("."):
        value = getattr(value, part)
    used: Callable[..., Any] = value
    return used


@pytest.mark.parametrize("name", USED)
def test_it_takes_what_it_is_given(name: str) -> None:
    assert set(USED[name].split()) <= set(inspect.signature(found(name)).parameters)


def test_a_template_is_not_a_sandbox_and_both_tell_their_size() -> None:
    from e2b.api.client.models.sandbox_detail import SandboxDetail
    from e2b.api.client.models.template import Template

    for model in (SandboxDetail, Template):
        assert {"cpu_count", "memory_mb", "disk_size_mb"} <= set(inspect.signature(model).parameters)


def test_the_adapter_is_imported_without_the_sdk() -> None:
    import subprocess
    import sys

    program = (
        "import sys, sandboxio_e2b.plugin, sandboxio_e2b.backend; print('e2b' in sys.modules, 'httpx' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
