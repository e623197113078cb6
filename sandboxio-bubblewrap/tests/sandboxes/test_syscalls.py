"""The filter, run by an interpreter of the kernel's filter language."""

import errno
from struct import iter_unpack, pack, unpack_from

import pytest
from sandboxio_bubblewrap import syscalls

X86, ARM = "x86_64", "aarch64"
ARCHITECTURES = {X86: 0xC000003E, ARM: 0xC00000B7}
ALLOWED = 0x7FFF0000
CALLS = {  # read, ptrace, clone, unshare, ioctl, keyctl, mount, bpf
    X86: (0, 101, 56, 272, 16, 250, 165, 321),
    ARM: (63, 117, 220, 97, 29, 219, 40, 280),
}
THREAD, NEW_USER, NEW_NET = 0x3D0F00, 0x10000000, 0x40000000


def verdict(processor: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    program = syscalls.filter_program(processor)
    assert program is not None
    padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = pack("=IIQ6Q", number, architecture or ARCHITECTURES[processor], 0, *padded)
    lines, at, held = list(iter_unpack("=HBBI", program)), 0, 0
    while True:
        code, yes, no, value = lines[at]
        at += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            (held,) = unpack_from("=I", data, value)
        else:
            holds = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[code]
            at += yes if holds else no


def refused(result: int) -> int:
    assert result >> 16 == 5, f"{result:#x} is no errno"
    return result & 0xFFFF


@pytest.mark.parametrize("processor", [X86, ARM])
def test_ordinary_calls_pass(processor: str) -> None:
    read, ptrace, clone, unshare, ioctl, *_ = CALLS[processor]
    assert verdict(processor, read) == ALLOWED
    assert verdict(processor, ptrace) == ALLOWED
    assert verdict(processor, clone, THREAD) == ALLOWED
    assert verdict(processor, unshare, 0x400) == ALLOWED
    assert verdict(processor, ioctl, 0, 0x5413) == ALLOWED


@pytest.mark.parametrize("processor", [X86, ARM])
def test_ways_past_the_namespaces_are_refused(processor: str) -> None:
    _, _, clone, unshare, ioctl, keyctl, mount, bpf = CALLS[processor]
    for number in (keyctl, mount, bpf, 428, 443):
        assert refused(verdict(processor, number)) == errno.EPERM
    for call in (clone, unshare):
        assert refused(verdict(processor, call, NEW_USER | 17)) == errno.EPERM
        assert refused(verdict(processor, call, NEW_NET)) == errno.EPERM
    for request in (0x5412, 0x541C):
        assert refused(verdict(processor, ioctl, 0, request)) == errno.EPERM
        assert refused(verdict(processor, ioctl, 0, request | 1 << 40)) == errno.EPERM  # the kernel looks at 32 bits


@pytest.mark.parametrize("processor", [X86, ARM])
def test_the_clone_whose_flags_no_filter_sees_is_not_there(processor: str) -> None:
    assert refused(verdict(processor, 435)) == errno.ENOSYS


@pytest.mark.parametrize("processor", [X86, ARM])
def test_another_architectures_calls_are_refused(processor: str) -> None:
    assert refused(verdict(processor, 0, architecture=0x40000003)) == errno.EPERM
    if processor == X86:
        assert refused(verdict(processor, syscalls.X32 + 39)) == errno.EPERM


def test_there_is_none_for_an_unknown_processor() -> None:
    assert syscalls.filter_program("riscv64") is None
