"""Denials and their controls on a real engine, and liars: containers that claim to have no network."""

import subprocess
from collections.abc import Iterator
from typing import Any

import docker
import pytest
from sandboxio_contract.network import (
    Checks,
    DockerReference,
    HostCanary,
    NotProvable,
    Outcome,
    Verdict,
    judge,
    neighbour_command,
    parse_probe,
    probe_command,
    shell_command,
)
from sandboxio_contract.network.engine import LABEL
from sandboxio_contract.network.tokens import key_for

pytestmark = [pytest.mark.network, pytest.mark.docker]

PYTHON = "sandboxio-test/python"
INSIDE_ONLY = {"unix-path", "vsock"}


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture(scope="module")
def control(canary: HostCanary, reference: DockerReference) -> Outcome:
    return reference.probe(canary.checks(neighbour=reference.neighbour))


class Sandboxes:
    """Containers that claim to deny; all removed at the end."""

    def __init__(self, engine: docker.DockerClient, canary: HostCanary) -> None:
        self.engine, self.label = engine, {LABEL: canary.run_id}
        self.started: list[str] = []

    def start(self, image: str = PYTHON, command: tuple[str, ...] = ("sleep", "60"), **options: Any) -> str:
        made = self.engine.containers.run(image, list(command), detach=True, labels=self.label, **options)
        self.started.append(str(made.id))
        return str(made.id)

    def network(self, **options: Any) -> str:
        name = f"sandboxio-contract-liar-{self.label[LABEL]}"
        self.engine.networks.create(name, labels=self.label, **options)
        return name


@pytest.fixture
def sandboxes(engine: docker.DockerClient, canary: HostCanary, reference: DockerReference) -> Iterator[Sandboxes]:
    made = Sandboxes(engine, canary)
    yield made
    for container in made.started:
        engine.containers.get(container).remove(force=True)
    api: Any = engine.api
    for network in api.networks(names=["sandboxio-contract-liar-"]):
        api.remove_network(network["Id"])


def run_inside(container: str, checks: Checks, python: str = "python3") -> Outcome:
    argv, source = probe_command(checks, python)
    done = subprocess.run(["docker", "exec", "-i", container, *argv], input=source, capture_output=True, check=False)
    return parse_probe(checks, done.returncode, done.stdout)


def having(verdicts: dict[str, Verdict], status: str) -> set[str]:
    return {name for name, verdict in verdicts.items() if verdict.status == status}


def test_the_reference_reaches_everything(canary: HostCanary, control: Outcome) -> None:
    assert {name: one for name, one in control.results.items() if one.status != "reached" and name != "vsock"} == {}
    assert {"tcp6-80", "udp6", "icmp6", "link-local6", "neighbour", "gateway", "host", "unix-path"} <= set(
        control.results
    )
    assert not any(canary.witness().drops.values())


@pytest.mark.parametrize("options", [{}, {"network_disabled": True}, {"cap_drop": ["ALL"]}])
def test_a_container_without_a_network_is_denied_everywhere(
    options: dict[str, Any], canary: HostCanary, reference: DockerReference, control: Outcome, sandboxes: Sandboxes
) -> None:
    container = sandboxes.start(network_mode="none", **options)
    checks = canary.checks(neighbour=reference.neighbour)
    inside = judge(checks, run_inside(container, checks), control, canary.witness())
    assert {one: inside[one] for one in inside if inside[one].status != "proven" and one != "vsock"} == {}
    checks = canary.checks(neighbour=reference.neighbour)
    beside = judge(checks, reference.probe_beside(container, checks), control, canary.witness())
    assert having(beside, "proven") == set(beside) - INSIDE_ONLY
    assert having(beside, "not-provable") == INSIDE_ONLY


def test_an_internal_network_is_no_denial(
    canary: HostCanary, reference: DockerReference, control: Outcome, sandboxes: Sandboxes
) -> None:
    network = sandboxes.network(internal=True)
    key = key_for(b"internal", "neighbour")
    argv, source = neighbour_command(key, 28_455)
    inline = (*argv[:3], "-c", source.decode(), *argv[4:])
    neighbour = sandboxes.engine.containers.get(sandboxes.start(command=inline, network=network))
    address = neighbour_address(neighbour, network)
    sandbox = sandboxes.start(network=network)
    checks = canary.checks(neighbour=type(reference.neighbour)(address, 28_455, key))
    verdicts = judge(checks, run_inside(sandbox, checks), control, canary.witness())
    assert having(verdicts, "violated") - {"vsock"} >= {"gateway", "host", "neighbour"}
    assert having(verdicts, "proven") >= {"tcp4-80", "udp4", "metadata"}


def neighbour_address(container: Any, network: str) -> str:
    while b"listening" not in container.logs():
        container.reload()
        assert container.status == "running", container.logs()
    container.reload()
    return str(container.attrs["NetworkSettings"]["Networks"][network]["IPAddress"])


