"""Describe a repository: its root, branch and changes.

Nothing here starts a process: `start` does, which the caller gives. Files that go through a filter are looked at only
where something encloses the call: filters are programs.

GitFailed      reason: NotARepository, NoGit, FiltersConfigured, InUse, TooSlow, Failed
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from bridle.base.git.git_calls import GitCall, compose, is_plain_filter_name
from bridle.base.git.git_status import GitStatus, parse_status
from bridle.base.process.processes import CannotStart

Reason = Literal["NotARepository", "NoGit", "FiltersConfigured", "InUse", "TooSlow", "Failed"]

_FILTERS = r"^filter\..*\.(clean|smudge|process)$"
_EMPTY_TREES = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_FILTERED = "git hands files of this repository to a program ({}), and no sandbox holds it here"
_ERROR_BYTES = 4_000
_MAX_LISTED = 100_000_000
_NONE_FOUND = 1
_HEADING = "diff --git "


class GitFailed(Exception):
    """Git could not be asked, or did not answer. `problem` is a person's sentence without its full stop."""

    def __init__(self, reason: Reason, problem: str) -> None:
        super().__init__(problem)
        self.reason: Reason = reason
        self.problem = problem


class RunningGit(Protocol):
    """A started process, as far as it is needed here."""

    async def wait(self) -> int: ...
    async def stop(self, grace_s: float = 0.3) -> None: ...


class GitStart(NamedTuple):
    """A git that is to be started in `cwd`, its environment cleaned (`git.clean_environment`) with `variables` over it.
    `enclosed`: it must not start where nothing would keep a program it runs from doing harm."""

    argv: Sequence[str]
    cwd: str
    variables: Mapping[str, str]
    on_output: Callable[[bytes], None]
    on_error: Callable[[bytes], None]
    enclosed: bool


StartGit: TypeAlias = Callable[[GitStart], Awaitable[RunningGit]]
"""Raises `CannotStart`."""


class GitAnswer(NamedTuple):
    """`truncated`: it had more to say than was kept, and was stopped there."""

    returncode: int
    output: bytes
    error: bytes
    truncated: bool = False


async def run_git(
    call: GitCall, *, start: StartGit, cwd: str, timeout_s: float, max_bytes: int, enclosed: bool = False
) -> GitAnswer:
    """Runs one call to its end, or until `max_bytes` were read. Raises `CannotStart`, and `GitFailed` (`TooSlow`)."""
    output, error = bytearray(), bytearray()
    full = asyncio.Event()

    def read(chunk: bytes) -> None:
        output.extend(chunk[: max_bytes + 1 - len(output)])
        if len(output) > max_bytes:
            full.set()

    def read_error(chunk: bytes) -> None:
        error.extend(chunk[: _ERROR_BYTES - len(error)])

    process = await start(GitStart(call.argv, cwd, call.variables, read, read_error, enclosed))
    waiting = asyncio.ensure_future(process.wait()), asyncio.ensure_future(full.wait())
    try:
        await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        ended = waiting[0].done()
    finally:
        waiting[1].cancel()
        await process.stop()
    returncode = await waiting[0]
    if not ended and not full.is_set():
        raise GitFailed("TooSlow", f"git did not answer within {timeout_s:g} s")
    return GitAnswer(returncode, bytes(output[:max_bytes]), bytes(error), full.is_set())


class Commit(NamedTuple):
    """A commit and when it was made, in seconds since the epoch."""

    name: str
    made_s: int


class LinkedTree(NamedTuple):
    """A working tree of a repository. `note` is why it is locked; empty where it is not, or nobody said."""

    path: str
    branch: str = ""
    note: str = ""


class ChangedLines(NamedTuple):
    """How many lines of a file came and went; None where nobody can count them."""

    path: str
    added: int | None
    removed: int | None


class GitDiff(NamedTuple):
    """`truncated`: there is more than `text`, which ends with a whole line."""

    text: str
    truncated: bool = False


