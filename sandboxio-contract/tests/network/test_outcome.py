import pytest
from sandboxio_contract.network import tokens
from sandboxio_contract.network.outcome import merged, parse_probe

from .grounds import DNS, TCP, checks, said


def test_a_true_nonce_is_reached() -> None:
    asked = checks(TCP, DNS)
    text = "".join(f"check {one.name} reached {asked.expected(one)}\n" for one in asked)
    found = parse_probe(asked, 41, (text + "seen interface lo\nend ok\n").encode())
    assert found.complete
    assert [found.status(one.name) for one in asked] == ["reached", "reached"]
    assert found.interfaces == ("lo",)


def test_a_nonce_that_is_not_the_canarys_is_forged() -> None:
    asked = checks(TCP)
    other = tokens.nonce(TCP.key, tokens.new_token(), TCP.name)
    for text in (other, "0" * 32, "x"):
        found = parse_probe(asked, 41, f"check {TCP.name} reached {text}\nend ok\n".encode())
        assert found.status(TCP.name) == "forged"


@pytest.mark.parametrize("code", [0, 1, 2, 42, 43, 137, 143, -9])
def test_no_other_exit_code_is_ever_a_denial(code: int) -> None:
    asked = checks()
    found = parse_probe(asked, code, (said(asked) + "end ok\n").encode())
    assert {one.status for one in found.results.values()} == {"error"}
    assert not found.complete


@pytest.mark.parametrize("code", [126, 127])
def test_an_image_without_python_is_tool_missing(code: int) -> None:
    asked = checks()
    found = parse_probe(asked, code, b"")
    assert {one.status for one in found.results.values()} == {"tool missing"}


@pytest.mark.parametrize("change", ["cut", "doubled", "lost", "added", "no end", "end not last"])
def test_output_that_the_probe_does_not_print_is_an_error(change: str) -> None:
    asked = checks()
    text = said(asked) + "end ok\n"
    texts = {
        "cut": text[:40],
        "doubled": said(asked) + text,
        "lost": text.split("\n", 1)[1],
        "added": "check other refused ECONNREFUSED\n" + text,
        "no end": said(asked),
        "end not last": text + "check tcp4-80 refused x\n",
    }
    found = parse_probe(asked, 40, texts[change].encode())
    assert {one.status for one in found.results.values()} == {"error"}


def test_unknown_words_and_undecodable_bytes_are_errors() -> None:
    asked = checks(TCP)
    assert parse_probe(asked, 40, b"check tcp4-80 denied x\nend ok\n").status("tcp4-80") == "error"
    assert parse_probe(asked, 40, b"\xff\xfe\0check tcp4-80\nend ok\n").status("tcp4-80") == "error"


def test_a_shell_gives_evidence_but_no_denial() -> None:
    asked = checks()
    found = parse_probe(asked, 45, b"seen interface lo\nseen interface eth0\nseen socket /run/docker.sock\nend ok\n")
    assert {one.status for one in found.results.values()} == {"tool missing"}
    assert found.interfaces == ("lo", "eth0")
    assert found.engine_sockets == ("/run/docker.sock",)


def test_of_several_references_one_that_reached_is_enough() -> None:
    asked = checks(TCP, DNS)
    first = parse_probe(asked, 40, (said(asked) + "end ok\n").encode())
    lines = f"check {TCP.name} reached {asked.expected(TCP)}\ncheck {DNS.name} timeout silent\nend ok\n"
    both = merged([first, parse_probe(asked, 41, lines.encode())])
    assert (both.status(TCP.name), both.status(DNS.name)) == ("reached", "timeout")
