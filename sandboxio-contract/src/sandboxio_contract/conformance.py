"""What ``conformance.json`` holds, and its JSON schema, which is published in the documentation."""

import json
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from sandboxio_contract.verdict import Status

SCHEMA: Literal[1] = 1
"""The version of the format; it grows when a reader of the old one would misread the new one."""


class _Entry(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    verdict: Status
    evidence: str


class Part(_Entry):
    """One of several things that a row looked at.

    :param evidence: a sentence.
    """

    name: str


class Row(_Entry):
    """One row on one event loop.

    :param row: the name of the check.
    :param seconds: how long it took.
    """

    row: str
    loop: Literal["asyncio", "trio"]
    seconds: float
    parts: tuple[Part, ...]


class Requirement(_Entry):
    """The verdict on one requirement: as severe as the worst of its rows."""

    rows: tuple[Row, ...]


class Conformance(BaseModel):
    """The verdicts on one target.

    :param target: its DSN.
    :param emulator: whether an emulator of the provider was judged, not the provider.
    :param versions: distribution → version.
    :param date: when the run ended, ISO 8601 with its offset.
    :param requirements: every requirement by its id; one that was not run has the verdict ``not built`` and no row.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    schema_: Literal[1] = Field(alias="schema")
    target: str
    emulator: bool
    versions: dict[str, str]
    date: str
    requirements: dict[str, Requirement]


def conformance_schema() -> dict[str, Any]:
    """Return the JSON schema, as it stands in ``docs/conformance.schema.json``."""
    return Conformance.model_json_schema(by_alias=True, mode="validation")


if __name__ == "__main__":
    print(json.dumps(conformance_schema(), indent=2))  # noqa: T201 - this is how the published file is written
