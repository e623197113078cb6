"""Waiting in a thread for what runs in the loop."""

import asyncio
import sys
import time
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import wait
from contextlib import suppress
from typing import Any, TypeVar

from sandboxio.errors import ConfigurationError, SandboxGone
from sandboxio.loop_thread import Hold, SharedThread, Submitted
from sandboxio.sandbox import Sandbox
from sandboxio.teardown import SETTLE, teardown_grace

T = TypeVar("T")

shared = SharedThread("sandboxio-sync")


class Waiter:
    """Makes the calls of one sandbox.

    :ivar sandbox: what they are about; it is not forgotten as long as its files or one of its commands are held.
    """

    def __init__(self, hold: Hold) -> None:
        self.hold = hold
        self.sandbox: Sandbox | None = None
        # Also where nobody kills it: the thread must not stay for a sandbox that is forgotten.
        weakref.finalize(self, hold.release_soon).atexit = False

    def hold_for(self, context: object) -> Hold:
        """Return a hold of a context's own: where the sandbox is killed in its block, it has to be left in the loop, too."""
        hold = shared.hold()
        weakref.finalize(context, hold.release_soon).atexit = False
        return hold

    def call(self, form: str, work: Callable[[], Coroutine[Any, Any, T]], hold: Hold | None = None) -> T:
        """Run ``work`` in the loop and return what it returns, or raise what it raises.

        Ctrl-C, or what another signal's handler raises, cancels it there, waits for it to clean up (it ends the command's process tree), and is raised then.

        :param form: the asynchronous form, for the error.
        :param hold: a context's own.
        :raises ConfigurationError: this thread runs an event loop itself, which would stand still meanwhile.
        """
        refuse_in_loop(form)
        hold = hold or self.hold
        if hold.released:
            raise SandboxGone("the sandbox is gone (killed)", reason="killed")
        submitted = hold.thread.submit(work)
        try:
            wait([submitted.ended])
        except BaseException:  # Ctrl-C, or whatever another signal's handler raises
            submitted.cancel()
            _outlast(submitted)
            raise
        try:
            return submitted.ended.result()
        except asyncio.CancelledError:
            raise SandboxGone("the loop was stopped while the call ran", reason="killed") from None


def refuse_in_loop(form: str) -> None:
    """:raises ConfigurationError: this thread runs an event loop, asyncio's or trio's."""
    if _in_loop():
        raise ConfigurationError("this thread runs an event loop, which would stand still", hint=f"use `{form}` here")


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        trio = sys.modules.get("trio")
        return trio is not None and trio.lowlevel.in_trio_run()
    return True


def _outlast(submitted: Submitted[Any]) -> None:
    """Wait until cancelled work has cleaned up; a second interruption changes nothing, the grace bounds it."""
    # Twice: a command that could not be ended alone is ended with its sandbox.
    deadline = time.monotonic() + 2 * (teardown_grace() + SETTLE)
    while not submitted.ended.done() and (left := deadline - time.monotonic()) > 0:
        with suppress(BaseException):  # the first one is raised
            wait([submitted.ended], timeout=left)
