"""What a policy means on this machine, in resolved paths."""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from bridle.base.fs.files import private_folder, read_limited
from bridle.base.fs.other_projects import OtherProjects
from bridle.base.fs.paths import PathRefused, find, follow_links, is_beneath, is_beneath_any
from bridle.base.fs.placeholders import is_stand_in, may_be_stand_in
from bridle.base.fs.private_places import (
    HOME_START_UP_FILES,
    SHOWN_IN_EMPTIED,
    SOCKET_FOLDERS,
    SOCKETS_IN_HOME,
    secret_places,
)
from bridle.base.git.git_config import MAX_CONFIG_BYTES, is_odd, submodule_folders
from bridle.base.process.processes import is_scarce
from bridle.base.secrets.secret_files import POLICY_PARENTS, is_held_file
from bridle.engine.ports import SpawnPolicy
from bridle.sandbox.git_places import GitFiles, GitPlaces, files_of, find_repository, packs_of

ALWAYS_PROTECTED = (".bridle", "AGENTS.md", ".mcp.json", ".vscode")
"""At the top of every writable folder, there or not."""
_MAX_LINKS = 8
_MAX_STEPS = 1_000
_MAX_KEPT_BYTES = 4_096


Network: TypeAlias = Literal["inherit", "filtered", "deny"]
_OF_THE_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix", "/proc", "/sys", "/dev")


class UnheldEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something no border can hold in its place, and what it was: the text of a link, or a small file's content.

    A link is put back if it is gone, a file may go: git removes the files of a working tree with it.
    """

    path: str
    link: str = ""
    content: bytes = b""
    mode: int = 0o644


class WatchedGitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of git that may be changed, only not to name programs; None: they are not there."""

    path: str
    content: bytes | None


class WorkingTree(msgspec.Struct, frozen=True, kw_only=True):
    """A repository, and those of its submodules that named programs before the command began."""

    top: str
    git_dir: str
    odd: frozenset[str]


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may touch. Every adapter enforces as much of it as it can, and says what it cannot.

    Everything that is not named here may be read and not written. All paths are absolute and free of symlinks; of two
    entries where one lies below the other, the deeper one decides.
    """

    writable: tuple[str, ...] = ()
    """Folders and files that are there and may be changed."""
    folders: tuple[str, ...] = ()
    """Those among them that people work in: what programs obey there is looked at once the command is over."""
    read_only: tuple[str, ...] = ()
    """Are there, below a writable folder, and may be neither changed nor replaced nor moved away."""
    absent: tuple[str, ...] = ()
    """Are not there, make git run something, and must not come to be: in git's own folder, or that folder itself."""
    filled: tuple[tuple[str, bytes], ...] = ()
    """The same, where git would stumble over a folder: a file with this content stands there meanwhile."""
    held: tuple[str, ...] = ()
    """Writable folders that must keep their place: what is in them may change, they cannot be moved or replaced."""
    hidden: tuple[str, ...] = ()
    """Are there, and nothing of them can be read: credentials, and Bridle's own folders."""
    emptied: tuple[str, ...] = ()
    """Folders that look empty: the sockets of other programs are in them."""
    shown: tuple[str, ...] = ()
    """Stays readable, also where it lies in one of `hidden`, `emptied` or `temporary`."""
    temporary: tuple[str, ...] = ()
    """The temporary folders of the machine; a command finds its own in their place."""
    scratch: str = ""
    """Stands for the temporary folders; empty: a new one for this command."""
    caches: str = ""
    """Where package managers may keep what they download; one of `writable`, or empty."""
    network: Network = "inherit"
    unwanted: tuple[str, ...] = ()
    """Are not there and cannot be masked; `quarantine` puts them aside if a command made them."""
    kept: tuple[UnheldEntry, ...] = ()
    """Cannot be held; `quarantine` puts them back as they were."""
    watched: tuple[WatchedGitSettings, ...] = ()
    """May be changed; `quarantine` puts them back if they name programs then that they did not name before."""
    working_trees: tuple[WorkingTree, ...] = ()
    """`quarantine` looks whether a submodule came to them that names programs, and puts its repository aside."""
    left_out: tuple[str, ...] = ()
    """Was asked for as writable and is not there, or is reached through a link that a command could have made."""


