"""Attempts to escape from bubblewrap, and what must go on working in it."""

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridle.sandbox.adapters import landlock
from confining_escapes import ABSTRACT_CONNECTS, ESCAPES, FILTERED_ESCAPES, PYTHON_CONNECTS, Escape
from confining_kit import Ground, ground, listening, processes_with, users

pytestmark = [
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(os.uname().sysname != "Linux", reason="bubblewrap needs Linux"),
]


@pytest.fixture(params=users(), ids=lambda user: user.name)
def box(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with ground(request.param, "bubblewrap") as made:
        yield made


@pytest.mark.parametrize("escape", [*ESCAPES, *FILTERED_ESCAPES], ids=lambda escape: escape.name)
def test_the_border_holds(box: Ground, escape: Escape) -> None:
    box.network = escape.network
    escape.prepare(box)
    result = box.bash(escape.script)
    assert escape.holds(box, result), result
    assert box.is_untouched()
    assert not [path for path in box.workspace.rglob("*") if path.is_dir() and path.stat().st_mode & 0o1000]


@pytest.mark.requirement("D16.5")
def test_tcp_is_closed_when_the_network_is_denied(box: Ground) -> None:
    with listening(socket.AF_INET, ("127.0.0.1", 0)) as (address, came):
        script = f"exec 3<>/dev/tcp/127.0.0.1/{address[1]} && echo x >&3 && echo CONNECTED"
        assert "CONNECTED" in box.bash(script).output
        came.clear()
        box.network = "deny"
        result = box.bash(script)
        assert "CONNECTED" not in result.output
        assert not came


def test_there_are_no_sockets_of_other_programs_to_talk_to(box: Ground) -> None:
    path = box.run_folder / "agent.sock"
    with listening(socket.AF_UNIX, str(path)) as (_, came):
        path.chmod(0o777)
        result = box.bash(f'"$PY" -c "{PYTHON_CONNECTS}" "$SOCK"')
        assert result.code != 0
        assert "FileNotFoundError" in result.output
        assert not came


def test_a_command_can_be_asked_to_end(box: Ground) -> None:
    box.gently = True
    script = (
        "trap 'echo cleaned up > notes; exit 3' TERM; echo ready; while :; do read -r _ < <(sleep 600); done"
    )
    ready, ended = box.run([{"argv": ["/bin/bash", "-c", script], "background": True}])
    assert (ready.output, ended.code) == ("ready\n", 3)
    assert (box.workspace / "notes").read_text() == "cleaned up\n"


@pytest.mark.skipif(landlock.available() < 6, reason="this kernel cannot hold nameless sockets apart")
def test_nameless_sockets_of_other_programs_are_out_of_reach(box: Ground) -> None:
    name = f"bridle-test-{os.getpid()}"
    with listening(socket.AF_UNIX, f"\0{name}") as (_, came):
        result = box.bash(f'"$PY" -c "{ABSTRACT_CONNECTS}" {name}')
        assert "PermissionError" in result.output
        assert not came


def test_unix_sockets_are_closed_when_the_network_is_denied(box: Ground) -> None:
    make = '"$PY" -c "import socket; socket.socket(socket.AF_UNIX); print(\'MADE\')"'
    assert "MADE" in box.bash(make).output
    box.network = "deny"
    assert "PermissionError" in box.bash(make).output


def test_nothing_outlives_its_command(box: Ground) -> None:
    marker = f"{600 + os.getpid() / 1e7:.7f}"
    result = box.bash(
        f"setsid sleep {marker} >/dev/null 2>&1 & disown; setsid -f sleep {marker}; echo started"
    )
    assert result.output == "started\n"
    assert not processes_with(marker)


def test_a_stopped_command_takes_everything_with_it(box: Ground) -> None:
    marker = f"{700 + os.getpid() / 1e7:.7f}"
    script = f"setsid sleep {marker} & echo started; wait"
    [result] = box.run([{"argv": ["/bin/bash", "-c", script], "background": True}])
    assert result.output == "started\n"
    assert not processes_with(marker)


def test_the_list_of_processes_shows_a_short_line(box: Ground) -> None:
    result = box.bash("tr '\\0' ' ' < /proc/1/cmdline")
    assert result.output.split()[1:3] == ["--args", result.output.split()[2]]
    assert str(box.home) not in result.output


def test_git_commits_branches_and_merges(box: Ground) -> None:
    box.repository()
    before = box.git("rev-parse", "HEAD")
    result = box.bash(
        "set -e; echo b > b.txt; git add -A; git commit -qm second; git branch side; git checkout -q side;"
        " echo c > c.txt; git add -A; git commit -qm third; git checkout -q main; git merge -q --no-edit side;"
        " git tag v1; git stash list; git gc -q; git status --porcelain"
    )
    assert (result.code, result.output, result.tampered) == (0, "", [])
    assert box.git("rev-parse", "HEAD~1") != before
    assert box.git("log", "--format=%s").split() == ["third", "second", "first"]


def test_masks_are_invisible_to_git(box: Ground) -> None:
    box.repository()
    result = box.bash(
        "git status --porcelain; git add -A; git diff --cached --name-only; test -f AGENTS.md || echo no file"
    )
    assert result.output == "no file\n"
    assert sorted(path.name for path in box.workspace.iterdir()) == [".git", "src"]


def test_git_settings_can_be_opened(box: Ground) -> None:
    box.repository()
    script = "git config remote.origin.url https://example.org/x"
    assert box.bash(script).code != 0
    assert box.bash(script, policy={"git_config": True}).code == 0
    assert box.git("config", "remote.origin.url") == "https://example.org/x\n"
    assert box.bash("echo evil > .git/hooks/pre-commit", policy={"git_config": True}).code != 0


def test_a_linked_worktree_commits_and_cannot_be_led_elsewhere(box: Ground) -> None:
    main = box.base / "main"
    main.mkdir()
    box.repository(main)
    shutil.rmtree(box.workspace)
    box.git("worktree", "add", "-q", str(box.workspace), "-b", "side", cwd=main)
    pointer = main / ".git" / "worktrees" / "ws"
    before = [
        (box.workspace / ".git").read_text(),
        (pointer / "commondir").read_text(),
        (pointer / "gitdir").read_text(),
    ]
    result = box.bash(
        "set -e; echo b > b.txt; git add -A; git commit -qm second; git branch third; git status --porcelain"
    )
    assert (result.code, result.output) == (0, "")
    assert box.git("log", "--format=%s", "side", cwd=main).split() == ["second", "first"]
    box.bash(
        f"echo x > .git; G={pointer}; echo x > $G/commondir; rm $G/gitdir; mv $G $G-2; echo evil >> {main}/.git/config;"
        f" echo evil > {main}/.git/hooks/pre-commit; echo x > {main}/new"
    )
    after = [
        (box.workspace / ".git").read_text(),
        (pointer / "commondir").read_text(),
        (pointer / "gitdir").read_text(),
    ]
    assert after == before
    assert "evil" not in (main / ".git" / "config").read_text()
    assert not (main / ".git" / "hooks" / "pre-commit").exists()
    assert not (main / "new").exists()


def test_a_planted_git_file_opens_no_other_repository(box: Ground) -> None:
    victim = box.base / "victim"
    victim.mkdir()
    box.repository(victim)
    (box.workspace / ".git").write_text(f"gitdir: {victim}/.git\n")
    result = box.bash(f"git commit -q --allow-empty -m evil; echo x > {victim}/.git/x")
    assert result.code != 0
    assert box.git("log", "--format=%s", cwd=victim).split() == ["first"]
    assert not (victim / ".git" / "x").exists()


def test_a_folder_below_the_repository_commits_too(box: Ground) -> None:
    box.repository()
    top, box.workspace = box.workspace, box.workspace / "src"
    result = box.bash("set -e; echo b > b.txt; git add -A; git commit -qm second; git status --porcelain")
    assert (result.code, result.output) == (0, "")
    result = box.bash("echo x > ../above; git init -q .; echo evil > ../.git/hooks/x; mv ../.git ../g")
    assert sorted(path.name for path in top.iterdir()) == [".git", "src"], result
    assert not (top / "src" / ".git").exists()
    assert not (top / ".git" / "hooks" / "x").exists()


def test_working_trees_inside_the_workspace_cannot_be_led_elsewhere(box: Ground) -> None:
    inner = box.base / "inner"
    inner.mkdir()
    box.repository(inner)
    box.repository()
    box.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "lib/sub")
    box.git("worktree", "add", "-q", "trees/side", "-b", "side")
    entries = [box.workspace / "lib" / "sub" / ".git", box.workspace / "trees" / "side" / ".git"]
    before = [entry.read_text() for entry in entries]
    result = box.bash(
        "cp -r .git evil; for t in lib/sub trees/side; do echo gitdir: $WS/evil > $t/.git; mv -f src/a.txt $t/.git;"
        " done; mv lib l; echo evil >> .git/modules/lib/sub/config; echo evil > .git/modules/lib/sub/hooks/x"
    )
    assert [entry.read_text() for entry in entries] == before, result
    assert result.tampered == [str(entries[1])]
    module = box.workspace / ".git" / "modules" / "lib" / "sub"
    assert "evil" not in (module / "config").read_text()
    assert not (module / "hooks" / "x").exists()
    assert box.bash("git worktree remove --force trees/side").code == 0


