"""A git command of a person on its way: what it needs from outside, what was agreed to, what was run.

What is run is put together by the commands themselves; it is shown, whole, and run only after a yes. Looking goes
through `Repository`, which runs nothing of the repository's.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple, Protocol

import msgspec

from bridle.base.git.git_repository import Repository
from bridle.base.git.own_worktrees import OwnTree, OwnTrees
from bridle.base.process.processes import CannotStart
from bridle.engine.slash_command import SlashEvent
from bridle.protocol.errors import BridleError, sentence
from bridle.protocol.events import ContextAdded, DurableEvent, GitEnded, GitRun, Notice
from bridle.protocol.messages import TextBlock
from bridle.protocol.questions import GitAnswer, GitHook, GitQuestion

Argv = tuple[str, ...]

MAX_OUTPUT_BYTES: Final = 8_000
MAX_FILES: Final = 20
"""How many files are named in a question."""
_HOOKS: Final = {
    "checkout": ("post-checkout",),
    "worktree": ("post-checkout",),
    "commit": ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"),
    "push": ("pre-push",),
}
"""What git runs on the way of its subcommands."""


class ProgramEnd(NamedTuple):
    """How a command ended: its exit code, and the end of what it said."""

    exit_code: int
    output: bytes


class DraftMessage(NamedTuple):
    """What a message is to be drafted from. `wish` is what is to be different from the `earlier` one."""

    changes: str
    subjects: Sequence[str]
    earlier: str = ""
    wish: str = ""


class TakeBack(Protocol):
    """Undo in a worktree: of the call `what`, or of everything; `again`, the way back. Raises `BridleError`."""

    async def __call__(self, tree: OwnTree, what: str, *, again: bool) -> SlashEvent: ...


class GitNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What the commands need from outside.

    `trees` are the worktrees of agents. `run` runs a command as the person, in a folder, with a text on its input; it
    raises `CannotStart`. `run_quietly` does it without any program of the repository's. What becomes of files meanwhile
    is undone by `/undo` where `keeping` names them; `take_back` undoes what was done in a worktree. `finds` says
    whether a program is there. `ask` gives None when nobody can answer. `draft` asks the model and raises
    `BridleError`. `mask` replaces every secret in a text. `shows`: whether the content of an absolute path may be seen.
    `somebody_answers`: whether a question would reach a person. `agreed`: a person said yes to everything when they
    started the run, in which nobody is asked.
    """

    repository: Callable[[], Repository]
    trees: Callable[[], OwnTrees]
    run: Callable[[Argv, str, str], Awaitable[ProgramEnd]]
    run_quietly: Callable[[Argv, str, str], Awaitable[ProgramEnd]]
    keeping: Callable[[Sequence[str], str], AbstractAsyncContextManager[None]]
    take_back: TakeBack
    finds: Callable[[str], bool]
    ask: Callable[[GitQuestion], Awaitable[GitAnswer | None]]
    somebody_answers: Callable[[], bool]
    draft: Callable[[DraftMessage], Awaitable[str]]
    mask: Callable[[str], str]
    shows: Callable[[str], bool]
    emit: Callable[[DurableEvent], object]
    committed: Callable[[], Awaitable[None]]
    now_ms: Callable[[], int]
    home: str
    agreed: bool = False
    dry_run: bool = False


