"""Bringing a bundle here: copied from a folder, or fetched with git, file by file. Nothing of it runs.

Of a repository the stored content is read, never a checkout: no hook, filter, attribute, submodule or link takes part.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Awaitable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

import msgspec

from bridle.base.fs.files import private_folder
from bridle.base.git.git_calls import (
    GitCall,
    GitRefused,
    RemotePlace,
    clean_environment,
    fetch_calls,
    fetched_call,
    remote_place,
)
from bridle.base.process.processes import CompletedProgram
from bridle.base.secrets.redact import redact
from bridle.base.text.terminal_text import visible_line
from bridle.config.bundle_contents import (
    MAX_BYTES,
    MAX_FILE_BYTES,
    MAX_FILES,
    BadBundle,
    BundleContents,
    BundleFile,
    bundle_files,
    read_bundle,
)
from bridle.config.bundles import BundleRecord, bundles_folder, read_records, write_records
from bridle.config.problems import shown

FETCH_S: Final = 120.0
_GIT_WORDS: Final = 200
_INCOMING: Final = ".incoming-"
_LIST_BYTES: Final = 1024 * 1024


class RunGit(Protocol):
    """Runs a call to its end in a folder; at most `max_bytes` of its output are kept."""

    def __call__(
        self, call: GitCall, *, cwd: str, stdin: bytes | None, max_bytes: int
    ) -> Awaitable[CompletedProgram]: ...


class BundleOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a bundle comes from: a folder, or a repository and a version of it."""

    source: str
    remote: RemotePlace | None = None
    ref: str = ""


