"""Targets: DSNs and typed configurations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandboxio import BackendConfig, ConfigurationError
from sandboxio.target import Target, parse_target, resolve_config

from .stub import StubConfig


@pytest.mark.parametrize(
    ("dsn", "backend", "template"),
    [
        ("docker://", "docker", None),
        ("docker://python", "docker", "python"),
        ("docker://python:3.12-slim", "docker", "python:3.12-slim"),
        ("docker://reg:5000/ns/img:tag@sha256:ab", "docker", "reg:5000/ns/img:tag@sha256:ab"),
        ("docker://ghcr.io/a/b_c.d@sha512:0AbF", "docker", "ghcr.io/a/b_c.d@sha512:0AbF"),
        ("e2b://code-interpreter-v1?timeout=600", "e2b", "code-interpreter-v1"),
        ("my_backend-2://", "my_backend-2", None),
        ("docker://img?", "docker", "img"),
    ],
)
def test_templates_survive_byte_for_byte(dsn: str, backend: str, template: str | None) -> None:
    target = parse_target(dsn)
    assert (target.backend, target.template) == (backend, template)


SECRETS = ("p%40ss", "SECRETFRAG", "abcSECRET", "SECRET", "s3cr3t")


@pytest.mark.parametrize(
    "dsn",
    [
        "e2b://user:p%40ss@host",
        "e2b://user:SECRET@host:443",
        "e2b://SECRET@host",
        "e2b://SECRET@host:80",
        "docker://img?timeout=5#SECRETFRAG",
        "docker://img#SECRETFRAG",
        "e2b://t?api_key=SECRET",
        "e2b://t?API_KEY=SECRET",
        "e2b://t?%61pi_key=SECRET",
        "e2b://t?access_token=SECRET",
        "e2b://t?password=SECRET",
        "e2b://t?auth=SECRET",
        "docker://img?timeout=5&timeout=SECRET",
        "docker://img%20x",
        "docker://im g",
        "docker://img\nSECRET",
        "docker://python:3.11; touch SECRET",
        "docker://-img",
        "docker://img?x",
        "docker://img?=SECRET",
        "DOCKER://img",
        "Docker://img",
        "docker:/img",
        "docker:img",
        "docker",
        "://img",
        "",
        " docker://img",
        "1docker://img",
    ],
)
def test_what_is_no_dsn_is_refused_without_repeating_values(dsn: str) -> None:
    """SEC-02, SEC-04."""
    with pytest.raises(ConfigurationError) as caught:
        parse_target(dsn)
    assert not any(secret in str(caught.value) for secret in SECRETS)


def test_a_parameter_that_looks_like_a_credential_points_at_the_environment() -> None:
    with pytest.raises(ConfigurationError, match="environment variable"):
        parse_target("e2b://t?api_key=SECRET")


@given(st.text())
def test_any_text_is_a_target_or_a_configuration_error(text: str) -> None:
    for dsn in (text, f"docker://{text}", f"docker://img?{text}", f"docker://img?timeout={text}"):
        try:
            parse_target(dsn)
        except ConfigurationError:
            continue


@given(st.text(alphabet="0123456789abcdefghijkLMNOP._-", min_size=20, max_size=60))
def test_no_value_of_a_parameter_is_ever_shown(value: str) -> None:
    for dsn in (
        f"docker://u:{value}@h",
        f"docker://t?key={value}",
        f"docker://t?a={value}&a={value}",
        f"docker://t#{value}",
    ):
        with pytest.raises(ConfigurationError) as caught:
            parse_target(dsn)
        assert value not in str(caught.value)
    assert value not in repr(parse_target(f"docker://t?a={value}&timeout={value}"))


@pytest.mark.parametrize("target", [None, 5, b"docker://", ["docker://"]])
def test_what_is_neither_text_nor_configuration_is_refused(target: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_target(target)


def test_a_typed_configuration_is_a_target() -> None:
    config = StubConfig(template="t", count=3)
    assert parse_target(config) == Target("stub", "t", config=config)


def test_parameters_become_fields_of_their_types() -> None:
    config = resolve_config(parse_target("stub://t?count=3&flag=1"), StubConfig, None)
    assert config == StubConfig(template="t", count=3, flag=True)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("nope=1", "no DSN parameter 'nope'"),
        ("names=a", "no DSN parameter 'names'"),
        ("template=a", "no DSN parameter 'template'"),
        ("count=SECRET", "count"),
        ("flag=SECRET", "flag"),
    ],
)
def test_an_unknown_or_wrong_parameter_is_refused(query: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text) as caught:
        resolve_config(parse_target(f"stub://t?{query}"), StubConfig, None)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("dsn", "template", "resolved"), [("stub://", "x", "x"), ("stub://x", None, "x"), ("stub://x", "x", "x")]
)
def test_the_template_comes_from_either_side(dsn: str, template: str | None, resolved: str) -> None:
    assert resolve_config(parse_target(dsn), StubConfig, template).template == resolved


@pytest.mark.parametrize("template", ["y", "", "a b", "x; touch /tmp/pwn", "u:p@h", "x\n", 5, b"x"])
def test_a_template_that_cannot_be_one_or_differs_is_refused(template: str) -> None:
    """EXE-04."""
    for target in (parse_target("stub://x"), parse_target("stub://"), parse_target(StubConfig())):
        if template == "y" and target.template is None:
            continue
        with pytest.raises(ConfigurationError):
            resolve_config(target, StubConfig, template)


def test_a_typed_configurations_own_template_is_checked_too() -> None:
    with pytest.raises(ConfigurationError):
        resolve_config(parse_target(StubConfig(template="x; touch /tmp/pwn")), StubConfig, None)


def test_a_configuration_of_another_backend_is_refused() -> None:
    class OtherConfig(BackendConfig):
        backend = "other"

    with pytest.raises(ConfigurationError, match="OtherConfig"):
        resolve_config(parse_target(OtherConfig()), StubConfig, None)
