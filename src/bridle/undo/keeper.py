"""Keeps what files were before each call that may change something, and what they were after it.

A call that names its files is looked at file by file. Any other call may change anything: before the first one the
whole workspace is looked at, before and after each later one only what differs is read.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from bridle.base.clock import Clock
from bridle.base.fs.walker import EXCLUDED
from bridle.base.memory_budget import MemoryCache
from bridle.base.secrets.redact import redact
from bridle.base.text.terminal_text import visible
from bridle.base.threads import blocking
from bridle.engine.store_ports import UndoStore
from bridle.engine.tools import ToolCall
from bridle.engine.undo_records import (
    DAYS_KEPT,
    NEVER_THE_SAME,
    Change,
    Kept,
    Missed,
    NewCall,
    Seen,
    State,
)
from bridle.undo.file_states import CallNumbers, differences, is_own_file, rows_in, tree_of
from bridle.undo.file_tree import Keeping, Look, WatchedFolders, look_at, newly_missed, shown_below
from bridle.undo.object_links import ObjectLinks
from bridle.undo.repositories import GIT, Keep, Repositories

Content = Callable[[bytes], bytes | None]
"""The content with this digest, if it is there."""

_DOES_CHARACTERS = 200
_ENTRY_BYTES = 750
"""An entry of a tree takes about so much memory."""
_INSTALLS = "installs packages"
"""What a command that fetches packages is said to do: it runs their scripts too, so its class is another one."""
_OF_NO_INTEREST = ("/dev/", "/proc/", "/tmp/", "/var/tmp/")  # noqa: S108  compared, never opened


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A call whose beginning is stored."""

    number: int
    kept: Kept
    missed: tuple[Missed, ...]
    named: tuple[str, ...]


class AnnouncedWork(msgspec.Struct, frozen=True, kw_only=True):
    """What is about to change files: a call of a tool, or a command that a person gave. `exact` are all the paths that
    it can change, where that is known; `missed` is what no copy of files can take back."""

    id: str
    name: str
    does: str
    exact: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    missed: tuple[Missed, ...] = ()


def announced_call(call: ToolCall, ground: WatchedFolders) -> AnnouncedWork:
    paths = exact_paths(call)
    if paths and call.definition.own_files is None:  # those lie in folders that stay
        paths = tuple(with_missing_folders(paths))
    return AnnouncedWork(
        id=call.id,
        name=call.name,
        does=_does(call),
        exact=paths,
        named=tuple(_named(call, ground)),
        missed=tuple(_beyond(call, ground)),
    )


def exact_paths(call: ToolCall) -> tuple[str, ...]:
    """The files a call can change, if it is one that changes only those it names."""
    named = call.subjects
    if call.definition.own_files is not None:
        return call.definition.own_files(call.args)
    if call.definition.side_effect != "workspace" or not named:
        return ()
    if any(subject.kind != "path" or subject.access != "write" for subject in named):
        return ()
    return tuple(dict.fromkeys(subject.resolved for subject in named))


