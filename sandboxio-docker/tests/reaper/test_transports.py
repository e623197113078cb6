"""The reaper reaches engines over TCP and TLS as well, and trusts none that it can't verify."""

import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandboxio_docker.endpoint import Endpoint
from sandboxio_docker.reaper import Reaper
from sandboxio_docker.reaper.engine_http import Engine, Where
from sandboxio_docker.reaper.http_answer import EngineAway

from .fake_engine import FakeEngine

pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority (``ca``), a server and a client that it signed, and a client that it didn't (``other``)."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(command: str) -> None:
        subprocess.run(["openssl", *command.split(" ")], cwd=folder, check=True, capture_output=True)

    key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    for name in ("ca", "other"):
        openssl(f"req -x509 {key} -keyout {name}.key -out {name}.pem -subj /CN={name} -days 2")
    for name in ("server", "client"):
        openssl(f"req {key} -keyout {name}.key -out {name}.csr -subj /CN={name} -addext subjectAltName=IP:127.0.0.1")
        openssl(f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -out {name}.pem -days 1 -copy_extensions copy")
    return folder


@pytest.fixture
def tls_engine(files: Path, tmp_path: Path) -> Iterator[FakeEngine]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(files / "ca.pem"))
    context.load_cert_chain(files / "server.pem", files / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    fake = FakeEngine(tmp_path / "unused", context)
    yield fake
    fake.close()


def reap_one(engine: FakeEngine, endpoint: Endpoint, unneeded: Path | None = None) -> None:
    reaper = Reaper(endpoint)
    try:
        reaper.expect("sbx-1", time.time() - 1)
        if unneeded is not None:
            shutil.rmtree(unneeded)
        engine.create("sbx-1")
        engine.wait(lambda: not engine.containers)
        resident = next(x for x in Path(f"/proc/{reaper.pid}/status").read_text().splitlines() if x.startswith("VmRSS"))
        assert int(resident.split()[1]) <= 20 * 1024
    finally:
        reaper._drop_link()


def test_tcp(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path / "unused")
    port = engine.start_tcp()
    reap_one(engine, Endpoint(f"tcp://127.0.0.1:{port}"))
    engine.close()


def test_tls_with_files_that_are_named_relative_and_removed_after_arming(
    tls_engine: FakeEngine, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = tls_engine.start_tcp()
    shutil.copytree(files, tmp_path / "copies")
    monkeypatch.chdir(tmp_path)
    endpoint = Endpoint(f"https://127.0.0.1:{port}", "copies/ca.pem", "copies/client.pem", "copies/client.key")
    reap_one(tls_engine, endpoint, unneeded=tmp_path / "copies")


def test_tls_without_verification(tls_engine: FakeEngine, files: Path) -> None:
    port = tls_engine.start_tcp()
    cert, key = str(files / "client.pem"), str(files / "client.key")
    reap_one(tls_engine, Endpoint(f"https://127.0.0.1:{port}", None, cert, key, verify=False))


@pytest.mark.parametrize(("ca", "client"), [("other", "client"), ("ca", "other")])
def test_an_engine_that_can_not_be_verified_is_told_nothing(
    tls_engine: FakeEngine, files: Path, ca: str, client: str
) -> None:
    port = tls_engine.start_tcp()
    authority, cert, key = (str(files / name) for name in (f"{ca}.pem", f"{client}.pem", f"{client}.key"))
    engine = Engine(Where(host="127.0.0.1", port=port, tls=True, ca=authority, cert=cert, key=key))
    with pytest.raises(EngineAway):
        engine.request("GET", "/containers/x/json", 5)
    assert tls_engine.log == []