class GitWork:
    """One command on its way: what was run so far, and what is known of it."""

    def __init__(self, name: str, arguments: str, needs: GitNeeds) -> None:
        self.name = name
        self._typed = f"/{name} {arguments}".rstrip()
        self.needs = needs
        self.repository = needs.repository()
        self.runs: list[GitRun] = []
        self.data: dict[str, str] = {}

    @property
    def last(self) -> str:
        return shlex.join(self.runs[-1].argv)

    def done(self) -> str:
        """What was done before something failed, as a sentence behind that."""
        good = [shlex.join(run.argv) for run in self.runs if run.exit_code == 0]
        return f" Done before: {', '.join(good)}. Go on from there: /{self.name}" if good else ""

    def ended(self, failure: BridleError | None) -> GitEnded:
        if failure is None:
            return GitEnded(name=self.name, runs=tuple(self.runs), data=dict(self.data))
        data = {**self.data, **{name: str(value) for name, value in failure.data.items()}}
        return GitEnded(
            name=self.name,
            runs=tuple(self.runs),
            reason=failure.reason,
            message=failure.message,
            data=data,
        )

    async def agree(self, question: GitQuestion) -> GitAnswer:
        """The person's answer to what would be run; raises where there is none, and where nothing may run."""
        commands = " && ".join(map(shlex.join, question.commands))
        if self.needs.dry_run:
            self.data["draft"] = question.message
            raise BridleError("DryRun", tool=commands)
        if self.needs.agreed:
            return GitAnswer(choice="go")
        answer = await self.needs.ask(question)
        if answer is None:
            raise self._nobody()
        if answer.choice == "keep":
            raise BridleError("NotDone")
        return answer

    def refuse_unasked(self) -> None:
        """Raises where nobody could say yes: before a model is paid for a message that nobody will see."""
        needs = self.needs
        if not (needs.agreed or needs.dry_run or needs.somebody_answers()):
            raise self._nobody()

    def _nobody(self) -> BridleError:
        hint = f"Say yes when you start it: bridle run -y {shlex.quote(self._typed)}"
        return BridleError("NoApprover", tool=f"/{self.name}", hint=hint)

    async def run(
        self, argv: Argv, cwd: str, text: str = "", *, good_when: str = "", quietly: bool = False
    ) -> str:
        """Runs one command as the person and gives what it said, `quietly` without programs of the repository's. Raises
        with `GitFailed` where it failed, unless it said what is as good as a success."""
        needs, shown = self.needs, shlex.join(argv)
        running = {"command": shown}
        needs.emit(Notice(reason="GitRunning", message=sentence("GitRunning", running), data=running))
        await needs.committed()  # that it begins is on disk before it does
        self.runs.append(GitRun(argv=argv))
        try:
            ended = await (needs.run_quietly if quietly else needs.run)(argv, cwd, text)
        except CannotStart as problem:
            del self.runs[-1]
            raise BridleError(
                "GitUnusable",
                problem=f"{argv[0]} cannot be started ({problem.reason}).{self.done()}".rstrip("."),
            ) from None
        output = needs.mask(ended.output.decode("utf-8", "replace"))
        self.runs[-1] = GitRun(argv=argv, exit_code=ended.exit_code, output=output)
        if ended.exit_code and not (good_when and good_when in output):
            said = f"I ran {shown} myself, and it failed (exit {ended.exit_code}):\n{output}"
            needs.emit(ContextAdded(source="git", content=(TextBlock(text=said.rstrip()),)))
            raise BridleError("GitFailed", command=shown, code=ended.exit_code, done=self.done())
        return output

    def tell_model(self, text: str) -> None:
        self.needs.emit(ContextAdded(source="git", content=(TextBlock(text=text),)))

    async def hooks(self, *subcommands: str) -> tuple[GitHook, ...]:
        """The programs of the repository that git would run on the way."""
        folder = await self.repository.hooks_folder(self.needs.home)
        root = await self.repository.root()
        found = _found_hooks(folder, [name for one in subcommands for name in _HOOKS[one]])
        changes = (await self.repository.status(untracked="all")).changes if found else ()
        return _shown_hooks(found, root, frozenset(change.path for change in changes))


def _found_hooks(folder: str, names: Sequence[str]) -> list[str]:
    paths = (os.path.join(folder, name) for name in names)
    return [path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)]


def _shown_hooks(paths: Sequence[str], root: str, changed: frozenset[str]) -> tuple[GitHook, ...]:
    top = os.path.realpath(root)
    below = [os.path.relpath(os.path.realpath(path), top) for path in paths]
    return tuple(
        GitHook(path=path if inside.startswith("..") else inside, changed=inside in changed)
        for path, inside in zip(paths, below, strict=True)
    )