class Keeper:
    """The undo record of one folder as a session runs. `turn` is the number of the turn that is open, if one is; the
    keepers of a session share its `numbers`."""

    def __init__(
        self,
        store: UndoStore,
        *,
        ground: WatchedFolders,
        turn: Callable[[], int | None],
        clock: Clock,
        trees: MemoryCache[Look],
        numbers: CallNumbers | None = None,
    ) -> None:
        self._store = store
        self._ground = ground
        self._turn = turn
        self._clock = clock
        self._trees = trees
        self._look: Look | None = None
        """The tree as it is known while calls run that may change it; at rest it is in `trees`."""
        self._objects: ObjectLinks | None = None
        self.numbers = numbers or CallNumbers()
        self._place = os.fsencode(ground.place)
        self._is_settled = False
        self._sweeps = 0
        self._unended: set[int] = set()
        self._unlooked = False
        self._untold: list[Kept] = []
        self._told_problems = set[str]()
        self._changed: list[Change] = []
        self._one_at_a_time = asyncio.Lock()

    async def begin(self, call: ToolCall) -> Begun:
        """What the call may change is stored before, or together with, whatever the log gets from now on."""
        async with self._one_at_a_time:
            return await self._begin(announced_call(call, self._ground), self._turn())

    async def begin_files(
        self, number: str, does: str, paths: Sequence[str], missed: Sequence[Missed]
    ) -> Begun:
        """The same for what a person has done to these files, and to no others, beside the calls of tools."""
        exact = tuple(with_missing_folders(paths))
        work = AnnouncedWork(id=number, name="git", does=_clean(does), exact=exact, missed=tuple(missed))
        async with self._one_at_a_time:
            return await self._begin(work, None)

    async def end(self, begun: Begun, *, ran: bool) -> None:
        """Stores what the call did change, in the same way."""
        async with self._one_at_a_time:
            await self._end(begun, ran)

    def untold(self) -> list[str]:
        """Return what calls took from repositories since the last time, and once which objects cannot be kept."""
        untold, self._untold = self._untold, []
        told = [words for kept in untold if (words := _told(kept, self._ground.roots))]
        problems = self._objects.problems if self._objects is not None else {}
        for objects in [path for path in problems if path not in self._told_problems]:
            self._told_problems.add(objects)
            name = visible(shown_below(objects, self._ground.roots), newlines=False)
            told.append(f"Undo cannot give back {name} if a command destroys it: {problems[objects]}.")
        return told

    def changed(self) -> list[Change]:
        """What commands changed since this was last asked."""
        changed, self._changed = self._changed, []
        return changed

    def names(self, changes: Iterable[Change]) -> list[str]:
        return [shown_below(change.name, self._ground.roots) for change in changes if is_own_file(change)]

    async def _begin(self, work: AnnouncedWork, turn: int | None) -> Begun:
        store = self._store
        if not self._is_settled:
            now_ms = self._clock.now_ms()
            self._objects = ObjectLinks(self._ground.kept_objects)
            if await store.forget_old(now_ms):
                await asyncio.to_thread(self._objects.forget_old, now_ms, DAYS_KEPT)
            await settle(store, self._ground, now_ms)
            await self.numbers.begin(store)
            self._is_settled = True
        keep, number = Keeping(store, self._clock.now_ms()), self.numbers.take()

        def new(kept: Kept) -> NewCall:
            return NewCall(
                number=number,
                call_id=work.id,
                turn=turn,
                tool=work.name,
                does=work.does,
                started_ms=self._clock.now_ms(),
                kept=kept,
            )

        if work.exact:
            seen = await asyncio.to_thread(_looked_at, work.exact, keep)
            kept = Kept(exact=True, seen=tuple(seen), place=self._place)
        elif self._unended:  # what differs belongs to calls that run, and is looked at when they have ended
            kept = Kept(place=self._place)
        else:
            kept = await self._whole(keep, work.named)
            while kept.whole and not await store.begin_whole(new(kept), keep.rest(), sweeps=self._sweeps):
                self._look = None  # what an earlier session kept went meanwhile, and is read again
                kept = await self._whole(keep, work.named)
        if not kept.whole:
            await store.begin(new(kept), keep.rest())
        if not kept.exact:
            self._unended.add(number)
        return Begun(number=number, kept=kept, missed=work.missed, named=work.named)

    async def _whole(self, keep: Keep, named: Sequence[str]) -> Kept:
        """The tree as it is now, as what differs from what was known of it."""
        known = self._look or self._trees.get(self._ground.place)
        first = known is None
        if known is None:
            self._sweeps = await self._store.sweeps()
            known = Look(tree=await last_tree(self._store, self._ground.place))
        links = self._objects
        assert links is not None

        def look_around() -> Look:
            look = self._ground.around(known, keep, first=first)
            _deepen(look, named, keep)
            for objects in look.objects:
                links.look(objects)
            return look

        self._look = look = await asyncio.to_thread(look_around)
        unlisted = tuple(os.fsencode(path) for path in sorted(look.unlisted))
        if first:
            return Kept(whole=True, seen=tuple(look.tree.values()), unlisted=unlisted, place=self._place)
        fresh = (
            seen if seen is not None else Seen(os.fsencode(path), NEVER_THE_SAME, None)
            for path, seen in look.fresh.items()
        )
        return Kept(seen=tuple(fresh), unlisted=unlisted, place=self._place)

    async def _end(self, begun: Begun, ran: bool) -> None:
        """Of calls that overlap, the last to end has what all of them changed: nobody can tell whose it is."""
        store = self._store
        others_run = not begun.kept.exact and len(self._unended) > 1
        if others_run or not (ran or (self._unlooked and not begun.kept.exact)):
            self._unlooked = self._unlooked or (ran and others_run)
            self._note_end(begun.number)
            await store.end(
                begun.number, msgspec.structs.replace(begun.kept, missed=begun.missed) if ran else begun.kept
            )
            return
        keep = Keeping(store, self._clock.now_ms())
        if begun.kept.exact:
            kept = await asyncio.to_thread(_with_exact_changes, begun.kept, keep)
        else:
            before, links, content = self._look, self._objects, blocking(store.content)
            assert before is not None
            assert links is not None

            def look_around() -> tuple[Look, Kept]:
                after = self._ground.around(before, keep)
                _deepen(after, begun.named, keep)
                return after, _with_changes(begun.kept, before, after, self._ground, links, content, keep)

            self._look, kept = await asyncio.to_thread(look_around)
            self._note_end(begun.number)
            self._unlooked = False
            if kept.has_changes:
                self._untold.append(kept)
                self._changed += kept.changes
        kept = msgspec.structs.replace(kept, missed=(*begun.missed, *kept.missed))
        await store.end(begun.number, kept, keep.rest())

    def _note_end(self, number: int) -> None:
        self._unended.discard(number)
        if not self._unended and self._look is not None:
            self._trees.put(self._ground.place, self._look, len(self._look.tree) * _ENTRY_BYTES)
            self._look = None


