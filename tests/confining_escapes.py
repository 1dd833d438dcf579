"""Attempts to get out of a sandbox, as data: what is tried, and what must be true on the host afterwards.

Every attempt is a script that would succeed without a border, on nothing but what the scratch world made for it.
"""

from collections.abc import Callable
from typing import NamedTuple

from confining_kit import SECRET, Ground, Result

PYTHON_CONNECTS = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.send(b'x')"
ABSTRACT_CONNECTS = PYTHON_CONNECTS.replace("sys.argv[1]", "chr(0) + sys.argv[1]")
OPENS = """
import os, sys
for path in sys.argv[1:]:
    try:
        os.open(path, os.O_WRONLY)
        print("OPENED", path)
    except OSError as error:
        print("refused", error)
"""
TRACES = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
print("TRACED" if libc.ptrace(0, 0, 0, 0) == 0 else "refused", ctypes.get_errno())
"""


class Escape(NamedTuple):
    name: str
    script: str
    holds: Callable[[Ground, Result], bool]
    """Whether the border held."""
    prepare: Callable[[Ground], object] = lambda _ground: None
    network: str = "inherit"


def _repository(ground: Ground) -> None:
    ground.repository()


def _unchanged_git(ground: Ground, _result: Result) -> bool:
    git = ground.workspace / ".git"
    names = {path.name for path in (git / "hooks").iterdir() if not path.name.endswith(".sample")}
    settings = (git / "config").read_text()
    return not names and "evil" not in settings and "fsmonitor" not in settings and (git / "HEAD").exists()


def _says_nothing_secret(ground: Ground, result: Result) -> bool:
    copied = any(
        SECRET in path.read_text(errors="replace") for path in ground.workspace.rglob("*") if path.is_file()
    )
    return SECRET not in result.output and not copied


def _missing(*names: str) -> Callable[[Ground, Result], bool]:
    return lambda ground, _result: not any((ground.workspace / name).exists() for name in names)


def _outside_untouched(ground: Ground, _result: Result) -> bool:
    return ground.is_untouched()


def _instructions(ground: Ground) -> None:
    (ground.workspace / "AGENTS.md").write_text("be kind\n")
    (ground.workspace / ".vscode").mkdir()
    (ground.workspace / ".vscode" / "tasks.json").write_text("{}\n")


def _instructions_unchanged(ground: Ground, _result: Result) -> bool:
    agents, tasks = ground.workspace / "AGENTS.md", ground.workspace / ".vscode" / "tasks.json"
    return not agents.is_symlink() and agents.read_text() == "be kind\n" and tasks.read_text() == "{}\n"


def _status(result: Result, name: str) -> str:
    return next(line.split()[1] for line in result.output.splitlines() if line.startswith(f"{name}:"))


ESCAPES = (
    Escape(
        "writes outside",
        "echo x > $OUT/new; echo x >> $OUT/victim.txt; mv $OUT/victim.txt $OUT/other; chmod 777 $OUT/victim.txt",
        _outside_untouched,
    ),
    Escape(
        "writes through a symlink",
        "ln -s $OUT link; echo x > link/new; echo x >> link/victim.txt; cp src/a.txt link/copy",
        _outside_untouched,
    ),
    Escape("writes through a hard link", "ln $OUT/victim.txt mine && echo x >> mine", _outside_untouched),
    Escape(
        "writes through a process's root",
        "echo x > /proc/self/root$OUT/new; cd /proc/1/root && echo x > .$OUT/new2",
        _outside_untouched,
    ),
    Escape(
        "moves the workspace away",
        "cd /; mv $WS $WS-moved; mkdir $WS-made",
        lambda ground, _: sorted(path.name for path in ground.base.glob("ws*")) == ["ws"],
    ),
    Escape(
        "moves .git away",
        "mv .git old; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; echo evil >> .git/config",
        _unchanged_git,
        _repository,
    ),
    Escape(
        "makes a hook",
        "echo evil > .git/hooks/pre-commit; cp src/a.txt .git/hooks/post-checkout; ln -s ../../src/a.txt .git/hooks/x",
        _unchanged_git,
        _repository,
    ),
    Escape(
        "replaces the hooks",
        "mkdir evil; echo evil > evil/pre-commit; mv .git/hooks .git/aside; mv evil .git/hooks;"
        " mv -T evil .git/hooks; ln -sfn ../evil .git/hooks",
        _unchanged_git,
        _repository,
    ),
    Escape(
        "makes hooks where there are none",
        "mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; mkdir evil; mv -T evil .git/hooks",
        lambda ground, _: not (ground.workspace / ".git" / "hooks").exists(),
        lambda ground: (ground.repository(), _remove(ground.workspace / ".git" / "hooks")),
    ),
    Escape(
        "edits git's settings",
        "echo '[core] fsmonitor = evil' >> .git/config; git config core.fsmonitor evil;"
        " cp .git/config n; echo '[core] fsmonitor = evil' >> n; mv -f n .git/config; cp -f n .git/config",
        _unchanged_git,
        _repository,
    ),
    Escape(
        "leads git to other settings",
        "mkdir evil; cp -r .git evil/git; echo '[core] fsmonitor = evil' >> evil/git/config;"
        " echo $WS/evil/git > .git/commondir",
        lambda ground, result: not (ground.workspace / ".git" / "commondir").exists() and not result.tampered,
        _repository,
    ),
    Escape(
        "makes our settings where there are none",
        "mkdir -p .bridle && echo evil > .bridle/config.toml; ln -s src .bridle; rmdir .bridle",
        lambda ground, _: not (ground.workspace / ".bridle").exists() and (ground.workspace / "src").exists(),
    ),
    Escape(
        "makes instructions where there are none",
        "echo evil > AGENTS.md; mv src/a.txt AGENTS.md; mv -T src/a.txt AGENTS.md; ln src/a.txt AGENTS.md;"
        " rmdir AGENTS.md; mv AGENTS.md x; echo evil > AGENTS.md",
        _missing("AGENTS.md"),
    ),
    Escape(
        "makes editor tasks and servers where there are none",
        "mkdir -p .vscode; echo evil > .vscode/tasks.json; echo evil > .mcp.json; chmod 777 .vscode",
        _missing(".vscode", ".mcp.json"),
    ),
    Escape(
        "changes instructions and editor tasks",
        "echo evil > AGENTS.md; echo evil > n; mv -f n AGENTS.md; rm -f AGENTS.md; ln -sf n AGENTS.md;"
        " echo evil > .vscode/tasks.json; mv .vscode v; rm .vscode/tasks.json",
        _instructions_unchanged,
        _instructions,
    ),
    Escape(
        "replaces a link to instructions",
        "rm AGENTS.md; echo evil > AGENTS.md; echo evil > docs/rules.md; mv docs d;"
        " mkdir docs; echo evil > docs/rules.md",
        lambda ground, result: (
            (ground.workspace / "AGENTS.md").is_symlink()
            and (ground.workspace / "AGENTS.md").read_text() == "be kind\n"
            and result.tampered == [str(ground.workspace / "AGENTS.md")]
        ),
        lambda ground: _link_instructions(ground),
    ),
    Escape(
        "reads credentials",
        "cat ~/.ssh/id_test ~/.netrc ~/.config/gh/hosts.yml ~/.bash_history; chmod 700 ~/.ssh; ls ~/.ssh;"
        " cp -r ~/.ssh mine; cat /proc/1/root$HOME/.netrc; mv ~/.ssh ~/.s",
        _says_nothing_secret,
    ),
    Escape(
        "reads the temporary files of others", "cat $HOST_TMP/host.txt; cat $HOST_TMP/*", _says_nothing_secret
    ),
    Escape(
        "reads Bridle's own folders", "cat $OWN/config.toml; ls $OWN; cp -r $OWN mine", _says_nothing_secret
    ),
    Escape(
        "reads the environment of the engine",
        "cat /proc/[0-9]*/environ; cat /proc/$ENGINE_PID/environ",
        _says_nothing_secret,
    ),
    Escape(
        "keeps capabilities",
        "cat /proc/self/status",
        lambda _, result: (
            all(int(_status(result, name), 16) == 0 for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"))
            and _status(result, "NoNewPrivs") == "1"
        ),
    ),
    Escape(
        "makes a user namespace",
        "unshare -U true && echo MADE; unshare -Urm true && echo MADE; bwrap --bind / / true && echo MADE",
        lambda _, result: "MADE" not in result.output,
    ),
    Escape(
        "mounts and unmounts",
        "mount -t tmpfs x src && echo DONE; umount .git/hooks && echo DONE; mount --bind src .git/hooks && echo DONE;"
        " mount -o remount,rw,bind .git/hooks && echo DONE",
        lambda ground, result: "DONE" not in result.output and _unchanged_git(ground, result),
        _repository,
    ),
    Escape(
        "sees or signals processes of the host",
        "kill -0 $ENGINE_PID && echo SEEN; ls -d /proc/$ENGINE_PID && echo SEEN",
        lambda _, result: "SEEN" not in result.output,
    ),
    Escape(
        "opens the knobs of the kernel",
        f"\"$PY\" -c '{OPENS}' /proc/sys/kernel/core_pattern /proc/sysrq-trigger /sys/kernel/uevent_helper",
        lambda _, result: "OPENED" not in result.output and result.output.count("refused") == 3,
    ),
    Escape(
        "inherits open files",
        "ls /proc/self/fd",
        lambda _, result: result.output.split() == ["0", "1", "2", "3"],
    ),
    Escape(
        "has a terminal",
        "cut -d' ' -f7 /proc/self/stat; echo x > /dev/tty && echo TYPED",
        lambda _, result: result.output.split()[0] == "0" and "TYPED" not in result.output,
    ),
    Escape(
        "leads the next command astray through the temporary folder",
        "ln -s $OUT $TMPDIR/out; echo x > $TMPDIR/out/new",
        _outside_untouched,
    ),
)

FILTERED_ESCAPES = (
    Escape(
        "traces",
        f"\"$PY\" -c '{TRACES}'",
        lambda _, result: "refused" in result.output and "TRACED" not in result.output,
    ),
)
"""Those that only a system call filter stops."""


def _remove(folder) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def _link_instructions(ground: Ground) -> None:
    (ground.workspace / "docs").mkdir()
    (ground.workspace / "docs" / "rules.md").write_text("be kind\n")
    (ground.workspace / "AGENTS.md").symlink_to("docs/rules.md")
