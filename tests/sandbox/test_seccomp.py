"""The filter, run by a small interpreter of its own: for every call and argument the answer is what the table says."""

import errno
import os
import platform
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.sandbox.adapters import seccomp
from bridle.sandbox.adapters.seccomp import ALLOW, ENOSYS, EPERM, KILL

MACHINES = ("x86_64", "aarch64")
WORD, LONG = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
FAMILIES = {"unix": 1, "inet": 2, "inet6": 10, "netlink": 16, "packet": 17, "alg": 38, "vsock": 40, "xdp": 44}

settings = st.fixed_dictionaries(
    {
        "network_denied": st.booleans(),
        "own_network": st.booleans(),
        "local_sockets": st.booleans(),
        "strict_truncation": st.booleans(),
        "machine": st.sampled_from(MACHINES),
    }
)


def verdict(program, machine, number, *arguments, architecture=None, most_steps=4096):
    """What the kernel would answer."""
    architecture = seccomp.ARCHITECTURE[machine] if architecture is None else architecture
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number & WORD, architecture, 0, *(value & LONG for value in padded))
    at, value = 0, 0
    for _ in range(most_steps):
        code, yes, no, operand = struct.unpack_from("<HBBI", program, at * 8)
        at += 1
        match code:
            case 0x20:
                [value] = struct.unpack_from("<I", data, operand)
            case 0x54:
                value &= operand
            case 0x15:
                at += yes if value == operand else no
            case 0x35:
                at += yes if value >= operand else no
            case 0x45:
                at += yes if value & operand else no
            case 0x06:
                return operand
            case _:
                raise AssertionError(f"no such instruction: {code:#x}")
    raise AssertionError("it does not end")


def looked_at(machine, *, strict_truncation):
    """The calls whose arguments matter, and those that are missing or refused for another reason."""
    tables = [seccomp.CLONE, seccomp.CLONE3, seccomp.IOCTL, seccomp.PERSONALITY, seccomp.SOCKET]
    if strict_truncation:
        tables += [seccomp.OPENAT, seccomp.OPENAT2, seccomp.TRUNCATE]
    found = {table[machine] for table in tables}
    return found | ({seccomp.OPEN} if strict_truncation and machine == "x86_64" else set())


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("strict_truncation", [False, True])
@pytest.mark.parametrize("network_denied", [False, True])
def test_every_call_is_answered_as_the_table_says(machine, network_denied, strict_truncation):
    program = seccomp.program(
        network_denied=network_denied, strict_truncation=strict_truncation, machine=machine
    )
    refused = set(seccomp.refused(machine))
    for number in set(range(1024)) - looked_at(machine, strict_truncation=strict_truncation):
        assert verdict(program, machine, number) == (EPERM if number in refused else ALLOW), number


@given(settings, st.integers(0, WORD), st.lists(st.integers(0, LONG), max_size=6), st.integers(0, WORD))
def test_it_always_ends_with_one_of_four_answers(chosen, number, arguments, architecture):
    program, machine = seccomp.program(**chosen), chosen["machine"]
    assert verdict(program, machine, number, *arguments) in {ALLOW, EPERM, ENOSYS}
    answer = verdict(program, machine, number, *arguments, architecture=architecture)
    assert answer == KILL or architecture == seccomp.ARCHITECTURE[machine]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("strict", [False, True])
def test_few_steps_lead_to_an_answer(machine, strict):
    """A kernel runs a filter for every call that there is before it takes it, and each command brings one."""
    program = seccomp.program(
        network_denied=False, strict_truncation=strict, strict_modes=strict, machine=machine
    )
    for number in range(1024):
        verdict(program, machine, number, most_steps=20)


@given(settings, st.integers(0x40000000, WORD))
def test_the_calls_of_x32_do_not_exist(chosen, number):
    program = seccomp.program(**chosen | {"machine": "x86_64"})
    assert verdict(program, "x86_64", number) == ENOSYS


@given(settings, st.integers(0, LONG))
def test_a_process_may_be_made_but_no_namespace(chosen, flags):
    program, machine = seccomp.program(**chosen), chosen["machine"]
    expected = EPERM if flags & WORD & seccomp.NEW_NAMESPACES else ALLOW
    assert verdict(program, machine, seccomp.CLONE[machine], flags) == expected
    assert verdict(program, machine, seccomp.CLONE3[machine], flags) == ENOSYS


