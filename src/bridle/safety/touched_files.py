"""The files a call touches, looked for on the disk: inside the session's folders or not, secret, private, or obeyed by
later runs. Changes nothing.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import NamedTuple

import msgspec

from bridle.base.fs.paths import (
    GLANCE_DEPTH,
    MAX_GLANCED,
    NOT_OURS,
    PathRefused,
    PathTarget,
    SessionFolders,
    find,
    is_beneath_any,
    is_inside_same_folder,
    second_names,
)
from bridle.base.fs.private_places import PrivatePlaces
from bridle.base.secrets.secret_files import SECRET_FILES, SECRET_NAMES, is_policy_file, is_secret_like
from bridle.shell.classification import ENDLESS
from bridle.shell.command_facts import FilesBelow, Part, PathUse

MAX_MATCHES = 200
"""A pattern that means more files than this is about files nobody knows."""
_NO_FILE = re.compile(r"/dev/(?:null|zero|full|u?random|tty|std(?:in|out|err)|fd/\d+)")
_PIECES = re.compile(r"[=:,@]")
_ADDRESS = re.compile(r"\b(?!fileb?:)[a-z][a-z0-9+.-]*://\S*")
_SEARCHING = frozenset({"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "diff"})
"""Programs that show what files below a folder hold, which no other harmless one does by itself."""
_LISTING = frozenset({"find", "fd", "fdfind", "ls", "locate", "plocate", "mlocate", "mdfind"})
_LISTING_ALL = frozenset({"locate", "plocate", "mlocate", "mdfind"})
"""Programs that print names of files, the last of them from all over the machine."""
_COPY_FOLDERS = frozenset({"cp", "tar", "bsdtar", "zip", "7z", "rsync", "scp", "rclone"})
MAX_WALKED = 20_000
MAX_INDEX_BYTES = 16 * 1024 * 1024
"""How many files a search is followed through; where there are more, which ones it finds is not known."""
_ODD_NAME = re.compile(r"[\s'\"\\\x00-\x20\x7f-\xa0]")
_SPLITS = re.compile(r"[\s*?\[\\]")
_RECURSIVE = re.compile(r"-[A-Za-z]*[rR]|--(?:dereference-)?recursive$|--directories=recurse$")
_SHOWS_HIDDEN = re.compile(r"-[A-Za-z]*(?:\.|uu|U|a)|--(?:hidden|unrestricted|no-ignore|all)")
_SEARCH_FILTERS = frozenset({"--include", "--glob", "--iglob", "-g"})
_PUBLIC = ("/usr", "/etc/ssl/certs", "/etc/pki/tls/certs", "/nix/store", "/snap")
"""Where a system keeps what everybody may read: a `.pem` there is a certificate."""
POLICY_FLAG = "--allow-policy-changes"
UNSANDBOXED_FLAG = "--allow-unsandboxed"


class PathName(msgspec.Struct, frozen=True, kw_only=True):
    """A file as rules see it: absolute, and relative when it is in the workspace."""

    absolute: str
    relative: str | None = None

    @property
    def shown(self) -> str:
        return self.relative or self.absolute


class Lifted(msgspec.Struct, frozen=True, kw_only=True):
    """Questions for a person alone that one has answered for a whole run, each by a flag of its own.

    What is left of the call is judged as any other: by rules, the mode and `-y`.
    """

    policy_changes: bool = False
    unsandboxed: bool = False

    def used(self, *, changes_policy: bool, escalates: bool = False) -> tuple[str, ...]:
        """The flags without which such a call would be asked about."""
        policy, escape = self.policy_changes and changes_policy, self.unsandboxed and escalates
        return (UNSANDBOXED_FLAG,) * escape + (POLICY_FLAG,) * policy


NOTHING_LIFTED = Lifted()


class _Seen(NamedTuple):
    """A file as it was found: its absolute names, and what is to be said about it."""

    names: tuple[str, ...]
    outside: bool
    secret: bool
    private: bool


class SessionPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """Where calls are made: the session's folders, Bridle's own, which are nobody's business, and what is secret."""

    folders: SessionFolders
    protected: tuple[str, ...] = ()
    secret_files: tuple[str, ...] = SECRET_FILES
    lifted: Lifted = NOTHING_LIFTED
    private: PrivatePlaces | None = None

    def holds_secrets(self, *names: str) -> bool:
        """Whether one of a file's names looks like it holds secrets."""
        return any(is_secret_like(name, self.secret_files) for name in names)

    def may_call_a_secret(self, word: str) -> bool:
        """Whether a name, also one with wildcards behind its beginning, fits what files with secrets are called."""
        name = word.replace("\\", "").rstrip("$")
        if self.holds_secrets(name):
            return True
        wild = re.search(r"[*?[]", name)
        return (
            wild is not None
            and wild.start() >= 2
            and any(fnmatchcase(secret, name) for secret in SECRET_NAMES)
        )

    def is_second_name(self, path: str) -> bool:
        """Whether a file has another name in a private place."""
        return self.private is not None and self.private.hold_second_name(target_of(path).status)

    def seen(self, written: str, cwd: str, target: PathTarget) -> _Seen:
        """What there is to know of a file that was written so in `cwd` and leads there. A hard link has several names.

        Private is what is in a private place, and what looks secret outside the session's folders.
        """
        names = (written, target.path)
        linked = target.status is not None and target.status.st_nlink > 1
        if linked:
            names += tuple(second_names(target, self.folders.workspace))
        outside = self.folders.place(target.path) == "outside"
        secret = self.holds_secrets(*names)
        private = secret and outside and not is_beneath_any(target.path, _PUBLIC)
        if (places := self.private) is not None and not private:
            if outside or not places.inside_is_clear:
                named = os.path.join(cwd, written)
                private = places.hold(target.path)
                private = private or (named != target.path and places.hold(os.path.normpath(named)))
            private = private or (linked and places.hold_second_name(target.status))
        return _Seen(names[1:], outside, secret or private, private)

    def name(self, resolved: str) -> PathName:
        inside = self.folders.place(resolved) == "workspace"
        return PathName(absolute=resolved, relative=self.folders.shown(resolved) if inside else None)

    def are_policy(self, names: Iterable[str]) -> bool:
        """Whether one of a file's absolute names is one that later runs obey."""
        return any(is_policy_file(self.folders.shown(name)) for name in names)

    def is_ours(self, resolved: str) -> bool:
        return is_inside_same_folder(resolved, self.protected)


class TouchedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file a command is known to touch: where it really is (None: not known), and what is to be said about it."""

    access: str
    resolved: str | None
    outside: bool = False
    secret: bool = False
    private: bool = False
    policy: bool = False
    harmless: bool = False


def target_of(resolved: str) -> PathTarget:
    try:
        return PathTarget(resolved, os.lstat(resolved))
    except OSError:
        return PathTarget(resolved, None)


def touched_files(part: Part, cwd: str, place: SessionPlaces) -> Iterator[TouchedFile]:
    for use in part.uses:
        if use.below is not None and use.path is not None:
            yield from _found(use, use.path, use.below, cwd, place)
            continue
        for path in _meant(use, cwd):
            yield _file(path, use, cwd, place)
    program = (part.words[0] or "").rpartition("/")[2] if part.words else ""
    if program in _SEARCHING or (program == "git" and "--no-index" in part.words):
        sought = [*_sought(part.words)]
        secret = any(place.holds_secrets(name) or fnmatchcase(".env", name) for name in sought)
        secret = secret or (not sought and _comes_by_secrets(part, program, cwd, place))
        roots = _searched(part, cwd)
        private = place.private is not None and place.private.lie_below(roots)
        if secret or private or _searches_ours(roots, place):
            yield TouchedFile(access="read", resolved=None, secret=secret or private, private=private)
    elif (
        part.command_class != "read_only"
        and place.private is not None
        and _hands_on_private(part, program, cwd, place.private)
    ):
        yield TouchedFile(access="read", resolved=None, secret=True, private=True)


def seeks_secrets(parts: Sequence[Part], cwd: str, place: SessionPlaces) -> bool:
    """Whether a command says where a secret is that is not of this folder, or tells a search elsewhere its name."""
    goes_elsewhere = False
    called = False
    for part in parts:
        words = [word for word in part.words if word is not None]
        program = words[0].rpartition("/")[2] if words else ""
        for word in words[1:]:
            if (
                "/" in word
                and place.seen(word, cwd, target_of(os.path.normpath(os.path.join(cwd, word)))).private
            ):
                return True
        if program in _LISTING:
            goes_elsewhere = goes_elsewhere or program in _LISTING_ALL or _is_outside(part, cwd, place)
            called = called or any(map(place.may_call_a_secret, words[1:]))
            called = called or (
                (places := place.private) is not None
                and any(places.may_be_found(folder, words[1:]) for folder in _searched(part, cwd))
            )
        elif program in _SEARCHING:
            goes_elsewhere = goes_elsewhere or _is_outside(part, cwd, place)
            hidden = (
                f".{word.lstrip('^.')}" for word in words[1:] if word.isascii() and not word.startswith("-")
            )
            called = called or any(map(place.may_call_a_secret, (*_sought(part.words), *hidden)))
    return goes_elsewhere and called


def _is_outside(part: Part, cwd: str, place: SessionPlaces) -> bool:
    return any(place.folders.place(folder) == "outside" for folder in _searched(part, cwd))


def _sought(words: Sequence[str | None]) -> Iterator[str]:
    """The names of the files that a search is limited to, as its options have them; those it leaves out are not."""
    for word, following in zip(words, (*words[1:], None), strict=True):
        option, equals, value = (word or "").partition("=")
        if option in _SEARCH_FILTERS:
            name = value if equals else following or ""
        elif option.startswith("-g"):
            name = option.removeprefix("-g")
        else:
            continue
        if not name.startswith("!"):
            yield name.rpartition("/")[2]


def _searches_ours(roots: set[str], place: SessionPlaces) -> bool:
    """Whether a search through folders may come by Bridle's own: nobody runs Bridle in their home folder for that."""
    return any(is_beneath_any(os.path.realpath(folder), roots) for folder in place.protected)


