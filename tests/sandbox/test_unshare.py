"""Attempts to escape from namespaces made with util-linux, and what must go on working in them."""

import os
import shutil
import socket
from collections.abc import Iterator

import pytest

from confining_escapes import ESCAPES, PYTHON_CONNECTS, Escape
from confining_kit import Ground, User, ground, listening, processes_with, users

pytestmark = [
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in ("unshare", "setpriv", "mount")),
        reason="util-linux is incomplete",
    ),
    pytest.mark.skipif(os.uname().sysname != "Linux", reason="namespaces need Linux"),
]


@pytest.fixture(params=users(), ids=lambda user: user.name)
def box(request: pytest.FixtureRequest) -> Iterator[Ground]:
    user: User = request.param
    with ground(user, "unshare") as made:
        yield made


@pytest.mark.requirement("H10.4")
@pytest.mark.parametrize("escape", ESCAPES, ids=lambda escape: escape.name)
def test_the_border_holds(box: Ground, escape: Escape) -> None:
    box.network = escape.network
    escape.prepare(box)
    result = box.bash(escape.script)
    assert "unshare: " not in result.output.replace("unshare: unshare failed", "")
    assert escape.holds(box, result), result
    assert box.is_untouched()
    assert not [path for path in box.workspace.rglob("*") if path.is_dir() and path.stat().st_mode & 0o1000]


def test_tcp_is_closed_when_the_network_is_denied(box: Ground) -> None:
    with listening(socket.AF_INET, ("127.0.0.1", 0)) as (address, came):
        script = f"exec 3<>/dev/tcp/127.0.0.1/{address[1]} && echo x >&3 && echo CONNECTED"
        assert "CONNECTED" in box.bash(script).output
        came.clear()
        box.network = "deny"
        assert "CONNECTED" not in box.bash(script).output
        assert not came


def test_there_are_no_sockets_of_other_programs_to_talk_to(box: Ground) -> None:
    path = box.run_folder / "agent.sock"
    with listening(socket.AF_UNIX, str(path)) as (_, came):
        path.chmod(0o777)
        result = box.bash(f'"$PY" -c "{PYTHON_CONNECTS}" "$SOCK"')
        assert "FileNotFoundError" in result.output
        assert not came


def test_nothing_outlives_its_command(box: Ground) -> None:
    marker = f"{800 + os.getpid() / 1e7:.7f}"
    result = box.bash(
        f"setsid sleep {marker} >/dev/null 2>&1 & disown; setsid -f sleep {marker}; echo started"
    )
    assert result.output == "started\n"
    assert not processes_with(marker)


def test_a_stopped_command_takes_everything_with_it(box: Ground) -> None:
    marker = f"{900 + os.getpid() / 1e7:.7f}"
    script = f"setsid sleep {marker} & echo started; wait"
    [result] = box.run([{"argv": ["/bin/bash", "-c", script], "background": True}])
    assert result.output == "started\n"
    assert not processes_with(marker)


def test_the_person_is_who_they_were(box: Ground) -> None:
    result = box.bash("id -u; touch new; stat -c %u new src/a.txt")
    assert result.output.split() == [str(box.user.uid)] * 3


def test_git_commits_and_the_next_command_finds_the_temporary_files(box: Ground) -> None:
    box.temporary = ["/tmp", "/var/tmp"]
    box.repository()
    commit = (
        "set -e; echo b > b; git add -A; git commit -qm second; git status --porcelain; echo x > /tmp/kept"
    )
    first, second = box.run(
        [
            {"argv": ["/bin/bash", "-c", commit]},
            {"argv": ["/bin/bash", "-c", "cat /tmp/kept; echo evil > AGENTS.md"]},
        ]
    )
    assert (first.code, first.output) == (0, "")
    assert second.output.startswith("x\n")
    assert box.git("log", "--format=%s").split() == ["second", "first"]
    assert sorted(path.name for path in box.workspace.iterdir()) == [
        ".git",
        "AGENTS.md.put-aside-1",
        "b",
        "src",
    ]


def test_odd_names_are_only_names(box: Ground) -> None:
    odd = box.base / "a b\n$(touch x) \"$HOME\" 'x' é"
    box.workspace.rename(odd)
    box.workspace = odd
    result = box.bash("pwd; echo x > new; echo evil > AGENTS.md")
    assert result.output.startswith(str(odd))
    assert sorted(path.name for path in odd.iterdir()) == ["AGENTS.md.put-aside-1", "new", "src"]


def test_exit_codes_and_arguments_pass_unchanged(box: Ground) -> None:
    argv = ["/bin/sh", "-c", 'printf "%s|" "$@"; exit 7', "sh", "a b", "$(id)", "--", "é\n"]
    [result] = box.run([{"argv": argv}])
    assert (result.code, result.output) == (7, "a b|$(id)|--|é\n|")


def test_a_command_can_be_asked_to_end(box: Ground) -> None:
    box.gently = True
    script = (
        "trap 'echo cleaned up > notes; exit 3' TERM; echo ready; while :; do read -r _ < <(sleep 600); done"
    )
    ready, ended = box.run([{"argv": ["/bin/bash", "-c", script], "background": True}])
    assert (ready.output, ended.code) == ("ready\n", 3)
    assert (box.workspace / "notes").read_text() == "cleaned up\n"


def test_nothing_of_the_setting_up_is_left_within_reach(box: Ground) -> None:
    box.repository()
    result = box.bash(
        "ls -d /sys/[0-9]* && echo LEFT; for d in /sys/[0-9]*; do echo evil > $d/hooks/x; done; ls /sys"
    )
    assert "LEFT" not in result.output
    assert "kernel" in result.output
