"""Telling the mounts that were meant from others, in the kernel's own words."""

from hypothesis import given
from hypothesis import strategies as st

from bridle.sandbox.adapters.mount_check import (
    ExpectedMounts,
    Mount,
    MountNow,
    expected_mounts,
    first_difference,
)
from bridle.sandbox.confinement import Confinement

ROOT = "/newroot"
WRITABLE, READ_ONLY = "rw,nosuid,nodev,relatime", "ro,nosuid,nodev,relatime"


def now(device: str, root: str, point: str) -> MountNow:
    return MountNow(point, device, root, point, frozenset({"rw"}))


MACHINE = (now("8:1", "/", "/"), now("8:2", "/", "/home"), now("0:5", "/", "/dev"), now("0:30", "/", "/sys"))
MOUNTS = (
    Mount("/", "read-only"),
    Mount("/etc/shadow", "hidden", is_folder=False),
    Mount("/home/me/.ssh", "hidden"),
    Mount("/home/me/ws", "writable"),
    Mount("/home/me/ws/AGENTS.md", "read-only", is_folder=False),
    Mount("/run", "empty"),
    Mount("/tmp", "temporary"),
)


def expected(mounts: tuple[Mount, ...] = MOUNTS, machine: tuple[MountNow, ...] = MACHINE) -> ExpectedMounts:
    return expected_mounts(mounts, Confinement(scratch="/home/me/scratch"), machine)


def line(
    device: str, root: str, point: str, flags: str, kind: str = "ext4", number: int = 9, on: int = 1
) -> str:
    return f"{number} {on} {device} {root} {point} {flags} master:1 - {kind} none rw"


OLD = [line("8:1", "/", "/oldroot", WRITABLE), line("8:2", "/", "/oldroot/home", WRITABLE)]
OURS = [
    line("8:1", "/", "/newroot", READ_ONLY),
    line("8:2", "/", "/newroot/home", READ_ONLY),
    line("0:30", "/", "/newroot/sys", READ_ONLY),
    line("0:5", "/", "/newroot/dev", READ_ONLY),
    line("0:40", "/", "/newroot/dev", WRITABLE, "tmpfs"),
    line("0:5", "/null", "/newroot/dev/null", WRITABLE, "devtmpfs"),
    line("0:41", "/", "/newroot/proc", WRITABLE, "proc"),
    line("0:5", "/null", "/newroot/etc/shadow", READ_ONLY, "devtmpfs"),
    line("0:42", "/", "/newroot/home/me/.ssh", WRITABLE, "tmpfs"),
    line("8:2", "/me/ws", "/newroot/home/me/ws", WRITABLE),
    line("8:2", "/me/ws/AGENTS.md", "/newroot/home/me/ws/AGENTS.md", READ_ONLY),
    line("0:43", "/", "/newroot/run", WRITABLE, "tmpfs"),
    line("8:2", "/me/scratch", "/newroot/tmp", WRITABLE),
]


def difference(lines: list[str]) -> str:
    return first_difference("\n".join([*OLD, *lines, ""]), expected(), beneath=ROOT)


def test_the_mounts_that_were_meant_make_no_difference() -> None:
    assert difference(OURS) == ""


def test_a_mount_of_something_else_is_noticed_wherever_it_was_put() -> None:
    assert difference([*OURS, line("8:2", "/me", "/newroot/home/me/ws/x", WRITABLE)]) == "/home/me/ws/x"
    assert difference([*OURS, line("8:1", "/etc", "/newroot/tmp/x", READ_ONLY)]) == "/tmp/x"


def test_what_was_mounted_elsewhere_is_missing_in_its_place() -> None:
    for at, place in ((7, "/etc/shadow"), (8, "/home/me/.ssh"), (10, "/home/me/ws/AGENTS.md"), (11, "/run")):
        astray = OURS[at].replace(" /newroot/", " /oldroot/")
        assert difference([*OURS[:at], *OURS[at + 1 :], astray]) == place


def test_no_mounts_at_all_are_a_difference() -> None:
    assert difference([]) == "/"


def test_what_is_only_to_be_read_is_not_writable() -> None:
    at = 10
    assert (
        difference([*OURS[:at], OURS[at].replace(" ro,", " rw,"), *OURS[at + 1 :]]) == "/home/me/ws/AGENTS.md"
    )


def test_a_writable_mount_that_another_one_covers_is_out_of_reach() -> None:
    below = line("0:30", "/", "/newroot/sys", WRITABLE, "sysfs", number=50, on=1)
    above = line("0:30", "/", "/newroot/sys", READ_ONLY, "sysfs", number=51, on=50)
    rest = [entry for entry in OURS if " /newroot/sys " not in entry]
    assert difference([*rest, below, above]) == ""
    assert difference([*rest, below, above.replace("51 50 ", "51 49 ")]) == "/sys"


def test_a_disk_that_came_in_this_moment_is_no_file_system_of_the_command() -> None:
    assert difference([*OURS, line("8:99", "/", "/newroot/home/me/ws/usb", WRITABLE)]) == "/home/me/ws/usb"
    assert difference([*OURS, line("8:99", "/", "/newroot/media/usb", READ_ONLY)]) == ""


@given(
    st.integers(0, len(OURS) - 1), st.sampled_from(["/", "/me", "/me/ws", "/me/ws/AGENTS.md", "/etc", "/x"])
)
def test_every_mount_of_this_machine_shows_what_it_is_meant_to(at: int, root: str) -> None:
    number, above, device, meant, point, rest = OURS[at].split(" ", 5)
    changed = f"{number} {above} {device} {root} {point} {rest}"
    is_the_machines = device in {mount.device for mount in MACHINE}
    assert bool(difference([*OURS[:at], changed, *OURS[at + 1 :]])) == (is_the_machines and root != meant)


names = st.text(
    st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=8
).filter(lambda name: name not in {".", ".."})


@given(st.lists(names, min_size=1, max_size=4), st.integers(0, 3))
def test_a_folder_is_found_again_whatever_it_is_called(parts: list[str], held_by: int) -> None:
    def spelled(path: str) -> str:
        return "".join(f"\\{ord(letter):03o}" if letter in " \t\n\\" else letter for letter in path)

    folder = "/" + "/".join(parts)
    holding = "/" + "/".join(parts[:held_by])
    machine = (now("8:1", "/", "/"), MountNow(holding, "8:2", "/vol", spelled(holding), frozenset()))
    meant = expected((Mount("/", "read-only"), Mount(folder, "writable")), machine)
    root = spelled("/vol" + folder[len(holding.rstrip("/")) :])
    lines = [
        line("8:2" if holding == "/" else "8:1", "/vol" if holding == "/" else "/", "/newroot", READ_ONLY),
        line("8:2", root, f"/newroot{spelled(folder)}", WRITABLE),
    ]
    assert first_difference("\n".join(lines), meant, beneath=ROOT) == ""
    assert first_difference("\n".join(lines).replace("8:2 /vol", "8:2 /evil"), meant, beneath=ROOT) != ""
