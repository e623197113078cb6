import secrets

from sandboxio_contract.network import dns, probe, responder, tokens


def test_a_nonce_needs_the_key_the_token_and_the_name() -> None:
    key = secrets.token_bytes(32)
    nonces = {
        tokens.nonce(key, "a" * 16, "tcp4-80"),
        tokens.nonce(key, "b" * 16, "tcp4-80"),
        tokens.nonce(key, "a" * 16, "tcp4-443"),
        tokens.nonce(tokens.key_for(key, "neighbour"), "a" * 16, "tcp4-80"),
    }
    assert len(nonces) == 4


def test_the_probe_and_the_suite_agree_on_names() -> None:
    token = tokens.new_token()
    host = tokens.question(token, "dns-lookup")
    assert probe.host_name(token, "dns-lookup") == host
    assert max(len(label) for label in host.split(".")) < 64
    asked = dns.parse_question(probe.question(host))
    assert asked is not None
    assert (asked.name, asked.kind) == (host, dns.AAAA)
    assert tokens.read_question(asked.name.upper()) == (token, "dns-lookup")
    assert host.startswith(tokens.MAGIC)


def test_the_probe_reads_the_nonce_out_of_the_canarys_answer() -> None:
    key, token = secrets.token_bytes(32), tokens.new_token()
    asked = dns.parse_question(probe.question(tokens.question(token, "dns4-udp")))
    assert asked is not None
    wanted = tokens.nonce_address(key, token, "dns4-udp")
    assert probe.read_dns(dns.answer(asked, {dns.AAAA: wanted}.get)) == ("reached", wanted)
    assert probe.read_dns(dns.answer(asked, None)) == ("answered", "rcode=5")
    assert probe.read_dns(dns.answer(asked, {dns.A: "203.0.113.7"}.get)) == ("answered", "rcode=0")


def test_a_neighbours_answer_is_the_nonce_of_its_own_key() -> None:
    key, token = tokens.key_for(b"secret", "neighbour"), tokens.new_token()
    answer = responder.reply(key, f"SBXC {token}.neighbour\n".encode())
    assert probe.read_hello(answer) == ("reached", tokens.nonce(key, token, "neighbour"))


def test_malformed_questions_are_no_questions() -> None:
    whole = probe.question(tokens.question(tokens.new_token(), "x"))
    for cut in range(len(whole)):
        assert dns.parse_question(whole[:cut]) is None
    assert dns.parse_question(whole[:2] + b"\x80\0" + whole[4:]) is None
    assert dns.parse_question(whole[:12] + b"\xc0\x0c\0\x1c\0\x01") is None


def test_foreign_hellos_and_names_are_nobodys() -> None:
    assert tokens.read_hello(b"GET / HTTP/1.0\r\n\r\n") is None
    assert tokens.read_hello(b"SBXC nothex.name\n") is None
    assert tokens.read_question("example.com") is None
