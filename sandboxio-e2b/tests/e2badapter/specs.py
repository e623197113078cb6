"""Plans without anybody being asked."""

from typing import Any

from sandboxio import NetworkPolicy, Resources
from sandboxio.planning import Plan
from sandboxio.spec import SandboxSpec
from sandboxio_e2b import E2BConfig
from sandboxio_e2b.info import INFO
from sandboxio_e2b.planning import make_plan


def spec(config: E2BConfig | None = None, **fields: Any) -> SandboxSpec:
    usual: dict[str, Any] = {
        "template": None,
        "resources": Resources(),
        "network": NetworkPolicy(),
        "env": {},
        "secrets": {},
        "timeout": 300.0,
        "metadata": {},
        "require_isolation": None,
        "create_id": "sbx-0123456789",
    }
    return SandboxSpec(backend="e2b", config=config or E2BConfig(), **{**usual, **fields})


def plan(config: E2BConfig | None = None, **fields: Any) -> Plan:
    return make_plan(spec(config, **fields), INFO.baseline)
