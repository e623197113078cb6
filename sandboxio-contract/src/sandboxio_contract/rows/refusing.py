"""Refusals: the right error, and a recorder that saw nothing happen."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Any

from sandboxio_contract.ground import Spied
from sandboxio_contract.rows.inside import raises
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Inconclusive, Part, Violated, violated


class Recorded:
    """Makes requests that must be refused, watched by the recorder where the ground has one."""

    def __init__(self, target: Target, spied: Spied | None, unseen: str) -> None:
        self._target, self._spied, self._unseen = target, spied, unseen

    async def refuses(self, name: str, error: type[Exception], *, no_call: bool = False, **options: Any) -> Part:
        """Ask for a sandbox that must be refused.

        :param no_call: the refusal needs no facts, so the provider must not even have been asked something.
        """
        dsn = self._spied.dsn if self._spied else self._target.dsn
        return await self.judge(name, error, lambda: self._create(dsn, options), no_call=no_call)

    async def judge(
        self, name: str, error: type[Exception], call: Callable[[], Awaitable[Any]], *, no_call: bool = False
    ) -> Part:
        """Await a call that must be refused."""
        before = len(self._spied.wire.calls) if self._spied else 0
        try:
            raised = await raises(error, call(), name)
            seen = self._spied.wire.calls[before:] if self._spied else ()
            wrong = [str(one) for one in seen if no_call or one.changes]
            if wrong:
                violated(f"{name} was refused only after {', '.join(wrong[:4])}")
        except Violated as fact:
            return Part(name, "violated", str(fact))
        if self._spied is None:
            return Part(name, "not-provable", f"{type(raised).__name__}, but whether nothing happened: {self._unseen}")
        return Part(name, "refused", f"{type(raised).__name__}, {'no call' if not seen else f'{len(seen)} reads'}")

    async def _create(self, dsn: str, options: dict[str, Any]) -> object:
        made = await self._target.create(dsn=dsn, **options)
        await made.kill()
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