def test_a_repository_further_down_is_protected_where_the_command_starts(box: Ground) -> None:
    nested = box.workspace / "vendor" / "x"
    nested.mkdir(parents=True)
    box.repository(nested)
    box.bash("echo evil > .git/hooks/x; echo evil >> .git/config; mv ../x ../y", cwd=str(nested))
    assert not (nested / ".git" / "hooks" / "x").exists()
    assert "evil" not in (nested / ".git" / "config").read_text()


def test_damage_in_one_command_opens_nothing_in_the_next(box: Ground) -> None:
    box.repository()
    box.bash("rm .git/HEAD; rm -r .git/refs")
    box.bash("echo evil >> .git/config; echo evil > .git/hooks/pre-commit; mv .git g")
    assert "evil" not in (box.workspace / ".git" / "config").read_text()
    assert not (box.workspace / ".git" / "hooks" / "pre-commit").exists()


def test_package_managers_have_caches_they_may_write(box: Ground) -> None:
    result = box.bash(
        'set -e; for d in "$npm_config_cache" "$PIP_CACHE_DIR" "$CARGO_HOME" "$GOMODCACHE" "$XDG_CACHE_HOME"; do'
        ' mkdir -p "$d"; echo x > "$d/file"; done; echo ok'
    )
    assert result.output == "ok\n"
    assert box.caches.stat().st_mode & 0o777 == 0o700
    assert (box.caches / "pip" / "file").exists()