class IncomingBundle(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle that lies in a folder of ours and counts for nothing yet. `commit` is that of a repository."""

    folder: str
    contents: BundleContents
    origin: BundleOrigin
    commit: str = ""

    def record(self, now_ms: int) -> BundleRecord:
        return BundleRecord(
            name=self.contents.name,
            digest=self.contents.digest,
            source=self.origin.source,
            kind="git" if self.origin.remote is not None else "path",
            ref=self.origin.ref,
            commit=self.commit,
            version=self.contents.version,
            added_ms=now_ms,
        )


def bundle_origin(source: str, ref: str, *, cwd: str) -> BundleOrigin:
    """What somebody means by a path or an address. Raises `BadBundle`."""
    remote = remote_place(source)
    if remote is not None:
        return BundleOrigin(source=source, remote=remote, ref=ref or "HEAD")
    if "://" in source or "::" in source:
        raise BadBundle("a repository is named by https, ssh or file, without a password in it")
    if ref:
        raise BadBundle("--ref is for repositories; a folder is taken as it is")
    path = os.path.realpath(os.path.join(cwd, os.path.expanduser(source)))
    if not os.path.isdir(path):
        raise BadBundle(f"there is no folder {shown(source)}")
    return BundleOrigin(source=path)


@contextmanager
def incoming_folder(data_folder: str) -> Generator[str]:
    """An empty folder beside the installed bundles, gone afterwards."""
    folder = private_folder(bundles_folder(data_folder))
    with tempfile.TemporaryDirectory(prefix=_INCOMING, dir=folder) as incoming:
        yield incoming


async def bring(origin: BundleOrigin, incoming: str, run_git: RunGit) -> IncomingBundle:
    """Copies or fetches a bundle into a folder of ours and reads it there. Raises `BadBundle`."""
    target, commit = os.path.join(incoming, "tree"), ""
    os.mkdir(target, 0o700)
    if origin.remote is None:
        files: Iterator[BundleFile] = bundle_files(origin.source)
    else:
        repository = os.path.join(incoming, "repository")
        os.mkdir(repository, 0o700)
        commit, files = await _fetched(origin.remote, origin.ref, repository, run_git)
    _write(files, target)
    return IncomingBundle(folder=target, contents=read_bundle(target), origin=origin, commit=commit)


def keep(incoming: IncomingBundle, data_folder: str, now_ms: int) -> BundleRecord:
    """Makes it one of the installed bundles, in the place of another version of it. Raises `OSError`."""
    record = incoming.record(now_ms)
    folder = bundles_folder(data_folder)
    before = read_records(data_folder)
    place = os.path.join(folder, record.folder_name)
    shutil.rmtree(place, ignore_errors=True)
    os.rename(incoming.folder, place)
    write_records(data_folder, (*(one for one in before if one.name != record.name), record))
    for one in before:
        if one.name == record.name and one.folder_name != record.folder_name:
            shutil.rmtree(os.path.join(folder, one.folder_name), ignore_errors=True)
    return record


def take_out(name: str, data_folder: str) -> bool:
    """Takes a bundle out of the list, and its files away; False where there is none of this name."""
    before = read_records(data_folder)
    gone = [one for one in before if one.name == name]
    if gone:
        write_records(data_folder, tuple(one for one in before if one.name != name))
        for one in gone:
            shutil.rmtree(os.path.join(bundles_folder(data_folder), one.folder_name), ignore_errors=True)
    return bool(gone)


def _write(files: Iterator[BundleFile], target: str) -> None:
    for file in files:
        path = os.path.join(target, file.path)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o700 if file.executable else 0o600
        )
        with os.fdopen(fd, "wb") as written:
            written.write(file.data)


# Of a repository


async def _fetched(
    remote: RemotePlace, ref: str, repository: str, run_git: RunGit
) -> tuple[str, Iterator[BundleFile]]:
    try:
        calls = fetch_calls(remote, ref)
    except GitRefused as refused:
        raise BadBundle(str(refused)) from None
    for call in calls:
        await _ran(run_git, call, repository, max_bytes=_LIST_BYTES)
    commit = (
        await _ran(run_git, fetched_call("rev-parse", "--verify", "FETCH_HEAD^{commit}"), repository)
    ).strip()
    listed = await _ran(
        run_git, fetched_call("ls-tree", "-r", "-z", "-l", commit.decode()), repository, max_bytes=_LIST_BYTES
    )
    entries = _entries(listed)
    wanted = b"".join(digest + b"\n" for _, digest, _ in entries)
    stored = await _ran(
        run_git,
        fetched_call("cat-file", "--batch"),
        repository,
        stdin=wanted,
        max_bytes=MAX_BYTES + _LIST_BYTES,
    )
    return commit.decode(), _blobs(stored, entries)


def _entries(listed: bytes) -> list[tuple[str, bytes, bool]]:
    """The path, the digest and whether it can be started, of every file. Raises `BadBundle`."""
    found: list[tuple[str, bytes, bool]] = []
    total = 0
    for line in filter(None, listed.split(b"\0")):
        head, _, raw_path = line.partition(b"\t")
        mode, _, digest, size = head.split()
        path = os.fsdecode(raw_path)
        if mode not in (b"100644", b"100755"):
            what = "another repository" if mode == b"160000" else "a link"
            raise BadBundle(f"{shown(path)} is {what}, and a bundle has none")
        parts = path.split("/")
        if os.path.isabs(path) or any(part in ("", ".", "..", ".git") for part in parts):
            raise BadBundle(f"{shown(path)} is no path of a bundle")
        total += int(size)
        if int(size) > MAX_FILE_BYTES or total > MAX_BYTES or len(found) >= MAX_FILES:
            raise BadBundle(f"it is too large at {shown(path)}")
        found.append((path, digest, mode == b"100755"))
    return found


def _blobs(stored: bytes, entries: Sequence[tuple[str, bytes, bool]]) -> Iterator[BundleFile]:
    at = 0
    for path, digest, executable in entries:
        end = stored.index(b"\n", at)
        named, kind, size = stored[at:end].split()
        if named != digest or kind != b"blob":
            raise BadBundle(f"{shown(path)} is not stored as a file")
        begin, at = end + 1, end + 1 + int(size) + 1
        yield BundleFile(path=path, data=stored[begin : at - 1], executable=executable)


def _what_git_says(error: bytes) -> str:
    """The line that tells what failed: the first that git or ssh means so, else the last one."""
    lines = [line.strip() for line in error.decode("utf-8", "replace").splitlines() if line.strip()]
    fatal = [line.removeprefix("fatal: ") for line in lines if line.startswith(("fatal: ", "ssh: "))]
    told = (fatal or lines[-1:] or [""])[0]
    return visible_line(redact(told))[:_GIT_WORDS].rstrip(".")


async def _ran(
    run_git: RunGit, call: GitCall, cwd: str, *, stdin: bytes | None = None, max_bytes: int = 4096
) -> bytes:
    ended = await run_git(call, cwd=cwd, stdin=stdin, max_bytes=max_bytes)
    if ended.timed_out:
        raise BadBundle(f"git took longer than {FETCH_S:g} s")
    if ended.returncode != 0:
        raise BadBundle(f"git says: {_what_git_says(ended.error) or f'exit {ended.returncode}'}")
    if ended.truncated:
        raise BadBundle("it is too large")
    return ended.output


def git_environment(env: Mapping[str, str], call: GitCall) -> dict[str, str]:
    return {**clean_environment(env), **call.variables}
