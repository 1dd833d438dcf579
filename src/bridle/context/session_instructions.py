"""The instruction files of one session: those in its system text, those that join it at the tail, those left out.

The system text has what counts from the beginning, read once. An instruction file in a folder further down, and a rule
for certain files, joins the conversation behind everything else when the model has touched such a file, so that the
beginning of every request stays the same bytes. What a compaction dropped comes again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from bridle.base.fs.files import private_folder, read_limited, write_atomic
from bridle.base.text.token_estimate import estimated_tokens
from bridle.context.imports import Imports
from bridle.context.instruction_files import (
    DEFAULT_SOURCES,
    FALLBACK_SOURCES,
    InstructionFile,
    files_in,
    find_instruction_files,
    heading,
    instruction_text,
    prefix_folders,
    rule_names,
)
from bridle.engine.steps import AskModel, Reply, Step
from bridle.protocol.events import ContextAdded, Notice
from bridle.protocol.messages import TextBlock

if TYPE_CHECKING:
    from bridle.context.consent import Consent, TrustPort
    from bridle.engine.conversation import Conversation

# Kept in the person's own state folder. Losing it costs nothing but being asked once more.


MAX_BYTES = 64 * 1024

Word: TypeAlias = Literal["used", "declined", "told"]
"""`told`: there was an AGENTS.md, so the person only heard that the other is there."""


class OfferedSources:
    """What the person said in the project with this root."""

    def __init__(self, state_folder: str, root: str) -> None:
        name = hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self._folder = os.path.join(state_folder, "instruction-offers")
        self._path = os.path.join(self._folder, f"{name}.json")

    def said(self) -> dict[str, Word]:
        """The person's word by the name of the source; nothing where nobody was asked yet."""
        try:
            return msgspec.json.decode(read_limited(self._path, MAX_BYTES).data, type=dict[str, Word])
        except (OSError, msgspec.MsgspecError):
            return {}

    def used(self) -> tuple[str, ...]:
        """The sources that count here because the person said so."""
        return tuple(source for source, word in self.said().items() if word == "used")

    def keep(self, source: str, word: Word) -> None:
        said = self.said()
        if said.get(source) == word:
            return
        with suppress(OSError):
            private_folder(self._folder)
            write_atomic(self._path, msgspec.json.encode(said | {source: word}), durable=False)


MAX_ADDED_FILES: Final = 20
MAX_ADDED_BYTES: Final = 64 * 1024
"""So many instruction files join a conversation at its tail, and so much text of theirs together."""
SOURCE: Final = "instructions"
"""What brought such a text, as `ContextAdded` says."""
OTHERS: Final = "FallbackNotUsed"

_NOT_OURS: Final = frozenset({".git", "node_modules"})
_TOO_MANY: Final = f"is more than joins a conversation ({MAX_ADDED_FILES} files, {MAX_ADDED_BYTES >> 10} KiB)"


class InstructionPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session works, and which instruction files its settings name."""

    cwd: str
    root: str
    config_folder: str
    sources: tuple[str, ...]


class InstructionPorts(msgspec.Struct, frozen=True, kw_only=True):
    """What decides about them. `remembers`: a person is at this session, so what they were told is not said again."""

    consent: Consent
    trust: TrustPort
    offers: OfferedSources
    notice: Callable[[Notice], object]
    remembers: bool


class SessionInstructions:
    """Which instruction files are in force in one session."""

    def __init__(self, place: InstructionPlace, ports: InstructionPorts, conversation: Conversation) -> None:
        self._place = place
        self._ports = ports
        self._conversation = conversation
        self._epoch: int | None = None
        self._touched: set[str] = set()
        self._folders: set[str] = set()
        self._waiting: list[InstructionFile] = []
        self._added: dict[str, int] = {}
        self._brought: Imports | None = None

    # From the beginning

    async def text(self) -> str:
        """What of the instruction files stands in the system text. A person may be asked."""
        place, consent = self._place, self._ports.consent
        said = self._ports.offers.said()
        found = find_instruction_files(
            place.cwd, config_folder=place.config_folder, sources=self._sources(said)
        )
        used = await consent.usable((file for file in found if file.applies == "always"), self._brings)
        used += await self._offered(found, frozenset(said))
        return instruction_text(used)

    def _sources(self, said: dict[str, Any]) -> tuple[str, ...]:
        more = (source for source, word in said.items() if word == "used")
        return tuple(dict.fromkeys((*self._place.sources, *more)))

    def _brings(self, file: InstructionFile) -> Iterable[InstructionFile]:
        """What this file imports; each comes in once."""
        if "@" not in file.body:
            return ()
        self._brought = self._brought or self._imports()
        return self._brought.of(file)

    def _imports(self) -> Imports:
        place = self._place
        return Imports(cwd=place.cwd, root=place.root, config_folder=place.config_folder)

    async def _offered(self, found: Iterable[InstructionFile], said: frozenset[str]) -> list[InstructionFile]:
        """Files of other agents that the person wants used, asked once for each; the others are named."""
        known = {file.sha256 for file in found}
        others = [file for file in self._others(said) if file.sha256 not in known]
        if not others:
            return []
        offers, consent, trust = self._ports.offers, self._ports.consent, self._ports.trust
        has_own = any(file.scope == "project" and file.source in DEFAULT_SOURCES for file in found)
        used: list[InstructionFile] = []
        unanswered: list[InstructionFile] = []
        declined: set[str] = set()
        for file in others:
            if file.source in declined:
                continue
            answer = None
            if not has_own:
                question = msgspec.structs.replace(trust.question(file), offered=True)
                answer = await consent.answer(file, question)
            if answer is None:
                unanswered.append(file)
                continue
            offers.keep(file.source, "used" if answer else "declined")
            if answer and file.applies == "always":
                used += (file, *await consent.usable(self._brings(file), self._brings))
            elif not answer:
                declined.add(file.source)
        self._name(unanswered, told=has_own)
        return used

    def _others(self, said: frozenset[str]) -> Iterator[InstructionFile]:
        place = self._place
        asked = tuple(one for one in FALLBACK_SOURCES if one not in place.sources and one not in said)
        for folder in prefix_folders(place.cwd) if asked else ():
            for file in files_in(folder, asked, cwd=place.cwd, root=place.root):
                if not file.problem:
                    yield file

    def _name(self, files: list[InstructionFile], *, told: bool) -> None:
        if not files:
            return
        names = [file.shown for file in files]
        are, each = ("is", "It is") if len(names) == 1 else ("are", "They are")
        message = (
            f"{', '.join(names)} {are} here and not used. {each} for another agent. "
            "To use it: name it in context.sources"
        )
        self._ports.notice(Notice(reason=OTHERS, message=message, data={"paths": names}))
        for file in files if told and self._ports.remembers else ():
            self._ports.offers.keep(file.source, "told")

    # At the tail

    async def layer(self, step: Step, proceed: AskModel) -> Reply:
        """Before a request: what belongs to files that were touched since the last one joins the conversation."""
        for file in await self._newly_touched():
            text = instruction_text((file,))
            self._added[file.shown] = len(text)
            step.emit(ContextAdded(source=SOURCE, content=(TextBlock(text=text),)))
        return await proceed(step)

    async def _newly_touched(self) -> list[InstructionFile]:
        self._look_at_conversation()
        new = [path for path in self._conversation.known_files if path not in self._touched]
        if not new:
            return []
        self._touched.update(new)
        place = self._place
        sources = self._sources(self._ports.offers.said())
        if (
            place.cwd not in self._folders
        ):  # the rules of the folders whose other files count from the beginning
            for folder in prefix_folders(place.cwd):
                self._folders.add(folder)
                rules = files_in(folder, sources, cwd=place.cwd, root=place.root)
                self._waiting += (file for file in rules if file.applies == "with its files")
        for path in new:
            for folder in self._folders_of(path):
                if folder not in self._folders:
                    self._folders.add(folder)
                    self._waiting += files_in(folder, sources, cwd=place.cwd, root=place.root)
        due = [file for file in self._waiting if file.applies != "by hand" and _belongs(file, new)]
        self._waiting = [file for file in self._waiting if file not in due]
        usable = await self._ports.consent.usable(
            (self._bounded(file) for file in due if file.shown not in self._added), self._brings
        )
        in_force = self._system()
        return [file for file in usable if heading(file.shown) not in in_force]

    def _look_at_conversation(self) -> None:
        """What stands in it now; a compaction may have dropped some, which then comes again."""
        conversation = self._conversation
        if self._epoch != conversation.epoch:
            self._epoch = conversation.epoch
            self._added.clear()
            self._touched.clear()
            self._folders.clear()
            self._waiting.clear()
            self._brought = None
            for message in conversation.messages:
                for block in message.content:
                    if message.role == "user" and isinstance(block, TextBlock):
                        self._take(block.text)

    def _take(self, text: str) -> None:
        first = text.partition("\n")[0]
        if first.startswith(heading("")):
            self._added[first.removeprefix(heading(""))] = len(text)

    def _folders_of(self, path: str) -> list[str]:
        """The folders of the project that a file is in, from the top, but for those that are somebody else's."""
        root = self._place.root.rstrip("/")
        if not path.startswith(f"{root}/"):
            return []
        parts = path[len(root) + 1 :].split("/")[:-1]
        if not _NOT_OURS.isdisjoint(parts):
            return []
        return [os.path.join(root, *parts[:depth]) for depth in range(1, len(parts) + 1)]

    def _bounded(self, file: InstructionFile) -> InstructionFile:
        if len(self._added) < MAX_ADDED_FILES and (
            sum(self._added.values()) + len(file.body) <= MAX_ADDED_BYTES
        ):
            return file
        return msgspec.structs.replace(file, problem=_TOO_MANY)

    def _system(self) -> str:
        prefix = self._conversation.prefix
        return "" if prefix is None else prefix.system

    # For whoever looks

    def described(self) -> dict[str, Any]:
        """Every instruction file there is for this session, in force or not, and what was said to those of others."""
        place, said = self._place, self._ports.offers.said()
        self._look_at_conversation()
        found = find_instruction_files(
            place.cwd, config_folder=place.config_folder, sources=self._sources(said)
        )
        lines = self._system().splitlines()
        listed_files = self._imports().all_of(found, self._is_agreed)
        files = [self._told(file, frozenset(lines)) for file in listed_files]
        at_tail = [
            {"path": shown, "state": "added", "characters": size, "tokens": estimated_tokens(size)}
            for shown, size in self._added.items()
        ]
        listed = {one["path"] for one in at_tail}
        others = [
            {"path": file.shown, "word": said.get(file.source, "")} for file in self._others(frozenset())
        ]
        return {
            "files": [*(one for one in files if one["path"] not in listed), *at_tail],
            "others": [one for one in others if one["word"] != "used"],
        }

    def _is_agreed(self, file: InstructionFile) -> bool:
        """What a file names with `@` are words of it: they are told once it is trusted."""
        return file.scope == "global" or self._ports.trust.is_approved(file)

    def _told(self, file: InstructionFile, system: frozenset[str]) -> dict[str, Any]:
        told: dict[str, Any] = {
            "path": file.shown,
            "scope": file.scope,
            "characters": len(file.body),
            "tokens": estimated_tokens(len(file.body)) if file.body else 0,
            "state": "in use" if heading(file.shown) in system else "left out",
        }
        if file.imported_by:
            told["imported_by"] = file.imported_by
        if file.scope == "project" and not file.problem:
            told["trusted_ms"] = self._ports.trust.approved_ms(file)
        if told["state"] == "left out":
            told["why"] = self._why_not(file)
        return told

    def _why_not(self, file: InstructionFile) -> str:
        if file.problem:
            return file.problem
        if file.applies == "by hand":
            return "has neither globs nor alwaysApply"
        if file.applies == "with its files":
            return f"waits for {', '.join(file.globs)}"
        if file.scope == "project" and not self._ports.trust.is_approved(file):
            return "not trusted"
        return "came after this session began"


def _belongs(file: InstructionFile, touched: Iterable[str]) -> bool:
    """Whether one of the touched files calls for this one: any in its folder, or those its rules name."""
    if file.applies != "with its files":
        return True
    base = file.path
    for _ in range(file.source.count("/") + 1):
        base = os.path.dirname(base)
    inside = (path[len(base) + 1 :] for path in touched if path.startswith(f"{base.rstrip('/')}/"))
    return any(rule_names(file.globs, path) for path in inside)