async def last_tree(store: UndoStore, place: str = "") -> dict[str, Seen]:
    """Return the tree as this session knew it last, or another session of the same folder. Files whose content is
    gone are left out."""
    rows = rows_in(await store.calls(), place)
    if not any(row.kept.whole for row in rows):
        rows = rows_in(await store.calls_nearby(), place)
    tree = tree_of(rows) if any(row.kept.whole for row in rows) else {}
    wanted = {seen.state.sha256 for seen in tree.values() if seen.state is not None and seen.state.sha256}
    gone = wanted - await store.stored(wanted)
    return {path: seen for path, seen in tree.items() if seen.state is None or seen.state.sha256 not in gone}


async def settle(store: UndoStore, ground: WatchedFolders, now_ms: int) -> None:
    """Complete the call that ran when Bridle stopped: what differs now counts as its own. A call with others behind
    it stays unknown."""
    rows = rows_in(await store.calls(), ground.place)
    for at, row in enumerate(rows):
        if not row.open:
            continue
        keep = Keeping(store, now_ms)
        if row is not rows[-1]:
            missed = (*row.kept.missed, Missed(row.does, "unseen"))
            await store.end(row.number, msgspec.structs.replace(row.kept, missed=missed))
            continue
        if row.kept.exact:
            kept = await asyncio.to_thread(_with_exact_changes, row.kept, keep)
        else:
            tree, content = tree_of(rows[: at + 1]), blocking(store.content)
            kept = await asyncio.to_thread(_since, tree, row.kept, ground, content, keep)
        await store.end(row.number, kept, keep.rest())


def _since(
    tree: dict[str, Seen], kept: Kept, ground: WatchedFolders, content: Content, keep: Keeping
) -> Kept:
    """Return the record of a call with what differs now from the tree it found."""
    before = Look(tree=tree, unlisted={os.fsdecode(path) for path in kept.unlisted})
    before.objects = [path for path in tree if path.endswith("/objects") and f"/{GIT}/" in path]
    after = ground.around(Look(tree=tree), keep, first=True)
    # a link that leads into an excluded folder may be new: the files there are not
    before.apart = {path: () for path in after.folders if os.path.basename(path) in EXCLUDED}
    changed = _with_changes(kept, before, after, ground, ObjectLinks(ground.kept_objects), content, keep)
    return msgspec.structs.replace(changed, missed=kept.missed)


def _with_changes(
    kept: Kept,
    before: Look,
    after: Look,
    ground: WatchedFolders,
    objects: ObjectLinks,
    content: Content,
    keep: Keeping,
) -> Kept:
    """What a call kept, with what it did between two looks: to the files, and to what repositories hold."""
    found = (objects.look(path) for path in dict.fromkeys((*before.objects, *after.objects)))
    lost = {one.name: one for one in found if one is not None}
    changes = covered(before, after)
    missed = newly_missed(before, after, ground.roots)
    if lost or any(f"/{GIT}" in change.name for change in changes) or ground.repositories:
        repositories = Repositories(
            before.tree,
            after.tree,
            extra=ground.repositories,
            content=lambda digest: keep.get(digest) or content(digest),
            is_lost=lambda folder, number: (
                (one := lost.get(f"{folder}/objects")) is not None and objects.holds(one, number)
            ),
        )
        changes, stay, recorded = repositories.split(changes, keep)
        passed = tuple(Seen(change.path, change.signature, change.after) for change in stay)
        kept = msgspec.structs.replace(kept, seen=(*kept.seen, *passed))
        missed += [Missed(shown_below(path, ground.roots), "git") for path in recorded]
    return msgspec.structs.replace(
        kept,
        changes=tuple(changes),
        missed=tuple(missed),
        lost=tuple(lost.values()),
    )


