"""Labels carry metadata byte for byte, and only what is ours counts as ours."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandboxio.errors import ConfigurationError
from sandboxio_docker import labels


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_metadata_comes_back_as_it_was_given(metadata: dict[str, str]) -> None:
    labels.check_metadata(metadata)
    sent = labels.make("sbx-1", "0.1", "agent", metadata)
    assert labels.metadata_of(json.loads(json.dumps(sent))) == metadata


@pytest.mark.parametrize("metadata", [{"k": "\udc80"}, {"\udcff": "v"}])
def test_what_docker_would_change_is_refused_naming_the_key(metadata: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="metadata"):
        labels.check_metadata(metadata)


def test_oversized_metadata_is_refused_naming_key_and_size() -> None:
    with pytest.raises(ConfigurationError, match=r"metadata\['big'\] has 300003 bytes"):
        labels.check_metadata({"big": "x" * 300_000})
    labels.check_metadata({"big": "x" * 70_000})


def test_a_callers_key_cannot_forge_a_label_of_ours() -> None:
    sent = labels.make("sbx-1", "0.1", "agent", {"expires": "0", "io.sandboxio.expires": "0"})
    assert labels.EXPIRES not in sent
    assert sent[labels.CREATE_ID] == "sbx-1"


def test_a_container_from_a_committed_sandbox_is_not_ours() -> None:
    inherited = labels.make("sbx-1", "0.1", "agent", {})
    assert labels.is_ours(inherited, "sbx-1")
    assert not labels.is_ours(inherited, "somebody-elses")
    assert not labels.is_ours({}, "sbx-1")


@pytest.mark.parametrize(("text", "expected"), [("12.5", 12.5), ("soon", None)])
def test_an_unreadable_expiry_is_no_expiry(text: str, expected: float | None) -> None:
    assert labels.expiry_of({labels.EXPIRES: text}) == expected
    assert labels.expiry_of({}) is None
