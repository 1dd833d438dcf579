"""Putting paths back to what they were: whole files at once, nothing through a symlink, folders before their files."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Sequence

from bridle.engine.undo_records import Item, State
from bridle.undo.file_tree import look_at, opened_folder

CHANGED = "it changed just now"
"""Why a path that is not what it was when the plan was made was left alone."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW

Content = Callable[[bytes], bytes | None]
"""The content with this digest, if it is there."""


class Failed(OSError):
    """The path stays as it is. `problem` reads as the end of a sentence."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def put_all(
    items: Sequence[Item], content: Content, *, after_each: Callable[[], None] = lambda: None
) -> dict[str, str]:
    """Makes every path what it shall be, as far as that can be done; returns the paths that stayed, and why.

    What goes is taken away from the inside out, what comes is made from the outside in. A path that is not what it was
    when the plan was made is left alone.
    """
    left: dict[str, str] = {}

    def attempt(item: Item, work: Callable[[Item], None]) -> None:
        try:
            work(item)
        except OSError as problem:
            left[item.name] = getattr(problem, "problem", "") or problem.strerror or str(problem)

    for item in items:
        if _is_folder(item.before) and _is_folder(item.after):
            attempt(item, lambda item: _set_mode(item, also=0o700))
    for item in _inside_out(items):
        if item.before is not None and (item.after is None or item.before.kind != item.after.kind):
            attempt(item, _remove)
            after_each()
    for item in reversed(_inside_out(items)):
        if item.name not in left and item.after is not None and not _both_folders(item):
            attempt(item, lambda item: _make(item, content))
            after_each()
    for item in _inside_out(items):
        if item.name not in left and _is_folder(item.after):
            attempt(item, _set_mode)
    return left


def _inside_out(items: Iterable[Item]) -> list[Item]:
    return sorted(items, key=lambda item: (item.path.count(b"/"), item.path), reverse=True)


def _is_folder(state: State | None) -> bool:
    return state is not None and state.kind == "folder"


def _both_folders(item: Item) -> bool:
    return _is_folder(item.before) and _is_folder(item.after)


def _remove(item: Item) -> None:
    _check_unchanged(item)
    folder, name = os.path.split(item.name)
    with opened_folder(folder) as where:
        if _is_folder(item.before):
            os.rmdir(name, dir_fd=where)
        else:
            os.unlink(name, dir_fd=where)


def _make(item: Item, content: Content) -> None:
    state = item.after
    assert state is not None
    replaces = item.before is not None and item.before.kind == state.kind
    _check_unchanged(item if replaces else Item(item.path, None, state))
    folder, name = os.path.split(item.name)
    with opened_folder(folder) as where:
        match state.kind:
            case "folder":
                os.mkdir(name, state.mode | 0o700, dir_fd=where)
            case "link":
                _replace(name, where, lambda temporary: os.symlink(state.target, temporary, dir_fd=where))
            case _:
                data = content(state.sha256)
                if data is None:
                    raise Failed("its content is no longer stored")
                _replace(name, where, lambda temporary: _write(temporary, where, data, state.mode))


def _replace(name: str, where: int, make: Callable[[str], None]) -> None:
    temporary = f".{os.urandom(12).hex()}.tmp"
    try:
        make(temporary)
        os.replace(temporary, name, src_dir_fd=where, dst_dir_fd=where)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=where)
        raise


def _write(name: str, where: int, data: bytes, mode: int) -> None:
    fd = os.open(name, _NEW, 0o600, dir_fd=where)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def _set_mode(item: Item, also: int = 0) -> None:
    assert item.after is not None
    with opened_folder(item.name) as fd:
        if stat.S_IMODE(os.fstat(fd).st_mode) != item.after.mode | also:
            os.fchmod(fd, item.after.mode | also)


def _check_unchanged(item: Item) -> None:
    """What is about to be replaced or removed is still what the plan was made for."""
    now = look_at(item.name, keep=lambda _digest, _data: None).state
    if _is_folder(now) and _is_folder(item.before):
        return
    if now != item.before:
        raise Failed(CHANGED)
