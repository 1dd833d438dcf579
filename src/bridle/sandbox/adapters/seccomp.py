"""The system call filter.

Everything is allowed but what stands here. The program is classic BPF, as the kernel and `bwrap --seccomp` take it.
It looks at numbers and at arguments that are plain numbers; what lies behind a pointer it cannot see.

Refused with EPERM   `REFUSED`, new namespaces, typing into a terminal, odd personalities, kinds of socket,
                     emptying a file without having it open for writing, letting a file run as its owner
Does not exist       calls whose flags lie behind a pointer (clone3, openat2), the x32 calls: programs fall back
Killed               calls of another architecture, such as 32-bit programs on a 64-bit machine
"""

from __future__ import annotations

import errno
import platform
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Literal, NamedTuple, TypeAlias, get_args

Machine: TypeAlias = Literal["x86_64", "aarch64"]

ALLOW = 0x7FFF0000
KILL = 0x80000000
EPERM = 0x00050000 | errno.EPERM
ENOSYS = 0x00050000 | errno.ENOSYS

ARCHITECTURE: dict[Machine, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32_BIT = 0x40000000

# fmt: off
REFUSED: dict[str, tuple[int | None, int | None]] = {  # the number on x86_64, on aarch64; None: not there
    # reach into other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438), "kcmp": (312, 272),
    # do the work of other system calls where no filter sees it
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # keys of the person's login
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # change what a path means
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    "open_by_handle_at": (304, 265), "unshare": (272, 97), "setns": (308, 268),
    # wide doors into the kernel
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42), "iopl": (172, None), "ioperm": (173, None),
    # the machine itself
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "swapon": (167, 224), "swapoff": (168, 225),
    "reboot": (169, 142), "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162),
    "syslog": (103, 116), "vhangup": (153, 58),
}
# fmt: on
CLONE: dict[Machine, int] = {"x86_64": 56, "aarch64": 220}
CLONE3: dict[Machine, int] = {"x86_64": 435, "aarch64": 435}
IOCTL: dict[Machine, int] = {"x86_64": 16, "aarch64": 29}
PERSONALITY: dict[Machine, int] = {"x86_64": 135, "aarch64": 92}
SOCKET: dict[Machine, int] = {"x86_64": 41, "aarch64": 198}
OPEN = 2
"""On x86_64 only."""
OPENAT: dict[Machine, int] = {"x86_64": 257, "aarch64": 56}
OPENAT2: dict[Machine, int] = {"x86_64": 437, "aarch64": 437}
TRUNCATE: dict[Machine, int] = {"x86_64": 76, "aarch64": 45}
CHMOD = 90
"""On x86_64 only."""
FCHMOD: dict[Machine, int] = {"x86_64": 91, "aarch64": 52}
FCHMODAT: dict[Machine, int] = {"x86_64": 268, "aarch64": 53}
FCHMODAT2: dict[Machine, int] = {"x86_64": 452, "aarch64": 452}
NEW_NAMESPACES = 0x7E020000
"""The CLONE_NEW… flags that `clone` knows."""
TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI types into a terminal, TIOCLINUX pastes into a console."""
PERSONALITIES = 0x00060008
"""What `setarch` is used for: 32-bit uname, old uname, no address randomisation."""
O_ACCMODE, O_TRUNC = 3, 0x200
S_ISUID = 0o4000
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
NETLINK_ROUTE = 0
"""How the C library asks which addresses this machine has."""


def supported() -> bool:
    """Whether programs for this machine can be written."""
    return sys.platform == "linux" and _machine() is not None


def program(
    *,
    network_denied: bool,
    own_network: bool = False,
    local_sockets: bool = True,
    strict_truncation: bool = False,
    strict_modes: bool = False,
    machine: Machine | None = None,
) -> bytes:
    """The filter for this machine, or for `machine`.

    `network_denied` leaves no socket to be made but pairs of connected ones. `own_network`: the network of the command
    is an empty one, so that internet sockets are harmless and stay, also when the network is denied. Without
    `local_sockets` there are no Unix sockets, also when the network is inherited: for those who cannot hide the
    sockets of other programs otherwise. `strict_truncation`: whoever empties a file must open it for writing, because
    only opening is checked otherwise. `strict_modes`: no file gets the bit by which it runs as its owner, for those who
    cannot keep modes elsewhere as they are.
    """
    machine = machine or _machine()
    if machine is None:
        raise ValueError(f"no system call filter for {platform.machine()}")
    internet = own_network or not network_denied
    families = (AF_UNIX,) * (local_sockets and not network_denied) + (AF_INET, AF_INET6) * internet
    return _assembled(
        machine, families, netlink=internet, strict_truncation=strict_truncation, strict_modes=strict_modes
    )


def _machine() -> Machine | None:
    # A 32-bit program of a 64-bit kernel makes other calls than the machine's name says.
    if struct.calcsize("P") != 8 or sys.byteorder != "little":
        return None
    return next((name for name in get_args(Machine) if name == platform.machine()), None)


@cache
def _assembled(
    machine: Machine, families: tuple[int, ...], *, netlink: bool, strict_truncation: bool, strict_modes: bool
) -> bytes:
    lines = _lines(
        machine, families, netlink=netlink, strict_truncation=strict_truncation, strict_modes=strict_modes
    )
    return _assemble(lines)


def _lines(
    machine: Machine, families: tuple[int, ...], *, netlink: bool, strict_truncation: bool, strict_modes: bool
) -> Iterator[_Line]:
    yield _load(_ARCHITECTURE)
    yield _if_equal(ARCHITECTURE[machine], no="foreign")
    yield _load(_NUMBER)
    if machine == "x86_64":
        yield _if_at_least(X32_BIT, yes="missing")
    places = _places(machine, strict_truncation=strict_truncation, strict_modes=strict_modes)
    yield from _sorted_out(sorted(places.items()))

    yield "clone"
    yield _load(_argument(0))
    yield _if_any_bit(NEW_NAMESPACES, yes="refused", no="allowed")

    yield "ioctl"
    yield _load(_argument(1))
    for request in TERMINAL_INPUT:
        yield _if_equal(request, yes="refused")
    yield _answer(ALLOW)

    yield "personality"
    yield _load(_argument(0))
    yield _if_equal(0xFFFFFFFF, yes="allowed")  # only asks
    yield _if_any_bit(0xFFFFFFFF & ~PERSONALITIES, yes="refused", no="allowed")

    if strict_truncation:
        if machine == "x86_64":
            yield "open"
            yield _load(_argument(1))
            yield from _truncation()
        yield "openat"
        yield _load(_argument(2))
        yield from _truncation()

    if strict_modes:
        for name, position in (("chmod", 1), ("chmodat", 2)):
            yield name
            yield _load(_argument(position))
            yield _if_any_bit(S_ISUID, yes="refused", no="allowed")

    yield "socket"
    yield _load(_argument(0))
    for family in families:
        yield _if_equal(family, yes="allowed")
    if netlink:
        yield _if_equal(AF_NETLINK, no="refused")
        yield _load(_argument(2))
        yield _if_equal(NETLINK_ROUTE, yes="allowed")

    yield "refused"
    yield _answer(EPERM)
    yield "missing"
    yield _answer(ENOSYS)
    yield "foreign"
    yield _answer(KILL)
    yield "allowed"
    yield _answer(ALLOW)


def _places(machine: Machine, *, strict_truncation: bool, strict_modes: bool) -> dict[int, str]:
    """Where it goes on for the calls that are not simply allowed, by their numbers."""
    places = dict.fromkeys(refused(machine), "refused")
    places |= {
        CLONE3[machine]: "missing",
        CLONE[machine]: "clone",
        IOCTL[machine]: "ioctl",
        PERSONALITY[machine]: "personality",
        SOCKET[machine]: "socket",
    }
    if strict_truncation:
        places |= {TRUNCATE[machine]: "refused", OPENAT2[machine]: "missing", OPENAT[machine]: "openat"}
        if machine == "x86_64":
            places[OPEN] = "open"
    if strict_modes:
        places |= {FCHMOD[machine]: "chmod", FCHMODAT[machine]: "chmodat", FCHMODAT2[machine]: "chmodat"}
        if machine == "x86_64":
            places[CHMOD] = "chmod"
    return places


def _sorted_out(places: Sequence[tuple[int, str]]) -> Iterator[_Line]:
    """Goes to the place of the number that is loaded; a number without one is allowed.

    By halves, because a kernel that is given a filter runs it for every call there is, and a command waits for that.
    """
    if len(places) <= _FEW:
        for number, place in places:
            yield _if_equal(number, yes=place)
        yield _answer(ALLOW)
        return
    lower, upper = places[: len(places) // 2], places[len(places) // 2 :]
    name = f"from {upper[0][0]}"
    yield _if_at_least(upper[0][0], yes=name)
    yield from _sorted_out(lower)
    yield name
    yield from _sorted_out(upper)


def _truncation() -> Iterator[_Line]:
    """The flags of an open are loaded: emptying needs one of the two ways of writing."""
    yield _if_any_bit(O_TRUNC, no="allowed")
    yield _and(O_ACCMODE)
    yield _if_equal(0, yes="refused")
    yield _if_equal(O_ACCMODE, yes="refused", no="allowed")


def refused(machine: Machine) -> list[int]:
    """The numbers of the calls that are refused whatever their arguments are."""
    column = get_args(Machine).index(machine)
    return [number for numbers in REFUSED.values() if (number := numbers[column]) is not None]


# A line is an instruction, or the name of the place where the next instruction stands. Jumps only lead forward.


class _Instruction(NamedTuple):
    code: int
    value: int
    yes: str = ""
    no: str = ""


_Line: TypeAlias = _Instruction | str

_FEW = 3
"""So many numbers are compared one by one."""
_NUMBER, _ARCHITECTURE = 0, 4
"""Where they stand in what the kernel shows to a filter."""


def _argument(index: int) -> int:
    """The lower half of an argument: the kernel itself takes no more of those that are looked at here."""
    return 16 + 8 * index


def _load(offset: int) -> _Instruction:
    return _Instruction(0x20, offset)


def _if_equal(value: int, *, yes: str = "", no: str = "") -> _Instruction:
    return _Instruction(0x15, value, yes, no)


def _if_at_least(value: int, *, yes: str = "", no: str = "") -> _Instruction:
    return _Instruction(0x35, value, yes, no)


def _if_any_bit(value: int, *, yes: str = "", no: str = "") -> _Instruction:
    return _Instruction(0x45, value, yes, no)


def _and(value: int) -> _Instruction:
    return _Instruction(0x54, value)


def _answer(action: int) -> _Instruction:
    return _Instruction(0x06, action)


def _assemble(lines: Iterable[_Line]) -> bytes:
    instructions: list[_Instruction] = []
    places: dict[str, int] = {}
    for line in lines:
        if isinstance(line, str):
            places[line] = len(instructions)
        else:
            instructions.append(line)

    def distance(name: str, index: int) -> int:
        return places[name] - index - 1 if name else 0

    return b"".join(
        struct.pack("<HBBI", line.code, distance(line.yes, index), distance(line.no, index), line.value)
        for index, line in enumerate(instructions)
    )