class Repository:
    """The repository around the folder `cwd`. Every method raises `GitFailed`."""

    def __init__(
        self,
        start: StartGit,
        *,
        cwd: str,
        program: str = "git",
        timeout_s: float = 20.0,
        max_bytes: int = 1_000_000,
    ) -> None:
        self._start = start
        self._cwd = cwd
        self._program = program
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes

    async def root(self) -> str:
        """The top folder of the working tree.

        Only one that begins here or further up, and has its own `.git`: a repository may claim any other folder as its
        working tree, and what it then calls a change is the content of somebody's files.
        """
        answer = await self._ask("rev-parse", options=("--show-toplevel",))
        root = os.fsdecode(answer.output).removesuffix("\n")
        if answer.returncode or not root:
            raise GitFailed("NotARepository", "this folder is not in a git repository")
        if not _is_around(root, self._cwd):
            raise GitFailed("NotARepository", "the repository here claims another folder as its own")
        return root

    async def git_folder(self) -> str:
        """Where git keeps what belongs to this working tree."""
        return os.fsdecode(
            _output(await self._ask("rev-parse", options=("--absolute-git-dir",)))
        ).removesuffix("\n")

    async def common_folder(self) -> str:
        """Where git keeps what all working trees of this repository share, resolved."""
        answer = await self._ask("rev-parse", options=("--git-common-dir",))
        common = os.fsdecode(_output(answer)).removesuffix("\n")
        return _resolved(self._cwd, common)

    async def head(self) -> str | None:
        """The commit that is checked out; None before the first one."""
        answer = await self._ask("rev-parse", options=("--verify", "--quiet"), names=("HEAD",))
        return answer.output.decode().strip() or None if answer.returncode == 0 else None

    async def commit(self, name: str) -> Commit | None:
        """The commit that a name stands for, a branch of a remote too, as this repository knows it."""
        answer = await self._ask("rev-parse", options=("--verify", "--quiet"), names=(f"{name}^{{commit}}",))
        found = answer.output.decode().strip()
        if answer.returncode or not found:
            return None
        options = ("--max-count=1", "--no-patch", "--format=tformat:%ct")
        told = _output(await self._ask("log", options=options, names=(found,))).decode().strip()
        return Commit(found, int(told) if told.isdigit() else 0)

    async def branch(self) -> str | None:
        """The branch that is checked out; None for a commit without one, and outside a repository."""
        answer = await self._ask("branch")
        return answer.output.decode("utf-8", "replace").strip() or None if answer.returncode == 0 else None

    async def is_ignored(self, path: str) -> bool:
        """Whether git leaves a path below `cwd` alone: what git ignores fits it, and git does not track it already."""
        answer = await self._ask("check-ignore", options=("--quiet",), paths=(path,))
        if answer.returncode not in (0, _NONE_FOUND):
            _output(answer)
        return answer.returncode == 0

    async def status(self, *, untracked: Literal["no", "normal", "all"] = "normal") -> GitStatus:
        """What is not as it was committed. Paths are relative to `root`."""
        await self.root()
        answer = await self._ask("status", options=(f"--untracked-files={untracked}",))
        if answer.truncated:
            raise GitFailed("Failed", "too many files changed to list them")
        return parse_status(_output(answer))

    async def diff(
        self, base: str = "HEAD", *, paths: Sequence[str] = (), max_bytes: int | None = None
    ) -> GitDiff:
        """What changed in the files git knows since `base`, staged or not; before the first commit, all of them."""
        await self.root()
        if base == "HEAD" and await self.head() is None:
            base = await self._empty_tree()
        answer = await self._ask(
            "diff", options=("--patch",), names=(base,), paths=paths, max_bytes=max_bytes
        )
        text = _output(answer).decode("utf-8", "replace")
        if answer.truncated:
            text = text[: text.rfind("\n") + 1]
        return GitDiff(_without_empty_entries(text), answer.truncated)

    async def diff_between(self, base: str, other: str, *, paths: Sequence[str], max_bytes: int) -> GitDiff:
        """What leads from one commit to another in these paths below `root`."""
        root = await self.root()
        inside = [os.path.join(root, path) for path in paths]
        answer = await self._ask(
            "diff",
            options=("--patch", "--no-renames"),
            names=(base, other),
            paths=inside,
            max_bytes=max_bytes,
        )
        text = _output(answer).decode("utf-8", "replace")
        return GitDiff(text[: text.rfind("\n") + 1] if answer.truncated else text, answer.truncated)

    async def changed_paths(self, base: str, other: str = "") -> tuple[str, ...]:
        """What differs between the working tree and `base`, or between it and `other`; an empty base has no files."""
        names = (base or await self._empty_tree(), *filter(None, [other]))
        answer = await self._ask("diff", options=("--name-only", "-z", "--no-renames"), names=names)
        if answer.truncated:
            raise GitFailed("Failed", "too many files changed to list them")
        return tuple(map(os.fsdecode, filter(None, _output(answer).split(b"\0"))))

    async def changed_lines(self, base: str, other: str = "") -> tuple[ChangedLines, ...]:
        """The same, with how much of each file."""
        options = ("--numstat", "-z", "--no-renames")
        answer = await self._ask("diff", options=options, names=(base, *filter(None, [other])))
        if answer.truncated:
            raise GitFailed("Failed", "too many files changed to list them")
        rows = (record.split(b"\t", 2) for record in _output(answer).split(b"\0") if record)
        return tuple(
            ChangedLines(os.fsdecode(path), _number(more), _number(less)) for more, less, path in rows
        )

    async def patch(self, base: str, other: str, *, max_bytes: int) -> bytes:
        """What leads from one commit to another, as `git apply` takes it, files that are no text too."""
        options = ("--binary", "--full-index", "--no-renames")
        answer = await self._ask("diff", options=options, names=(base, other), max_bytes=max_bytes)
        if answer.truncated:
            raise GitFailed("Failed", f"there is more to it than {max_bytes // 1_000_000} MB")
        return _output(answer)

    async def inner_repositories(self) -> tuple[str, ...]:
        """Folders that git takes for other repositories (submodules), from the top of the working tree."""
        options = ("--stage", "-z", "--full-name")
        answer = await self._ask("ls-files", options=options, max_bytes=_MAX_LISTED)
        if answer.truncated:
            raise GitFailed("Failed", "there are too many files to list them")
        records = (record.partition(b"\t") for record in _output(answer).split(b"\0"))
        return tuple(os.fsdecode(path) for facts, _, path in records if facts.startswith(b"160000 "))

    async def linked_trees(self) -> tuple[LinkedTree, ...]:
        """The working trees of this repository, the one it began with first."""
        answer = await self._ask("worktree")
        if answer.truncated:
            raise GitFailed("Failed", "there are too many working trees to list them")
        entries = os.fsdecode(_output(answer)).split("\0\0")
        return tuple(_linked_tree(entry) for entry in entries if entry)

    async def merge_base(self, one: str, other: str) -> str | None:
        """Where two commits parted; None if they never met."""
        answer = await self._ask("merge-base", names=(one, other))
        return answer.output.decode().strip() or None if answer.returncode == 0 else None

    async def remotes(self) -> frozenset[str]:
        """The names under which this repository knows others."""
        answer = await self._ask("config", names=(r"^remote\..*\.url$",))
        keys = [record.partition(b"\n")[0] for record in answer.output.split(b"\0")]
        return frozenset(os.fsdecode(key)[len("remote.") : -len(".url")] for key in keys if key)

    async def followed_remote(self) -> str:
        """Where the branch that is checked out gets its commits from: a name, an address, a dot for this repository."""
        key = f"branch.{await self.branch()}.remote\n"
        answer = await self._ask("config", names=(r"^branch\..*\.remote$",))
        records = map(os.fsdecode, answer.output.split(b"\0"))
        return "".join([record.removeprefix(key) for record in records if record.startswith(key)][-1:])

    async def default_branch(self, remote: str) -> str | None:
        """The branch that a remote begins with, as this repository knows it; None where it does not."""
        answer = await self._ask(
            "rev-parse", options=("--abbrev-ref", "--verify", "--quiet"), names=(f"{remote}/HEAD",)
        )
        name = answer.output.decode("utf-8", "replace").strip()
        return name.removeprefix(f"{remote}/") if answer.returncode == 0 and name else None

    async def subjects(self, count: int) -> tuple[str, ...]:
        """The first lines of the last commits, newest first; none before the first one."""
        options = (f"--max-count={count}", "--no-patch", "--format=tformat:%s")
        answer = await self._ask("log", options=options)
        return tuple(answer.output.decode("utf-8", "replace").splitlines()) if answer.returncode == 0 else ()

    async def hooks_folder(self, home: str) -> str:
        """Where git looks for the programs it runs on the way, had we not told it to look nowhere."""
        root = await self.root()
        answer = await self._ask("config", names=(r"^core\.hookspath$",))
        *theirs, _ours = [record.partition(b"\n")[2] for record in answer.output.split(b"\0") if record]
        if theirs:
            set_to = os.fsdecode(theirs[-1])
            return (
                os.path.join(root, home, set_to[2:])
                if set_to.startswith("~/")
                else os.path.join(root, set_to)
            )
        return os.path.join(await self.common_folder(), "hooks")

    async def filters(self) -> tuple[str, ...]:
        """The configured filters that the attributes give at least one file to."""
        return tuple([name for name in await self.configured_filters() if await self._has_files(name)])

    async def configured_filters(self) -> tuple[str, ...]:
        """The filters that settings name programs for, whether or not a file goes through them."""
        answer = await self._ask("config", names=(_FILTERS,))
        if answer.truncated or answer.returncode not in (0, _NONE_FOUND):
            raise GitFailed("Failed", "the settings of this repository cannot be read")
        keys = [record.partition(b"\n") for record in answer.output.split(b"\0")]
        names = {os.fsdecode(key)[len("filter.") :].rpartition(".")[0] for key, _, value in keys if value}
        return tuple(sorted(names))

    async def _has_files(self, name: str) -> bool:
        if not is_plain_filter_name(name):
            return True
        answer = await self._ask("ls-files", options=("-z",), filtered_by=name)
        return answer.returncode != 0 or bool(answer.output)

    async def _empty_tree(self) -> str:
        answer = await self._ask("rev-parse", options=("--show-object-format",))
        return _EMPTY_TREES.get(answer.output.decode().strip(), _EMPTY_TREES["sha1"])

    async def _ask(
        self,
        subcommand: str,
        *,
        options: Sequence[str] = (),
        names: Sequence[str] = (),
        paths: Sequence[str] = (),
        filtered_by: str | None = None,
        max_bytes: int | None = None,
    ) -> GitAnswer:
        call = compose(
            subcommand,
            options=options,
            names=names,
            paths=paths,
            filtered_by=filtered_by,
            program=self._program,
        )
        filters = await self.filters() if call.content else ()
        try:
            return await run_git(
                call,
                start=self._start,
                cwd=self._cwd,
                timeout_s=self._timeout_s,
                max_bytes=max_bytes or self._max_bytes,
                enclosed=bool(filters),
            )
        except CannotStart as problem:
            if filters:
                raise GitFailed("FiltersConfigured", _FILTERED.format(", ".join(filters))) from None
            raise GitFailed("NoGit", f"git cannot be started ({problem.reason})") from None


