import time

import pytest
from sandboxio_contract.network.checks import Check
from sandboxio_contract.network.outcome import Status
from sandboxio_contract.network.verdict import judge
from sandboxio_contract.network.witness import Arrival, Sighting, Witness

from .grounds import DNS, LOOKUP, TCP, VSOCK, checks, outcome

SILENT = Witness()


@pytest.mark.parametrize("status", ["refused", "unreachable", "timeout"])
def test_a_denial_with_its_control_and_silent_witnesses_is_proven(status: Status) -> None:
    asked = checks()
    verdicts = judge(asked, outcome(asked, status), outcome(asked.renewed(), "reached"), SILENT)
    assert {one.status for one in verdicts.values()} == {"proven"}


@pytest.mark.parametrize("status", ["tool missing", "error", "answered", "resolved", "forged"])
def test_anything_but_a_denial_is_never_proven(status: Status) -> None:
    asked = checks()
    verdicts = judge(asked, outcome(asked, status), outcome(asked.renewed(), "reached"), SILENT)
    assert {one.status for one in verdicts.values()} == {"not-provable"}


@pytest.mark.parametrize("status", ["refused", "timeout", "forged", "answered", "tool missing", "error", "resolved"])
def test_without_a_control_that_reached_nothing_is_proven(status: Status) -> None:
    asked = checks()
    verdicts = judge(asked, outcome(asked, "refused"), outcome(asked.renewed(), status), SILENT)
    assert {one.status for one in verdicts.values()} == {"not-provable"}
    assert "no control" in verdicts["tcp4-80"].evidence


def test_a_true_nonce_is_a_violation_whatever_the_control_says() -> None:
    asked = checks()
    verdicts = judge(asked, outcome(asked, "reached"), outcome(asked, "error"), SILENT)
    assert {one.status for one in verdicts.values()} == {"violated"}


@pytest.mark.parametrize("status", ["timeout", "refused", "error", "tool missing", "forged"])
def test_a_token_that_the_witness_saw_convicts_whatever_the_sandbox_says(status: Status) -> None:
    asked = checks(TCP, DNS)
    seen = Witness((Sighting(asked.token, TCP.name, "tcp", "172.17.0.2:4000", "canary", time.monotonic()),))
    verdicts = judge(asked, outcome(asked, status), outcome(asked.renewed(), "reached"), seen)
    assert verdicts[TCP.name].status == "violated"
    assert verdicts[DNS.name].status != "violated"


def test_the_controls_own_tokens_convict_nobody() -> None:
    asked = checks(TCP)
    control = asked.renewed()
    seen = Witness((Sighting(control.token, TCP.name, "tcp", "172.17.0.2:4000", "canary", time.monotonic()),))
    assert judge(asked, outcome(asked, "timeout"), outcome(control, "reached"), seen)[TCP.name].status == "proven"


def test_an_opening_that_never_became_a_connection_convicts() -> None:
    asked = checks(TCP)
    late = Witness(arrivals=(Arrival("tcp", "203.0.113.7", 80, "172.17.0.2", 4000, time.monotonic()),))
    early = Witness(arrivals=(Arrival("tcp", "203.0.113.7", 80, "172.17.0.2", 4000, asked.created - 1),))
    control = outcome(asked.renewed(), "reached")
    assert judge(asked, outcome(asked, "timeout"), control, late)[TCP.name].status == "violated"
    assert judge(asked, outcome(asked, "timeout"), control, early)[TCP.name].status == "proven"


def test_a_counter_that_moved_since_the_checks_were_made_convicts() -> None:
    asked = checks(TCP, LOOKUP, baseline={"name_off_link": 3})
    control = outcome(asked.renewed(), "reached")
    before = judge(asked, outcome(asked, "timeout"), control, Witness(drops={"name_off_link": 3}))
    after = judge(asked, outcome(asked, "timeout"), control, Witness(drops={"name_off_link": 4}))
    assert before[LOOKUP.name].status == "proven"
    assert after[LOOKUP.name].status == "violated"
    assert after[TCP.name].status == "proven"


def test_vsock_is_judged_by_creation_alone() -> None:
    asked = checks(VSOCK)
    control = outcome(asked.renewed(), "answered", "created")
    assert judge(asked, outcome(asked, "refused", "EPERM"), control, SILENT)["vsock"].status == "proven"
    assert judge(asked, outcome(asked, "answered", "created"), control, SILENT)["vsock"].status == "violated"
    without = outcome(asked.renewed(), "refused", "EAFNOSUPPORT")
    assert judge(asked, outcome(asked, "refused"), without, SILENT)["vsock"].status == "not-provable"


def test_what_the_machine_cannot_offer_is_listed_with_its_reason() -> None:
    asked = checks(TCP, missing={"tcp6-80": "the kernel has no IPv6"})
    verdicts = judge(asked, outcome(asked, "refused"), outcome(asked.renewed(), "reached"), SILENT)
    assert verdicts["tcp6-80"].status == "not-provable"
    assert verdicts["tcp6-80"].evidence == "the kernel has no IPv6"


def test_results_of_another_probe_prove_nothing() -> None:
    asked = checks(TCP)
    other = asked.renewed()
    assert judge(asked, outcome(other, "refused"), outcome(other, "reached"), SILENT)[TCP.name].status == "not-provable"


def test_secrets_stay_out_of_representations() -> None:
    check = Check("x", "tcp", ("203.0.113.7",), 80, b"secret-key")
    assert "secret-key" not in repr(checks(check))