def _searched(part: Part, cwd: str) -> set[str]:
    named = (os.path.join(cwd, use.path) for use in part.uses if use.path is not None)
    return set(map(os.path.realpath, named)) or {cwd}


def _comes_by_secrets(part: Part, program: str, cwd: str, place: SessionPlaces) -> bool:
    """Whether a search through folders would show what a file holds that looks like it holds secrets.

    Only so far as a glance goes: dependencies and deep folders are not looked through.
    """
    options = [word for word in part.words if word is not None and word.startswith("-")]
    skips_hidden = program in ("rg", "ag") and not any(_SHOWS_HIDDEN.match(option) for option in options)
    if program not in ("rg", "ag", "git") and not any(_RECURSIVE.match(option) for option in options):
        return False
    roots = {cwd} if program == "git" else _searched(part, cwd)
    return any(_holds_a_secret(root, place, skips_hidden=skips_hidden) for root in roots)


def _holds_a_secret(root: str, place: SessionPlaces, *, skips_hidden: bool) -> bool:
    folders, left = [(root, 0)], MAX_GLANCED
    while folders:
        folder, depth = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return False
                    if skips_hidden and entry.name.startswith("."):
                        continue
                    if not entry.is_dir(follow_symlinks=False):
                        if place.holds_secrets(entry.path) or place.is_second_name(entry.path):
                            return True
                    elif depth < GLANCE_DEPTH and entry.name not in NOT_OURS and entry.name != ".git":
                        folders.append((entry.path, depth + 1))
        except OSError:
            continue
    return False


def tracked_files(folder: str) -> list[str] | None:
    """What git knows of a repository, from its index; None where that is not read here, or lies elsewhere."""
    try:
        with open(f"{folder}/.git/index", "rb") as file:
            data = file.read(MAX_INDEX_BYTES)
        if data[:4] != b"DIRC" or data[4:8] not in (b"\0\0\0\2", b"\0\0\0\3") or len(data) == MAX_INDEX_BYTES:
            return None
        found: list[str] = []
        at = 12
        for _ in range(int.from_bytes(data[8:12], "big")):
            start = at + (64 if data[at + 60] & 0x40 else 62)
            end = data.index(b"\0", start)
            found.append(os.fsdecode(data[start:end]))
            at += (end - at + 8) // 8 * 8
    except (OSError, ValueError, IndexError):
        return None
    return None if b"link" in data[at:] or b"sdir" in data[at:] else found


def _found(
    use: PathUse, path: str, below: FilesBelow, cwd: str, place: SessionPlaces
) -> Iterator[TouchedFile]:
    """The folder a search goes through, and what it may find there that is not simply a file of that folder.

    Links, what looks like it holds secrets, and names that would be read as something else.
    """
    folder = _file(path, use, cwd, place)
    yield folder
    if folder.resolved is None:
        return
    if (
        folder.outside
        and place.private is not None
        and place.private.may_be_found(folder.resolved, below.names)
    ):
        yield TouchedFile(access=use.access, resolved=None, secret=True, private=True)
    if not folder.harmless:
        return

    @functools.cache
    def leads_elsewhere(parent: str) -> bool:
        return os.path.realpath(parent) != parent

    root = folder.resolved
    tracked = tracked_files(root) if below.tracked else None
    names = (
        _names_below(root, hidden=below.hidden) if tracked is None else ((name, False) for name in tracked)
    )
    for count, (name, is_folder) in enumerate(names):
        last = name.rpartition("/")[2]
        fits = not below.names or any(fnmatchcase(last.lower(), wanted.lower()) for wanted in below.names)
        odd = use.split and (fits or is_folder) and _is_odd(name, expanded=below.expanded)
        if count >= MAX_WALKED or odd or (below.bare and name.startswith("-")):
            yield TouchedFile(access=use.access, resolved=None)
            return
        path = f"{root}/{name}"
        beside = tracked is not None and leads_elsewhere(os.path.dirname(path))
        if fits and not is_folder and (beside or os.path.islink(path) or place.holds_secrets(path)):
            yield _file(path, use, cwd, place)
        elif fits and not is_folder and place.is_second_name(path):
            yield TouchedFile(access=use.access, resolved=path, secret=True, private=True)


