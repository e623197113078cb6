"""Liars on the real Docker adapter about the network: what is open, to whom and when."""

import contextlib
import secrets
import subprocess
import time
from contextlib import closing
from dataclasses import replace
from typing import Any, ClassVar

import anyio.to_thread
from sandboxio.planning import Enforcement, Plan
from sandboxio.policy import NetworkPolicy
from sandboxio.port import Facts, Session
from sandboxio.spec import SandboxSpec

from sandboxio_contract.liars.dockers import Adapter, Lying, as_planned, engine, sending

LABEL = "io.sandboxio.contract"
"""By which ``sandboxio-contract cleanup`` finds what a liar made and a killed run left."""
OUTSIDE = "2001:db8::/32"
"""Where IPv6 canaries are."""
PATIENCE = 5.0
"""Seconds for a network to be free of the container that is being removed."""


class _Window(Lying):
    """Starts with an open network, and takes it away when everything is in place."""

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        session = await super().open(sandbox_id, plan)
        if plan is not None:
            await anyio.to_thread.run_sync(self._close_network, sandbox_id)
        return session

    def _close_network(self, sandbox_id: str) -> None:
        with closing(engine(self._host)) as client:
            client.disconnect_container_from_network(sandbox_id, "bridge")


class _Decorative(Lying):
    """Takes every allowlist, and opens everything for it."""

    def plan(self, spec: SandboxSpec, facts: Facts) -> Plan:
        if not spec.network.allow:
            return super().plan(spec, facts)
        plan = super().plan(replace(spec, network=NetworkPolicy(egress="allow")), facts)
        listed = Enforcement("network.allow", spec.network.allow, "a list", "provider", "documented", "address")
        denied = Enforcement("network.egress", "deny", "a list", "provider", "documented", "address")
        lies = {"network.allow": listed, "network.egress": denied}
        return replace(plan, spec=spec, items=tuple(lies.get(one.policy, one) for one in plan.items))


class _Filtered(Lying):
    """Has the network open, with a filter in the sandbox's own namespace that forgets something."""

    drops: ClassVar[str] = 'meta nfproto ipv4 oifname != "lo" drop'
    """Rules of nftables, a line each."""

    async def open(self, sandbox_id: str, plan: Plan | None = None) -> Session:
        session = await super().open(sandbox_id, plan)
        if plan is not None:
            await anyio.to_thread.run_sync(self._filter, sandbox_id)
        return session

    def _filter(self, sandbox_id: str) -> None:
        with closing(engine(self._host)) as client:
            process = int(client.inspect_container(sandbox_id)["State"]["Pid"])
        rules = f"table inet liar {{\nchain out {{\ntype filter hook output priority 0\n{self.drops}\n}}\n}}\n"
        inside = ["nsenter", f"--net=/proc/{process}/ns/net", "nft", "-f", "-"]
        subprocess.run(inside, input=rules.encode(), check=True, capture_output=True)


class _Names(_Decorative, _Filtered):
    """Takes an allowlist, and keeps only questions for names from leaving: whoever knows an address gets there."""

    drops: ClassVar[str] = "meta l4proto { tcp, udp } th dport 53 drop"


class _Resolves(_Filtered):
    """Denies everything but questions for names."""

    drops: ClassVar[str] = 'oifname != "lo" meta l4proto != { tcp, udp } drop\noifname != "lo" th dport != 53 drop'


class _Six(_Filtered):
    """Denies IPv4 and this machine, on a network that has IPv6 as well."""

    drops: ClassVar[str] = f"{_Filtered.drops}\nmeta l4proto {{ tcp, udp }} ip6 daddr != {OUTSIDE} drop"
    made: ClassVar[dict[str, str]] = {}

    async def provision(self, plan: Plan) -> str:
        denies = plan.spec.network.egress == "deny"
        if denies:
            await anyio.to_thread.run_sync(self._make, _of(plan))
        made = await super().provision(plan)
        if denies:
            self.made[made] = _of(plan)
        return made

    async def destroy(self, sandbox_id: str) -> None:
        await super().destroy(sandbox_id)
        name = self.made.pop(sandbox_id, None)
        if name is not None:
            await anyio.to_thread.run_sync(self._remove, name)

    def _make(self, name: str) -> None:
        pool = f"fd{secrets.token_hex(1)}:{secrets.token_hex(2)}:{secrets.token_hex(2)}:{secrets.token_hex(2)}::/64"
        ipam: dict[str, Any] = {"Driver": "default", "Config": [{"Subnet": pool}]}
        with closing(engine(self._host)) as client:
            client.create_network(name, "bridge", ipam=ipam, enable_ipv6=True, labels={LABEL: "liar"})

    def _remove(self, name: str) -> None:
        from docker.errors import APIError

        end = time.monotonic() + PATIENCE
        with closing(engine(self._host)) as client:
            while client.networks(names=[name]) and time.monotonic() < end:
                with contextlib.suppress(APIError):
                    client.remove_network(name)


def _of(plan: Plan) -> str:
    return f"{plan.create_id}-six"


def _denying(plan: Plan, mode: str, *, disabled: bool) -> Plan:
    """Give what is to deny another network mode."""
    if plan.spec.network.egress != "deny":
        return plan
    return sending(plan, {"NetworkMode": mode}, NetworkDisabled=disabled)


def _open(plan: Plan) -> Plan:
    return _denying(plan, "bridge", disabled=False)


def _on_six(plan: Plan) -> Plan:
    return _denying(plan, _of(plan), disabled=False)


def _otherwise(plan: Plan) -> Plan:
    """Leave the interface out by another switch than the one that is promised."""
    return _denying(plan, "bridge", disabled=True)


def _bridge(plan: Plan) -> Plan:
    if plan.spec.network.egress != "allow":
        return plan
    shared = sending(plan, {"NetworkMode": "bridge"})
    return replace(shared, parameters={**shared.parameters, "network": False})


liar_window = Adapter("liar-window", _open, _Window)
liar_decorative = Adapter("liar-decorative", as_planned, _Decorative)
liar_names = Adapter("liar-names", as_planned, _Names)
liar_open = Adapter("liar-open", _open)
liar_claims = Adapter("liar-claims", _open)
liar_toolless = Adapter("liar-toolless", _open)
liar_six = Adapter("liar-six", _on_six, _Six)
liar_resolves = Adapter("liar-resolves", _open, _Resolves)
liar_otherwise = Adapter("liar-otherwise", _otherwise)
liar_bridge = Adapter("liar-bridge", _bridge)