def test_the_hosts_network_is_no_denial(
    canary: HostCanary, reference: DockerReference, control: Outcome, sandboxes: Sandboxes
) -> None:
    sandbox = sandboxes.start(network_mode="host")
    checks = canary.checks(neighbour=reference.neighbour)
    verdicts = judge(checks, run_inside(sandbox, checks), control, canary.witness())
    reached = {"tcp4-80", "tcp6-80", "udp4", "udp6", "dns4-udp", "dns-lookup", "metadata", "host", "neighbour"}
    assert having(verdicts, "violated") >= reached | {"unix-abstract", "link-local6"}
    assert verdicts["unix-path"].status == "proven"


def test_a_bridge_is_convicted_by_everything_but_ipv6(
    canary: HostCanary, reference: DockerReference, control: Outcome, sandboxes: Sandboxes
) -> None:
    sandbox = sandboxes.start("sandboxio-test/busybox", network_mode="bridge")
    checks = canary.checks()
    verdicts = judge(checks, reference.probe_beside(sandbox, checks), control, canary.witness())
    assert having(verdicts, "violated") >= {"tcp4-80", "tcp4-443", "udp4", "icmp4", "dns-lookup", "dns-configured"}
    assert having(verdicts, "violated") >= {"metadata", "gateway", "host", "dns4-public"}
    assert having(verdicts, "proven") >= {"tcp6-80", "udp6"}


def test_a_mounted_socket_of_the_host_is_convicted(canary: HostCanary, control: Outcome, sandboxes: Sandboxes) -> None:
    checks = canary.checks()
    path = next(one.addresses[0] for one in checks if one.name == "unix-path")
    folder = path.rsplit("/", 1)[0]
    sandbox = sandboxes.start(network_mode="none", volumes={folder: {"bind": folder, "mode": "ro"}})
    verdicts = judge(checks, run_inside(sandbox, checks), control, canary.witness())
    assert having(verdicts, "violated") - {"vsock"} == {"unix-path"}


def test_a_minimal_python_is_enough_for_the_probe(canary: HostCanary, control: Outcome, sandboxes: Sandboxes) -> None:
    sandbox = sandboxes.start("sandboxio-test/python-minimal", network_mode="none")
    checks = canary.checks()
    verdicts = judge(checks, run_inside(sandbox, checks), control, canary.witness())
    assert having(verdicts, "proven") >= set(verdicts) - {"vsock"}


def test_an_image_without_tools_is_never_proven_from_inside(
    canary: HostCanary, reference: DockerReference, control: Outcome, sandboxes: Sandboxes
) -> None:
    for network in ("none", "bridge"):
        sandbox = sandboxes.start("sandboxio-test/busybox", network_mode=network)
        checks = canary.checks()
        inside = judge(checks, run_inside(sandbox, checks), control, canary.witness())
        assert having(inside, "not-provable") == set(inside)
        beside = judge(checks, reference.probe_beside(sandbox, checks), control, canary.witness())
        assert (having(beside, "violated") != set()) == (network == "bridge")


def test_a_shell_shows_the_link_of_a_liar(canary: HostCanary, sandboxes: Sandboxes) -> None:
    links: dict[str, tuple[str, ...]] = {}
    for network in ("none", "bridge"):
        sandbox = sandboxes.start("sandboxio-test/busybox", network_mode=network)
        argv, script = shell_command()
        done = subprocess.run(["docker", "exec", "-i", sandbox, *argv], input=script, capture_output=True, check=False)
        links[network] = parse_probe(canary.checks(), done.returncode, done.stdout).interfaces
    assert links["none"] == ("lo",)
    assert "eth0" in links["bridge"]


def test_a_neighbour_off_this_machine_is_refused(canary: HostCanary, reference: DockerReference) -> None:
    elsewhere = type(reference.neighbour)("198.18.0.1", 80, b"key")
    with pytest.raises(NotProvable, match="would lead off this machine"):
        canary.checks(neighbour=elsewhere)


def test_an_image_that_is_missing_is_a_typed_reason(canary: HostCanary) -> None:
    with DockerReference(canary, image="sandboxio-test/no-such-image") as without:
        with pytest.raises(NotProvable, match="could not be") as raised:
            without.probe(canary.checks(only=["tcp4-80"]))
        assert raised.value.code == "engine"


def test_an_engine_that_does_not_answer_is_a_typed_reason(canary: HostCanary) -> None:
    with pytest.raises(NotProvable, match="no Docker engine answers"):
        DockerReference(canary, base_url="unix:///nonexistent/docker.sock")


def test_an_engine_on_another_machine_is_refused_before_anything_is_sent(canary: HostCanary) -> None:
    with pytest.raises(NotProvable, match="not on this machine"):
        DockerReference(canary, base_url="tcp://engine.invalid:2375")
