"""Seconds from the environment: read in one way, refused in one way."""

from collections.abc import Callable

import pytest
from sandboxio import ConfigurationError
from sandboxio.bounds import seconds_from
from sandboxio.guards import guard_bound
from sandboxio.records import audit_bound
from sandboxio.teardown import check_grace, teardown_grace

WRONG = ["0", "-1", "nan", "inf", "1e9", "five", "t0ken-by-mistake"]


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize(
    "variable, read",
    [("SBX_AUDIT_TIMEOUT", audit_bound), ("SBX_GUARD_TIMEOUT", guard_bound), ("SBX_TEARDOWN_GRACE", check_grace)],
)
def test_a_wrong_one_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, variable: str, read: Callable[[], object], value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError, match=variable) as caught:
        read()
    assert "t0ken" not in str(caught.value)


@pytest.mark.parametrize("value, seconds", [("", 5.0), ("7", 7.0), ("0.5", 0.5)])
def test_the_default_stands_for_unset_and_empty(monkeypatch: pytest.MonkeyPatch, value: str, seconds: float) -> None:
    monkeypatch.delenv("SBX_ANY", raising=False)
    assert seconds_from("SBX_ANY", 5.0, 60.0) == 5.0
    monkeypatch.setenv("SBX_ANY", value)
    assert seconds_from("SBX_ANY", 5.0, 60.0) == seconds


def test_a_teardown_goes_on_with_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBX_TEARDOWN_GRACE", "wrong by now")
    assert teardown_grace() == 5.0
