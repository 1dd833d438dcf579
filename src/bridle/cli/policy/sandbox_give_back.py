"""`bridle sandbox give-back`: restore a quarantined policy file after the user has seen it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from shlex import quote

from bridle.base.fs.files import files_below, read_limited
from bridle.base.git.git_config import MAX_CONFIG_BYTES, unproven_settings
from bridle.base.text.terminal_text import visible
from bridle.cli.console import say
from bridle.cli.policy.trust import typed_line
from bridle.protocol.errors import CommandRefused, UsageError
from bridle.sandbox.policy_files.policy_snapshot import PolicyChange
from bridle.sandbox.policy_files.quarantine import PUT_ASIDE, quarantine

_NAME = re.compile(rf"(.+){re.escape(PUT_ASIDE)}-\d+")
_MOST_LINES = 200
_MOST_BYTES = 64 * 1024
_MOST_FILES = 50


def give_back(paths: Sequence[str], cwd: str) -> int:
    """Show each file and ask. A file in its place is quarantined in turn, so that nothing is lost."""
    for path in paths:
        aside = os.path.join(cwd, path)
        shown = visible(path, newlines=False)
        name = _NAME.fullmatch(os.path.basename(aside))
        if name is None:
            raise UsageError(
                f"{shown} is not a quarantined file: their names end in {PUT_ASIDE}-1, {PUT_ASIDE}-2 …"
            )
        if not os.path.lexists(aside):
            raise UsageError(f"There is no file {shown}. Quarantined files: find . -name '*{PUT_ASIDE}-*'")
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise CommandRefused("GiveBackRefused", path=quote(shown))
        try:
            _give_back(aside, os.path.join(os.path.dirname(aside), name[1]), cwd)
        except OSError as problem:
            raise UsageError(
                f"{shown} cannot be restored ({problem.strerror}); it stays in quarantine"
            ) from None
    return 0


def _give_back(aside: str, place: str, cwd: str) -> None:
    seen = _state(aside)
    say("".join(f"{visible(line, newlines=False)}\n" for line in _shown(aside)))
    try:
        answer = typed_line(f"Restore it as {visible(os.path.relpath(place, cwd), newlines=False)}? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        say("It stays in quarantine.\n")
        return
    if _state(aside) != seen:
        raise CommandRefused(
            "GiveBackChanged", path=quote(visible(os.path.relpath(aside, cwd), newlines=False))
        )
    quarantine(PolicyChange(place, "makes room"))
    os.rename(aside, place)
    say(f"Restored {visible(os.path.relpath(place, cwd), newlines=False)}.\n")


def _state(path: str) -> list[tuple[str, int, int]]:
    """Return the inode and change time of each file. No command can set the change time."""
    return [
        (file, status.st_ino, status.st_ctime_ns)
        for file in (path, *files_below(path))
        if (status := os.lstat(file))
    ]


def _shown(path: str) -> Iterator[str]:
    """Yield its kind and its first lines or files."""
    if os.path.islink(path):
        yield f"{path} is a link to {os.readlink(path)}"
        return
    if os.path.isdir(path):
        yield f"{path} is a folder:"
        yield from _folder(path)
        return
    contents = read_limited(path, _MOST_BYTES)
    yield f"{path}:"
    if os.path.basename(path).startswith("HEAD."):  # of a repository that has no other folder
        yield from _programs(os.path.dirname(path))
    lines = os.fsdecode(contents.data).splitlines()
    yield from (f"    {line}" for line in lines[:_MOST_LINES])
    if contents.truncated or len(lines) > _MOST_LINES:
        yield "    … and more: open the file to see all of it"


def _folder(path: str) -> Iterator[str]:
    yield from _programs(path)
    files = [*files_below(path)]
    if len(files) > _MOST_FILES:
        yield f"    {len(files)} files"
    else:
        yield from (f"    {os.path.relpath(file, path)}" for file in sorted(files))


def _programs(git_dir: str) -> Iterator[str]:
    """Settings of a repository that may name programs."""
    config = os.path.join(git_dir, "config")
    if os.path.isfile(config):
        settings = unproven_settings(os.fsdecode(read_limited(config, MAX_CONFIG_BYTES).data))
        yield from (f"    config: {setting}" for setting in sorted(settings))