class HostContext(msgspec.Struct, frozen=True, kw_only=True):
    """The machine and the person a command runs for."""

    home: str
    own: tuple[str, ...] = ()
    """Bridle's own folders: settings, sessions, state. No command sees them."""
    caches: str = ""
    """A folder for the caches of package managers in this project; made when it is first used."""
    records: str = ""
    """Where Bridle keeps what undo needs: on another file system, git's packs cannot be kept there without copying."""
    env: Mapping[str, str] = {}
    """The person's environment: it says where some programs keep their files and sockets."""
    others: OtherProjects | None = None
    """Knows the environment files of other projects, which no command sees."""
    temporary: tuple[str, ...] = ("/tmp", "/var/tmp")  # noqa: S108  these are the ones a command must not see


def known_of(policy: SpawnPolicy, place: HostContext) -> Confinement:
    """As much of `confinement_of` as commands are told about: where the caches are and what is temporary."""
    writes = policy.mode == "workspace-write"
    return Confinement(
        caches=_made(place.caches) if writes and place.caches else "",
        scratch=real_path(policy.scratch) if policy.scratch else "",
        network=policy.network,
    )


def confinement_of(policy: SpawnPolicy, place: HostContext, cwd: str = "") -> Confinement:
    """Makes the caches' folder if it is missing; nothing else is changed. `cwd` is where the command will start."""
    if policy.mode == "off":
        raise ValueError("a policy that confines nothing has no confinement")
    real = functools.cache(real_path)  # the same few folders are asked for again and again
    workspace = real(policy.workspace)
    writes = policy.mode == "workspace-write"
    asked, left_out = _asked(policy.writable, workspace)
    folders = _unique([*([workspace] if writes else []), *asked])
    start = real(cwd or workspace)
    inside = [start] if is_beneath_any(start, folders) else []
    around = {folder: find_repository(folder) for folder in _unique([workspace, *folders, *inside])}
    repositories = list(dict.fromkeys(git for git in around.values() if git is not None))
    opens = writes and not policy.repository_closed
    git_dirs = [git.common for git in repositories if opens and git.ours and git.top != "/"]
    caches = _made(place.caches) if writes and place.caches else ""
    writable = _unique([*folders, *git_dirs, *([caches] if caches else [])])

    home = real(place.home)
    opened = (*asked, *left_out, *_agreed(policy.agreed, folders))
    protection = _Protection(writable, opened=opened, real=real)
    for folder in folders:
        if os.path.isdir(folder):
            if not policy.git_tree:
                protection.add_all(_policy_files(folder, home))
                protection.add_all(_policy_files_between(folder, start))
            git = around[folder]
            if (git.ours and git.top != folder) if git is not None else not policy.new_repository:
                protection.add(os.path.join(folder, ".git"))
    submodules = {git.git_dir: submodule_folders(git.top, git.git_dir) for git in repositories if git.ours}
    for git in repositories:
        protection.add_entry(os.path.join(git.top, ".git"), git.common)
        protection.add_git(files_of(git, submodules.get(git.git_dir, ())), settings_open=policy.git_config)
        if git.common in git_dirs and place.records and not _on_one_file_system(git.common, place.records):
            protection.add_all(packs_of(git))
    shown = _existing([workspace, *_absolute(policy.readable, workspace), *SHOWN_IN_EMPTIED], real)
    shown += [folder for git in repositories if git.ours for folder in (git.top, git.common)]
    named = {*writable, *shown}
    others = _of_others(place, _unique([workspace, *folders]), repositories, home, real)
    secret = (*place.own, *secret_places(place.home, place.env))
    hidden = [path for path in (*_existing(secret, real), *others) if path not in named]
    emptied = [path for path in _socket_folders(place, home, real) if path not in named]
    temporary = [path for path in _existing(place.temporary, real) if path not in named]
    shown += _in_temporary(
        _existing(_absolute(policy.programs, workspace), real), temporary, (*named, *hidden, *emptied)
    )
    return Confinement(
        writable=tuple(writable),
        folders=tuple(folders) if writes else (),
        read_only=tuple(protection.read_only),
        absent=tuple(
            path
            for path in protection.absent
            if is_beneath_any(path, git_dirs) or (path.endswith("/.git") and not policy.resident)
        ),
        filled=tuple(protection.filled.items()),
        held=tuple(protection.held()),
        hidden=tuple(hidden),
        emptied=tuple(emptied),
        shown=tuple(path for path in _unique(shown) if path not in writable),
        temporary=tuple(temporary),
        scratch=real(policy.scratch) if policy.scratch else "",
        caches=caches,
        network=policy.network,
        unwanted=tuple(protection.unwanted),
        kept=tuple(protection.kept.values()),
        watched=tuple(protection.watched.values()),
        working_trees=tuple(
            WorkingTree(
                top=git.top, git_dir=git.git_dir, odd=frozenset(filter(is_odd, submodules[git.git_dir]))
            )
            for git in repositories
            if git.common in git_dirs and git.top != git.git_dir
        ),
        left_out=tuple(left_out),
    )


