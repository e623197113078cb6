"""Stubs whose provider offers more (a broker for secrets, lasting storage, a count of what it blocked), and their liars."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from sandboxio.planning import Plan
from sandboxio.port import Command, Observation

from sandboxio_contract.liars.local import StubProcess, StubSession
from sandboxio_contract.liars.stub import StubBackend
from sandboxio_contract.liars.stubs import Adapter


class _Unbrokered(StubBackend):
    """Has a broker, and does not use it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.world.offers.add("broker")


class _BrokeredSession(StubSession):
    async def start(self, command: Command) -> StubProcess:
        brokered = self._world.brokered.get(self._record.identity, {})
        rest = {name: value for name, value in command.env.items() if name not in brokered}
        return await super().start(replace(command, env=rest))

    def started(self, argv: list[str], env: Mapping[str, str], cwd: str, *, stdin: bool) -> StubProcess:
        brokered = self._world.brokered.get(self._record.identity, {})
        return super().started(argv, {**env, **brokered}, cwd, stdin=stdin)


class _Brokered(_Unbrokered):
    async def provision(self, plan: Plan) -> str:
        made = await super().provision(plan)
        self.world.brokered[made] = {name: value.get_secret_value() for name, value in plan.spec.secrets.items()}
        return made

    drives = _BrokeredSession


class _Stored(StubBackend):
    async def provision(self, plan: Plan) -> str:
        made = await super().provision(plan)
        self.world.stored[made] = self.place(plan)
        return made

    def place(self, plan: Plan) -> str:
        """Return a part of the volume for each tenant, and for who names none one of his own."""
        return f"volume/{plan.spec.metadata.get('tenant_id', plan.create_id)}"


class _Commons(_Stored):
    def place(self, plan: Plan) -> str:
        return f"volume/{plan.spec.metadata['tenant_id']}" if "tenant_id" in plan.spec.metadata else "volume"


class _CountingSession(StubSession):
    def network_denials(self) -> int:
        """Return what the provider counts."""
        return self._world.denials.get(self._record.identity, 0)


class _Counting(StubBackend):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.world.offers.add("count")

    drives = _CountingSession


class _HushedSession(_CountingSession):
    def network_denials(self) -> int:
        """Say that nothing ever was blocked."""
        return 0


class _Hushed(_Counting):
    drives = _HushedSession


class _ArgumentsSession(StubSession):
    """Hands variables over in the arguments of a shell that stays while the command runs."""

    async def start(self, command: Command) -> StubProcess:
        if shutil.which(command.argv[0]) is None:
            return await super().start(command)
        pairs = [f"{name}={value}" for name, value in command.env.items()]
        argv = ("sh", "-c", '"$@"; exit $?', "sh", "env", *pairs, *command.argv)
        return await super().start(replace(command, argv=argv, env={}))


class _Arguments(StubBackend):
    drives = _ArgumentsSession


class _Labels(StubBackend):
    """Keeps secrets in a label of its own, which it does not tell core of."""

    own: ClassVar[str] = "environment"

    async def provision(self, plan: Plan) -> str:
        secrets = ",".join(f"{name}={value.get_secret_value()}" for name, value in plan.spec.secrets.items())
        labelled = replace(plan.spec, metadata={**plan.spec.metadata, self.own: secrets})
        return await super().provision(replace(plan, spec=labelled))

    async def observe(self, sandbox_id: str) -> Observation | None:
        seen = await super().observe(sandbox_id)
        if seen is None:
            return None
        told = {key: value for key, value in seen.labels.items() if key != self.own}
        return replace(seen, labels=told, applied={**seen.applied, "labels": told})


stub_brokered = Adapter("stub-brokered", _Brokered)
stub_stored = Adapter("stub-stored", _Stored)
stub_counting = Adapter("stub-counting", _Counting)
liar_unbrokered = Adapter("liar-unbrokered", _Unbrokered)
liar_commons = Adapter("liar-commons", _Commons)
liar_hushed = Adapter("liar-hushed", _Hushed)
liar_arguments = Adapter("liar-arguments", _Arguments)
liar_labels = Adapter("liar-labels", _Labels)
