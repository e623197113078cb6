"""A killed owner's containers and networks go too, and the kernel's settings come back."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import docker
import pytest
from sandboxio_contract.network import DockerReference, HostCanary, cleanup, sysctls
from sandboxio_contract.network.engine import LABEL

pytestmark = [
    pytest.mark.network,
    pytest.mark.docker,
    pytest.mark.skipif(os.geteuid() != 0, reason="the host canary needs root"),
]

START = (
    "import os, signal; from sandboxio_contract.network import DockerReference, HostCanary;"
    "canary = HostCanary.start(); reference = DockerReference(canary).__enter__(); reference.neighbour;"
    "print(canary.pid, canary.run_id, flush=True);"
)


@pytest.fixture
def engine() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


def leftovers(engine: Any, run: str) -> list[str]:
    filters = {"label": f"{LABEL}={run}"}
    found = [*engine.api.containers(all=True, filters=filters), *engine.api.networks(filters=filters)]
    return [one["Id"] for one in found]


def forwarding() -> str | None:
    return sysctls.snapshot().get("/proc/sys/net/ipv6/conf/all/forwarding")


def test_leaving_removes_everything_and_restores_the_settings(engine: docker.DockerClient) -> None:
    before = forwarding()
    with HostCanary.start() as canary:
        with DockerReference(canary) as reference:
            assert reference.neighbour.address
            assert len(leftovers(engine, canary.run_id)) == 2
        assert leftovers(engine, canary.run_id) == []
    assert forwarding() == before


def test_a_killed_owners_containers_are_removed_by_the_supervisor(engine: docker.DockerClient) -> None:
    before = forwarding()
    code = START + "os.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=180)
    run = done.stdout.split()[1]
    end = time.monotonic() + 15
    while time.monotonic() < end and (leftovers(engine, run) or forwarding() != before):
        time.sleep(0.05)
    assert (leftovers(engine, run), forwarding()) == ([], before)


def test_cleanup_removes_what_owner_and_supervisor_left(engine: docker.DockerClient) -> None:
    before = forwarding()
    code = START + "os.kill(canary.pid, signal.SIGKILL); os.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=180)
    run = done.stdout.split()[1]
    assert len(leftovers(engine, run)) == 2
    end = time.monotonic() + 10
    while not cleanup() and time.monotonic() < end:
        time.sleep(0.05)  # the lock goes with the last of the supervisor's children
    assert (leftovers(engine, run), forwarding()) == ([], before)
