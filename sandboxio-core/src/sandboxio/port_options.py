"""The optional part of the port: what a backend or session has a feature by having. Core asks with ``isinstance``."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from sandboxio.planning import Plan
    from sandboxio.port import Progress


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One entry of a directory, links followed (a broken or looping link is listed with size 0).

    :param path: absolute.
    :param size: bytes.
    :param mode: permission bits.
    :param modified: seconds since the epoch.
    """

    path: str
    size: int
    is_dir: bool
    is_symlink: bool
    mode: int
    modified: float


@runtime_checkable
class PreparesTemplate(Protocol):
    """A `Backend` that may have to fetch a template first; cancelled freely, creates nothing of ours."""

    async def prepare(self, plan: "Plan", progress: "Progress") -> bool:
        """Make the template present where sandboxes are made.

        :return: true if it was not there before: what was known about it is stale, so core probes and plans once more.
        """
        ...


@runtime_checkable
class HoldsSecrets(Protocol):
    """A `Backend` or `Session` that holds secret values which core has to mask and can't know otherwise.

    Such as a token that the provider gave out for one sandbox, or an account's key from a file. Secret fields of a
    configuration (`pydantic.SecretStr`) and `BackendInfo.credentials` are known to core already.
    """

    def secret_values(self) -> Iterable[str]:
        """Return those that are known by now; asked anew whenever something is masked, so quick and without I/O."""
        ...


@runtime_checkable
class CountsDenials(Protocol):
    """A `Session` whose provider tells how many attempts at egress it blocked."""

    def network_denials(self) -> int:
        """Return how many there were in the sandbox so far, as far as is known by now; quick and without I/O.

        Core puts the count into every record of the sandbox.
        """
        ...


@runtime_checkable
class Detaches(Protocol):
    """A `Session` whose sandbox can outlive its owner."""

    async def detach(self) -> None:
        """Give up ownership: from now on the lifetime alone ends the sandbox; return once that is certain.

        What runs over this session lives on when it is closed.

        :raises CapabilityNotSupported: nothing would hold this sandbox's lifetime without its owner.
        """
        ...


@runtime_checkable
class HasFiles(Protocol):
    """A `Session` with a file service of its own; paths are absolute."""

    def read(self, path: str) -> AsyncIterator[bytes]:
        """Iterate over a regular file's content in chunks."""
        ...

    async def write(
        self, path: str, chunks: AsyncIterator[bytes], *, mode: int | None = None, modified: float | None = None
    ) -> None:
        """Write a file whole or not at all, making missing parents.

        :param mode: permission bits that it has from the beginning; ``None``: those of the old file, if there is one.
        :param modified: seconds since the epoch; ``None``: now. A whole second is enough.
        """
        ...

    async def list(self, path: str) -> list[FileInfo]:
        """Return a directory's entries, in any order."""
        ...

    async def stat(self, path: str) -> FileInfo:
        """Return what is known about one path."""
        ...

    async def mkdir(self, path: str, *, parents: bool) -> None:
        """Make a directory; with ``parents`` an existing one is no error."""
        ...

    async def remove(self, path: str, *, recursive: bool) -> None:
        """Remove a file or link, with ``recursive`` a tree; links inside are never followed."""
        ...


@runtime_checkable
class HasTrees(HasFiles, Protocol):
    """A file service that also carries what is in a tree beside files; paths are absolute."""

    async def read_link(self, path: str) -> str:
        """Return what a link holds, as it is."""
        ...

    async def make_link(self, path: str, target: str) -> None:
        """Make a link that holds ``target``, in place of a file or link of that name.

        :raises IsADirectory: a directory stands there.
        """
        ...

    async def set_attributes(self, path: str, *, mode: int, modified: float) -> None:
        """Set a directory's permission bits and time."""
        ...


@runtime_checkable
class HasContents(Protocol):
    """A `Session` whose provider carries large contents beside commands; all else about files core does by commands.

    Paths are absolute, text, and core's own choice: what they name was looked at by a command before.
    """

    def read_content(self, path: str) -> AsyncIterator[bytes]:
        """Iterate over a regular file's content in chunks."""
        ...

    async def write_content(self, path: str, chunks: AsyncIterator[bytes]) -> None:
        """Write the content of a file that is there and empty, no faster than it is taken; a part of it may stay.

        What arrived is counted afterwards.
        """
        ...
