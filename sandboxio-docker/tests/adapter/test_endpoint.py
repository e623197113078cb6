"""The engine is found as the ``docker`` command finds it, and what can't be spoken is refused with the fix."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from sandboxio.errors import ConfigurationError
from sandboxio_docker.endpoint import DIAL, Endpoint, resolve


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder of settings, and no variable that names an engine."""
    for name in [name for name in os.environ if name.startswith("DOCKER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "config"))
    (tmp_path / "config").mkdir()
    return tmp_path / "config"


def add_context(settings: Path, name: str, *files: str, **endpoint: Any) -> Path:
    identity = hashlib.sha256(name.encode()).hexdigest()
    meta, tls = settings / "contexts" / "meta" / identity, settings / "contexts" / "tls" / identity / "docker"
    meta.mkdir(parents=True)
    described = {"Name": name, "Metadata": {}, "Endpoints": {"docker": {"SkipTLSVerify": False, **endpoint}}}
    (meta / "meta.json").write_text(json.dumps(described))
    if files:
        tls.mkdir(parents=True)
    for file in files:
        (tls / file).touch()
    return tls


def use_context(settings: Path, name: str) -> None:
    (settings / "config.json").write_text(json.dumps({"currentContext": name, "auths": {"r": {"auth": "c2VjcmV0"}}}))


def test_without_any_setting_it_is_the_local_socket() -> None:
    endpoint = resolve(None)
    assert endpoint.socket_path == "/var/run/docker.sock"
    assert endpoint.is_local


def test_the_configuration_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    assert resolve(None).address == ("192.0.2.1", 2375)
    assert resolve("unix:///run/other.sock").socket_path == "/run/other.sock"


def test_the_order_is_that_of_the_docker_command(monkeypatch: pytest.MonkeyPatch, settings: Path) -> None:
    add_context(settings, "current", Host="unix:///run/current.sock")
    add_context(settings, "named", Host="unix:///run/named.sock")
    use_context(settings, "current")
    assert resolve(None).socket_path == "/run/current.sock"
    monkeypatch.setenv("DOCKER_CONTEXT", "named")
    assert resolve(None).socket_path == "/run/named.sock"
    monkeypatch.setenv("DOCKER_CONTEXT", "default")
    assert resolve(None).socket_path == "/var/run/docker.sock"
    monkeypatch.setenv("DOCKER_CONTEXT", "named")
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/host.sock")
    assert resolve(None).socket_path == "/run/host.sock"


def test_tls_takes_the_three_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).touch()
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2376")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    files = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key")}
    assert resolve(None) == Endpoint("https://192.0.2.1:2376", **files, verify=True)
    monkeypatch.delenv("DOCKER_HOST")
    assert resolve(None) == Endpoint("https://localhost:2376", **files, verify=True)
    assert resolve("unix:///run/other.sock") == Endpoint("unix:///run/other.sock")


@pytest.mark.parametrize("there", [["cert.pem", "key.pem"], ["ca.pem", "cert.pem"], ["ca.pem", "key.pem"], []])
def test_tls_files_that_are_missing_are_named(
    monkeypatch: pytest.MonkeyPatch, settings: Path, there: list[str]
) -> None:
    for name in there:
        (settings / name).touch()
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2376")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    with pytest.raises(ConfigurationError, match=r"\.pem"):
        resolve(None)


def test_a_context_has_tls_files_of_its_own(monkeypatch: pytest.MonkeyPatch, settings: Path) -> None:
    tls = add_context(settings, "far", "ca.pem", "cert.pem", "key.pem", Host="tcp://192.0.2.1:2376")
    use_context(settings, "far")
    monkeypatch.setenv("DOCKER_CERT_PATH", "/nonexistent")  # speaks of DOCKER_HOST alone
    files = {name: str(tls / f"{name}.pem") for name in ("ca", "cert", "key")}
    assert resolve(None) == Endpoint("https://192.0.2.1:2376", **files, verify=True)


def test_a_context_with_an_authority_alone_is_not_spoken_to_in_clear(settings: Path) -> None:
    tls = add_context(settings, "far", "ca.pem", Host="tcp://192.0.2.1:2376")
    use_context(settings, "far")
    assert resolve(None) == Endpoint("https://192.0.2.1:2376", ca=str(tls / "ca.pem"), verify=True)


def test_a_context_may_skip_verification_and_without_tls_files_is_in_clear(
    monkeypatch: pytest.MonkeyPatch, settings: Path
) -> None:
    add_context(settings, "skips", Host="tcp://192.0.2.1:2376", SkipTLSVerify=True)
    add_context(settings, "clear", Host="tcp://192.0.2.1:2375")
    monkeypatch.setenv("DOCKER_CONTEXT", "skips")
    assert resolve(None) == Endpoint("https://192.0.2.1:2376", verify=False)
    monkeypatch.setenv("DOCKER_CONTEXT", "clear")
    assert resolve(None) == Endpoint("tcp://192.0.2.1:2375")


