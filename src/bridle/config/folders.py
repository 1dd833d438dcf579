"""The folders of an installation, by the XDG rules; `BRIDLE_HOME` puts all of them under one."""

from __future__ import annotations

import binascii
import os
import pwd
from collections.abc import Mapping, Sequence

import msgspec

from bridle.base.fs.files import repository_root
from bridle.protocol.errors import UsageError

PROJECT_FOLDER = ".bridle"
"""What a project says to Bridle stands in a folder of this name."""


class Folders(msgspec.Struct, frozen=True, kw_only=True):
    """Absolute paths. None of them need exist; whoever writes first creates its own, private.

    `cache` is for what commands download; it is theirs, everything else is Bridle's own. `runtime` has the socket of an
    engine that listens, and the token for it: one for each data folder. `worktrees` is where agents have working trees
    of their own: those are theirs, so it lies in none of the others.
    """

    config: str
    data: str
    state: str
    cache: str
    runtime: str
    worktrees: str

    @property
    def all(self) -> tuple[str, ...]:
        return (self.config, self.data, self.state, self.runtime)


def folders(env: Mapping[str, str]) -> Folders:
    """Where files live for a caller with this environment. An empty variable counts as unset.

    Raises `UsageError` where neither HOME nor BRIDLE_HOME says: nothing is written to a home that was guessed.
    """
    paths = _folder_paths(env)
    if paths is None:
        home = env.get("HOME", "")
        what = f'HOME is "{home}", which is no absolute path' if home else "HOME is not set"
        raise UsageError(f"{what}, so Bridle does not know where its files are. Set HOME or BRIDLE_HOME")
    return Folders(**paths)


def _folder_paths(env: Mapping[str, str]) -> dict[str, str] | None:
    """Return the fields of `Folders`, or None if neither HOME nor BRIDLE_HOME is set."""
    if home := env.get("BRIDLE_HOME"):
        root = os.path.abspath(home)
        names = {name: name for name in ("config", "data", "state", "cache", "worktrees")} | {
            "runtime": "run"
        }
        return {name: os.path.join(root, folder) for name, folder in names.items()}
    home = env.get("HOME", "")
    if not os.path.isabs(home):
        return None
    data = _under(env, "XDG_DATA_HOME", home, ".local/share")
    state = _under(env, "XDG_STATE_HOME", home, ".local/state")
    return {
        "config": _under(env, "XDG_CONFIG_HOME", home, ".config"),
        "data": data,
        "state": state,
        "cache": _under(env, "XDG_CACHE_HOME", home, ".cache"),
        "runtime": _runtime(env, data) or os.path.join(state, "run"),
        "worktrees": f"{data}-worktrees",
    }


def _runtime(env: Mapping[str, str], data: str) -> str | None:
    """Return the folder of the login session, if there is one. Each data folder has its own place in it."""
    base = env.get("XDG_RUNTIME_DIR", "")
    if not os.path.isabs(base):
        return None
    return os.path.join(base, "bridle", f"{binascii.crc32(os.fsencode(data)):08x}")


def _under(env: Mapping[str, str], variable: str, home: str, default: str) -> str:
    """Return an XDG folder. A relative value is ignored, as XDG says."""
    base = env.get(variable, "")
    if not os.path.isabs(base):
        base = os.path.join(home, default)
    return os.path.join(base, "bridle")


def home_of(env: Mapping[str, str]) -> str:
    """Where a caller's secrets are: in what HOME says, or else what the system knows. Nothing of ours is put there.

    `os.path.expanduser` would take an empty HOME for the root folder.
    """
    home = env.get("HOME", "")
    if os.path.isabs(home):
        return home
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def project_folder(cwd: str) -> str | None:
    """The nearest `.bridle` from `cwd` up to the root of its repository, resolved; without a repository only `cwd`'s.

    A folder above the repository belongs to somebody else's decisions, so nobody looks there.
    """
    folder = os.path.realpath(cwd)
    root = repository_root(folder)
    while True:
        if os.path.lexists(os.path.join(folder, PROJECT_FOLDER)):
            return os.path.join(folder, PROJECT_FOLDER)
        if folder == root:
            return None
        folder = os.path.dirname(folder)


AGENTS = "agents"
"""The folder of agents, in the config folder of the user and in that of a project."""
PROJECT_CHOICES = "project-choices.json"
"""In the state folder: what a person chose for single projects."""


def prompt_folders(where: Folders, cwd: str, listed: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The folders with prompts that are there: the person's, empty where there is none, and those of the project."""
    own, user = project_folder(cwd), os.path.join(where.config, "commands")
    root = repository_root(os.path.realpath(cwd)) if listed else ""
    theirs = (
        *((os.path.join(own, "commands"),) if own else ()),
        *(os.path.join(root, one) for one in listed),
    )
    return user if os.path.isdir(user) else "", tuple(one for one in theirs if os.path.isdir(one))