def _in_temporary(programs: Iterable[str], temporary: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the programs below a temporary folder, without those that lie in one of `others`."""
    return [
        path
        for path in programs
        if is_beneath_any(path, temporary) and path not in temporary and not is_beneath_any(path, others)
    ]


class _Protection:
    """Collects what must stay as it is below the writable folders. `opened` was asked for by name, so it is not."""

    def __init__(self, writable: Sequence[str], *, opened: Iterable[str], real: Callable[[str], str]) -> None:
        self.read_only: dict[str, None] = {}
        self.absent: dict[str, None] = {}
        self.filled: dict[str, bytes] = {}
        self.unwanted: dict[str, None] = {}
        self.kept: dict[str, UnheldEntry] = {}
        self.watched: dict[str, WatchedGitSettings] = {}
        self._writable = writable
        self._opened = frozenset(opened)
        self._real = real
        self._folders: dict[str, None] = {}

    def add_all(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.add(path)

    def add(self, path: str) -> None:
        """Keeps a path as it is, whatever stands there: something, nothing, a link to something."""
        for _ in range(_MAX_LINKS):
            folder, name = os.path.split(path)
            folder = self._real(folder)
            path = os.path.join(folder, name)
            if path in self._opened or not is_beneath_any(path, self._writable) or path in self._writable:
                return
            status = _status(path)
            if status is None or not stat.S_ISLNK(status.st_mode):
                break
            link = os.readlink(path)
            self.kept[path] = UnheldEntry(path=path, link=link)
            path = os.path.normpath(os.path.join(folder, link))
        else:
            status = _status(path)
        if status is not None and not (may_be_stand_in(status.st_mode) and is_stand_in(path)):
            self.read_only[path] = None
        elif os.path.isdir(os.path.dirname(path)):
            self.absent[path] = None

    def add_entry(self, entry: str, common: str) -> None:
        """The `.git` of a repository: its own folder keeps its place, a file or link keeps what it says."""
        if os.path.isdir(entry):
            if os.path.islink(entry) and is_beneath_any(entry, self._writable):
                self.kept[entry] = UnheldEntry(path=entry, link=os.readlink(entry))
            if is_beneath_any(common, self._writable):
                self._folders[common] = None
        elif os.path.lexists(entry):
            self.add(entry)

    def add_git(self, files: GitFiles, *, settings_open: bool) -> None:
        self.add_all(files.programs)
        if settings_open:
            for path in (*files.settings, *files.new_settings):
                self._watch(path)
        else:
            self.add_all(files.settings)
        self.filled.update(
            (path, content)
            for path, content in files.stand_ins
            if self._may_be_written(path) and path not in self.watched
        )
        unmaskable = files.redirections if settings_open else files.redirections + files.new_settings
        self.unwanted.update((path, None) for path in filter(self._may_be_written, unmaskable))
        for path in filter(self._may_be_written, files.pointers):
            self.kept[path] = UnheldEntry(path=path, content=_content(path))

    def _watch(self, path: str) -> None:
        """Leaves settings open as long as it can be told afterwards what they were."""
        if not self._may_be_written(path):
            return
        if not os.path.lexists(path):
            self.watched[path] = WatchedGitSettings(path=path, content=None)
            return
        content = None if os.path.islink(path) else _whole(path)
        if content is None:
            self.add(path)
        else:
            self.watched[path] = WatchedGitSettings(path=path, content=content)

    def held(self) -> list[str]:
        """The folders on the way to what is protected: whoever moves one of them away moves the protection with it."""
        seen = set[str]()
        for path in (*self.read_only, *self.absent):  # beside what is filled there are hooks, which are held
            for parent in _parents(path):
                if parent in seen or not any(
                    parent != folder and is_beneath(parent, folder) for folder in self._writable
                ):
                    break
                self._folders[parent] = None
                seen.add(parent)
        return [path for path in self._folders if path not in self.read_only and path not in self._writable]

    def _may_be_written(self, path: str) -> bool:
        return path not in self._opened and is_beneath_any(path, self._writable)


def _status(path: str) -> os.stat_result | None:
    """What stands there itself, be it a link; None if nothing does."""
    try:
        return os.lstat(path)
    except OSError:
        return None


def _policy_files(folder: str, home: str) -> Iterator[str]:
    """What programs obey at the top of a writable folder: everything that is there, the most important if it is not."""
    for name in ALWAYS_PROTECTED:
        yield os.path.join(folder, name)
    if home == folder:
        for name in HOME_START_UP_FILES:
            yield os.path.join(folder, name)
    yield from _policy_files_in(folder)


def _policy_files_in(folder: str) -> Iterator[str]:
    """What programs obey at the top of a folder."""
    for name in _names(folder):
        if name.lower() in POLICY_PARENTS:
            below = (f"{name}/{child}" for child in _names(os.path.join(folder, name)))
            yield from (os.path.join(folder, path) for path in below if is_held_file(path))
        elif name != ".git" and is_held_file(name):
            yield os.path.join(folder, name)


def _policy_files_between(folder: str, cwd: str) -> Iterator[str]:
    """The same in the folders from a writable one down to where the command starts."""
    if cwd != folder and is_beneath(cwd, folder):
        for between in (cwd, *_parents(cwd)):
            if between == folder:
                return
            yield from _policy_files_in(between)


def _agreed(paths: Iterable[str], folders: Sequence[str]) -> Iterator[str]:
    """What is held at the top of a folder and was agreed to; git's own files and Bridle's are never opened so."""
    for path in paths:
        for folder in folders:
            if path != folder and is_beneath(path, folder):
                names = os.path.relpath(path, folder).split("/")
                if names[0] != ".bridle" and ".git" not in names:
                    yield path
                    yield os.path.join(folder, *names[: 2 if names[0].lower() in POLICY_PARENTS else 1])


def _socket_names(place: HostContext, home: str) -> list[str]:
    """Where sockets of other programs may be."""
    named = [place.env.get("XDG_RUNTIME_DIR", "")]
    if socket := place.env.get("SSH_AUTH_SOCK", ""):
        named.append(os.path.dirname(socket))
    if (docker := place.env.get("DOCKER_HOST", "")).startswith("unix://"):
        named.append(os.path.dirname(docker.removeprefix("unix://")))
    return [*SOCKET_FOLDERS, *filter(os.path.isabs, named), *_sockets_in(home)]


def _of_others(
    place: HostContext,
    folders: Sequence[str],
    repositories: Iterable[GitPlaces],
    home: str,
    real: Callable[[str], str],
) -> list[str]:
    """The environment files of other projects. What is in the repository of a session's folder is no other one."""
    if place.others is None:
        return []
    own = [*folders, *(git.top for git in repositories if git.ours and not is_beneath(home, git.top))]
    named = place.others.secrets(folders)
    found = _existing(named, real)
    return [
        path for path in found if not is_beneath_any(path, own) and (path in named or _may_be_hidden(path))
    ]


def _may_be_hidden(path: str) -> bool:
    """Whether a link of a stranger may have this hidden: no folder, no device, nothing that programs are made of."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)) and not is_beneath_any(path, _OF_THE_SYSTEM)


def _socket_folders(place: HostContext, home: str, real: Callable[[str], str]) -> list[str]:
    found = _existing(_socket_names(place, home), real)
    # A socket right in the home or in a folder of the system cannot be had without the rest.
    too_wide = {"/", home, "/usr", "/etc", "/var", "/home"}
    return [path for path in found if path not in too_wide and os.path.isdir(path)]


@functools.lru_cache(maxsize=8)
def _sockets_in(home: str) -> tuple[str, ...]:
    return tuple(os.path.join(home, path) for path in SOCKETS_IN_HOME)


def _asked(paths: Iterable[str], workspace: str) -> tuple[list[str], list[str]]:
    """Where the folders lead that are to be writable, and those that are left out."""
    named = [os.path.join(workspace, path) for path in paths]
    changeable = {workspace, *map(follow_links, named)}
    found, left_out = list[str](), list[str]()
    for path in named:
        if os.path.exists(path) and not _is_led_by_a_command(path, changeable):
            found.append(follow_links(path))
        else:
            left_out.append(os.path.normpath(path))
    return _unique(found), _unique(left_out)


def _is_led_by_a_command(path: str, changeable: Iterable[str]) -> bool:
    """Whether one of the links on the way stands where commands may write, so that any of them may have made it."""
    at = "/"
    to_go = path.split("/")[::-1]
    for _ in range(_MAX_STEPS):
        if not to_go:
            return False
        there = os.path.normpath(os.path.join(at, to_go.pop()))  # free of links but for the last one
        if not os.path.islink(there):
            at = there
        elif is_beneath_any(at, changeable):
            return True
        else:
            link = os.readlink(there)
            to_go += link.split("/")[::-1]
            at = "/" if link.startswith("/") else at
    return True


def real_path(path: str) -> str:
    """Where a path leads. The kernel knows for what is there; walking it by hand takes a call per name."""
    try:
        return find(path, "/").path if path.startswith("/") else follow_links(path)
    except PathRefused:
        return follow_links(path)


def _absolute(paths: Iterable[str], workspace: str) -> list[str]:
    return [follow_links(os.path.join(workspace, path)) for path in paths]


def _on_one_file_system(one: str, other: str) -> bool:
    """Whether a hard link can lead from one folder to the other, which need not be there yet."""
    while not os.path.isdir(other):
        other = os.path.dirname(other)
    return os.stat(one).st_dev == os.stat(other).st_dev


def _made(folder: str) -> str:
    return real_path(private_folder(folder))


def _content(path: str) -> bytes:
    try:
        return read_limited(path, _MAX_KEPT_BYTES).data
    except OSError as problem:
        if is_scarce(problem):
            raise
        return b""


def _whole(path: str) -> bytes | None:
    try:
        contents = read_limited(path, MAX_CONFIG_BYTES)
    except OSError:
        return None
    return None if contents.truncated else contents.data


def _existing(paths: Iterable[str], real: Callable[[str], str]) -> list[str]:
    """Where they lead, each once; those that lead nowhere are left out."""
    return _unique(found for path in paths if (found := _leads_to(path, real)))


def _leads_to(path: str, real: Callable[[str], str]) -> str:
    """Where a path leads; empty if nowhere. What is no link itself is where its folder is, which others ask for too."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return ""
    folder, name = os.path.split(path)
    if stat.S_ISLNK(status.st_mode) or name in {"", ".", ".."}:
        return find(path, "/").path if os.path.exists(path) else ""
    return os.path.join(real(folder), name)


def _unique(paths: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(paths))


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError as problem:
        if is_scarce(problem):
            raise
        return []


def _parents(path: str) -> Iterator[str]:
    while (parent := os.path.dirname(path)) != path:
        yield parent
        path = parent