def test_every_kind_of_namespace_that_clone_can_make_is_known():
    mounts, cgroup, names, ipc, user, processes, network = 0x00020000, *(1 << bit for bit in range(25, 31))
    assert mounts | cgroup | names | ipc | user | processes | network == seccomp.NEW_NAMESPACES


@given(settings, st.sampled_from([0x5412, 0x541C, 0x5401, 0x5413]), st.integers(0, WORD))
def test_nobody_types_into_a_terminal_whatever_stands_in_the_upper_half(chosen, request, upper):
    program, machine = seccomp.program(**chosen), chosen["machine"]
    expected = EPERM if request in (0x5412, 0x541C) else ALLOW
    assert verdict(program, machine, seccomp.IOCTL[machine], 0, request | upper << 32) == expected


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("persona", "answer"), [(0, ALLOW), (WORD, ALLOW), (0x0008, ALLOW), (0x40000, ALLOW), (0x400000, EPERM)]
)
def test_personalities_that_weaken_a_program_are_refused(machine, persona, answer):
    program = seccomp.program(network_denied=False, machine=machine)
    assert verdict(program, machine, seccomp.PERSONALITY[machine], persona) == answer


@given(settings, st.sampled_from(sorted(FAMILIES.values())) | st.integers(0, WORD), st.integers(0, 20))
def test_sockets_are_those_that_the_network_setting_leaves(chosen, family, protocol):
    program, machine = seccomp.program(**chosen), chosen["machine"]
    internet = chosen["own_network"] or not chosen["network_denied"]
    allowed = (
        (family in (2, 10) and internet)
        or (family == 16 and internet and protocol == 0)
        or (family == 1 and chosen["local_sockets"] and not chosen["network_denied"])
    )
    answer = verdict(program, machine, seccomp.SOCKET[machine], family, 0, protocol)
    assert answer == (ALLOW if allowed else EPERM)


@given(st.sampled_from(MACHINES), st.booleans(), st.integers(0, WORD))
def test_emptying_a_file_needs_a_way_of_writing_where_that_is_asked_for(machine, strict, flags):
    program = seccomp.program(network_denied=False, strict_truncation=strict, machine=machine)
    unseen = strict and flags & os.O_TRUNC and flags & os.O_ACCMODE in (os.O_RDONLY, 3)
    assert verdict(program, machine, seccomp.OPENAT[machine], 0, 0, flags) == (EPERM if unseen else ALLOW)
    if machine == "x86_64":
        assert verdict(program, machine, seccomp.OPEN, 0, flags) == (EPERM if unseen else ALLOW)
    assert verdict(program, machine, seccomp.TRUNCATE[machine]) == (EPERM if strict else ALLOW)
    assert verdict(program, machine, seccomp.OPENAT2[machine]) == (ENOSYS if strict else ALLOW)


def test_a_machine_without_a_table_gets_no_filter():
    if not seccomp.supported():
        with pytest.raises(ValueError, match="filter"):
            seccomp.program(network_denied=False)
    else:
        assert seccomp.program(network_denied=False) == seccomp.program(
            network_denied=False, machine=platform.machine()
        )


HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_kernel_headers(machine):
    if not HEADERS[machine].exists():
        pytest.skip("the kernel's headers are not installed")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text())
    numbers = {name: int(number) for name, number in found}
    column = MACHINES.index(machine)
    ours = {name: both[column] for name, both in seccomp.REFUSED.items()}
    tables = ("CLONE", "CLONE3", "IOCTL", "PERSONALITY", "SOCKET", "OPENAT", "OPENAT2", "TRUNCATE")
    for name in tables:
        ours[name.lower()] = getattr(seccomp, name)[machine]
    newer = {"open_tree_attr"} - numbers.keys()
    known = {name: number for name, number in ours.items() if name not in newer}
    # The generic table calls the one that takes 64-bit lengths `truncate`, too.
    assert known == {name: numbers.get(name) for name in known}


def test_nothing_that_must_be_refused_left_the_table():
    reaching = "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp"
    mounting = (
        "mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr"
    )
    kernel = "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register unshare setns"
    keys = "add_key request_key keyctl open_by_handle_at"
    machine = "kexec_load kexec_file_load init_module finit_module delete_module swapon swapoff reboot acct quotactl"
    clock = "settimeofday clock_settime adjtimex clock_adjtime syslog"
    assert set(f"{reaching} {mounting} {kernel} {keys} {machine} {clock}".split()) <= seccomp.REFUSED.keys()


def test_the_answers_are_errors_that_programs_know():
    assert (EPERM & 0xFFFF, ENOSYS & 0xFFFF) == (errno.EPERM, errno.ENOSYS)