def test_a_context_that_is_not_there_is_no_other_engine(monkeypatch: pytest.MonkeyPatch, settings: Path) -> None:
    use_context(settings, "gone")
    with pytest.raises(ConfigurationError, match="no Docker context 'gone'") as caught:
        resolve(None)
    assert "docker context ls" in caught.value.hint
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/host.sock")
    assert resolve(None).socket_path == "/run/host.sock"


@pytest.mark.parametrize("content", ['{"auths": {"r": {"auth": "c2VjcmV0"}}', "", "[]x"])
def test_settings_that_can_not_be_read_are_named_without_their_content(settings: Path, content: str) -> None:
    (settings / "config.json").write_text(content)
    with pytest.raises(ConfigurationError, match=r"config\.json") as caught:
        resolve(None)
    assert "c2VjcmV0" not in repr(caught.value)
    assert caught.value.__cause__ is None


def test_a_context_for_something_else_is_refused(monkeypatch: pytest.MonkeyPatch, settings: Path) -> None:
    add_context(settings, "odd")
    meta = next(settings.glob("contexts/meta/*/meta.json"))
    meta.write_text(json.dumps({"Name": "odd", "Endpoints": {"kubernetes": {"Host": "https://192.0.2.1"}}}))
    monkeypatch.setenv("DOCKER_CONTEXT", "odd")
    with pytest.raises(ConfigurationError, match="no Docker engine"):
        resolve(None)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("192.0.2.1:2375", "tcp://192.0.2.1:2375"),
        ("tcp://Box", "tcp://box:2375"),
        ("tcp://[2001:db8::1]:1", "tcp://[2001:db8::1]:1"),
        ("https://box", "https://box:2376"),
        ("unix://run/docker.sock", "unix:///run/docker.sock"),
        ("ssh://Box", "ssh://Box"),
        ("ssh://me@box.example:22/", "ssh://me@box.example:22"),
    ],
)
def test_addresses_are_read_as_people_write_them(host: str, url: str) -> None:
    assert resolve(host).base_url == url


@pytest.mark.parametrize(
    ("url", "arguments"),
    [
        ("ssh://box", ["--", "box", DIAL]),
        ("ssh://me@box:2222", ["-l", "me", "-p", "2222", "--", "box", DIAL]),
        ("ssh://me@corp@box", ["-l", "me@corp", "--", "box", DIAL]),
        ("ssh://[::1]:22", ["-p", "22", "--", "::1", DIAL]),
    ],
)
def test_ssh_is_told_user_host_and_port_and_nothing_it_could_take_for_an_option(url: str, arguments: list[str]) -> None:
    command = resolve(url).ssh_command
    assert command is not None
    assert list(command[-len(arguments) :]) == arguments
    assert command[0] == "ssh"
    assert "BatchMode=yes" in command


@pytest.mark.parametrize(
    "host",
    [
        *("fd://", "npipe:////./pipe/docker_engine", "tcp://", "nonsense", "tcp://box:port", "tcp://box:2375/prefix"),
        *("ssh://", "ssh://-oProxyCommand=id", "ssh://a b", "ssh://a;id", "ssh://$(id)", "ssh://`id`", "ssh://a\nb"),
        *("ssh://-l@box", "ssh://a%25h@box", "ssh://me@", "ssh://box:0", "ssh://box:70000", "ssh://box:-1"),
        *("ssh://box/var/run/docker.sock", "ssh://box?x=1", "ssh://box#x", "ssh://'box'", "ssh://a|b", "ssh://a&b"),
    ],
)
def test_what_cannot_be_spoken_is_refused_with_the_fix(host: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve(host)
    assert caught.value.hint


def test_a_named_pipe_names_the_way_out() -> None:
    with pytest.raises(ConfigurationError, match="named pipe") as caught:
        resolve("npipe:////./pipe/docker_engine")
    assert "WSL 2" in caught.value.hint


@pytest.mark.parametrize(
    "host",
    [
        *("ssh://me:s3cret@box", "tcp://me:s3cret@box:2375", "https://s3cret@box", "tcp://box:2375?token=s3cret"),
        *("me:s3cret@box:2375", "ssh://me@box?password=s3cret", "ssh://me:s3cret@@box"),
    ],
)
@pytest.mark.parametrize("by", ["configuration", "environment", "context"])
def test_a_password_in_an_address_is_refused_without_being_printed(
    monkeypatch: pytest.MonkeyPatch, settings: Path, host: str, by: str
) -> None:
    """SEC-02."""
    if by == "environment":
        monkeypatch.setenv("DOCKER_HOST", host)
    if by == "context":
        add_context(settings, "far", Host=host)
        use_context(settings, "far")
    with pytest.raises(ConfigurationError) as caught:
        resolve(host if by == "configuration" else None)
    assert "s3cret" not in f"{caught.value!r} {caught.value} {caught.value.hint} {caught.value.__cause__!r}"


def test_it_travels_as_text() -> None:
    endpoint = Endpoint("https://192.0.2.1:2376", ca="/ca.pem", verify=False).with_version("1.41")
    assert Endpoint.from_json(endpoint.to_json()) == endpoint