def _is_odd(name: str, *, expanded: bool) -> bool:
    """Whether a name becomes another, or several, on its way from one program to the next."""
    return _ODD_NAME.search(name) is not None or (expanded and _SPLITS.search(name) is not None)


def _names_below(root: str, *, hidden: bool) -> Iterator[tuple[str, bool]]:
    """Everything below a folder, relative to it, and whether it is a folder; links are not followed."""
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(f"{root}/{folder}") as entries:
                for entry in entries:
                    if not hidden and entry.name.startswith("."):
                        continue
                    is_folder = entry.is_dir(follow_symlinks=False)
                    yield folder + entry.name, is_folder
                    if is_folder:
                        folders.append(f"{folder}{entry.name}/")
        except OSError:
            continue


def _meant(use: PathUse, cwd: str) -> Sequence[str | None]:
    """The files a command means by a name: one, those a pattern fits now, or nobody knows which."""
    if use.path is None or not use.pattern:
        return (use.path,)
    from glob import iglob

    try:
        found = list(islice(iglob(use.path, root_dir=cwd), MAX_MATCHES + 1))
    except (OSError, ValueError, re.error):
        return (None,)
    if len(found) > MAX_MATCHES or (use.split and any(map(_SPLITS.search, found))):
        return (None,)
    return (use.path, *found)


def _file(path: str | None, use: PathUse, cwd: str, place: SessionPlaces) -> TouchedFile:
    if path is None:
        return TouchedFile(access=use.access, resolved=None)
    if use.access != "delete" and _NO_FILE.fullmatch(path) and (use.access != "read" or path not in ENDLESS):
        return TouchedFile(access=use.access, resolved=path, harmless=True)
    try:
        target = find(path, cwd)
    except PathRefused:
        return TouchedFile(access=use.access, resolved=None)
    resolved = target.path
    changes = use.access in ("write", "delete")
    seen = place.seen(path, cwd, target)
    ours = place.is_ours(resolved)
    return TouchedFile(
        access=use.access,
        resolved=resolved,
        outside=seen.outside,
        secret=seen.secret,
        private=seen.private,
        policy=changes and (ours or place.are_policy(seen.names)),
        harmless=not (changes or seen.outside or seen.secret or ours),
    )


def leads_out(part: Part, cwd: str, place: SessionPlaces) -> bool:
    """Whether a word, or what stands behind an option, may be a path outside, a secret or what later runs obey."""
    pieces = _pieces(part.words[len((part.key or "").split()) :])
    return any(_is_elsewhere(piece, cwd, place) for piece in pieces if piece not in ("", ".", "./..."))


def _pieces(words: Iterable[str | None]) -> set[str]:
    """The words, and what may be a path in them; one that is not known may be any."""
    pieces: set[str] = set()
    for word in words:
        text = word or "/"
        if text.startswith("-"):
            text = text.partition("=")[2] if text.startswith("--") else text[2:]
        pieces.add(text)
        if _PIECES.search(text):
            pieces.update(_PIECES.split(_ADDRESS.sub("", text)))
    return pieces


def _hands_on_private(part: Part, program: str, cwd: str, places: PrivatePlaces) -> bool:
    """Whether a program that is not known to only read is given a private place, or all of a folder that has one."""
    leading = [word for word in part.words[1:] if word is not None and ("/" in word or ".." in word)]
    if not leading and places.inside_is_clear:
        return False  # no other word leads out of the folder
    words = leading if places.inside_is_clear else part.words[1:]
    named = {os.path.normpath(os.path.join(cwd, piece)) for piece in _pieces(words) if piece}
    return any(map(places.hold, named)) or (program in _COPY_FOLDERS and places.lie_below(named - {"/"}))


def _is_elsewhere(path: str, cwd: str, place: SessionPlaces) -> bool:
    if path.startswith("~") or is_policy_file(path) or place.holds_secrets(path):
        return True
    first, *rest = path.removeprefix("./").split("/")
    if first and ".." not in (first, *rest) and not os.path.lexists(os.path.join(cwd, first)):
        return False  # no link leads anywhere from what is not there
    try:
        resolved = find(path, cwd).path
    except PathRefused:
        return True
    return (
        place.folders.place(resolved) == "outside"
        or place.is_ours(resolved)
        or is_policy_file(place.name(resolved).shown)
    )
