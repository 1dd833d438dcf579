"""A settings file for a person to edit as a whole: which one it is, and making it where there is none."""

from __future__ import annotations

import contextlib
import os
from typing import Literal, TypeAlias

from bridle.base.fs.files import private_folder, read_limited, repository_root, write_atomic
from bridle.config.folders import PROJECT_FOLDER, Folders, project_folder
from bridle.config.settings_file import LOCAL_NAMES, OWN_NAMES, present
from bridle.config.settings_writer import user_file
from bridle.protocol.errors import UsageError

_IGNORE_BYTES = 1 << 20

OwnTier: TypeAlias = Literal["user", "project", "local"]
"""The tiers whose file a person edits."""

_WHO: dict[OwnTier, str] = {
    "user": "your own, in every folder",
    "project": "of this project; it may only tighten, and is shared with it",
    "local": "of this project on this machine; it may only tighten, and is not committed",
}


def file_of(where: Folders, cwd: str, tier: OwnTier) -> str:
    """The file of a tier for somebody in `cwd`: the one in use, or the one that will be made."""
    if tier == "user":
        return user_file(where)
    folder = project_folder(cwd)
    if folder is None:
        here = os.path.realpath(cwd)
        folder = os.path.join(repository_root(here), PROJECT_FOLDER)
    names = OWN_NAMES if tier == "project" else LOCAL_NAMES
    return os.path.join(folder, present(folder, names).name or names[0])


def made_for_editing(where: Folders, file: str, tier: OwnTier) -> bytes | None:
    """Makes the file of a tier, with nothing but comments in it, if there is none; returns what was written.

    Raises `UsageError` for a file in a project that is reached by a link: it would lead the editor elsewhere.
    """
    folder = os.path.dirname(file)
    if tier != "user":
        for path in (folder, file):
            if os.path.islink(path):
                raise UsageError(f"{path} is a symbolic link, and Bridle reads no such file in a project")
    if os.path.lexists(file):
        return None
    if tier == "user":
        private_folder(where.config)
    else:
        os.makedirs(folder, exist_ok=True)
    text = (
        f"# Settings of Bridle, {_WHO[tier]}.\n"
        "# All keys: bridle help settings     What holds now, and from where: bridle config show --origin\n"
    ).encode()
    write_atomic(file, text, mode=0o644 if tier == "project" else 0o600)
    return text


def forgotten(file: str, made: bytes) -> bool:
    """Whether a file that was made for editing holds nothing else. It is taken away then, with its empty folder."""
    if read_limited(file, len(made) + 1).data != made:
        return False
    os.unlink(file)
    with contextlib.suppress(OSError):  # there is something else in it
        os.rmdir(os.path.dirname(file))
    return True


def keep_out_of_git(file: str) -> None:
    """Has git ignore a file, by a line in the `.gitignore` beside it."""
    ignoring, name = os.path.join(os.path.dirname(file), ".gitignore"), os.path.basename(file)
    try:
        lines = read_limited(ignoring, _IGNORE_BYTES).data
    except FileNotFoundError:
        lines = b""
    if name.encode() not in lines.split(b"\n"):
        start = lines if not lines or lines.endswith(b"\n") else lines + b"\n"
        write_atomic(ignoring, start + f"{name}\n".encode(), mode=0o644)