@pytest.mark.requirement("D16.3")
def test_the_temporary_folder_is_private_and_stays_for_the_session(box: Ground) -> None:
    box.temporary = ["/tmp", "/var/tmp"]
    first, second = box.run(
        [
            {"argv": ["/bin/bash", "-c", "mktemp /tmp/a.XXXX; ls /var/tmp; pwd"]},
            {"argv": ["/bin/bash", "-c", "ls /tmp; echo x > new"]},
        ]
    )
    name = Path(first.output.split()[0]).name
    assert first.output.split()[1:] == [name, box.base.name, str(box.workspace)]
    assert sorted(second.output.split()) == sorted([name, box.base.name])
    assert (box.workspace / "new").exists()
    assert (box.scratch / name).exists()


def test_a_workspace_in_the_temporary_folder_keeps_its_borders(box: Ground) -> None:
    box.temporary = ["/tmp", "/var/tmp"]
    box.repository()
    box.bash(
        f"cd /tmp; mv {box.base.name} x; rm -f {box.base.name}; ln -s $OUT {box.base.name}; echo evil > $WS/AGENTS.md"
    )
    box.bash("echo evil > .git/hooks/pre-commit; echo evil > AGENTS.md; echo evil > .git/config")
    assert not (box.workspace / ".git" / "hooks" / "pre-commit").exists()
    assert not (box.workspace / "AGENTS.md").exists()
    assert box.is_untouched()


