"""Refusals: the right error, and a recorder that saw nothing happen."""

from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

from sandboxio_contract.ground import Spied
from sandboxio_contract.ground.wire import Call
from sandboxio_contract.rows.inside import raises
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Inconclusive, Part, Violated, violated


class Recorded:
    """Makes requests that must be refused, watched by the recorder where the ground has one."""

    def __init__(self, target: Target, spied: Spied | None, unseen: str) -> None:
        self._target, self._spied, self._unseen = target, spied, unseen
        self._earlier = len(spied.wire.calls) if spied else 0

    async def refuses(
        self,
        name: str,
        error: type[Exception],
        *,
        no_call: bool = False,
        offered: bool = False,
        judged_by: str = "",
        **options: Any,
    ) -> Part:
        """Ask for a sandbox that must be refused.

        :param no_call: the refusal needs no facts, so the provider must not even have been asked something.
        :param offered: the backend may grant it instead; then another row has to judge whether it holds.
        :param judged_by: the requirement whose row does so.
        """
        before = len(self.calls())
        try:
            raised = await raises(error, self._create(options, name if offered else None), name)
            seen = self.calls()[before:]
            wrong = [str(one) for one in seen if no_call or one.changes]
            if wrong:
                violated(f"{name} was refused only after {', '.join(wrong[:4])}")
        except Violated as fact:
            return Part(name, "violated", str(fact))
        except Inconclusive as reason:
            if offered and judged_by:
                return Part(name, "proven", f"granted; {judged_by} judges whether it holds")
            return Part(name, "not-provable", str(reason))
        if self._spied is None:
            return Part(name, "not-provable", f"{type(raised).__name__}, but whether nothing happened: {self._unseen}")
        return Part(name, "refused", f"{type(raised).__name__}, {'no call' if not seen else f'{len(seen)} reads'}")

    @property
    def dsn(self) -> str:
        """The target, behind the recorder where there is one."""
        return self._spied.dsn if self._spied else self._target.dsn

    def calls(self) -> tuple[Call, ...]:
        """Return what the recorder saw so far, nothing where there is none."""
        return self._spied.wire.calls[self._earlier :] if self._spied else ()

    async def _create(self, options: dict[str, Any], offered: str | None) -> object:
        made = await self._target.create(dsn=self.dsn, **options)
        await made.kill()
        if offered:
            raise Inconclusive(f"the backend offers {offered}, and no row judges yet whether it holds")
        return made


@asynccontextmanager
async def recorded(target: Target) -> AsyncGenerator[Recorded]:
    """Record the adapter's traffic for the block; without a recorder the refusals are still asked for."""
    with ExitStack() as stack:
        spied, unseen = None, ""
        try:
            spied = stack.enter_context(target.ground.spied())
        except Inconclusive as reason:
            unseen = str(reason)
        yield Recorded(target, spied, unseen)