def _resolved(folder: str, path: str) -> str:
    return os.path.realpath(os.path.join(folder, path))


def _is_around(root: str, cwd: str) -> bool:
    """Whether `root` holds a repository and is `cwd` or a folder above it."""
    top = os.path.realpath(root)
    return os.path.commonpath((os.path.realpath(cwd), top)) == top and os.path.lexists(
        os.path.join(top, ".git")
    )


def _linked_tree(entry: str) -> LinkedTree:
    said = dict[str, str]()
    for line in entry.split("\0"):
        name, _, value = line.partition(" ")
        said[name] = value
    return LinkedTree(
        said["worktree"], said.get("branch", "").removeprefix("refs/heads/"), said.get("locked", "")
    )


def _number(text: bytes) -> int | None:
    return int(text) if text.isdigit() else None


def _output(answer: GitAnswer) -> bytes:
    if answer.returncode and not answer.truncated:
        said = answer.error.decode("utf-8", "replace").strip().partition("\n")[0]
        raise GitFailed("Failed", f"git failed: {said.removeprefix('fatal: ') or answer.returncode}")
    return answer.output


def _without_empty_entries(diff: str) -> str:
    """Files that were only touched leave a heading with nothing below it: git was not allowed to note them."""
    lines = diff.split("\n")
    return "\n".join(
        line
        for line, after in zip(lines, [*lines[1:], ""], strict=True)
        if not line.startswith(_HEADING) or (after and not after.startswith(_HEADING))
    )
