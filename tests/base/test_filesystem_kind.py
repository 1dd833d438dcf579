"""Which filesystem a path is on, read from the kernel's own list."""

from hypothesis import given
from hypothesis import strategies as st

from bridle.sessions.log.database import NETWORK, kind_of, network_filesystem

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /home rw,relatime shared:5 - nfs4 server:/home rw,vers=4.2
31 30 8:2 / /home/me/local rw - xfs /dev/sdb1 rw
32 22 0:41 / /mnt/with\\040space rw master:3 - fuse.sshfs me@there: rw
33 22 0:42 / /covered rw - nfs a:/ rw
34 33 0:43 / /covered rw - tmpfs none rw
"""


def test_the_deepest_mount_counts_and_the_last_of_two_at_one_place():
    wanted = {
        "/etc": "ext4",
        "/home": "nfs4",
        "/home/me/.local/share": "nfs4",
        "/home/me/local/data": "xfs",
        "/homely": "ext4",
        "/mnt/with space/x": "fuse.sshfs",
        "/covered/x": "tmpfs",
        "/": "ext4",
    }
    assert {path: kind_of(path, MOUNTS) for path in wanted} == wanted


def test_this_machine_is_read_without_fault(tmp_path):
    assert network_filesystem(str(tmp_path / "not" / "there")) in {None, *NETWORK}


@given(st.text(max_size=300), st.text(max_size=40))
def test_no_text_is_too_odd(mountinfo, path):
    kind_of("/" + path, mountinfo)
