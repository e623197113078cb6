"""Arguments: what can't be carried is refused by name, and a value is never shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from sandboxio import ConfigurationError
from sandboxio.commands import code_bytes, command_argv, resolve_path, stdin_bytes, user_name
from sandboxio.spec import (
    MAX_STRING,
    check_env,
    check_metadata,
    check_secrets,
    check_timeout,
    new_create_id,
    refuse_secret,
)


@pytest.mark.parametrize(
    "value",
    [None, 0, -1, -0.0, float("nan"), float("inf"), float("-inf"), True, "5", 86_400.1, 10**400, -(10**400), [5]],
)
def test_a_timeout_that_bounds_nothing_is_refused(value: object) -> None:
    """TMO-01."""
    with pytest.raises(ConfigurationError, match="timeout"):
        check_timeout(value, "timeout")


@pytest.mark.parametrize("value", [0.001, 1, 300, 86_400, 86_400.0])
def test_a_timeout_within_bounds_is_seconds(value: float) -> None:
    assert check_timeout(value, "timeout") == value


@pytest.mark.parametrize("name", ["", "A=B", "A\0", "A\n", 1, None, "\ud800"])
def test_a_name_that_no_environment_carries_is_refused_without_its_value(name: str) -> None:
    """ENV-02."""
    with pytest.raises(ConfigurationError) as caught:
        check_env({name: "the-value"}, "env")
    assert "the-value" not in str(caught.value)


@pytest.mark.parametrize("value", ["\0", "a\0b", "\ud800", 5, None, "x" * MAX_STRING])
def test_a_value_that_no_environment_carries_is_refused(value: str) -> None:
    """ENC-03, ENC-04, FS-03."""
    with pytest.raises(ConfigurationError, match="VAR"):
        check_env({"VAR": value}, "env")


@pytest.mark.parametrize("value", ["", "a=b", "l1\nl2", "é🎉", "\udcff", "x" * (MAX_STRING - 4)])
def test_a_value_that_an_environment_carries_is_taken(value: str) -> None:
    assert check_env({"VAR": value}, "env") == {"VAR": value}


@pytest.mark.parametrize("mapping", [[("A", "b")], "A=b", 5, {"A"}])
def test_what_is_no_mapping_is_refused(mapping: dict[str, str]) -> None:
    for check in (
        lambda: check_env(mapping, "env"),
        lambda: check_secrets(mapping, {}),
        lambda: check_metadata(mapping, {}),
    ):
        with pytest.raises(ConfigurationError, match="mapping"):
            check()


def test_what_was_checked_does_not_change_afterwards() -> None:
    given_env = {"A": "b"}
    checked = check_env(given_env, "env")
    given_env["A"] = "c\0"
    assert checked == {"A": "b"}
    with pytest.raises(TypeError):
        checked["A"] = "d"  # type: ignore[index]  # pyright: ignore[reportIndexIssue]


@pytest.mark.parametrize("secret", ["", "#", "~~~", 5, None, "~\0~~~", "\ud800~~~"])
def test_a_secret_that_cannot_be_kept_secret_is_refused_without_showing_it(secret: str) -> None:
    """SEC-03 case 3."""
    with pytest.raises(ConfigurationError) as caught:
        check_secrets({"KEY": secret}, {})
    assert "#" not in str(caught.value)
    assert "~" not in str(caught.value)


def test_secrets_are_wrapped_and_apart_from_env() -> None:
    """SEC-01."""
    checked = check_secrets({"A": "s3cr3t-1", "B": SecretStr("s3cr3t-2")}, {})
    assert "s3cr3t" not in repr(checked)
    assert checked["B"].get_secret_value() == "s3cr3t-2"
    with pytest.raises(ConfigurationError, match="both"):
        check_secrets({"A": "s3cr3t-1"}, {"A": "x"})


@pytest.mark.parametrize(
    "labels", [{"": "x"}, {5: "x"}, {"k": 5}, {"k": None}, {"k": "\0"}, {"k\0": "x"}, {"k": "\ud800"}]
)
def test_labels_are_text(labels: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="metadata"):
        check_metadata(labels, {})


@pytest.mark.parametrize("labels", [{"k": "a s3cr3t-1 b"}, {"s3cr3t-1": "x"}])
def test_a_secret_in_a_label_is_refused_without_showing_it(labels: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="secret 'A'") as caught:
        check_metadata(labels, {"A": SecretStr("s3cr3t-1")})
    assert "s3cr3t-1" not in str(caught.value)


def test_a_secret_in_the_template_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the template"):
        refuse_secret("the template", "x/s3cr3t-1", {"A": SecretStr("s3cr3t-1")})


def test_create_ids_are_names_that_every_provider_takes() -> None:
    names = {new_create_id() for _ in range(100)}
    assert len(names) == 100
    assert all(name.replace("-", "").isalnum() and name == name.lower() and len(name) <= 63 for name in names)


@pytest.mark.parametrize(
    "cmd",
    [None, 5, b"true", [], [""], ["a\0b"], ["a", 5], ["\ud800"], {"a"}, ["x" * (MAX_STRING + 1)], "a\0b", [b"true"]],
)
def test_a_command_that_cannot_be_one_is_refused(cmd: str) -> None:
    """ENC-03, FS-03."""
    with pytest.raises(ConfigurationError):
        command_argv(cmd)


def test_a_list_keeps_its_boundaries_and_a_string_goes_through_the_shell() -> None:
    """EXE-01."""
    odd = ["a b", "", "$HOME", "`id`", "*", "l1\nl2", "\"q'", "-n", "é🎉", "\udcff"]
    assert command_argv(["x", *odd]) == ("x", *odd)
    assert command_argv("a b") == ("sh", "-c", "a b")
    assert command_argv("") == ("sh", "-c", "")


@pytest.mark.parametrize("code", ["print('\ud800')", 5, None, b"x"])
def test_code_that_is_no_text_is_refused(code: str) -> None:
    """ENC-04."""
    with pytest.raises(ConfigurationError):
        code_bytes(code)


@pytest.mark.parametrize("stdin", [5, ["x"], "\ud800"])
def test_stdin_that_is_neither_bytes_nor_text_is_refused(stdin: str) -> None:
    with pytest.raises(ConfigurationError, match="stdin"):
        stdin_bytes(stdin)


def test_stdin_takes_bytes_like_objects_and_text() -> None:
    assert [stdin_bytes(value) for value in (None, b"a", bytearray(b"b"), memoryview(b"c"), "é", "\udcff")] == [
        None, b"a", b"b", b"c", "é".encode(), b"\xff"
    ]  # fmt: skip


@pytest.mark.parametrize("user", ["", "a\0", 5, b"root", "\ud800"])
def test_a_user_is_a_name(user: str) -> None:
    with pytest.raises(ConfigurationError):
        user_name(user)


def test_paths_resolve_with_forward_slashes() -> None:
    """FS-13."""
    assert resolve_path("a/b", "/work") == "/work/a/b"
    assert resolve_path("/a", "/work") == "/a"
    assert resolve_path("-rf", "/work") == "/work/-rf"
    assert resolve_path("a\\b", "/work") == "/work/a\\b"


@given(st.dictionaries(st.text() | st.integers(), st.text() | st.none(), max_size=5))
def test_any_mapping_is_an_environment_or_a_configuration_error(mapping: dict[str, str]) -> None:
    try:
        checked = check_env(mapping, "env")
    except ConfigurationError:
        return
    assert checked == mapping
    assert all("\0" not in name + value for name, value in checked.items())
