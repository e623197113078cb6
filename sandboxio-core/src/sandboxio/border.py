"""The border of the package: whatever error leaves a public method is masked there, whoever wrote its text."""

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from sandboxio.redaction import Redactor

T = TypeVar("T")

_SPECIAL = frozenset({"__aenter__", "__aexit__", "__anext__"})


def masked(redactor_of: Callable[[Any], Redactor]) -> Callable[[type[T]], type[T]]:
    """Return a class decorator that puts every public method and property of a class inside `Redactor.border`.

    The methods are not asked one by one, so that none is forgotten.
    """

    def decorate(cls: type[T]) -> type[T]:
        for name, member in list(vars(cls).items()):
            if not name.startswith("_") or name in _SPECIAL:
                setattr(cls, name, _inside(member, redactor_of))
        return cls

    return decorate


def _inside(member: object, redactor_of: Callable[[Any], Redactor]) -> object:
    if isinstance(member, property):
        return property(cast("Callable[[Any], Any]", _inside(member.fget, redactor_of)), doc=member.__doc__)
    if inspect.iscoroutinefunction(member):
        return _async(member, redactor_of)
    return _sync(member, redactor_of) if inspect.isfunction(member) else member


def _async(method: Callable[..., Coroutine[Any, Any, Any]], redactor_of: Callable[[Any], Redactor]) -> object:
    @functools.wraps(method)
    async def call(self: object, *args: Any, **kwargs: Any) -> Any:
        with redactor_of(self).border():
            return await method(self, *args, **kwargs)

    return call


def _sync(method: Callable[..., Any], redactor_of: Callable[[Any], Redactor]) -> object:
    @functools.wraps(method)
    def call(self: object, *args: Any, **kwargs: Any) -> Any:
        with redactor_of(self).border():
            return method(self, *args, **kwargs)

    return call