def test_beside_a_workspace_in_the_temporary_folder_nothing_is_written_to_be_lost(box: Ground) -> None:
    box.temporary = ["/tmp", "/var/tmp"]
    result = box.bash("echo lost > ../kept; mkdir ../folder; echo stays > here")
    assert result.output.count("Read-only file system") == 2
    assert (box.workspace / "here").read_text() == "stays\n"


def test_a_server_in_the_background_is_reached_by_the_next_command(box: Ground) -> None:
    serve = (
        "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen();"
        " open('port', 'w').write(str(s.getsockname()[1])); print('ready', flush=True); s.accept()[0].sendall(b'hello')"
    )
    _, answer = box.run(
        [
            {"argv": [box.user.python, "-c", serve], "background": True},
            {"argv": ["/bin/bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/$(cat port); cat <&3"]},
        ]
    )
    assert answer.output == "hello"


def test_two_commands_at_once_share_a_placeholder(box: Ground) -> None:
    blocked = {
        "argv": ["/bin/bash", "-c", "echo ready; read -r line < /dev/null; sleep 600"],
        "background": True,
    }
    first, second, third = box.run(
        [
            blocked,
            {"argv": ["/bin/bash", "-c", "echo evil > .git/x"]},
            {"argv": ["/bin/bash", "-c", "ls -d .git"]},
        ]
    )
    assert first.output == "ready\n"
    assert second.code != 0
    assert third.output == ".git\n"
    assert not (box.workspace / ".git").exists()


@pytest.mark.requirement("D16.3")
def test_read_only_lets_nothing_be_written_but_temporary_files(box: Ground) -> None:
    box.mode = "read-only"
    box.repository()
    result = box.bash(
        "echo x > new; echo x > $OUT/new; git commit -q --allow-empty -m x; echo x > $HOST_TMP/t && echo temporary"
    )
    assert result.output.endswith("temporary\n")
    assert sorted(path.name for path in box.workspace.iterdir()) == [".git", "src"]
    assert box.is_untouched()


def test_odd_names_are_only_names(box: Ground) -> None:
    odd = box.base / "a b\n--bind \"$HOME\" 'x' é"
    (box.workspace).rename(odd)
    box.workspace = odd
    result = box.bash("pwd; echo x > new; echo evil > AGENTS.md")
    assert result.output.startswith(str(odd))
    assert sorted(path.name for path in odd.iterdir()) == ["AGENTS.md.put-aside-1", "new", "src"]


def test_an_added_folder_may_be_written_and_is_protected_too(box: Ground) -> None:
    box.writable = [str(box.outside), str(box.base / "missing")]
    box.bash("echo x > $OUT/new; echo evil > $OUT/AGENTS.md; mkdir $OUT/.vscode; mkdir ../missing")
    names = [".vscode.put-aside-1", "AGENTS.md.put-aside-1", "new", "victim.txt"]
    assert sorted(path.name for path in box.outside.iterdir()) == names


@pytest.mark.parametrize("variant", ["without-userns-limit", "host-proc"])
def test_weaker_variants_still_hold_the_border(box: Ground, variant: str) -> None:
    box.variant = variant
    box.repository()
    result = box.bash(
        "echo x > $OUT/new; echo evil > .git/hooks/x; cat ~/.netrc $OWN/*;"
        " cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep ENGINE_;"
        " unshare -Ur true && echo MADE; git commit -q --allow-empty -m x && echo committed"
    )
    assert result.output.endswith("committed\n")
    assert "MADE" not in result.output
    assert "planted" not in result.output
    assert not (box.workspace / ".git" / "hooks" / "x").exists()
    assert box.is_untouched()