def _told(kept: Kept, roots: Sequence[str]) -> str:
    """What a call took from repositories, and whether that comes back; empty where it took nothing."""
    taken = (*(change.name for change in kept.changes), *(one.name for one in kept.lost))
    folders = (path.partition(f"/{GIT}/") for path in taken)
    names = dict.fromkeys(shown_below(f"{top}/{GIT}", roots) for top, inside, _ in folders if inside)
    told = f"The command took away parts of {', '.join(names)}. /undo gives them back." if names else ""
    return visible(told, newlines=False)


def covered(before: Look, after: Look) -> list[Change]:
    """What changed between a look and the next one. What one of them could not see is neither new nor gone."""
    return [
        change
        for change in differences(before.tree, after.tree, after.fresh)
        if (change.before is not None or before.covers(change.name))
        and (change.after is not None or after.covers(change.name))
    ]


def with_missing_folders(paths: Sequence[str]) -> list[str]:
    """The paths, and the folders that would have to be made for them, outermost first."""
    found: dict[str, None] = {}
    for path in paths:
        missing: list[str] = []
        folder = os.path.dirname(path)
        while not os.path.lexists(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        found.update(dict.fromkeys(reversed(missing)))
        found[path] = None
    return list(found)


def _looked_at(paths: Sequence[str], keep: Keep) -> list[Seen]:
    def seen(path: str) -> Seen:
        try:
            return look_at(path, keep=keep)
        except OSError:
            return Seen(os.fsencode(path), NEVER_THE_SAME, State("other"))

    return [seen(path) for path in paths]


def _with_exact_changes(kept: Kept, keep: Keep) -> Kept:
    before = {os.fsdecode(seen.path): seen for seen in kept.seen if seen.state is not None}
    paths = [os.fsdecode(seen.path) for seen in kept.seen]
    after = {os.fsdecode(seen.path): seen for seen in _looked_at(paths, keep) if seen.state is not None}
    return msgspec.structs.replace(kept, changes=tuple(differences(before, after, before | after)))


def _deepen(look: Look, named: Sequence[str], keep: Keep) -> None:
    """Files the call names are kept even where others of their size are not."""
    for path in named:
        seen = look.tree.get(path)
        if seen is not None and seen.state is not None and seen.state.kind == "file" and not seen.state.known:
            for found in _looked_at((path,), keep):
                if found.state is not None and found.state.known:
                    look.put(path, found)


def _named(call: ToolCall, ground: WatchedFolders) -> Iterator[str]:
    for subject in (*call.subjects, *call.named):
        if subject.kind == "path" and subject.access == "write" and ground.holds(subject.resolved):
            yield subject.resolved


def _beyond(call: ToolCall, ground: WatchedFolders) -> Iterator[Missed]:
    """What the call is known to do that no copy of files can take back."""
    for part in call.parts:
        if part.command_class == "network" or part.does.startswith(_INSTALLS):
            yield Missed(_clean(part.text), "network")
    if call.input.get("background") is True:
        yield Missed(_does(call), "background")
    for subject in call.named:
        path = subject.resolved
        outside = subject.kind == "path" and subject.access == "write" and not ground.holds(path)
        if outside and not path.startswith(_OF_NO_INTEREST):
            yield Missed(_clean(path), "outside")


def _does(call: ToolCall) -> str:
    command = call.input.get("command")
    if isinstance(command, str) and command:
        return _clean(command)
    return _clean(", ".join(subject.value for subject in call.subjects))


def _clean(text: str) -> str:
    """Short, without secrets, and encodable whatever the model wrote."""
    text = redact(text).encode("utf-8", "replace").decode()
    return text if len(text) <= _DOES_CHARACTERS else text[: _DOES_CHARACTERS - 1] + "…"
