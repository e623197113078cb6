"""The engine is found as the SDK finds it, and what can't be spoken is refused with the fix."""

import json
import os
from pathlib import Path

import pytest
from sandboxio.errors import ConfigurationError
from sandboxio_docker.endpoint import Endpoint, resolve


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("DOCKER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "config"))


def test_without_any_setting_it_is_the_local_socket() -> None:
    endpoint = resolve(None)
    assert endpoint.socket_path == "/var/run/docker.sock"
    assert endpoint.is_local


def test_the_configuration_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    assert resolve(None).address == ("192.0.2.1", 2375)
    assert resolve("unix:///run/other.sock").socket_path == "/run/other.sock"


def test_tls_takes_the_three_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).touch()
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2376")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    files = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key")}
    assert resolve(None) == Endpoint("https://192.0.2.1:2376", **files, verify=True)


def test_the_current_context_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import hashlib

    folder = tmp_path / "config"
    meta = folder / "contexts" / "meta" / hashlib.sha256(b"desktop").hexdigest()
    meta.mkdir(parents=True)
    described = {"Name": "desktop", "Metadata": {}, "Endpoints": {"docker": {"Host": "unix:///run/desktop.sock"}}}
    (meta / "meta.json").write_text(json.dumps(described))
    (folder / "config.json").write_text(json.dumps({"currentContext": "desktop"}))
    assert resolve(None).socket_path == "/run/desktop.sock"


@pytest.mark.parametrize("host", ["ssh://user@host", "fd://", "npipe:////./pipe/docker_engine", "tcp://", "nonsense"])
def test_what_cannot_be_spoken_is_refused_with_the_fix(host: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve(host)
    assert caught.value.hint


def test_it_travels_as_text() -> None:
    endpoint = Endpoint("https://192.0.2.1:2376", ca="/ca.pem", verify=False).with_version("1.41")
    assert Endpoint.from_json(endpoint.to_json()) == endpoint
