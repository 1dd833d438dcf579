"""Trust, wired: what of a project wants to be obeyed, whether a person agreed to it, and how they are asked.

approvals = session_approvals(store, lockfile=…, env=…, cwd=cwd)
tiers = load(…, is_acked=is_acked(approvals))
files = await consent(approvals, files, …).usable(files)
programs = Programs(approvals, root=…, ask=…, notice=…)      # one consent per launch, for hooks and servers
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec

from bridle.app.models import PROJECT_FILE
from bridle.base.clock import Clock
from bridle.base.files import read_limited, repository_root
from bridle.config.folders import Folders
from bridle.config.tiers import Tiers, WrittenEntry, load
from bridle.config.workspace import WorkspaceFile
from bridle.context.consent import Consent
from bridle.context.instruction_files import (
    DEFAULT_SOURCES,
    InstructionFile,
    find_instruction_files,
)
from bridle.engine.ports import AskPerson
from bridle.engine.tools import RunTool, ToolCall, ToolOutput
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import GrantAdded, Notice, PermissionDecided
from bridle.safety.trust.approvals import Approvals, content_digest, read_lockfile
from bridle.safety.trust.lockfile import TrustedKind
from bridle.safety.trust.trust_questions import ApprovedBefore, ReviewedText, file_question, launch_question

if TYPE_CHECKING:
    from bridle.protocol.questions import TrustQuestion
    from bridle.safety.hooks.hook_sources import WrittenHook
    from bridle.safety.trust.launches import ProgramLaunch

LOCKFILE_VARIABLE = "BRIDLE_APPROVED_LOCK"

Recorded: TypeAlias = PermissionDecided | GrantAdded | Notice
State: TypeAlias = Literal["trusted", "changed", "new"]


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """Something of a project that wants to be obeyed, as it is now: a file, or a program to start."""

    kind: TrustedKind
    root: str
    path: str
    shown: str
    digest: str
    data: bytes = b""
    reviewed: ReviewedText | None = None
    launch: ProgramLaunch | None = None
    when: str = "Bridle starts"
    private: bool = False
    """Its content stays where it is: no copy is kept, and no lock file that travels names it."""

    def is_trusted(self, approvals: Approvals) -> bool:
        return approvals.holds(self.digest, kind=self.kind, root=self.root, path=self.path)

    def state(self, approvals: Approvals) -> State:
        if self.is_trusted(approvals):
            return "trusted"
        return "new" if approvals.last(kind=self.kind, root=self.root, path=self.path) is None else "changed"

    def question(self, approvals: Approvals, now_ms: int) -> TrustQuestion:
        """What a person is shown before they agree, compared with what they agreed to last."""
        last = approvals.last(kind=self.kind, root=self.root, path=self.path)
        if self.launch is not None:
            return launch_question(
                self.launch,
                kind=self.kind,
                name=self.shown,
                when=self.when,
                trusted_ms=None if last is None else last.approved_ms,
                now_ms=now_ms,
            )
        assert self.reviewed is not None, "what is no program is a file"
        before = None
        if last is not None:
            before = ApprovedBefore(approved_ms=last.approved_ms, text=approvals.text_of(last))
        reviewed = msgspec.structs.replace(self.reviewed, before=before)
        return file_question(reviewed, sha256=self.digest, now_ms=now_ms)

    def approve(self, approvals: Approvals) -> None:
        """A person has seen all of it and said yes. The bytes they saw count, whatever the file holds by now."""
        text = self.data if self.launch is None and not self.private else None
        approvals.add(self.path, self.digest, kind=self.kind, root=self.root, text=text)


# What a session needs


def session_approvals(
    store: Approvals, *, lockfile: str | None, env: Mapping[str, str], cwd: str
) -> Approvals:
    """The person's approvals, and those of a lock file that whoever starts Bridle names: an option or a variable.

    A lock file that merely lies in the workspace is never looked at: a repository has no say in its own trust. The
    variable must hold an absolute path, so that one set for good cannot mean a file of every repository.
    """
    named = lockfile or env.get(LOCKFILE_VARIABLE) or None
    if named is None:
        return store
    if lockfile is None and not os.path.isabs(named):
        raise CommandRefused("BadLockfile", path=named, problem=f"{LOCKFILE_VARIABLE} needs an absolute path")
    return store.with_named(read_lockfile(os.path.join(cwd, named)).entries)


def is_acked(approvals: Approvals) -> Callable[[WorkspaceFile], bool]:
    """For `load`: whether a person agreed to a settings file of the workspace, to these very bytes, in this place."""

    def acked(file: WorkspaceFile) -> bool:
        return approvals.holds(file.sha256, kind="config", root=file.root, path=file.path)

    return acked


def is_trusted_file(approvals: Approvals, root: str) -> Callable[[str, str], bool]:
    """For hooks: whether a person agreed to the content with this digest at this path of the project."""

    def trusted(path: str, digest: str) -> bool:
        place = os.path.relpath(path, root)
        return any(approvals.holds(digest, kind=kind, root=root, path=place) for kind in ("hook", "config"))

    return trusted


def consent(
    approvals: Approvals,
    files: Sequence[InstructionFile],
    *,
    ask: AskPerson,
    notice: Callable[[Notice], object],
    clock: Clock,
) -> Consent:
    """Consent to these instruction files, remembered with their text so that a change can be shown as one."""
    items = {file.sha256: _instruction_item(file) for file in files if not file.outside}
    return Consent(
        is_approved=lambda digest: items[digest].is_trusted(approvals),
        approve=lambda _path, digest: items[digest].approve(approvals),
        question=lambda file: items[file.sha256].question(approvals, clock.now_ms()),
        ask=ask,
        notice=notice,
    )


def require_trust(
    approvals: Approvals, files: Sequence[InstructionFile], waiting: Sequence[WorkspaceFile]
) -> None:
    """For `--require-trust`: refuses to begin while anything of the project waits for a person."""
    unseen = [file for file in waiting if not is_acked(approvals)(file)]
    if unseen:
        raise CommandRefused("NonInteractiveAckRefused", kind=f"settings file {unseen[0].shown}")
    for file in files:
        if file.scope == "project" and (file.outside or not _instruction_item(file).is_trusted(approvals)):
            raise CommandRefused("NonInteractiveAckRefused", kind=f"instruction file {file.shown}")


class Programs:
    """Consent to programs that a project wants to start: each by itself, never a folder at once."""

    def __init__(
        self, approvals: Approvals, *, root: str, ask: AskPerson, notice: Callable[[Notice], object]
    ) -> None:
        self._approvals = approvals
        self._root = root
        self._ask = ask
        self._notice = notice

    async def may_start(
        self, kind: Literal["hook", "mcp_server", "plugin"], name: str, launch: ProgramLaunch, *, when: str
    ) -> bool:
        """Whether a person agreed to this very launch, asked now if need be.

        `name` is the setting that wants it; `when` goes on after "wants to run a program when". Raises
        `CommandRefused` where nobody can be asked: a program that somebody relies on does not go missing in silence.
        """
        item = _launch_item(kind, self._root, name, launch, when)
        if item.is_trusted(self._approvals):
            return True
        from bridle.protocol.questions import TrustAnswer

        changed = item.state(self._approvals) == "changed"
        answer = await self._ask(f"trust-{item.digest[:16]}", item.question(self._approvals, now_ms=0))
        if answer is None:
            if changed:
                raise CommandRefused("HookHashChanged", path=launch.shown)
            raise CommandRefused("NonInteractiveAckRefused", kind=kind.replace("_", " "))
        if isinstance(answer, TrustAnswer) and answer.use:
            item.approve(self._approvals)
            return True
        message = f"{name} is not trusted here and was not started."
        self._notice(Notice(reason="NotTrusted", message=message, data={"path": name, "sha256": item.digest}))
        return False


class ApprovedEdits:
    """What a person said yes to in an edit question is trusted already; nobody is asked twice for the same bytes.

    Only their own answer to that very change counts; a rule, a grant or `--yes` has read nothing. What was shown is
    approved, not what is in the file: should the two differ, the file is asked about.
    """

    def __init__(self, approvals: Approvals, *, cwd: str, sources: Sequence[str] = DEFAULT_SOURCES) -> None:
        self._approvals = approvals
        self._cwd = cwd
        self._root = repository_root(cwd)
        self._sources = frozenset(sources)
        self._agreed: set[str] = set()

    def hearing(self, record: Callable[[Recorded], object]) -> Callable[[Recorded], object]:
        """The same record of decisions, with an ear for a person's own yes."""

        def record_and_note(event: Recorded) -> object:
            if isinstance(event, PermissionDecided) and event.verdict == "allow" and event.answered_by:
                self._agreed.add(event.call_id)
            return record(event)

        return record_and_note

    async def trusting(self, call: ToolCall, proceed: RunTool) -> ToolOutput:
        """The layer around a tool: once it has made the change a person agreed to, that content is trusted."""
        output = await proceed(call)
        if call.id in self._agreed and output.outcome == "ok":
            self._written(call.name, call.input)
        self._agreed.discard(call.id)
        return output

    def _written(self, tool: str, given: Mapping[str, Any]) -> None:
        path = given.get("path")
        if not isinstance(path, str) or os.path.basename(path) not in self._sources:
            return
        match tool, given:
            case "write_file", {"content": str(content)}:
                self.approve_written(path, content)
            case "edit_file", {"old_string": str(old), "new_string": str(new)}:
                before = self._approved_text(path)
                everywhere = given.get("replace_all") is True
                if before is not None and (before.count(old) == 1 or (everywhere and old in before)):
                    self.approve_written(path, before.replace(old, new))
            case _:
                pass

    def approve_written(self, path: str, content: str) -> None:
        """A person read this content, whole, and agreed that it is written to this instruction file."""
        data = content.encode("utf-8", "replace")
        self._approvals.add(self._relative(path), content_digest(data), root=self._root, text=data)

    def _approved_text(self, path: str) -> str | None:
        last = self._approvals.last(kind="instructions", root=self._root, path=self._relative(path))
        return None if last is None else self._approvals.text_of(last)

    def _relative(self, path: str) -> str:
        return os.path.relpath(os.path.join(self._cwd, path), self._root)


# What `bridle trust` looks at


def project_items(
    approvals: Approvals, *, where: Folders, cwd: str, env: Mapping[str, str]
) -> tuple[Item, ...]:
    """Everything of the project around `cwd` that wants trust, in the order it would count. Nothing of it is run."""
    seen: list[WorkspaceFile] = []

    def acked(file: WorkspaceFile) -> bool:
        seen.append(file)
        return is_acked(approvals)(file)

    tiers = load(where=where, cwd=cwd, env=env, is_acked=acked, allow_project_hooks=True)
    sources = tuple(tiers.get("context.sources") or DEFAULT_SOURCES)
    root = repository_root(cwd)
    files = find_instruction_files(cwd, config_folder=where.config, sources=sources)
    return (
        *(_config_item(file) for file in seen),
        *(_instruction_item(file) for file in files if file.scope == "project" and not file.outside),
        *_hook_items(tiers, root=root, cwd=cwd, where=where),
        *_server_items(tiers, root=root, env=env),
        *_secrets_items(root),
    )


def server_launch(server: Mapping[str, Any], *, root: str, search_path: str) -> ProgramLaunch:
    """What an MCP server of the project's settings would run."""
    from bridle.safety.trust.launches import launch_of

    env = cast("Mapping[str, str]", server.get("env") or {})
    return launch_of(_words(server), root=root, cwd=root, env=env, search_path=search_path)


def _words(entry: Mapping[str, Any]) -> str | tuple[str, ...]:
    command: Any = entry["command"]
    more = tuple(cast("Sequence[str]", entry.get("args") or ()))
    if isinstance(command, str):
        return (command, *more) if more else command
    return (*cast("Sequence[str]", command), *more)


def _server_items(tiers: Tiers, *, root: str, env: Mapping[str, str]) -> Iterator[Item]:
    search_path = env.get("PATH", os.defpath)
    servers = cast("Mapping[str, Mapping[str, Any]]", tiers.get("mcp_servers") or {})
    for name, server in servers.items():
        origin = tiers.origin(("mcp_servers", name))
        if origin is not None and origin.tier in ("project", "local") and server.get("command"):
            launch = server_launch(server, root=root, search_path=search_path)
            yield _launch_item("mcp_server", root, f"mcp_servers.{name}", launch, "Bridle starts")


def _hook_items(tiers: Tiers, *, root: str, cwd: str, where: Folders) -> Iterator[Item]:
    """The project's files that hooks would run, whoever wrote the hook; its settings file is an item of its own."""
    from bridle.config.workspace import project_folder
    from bridle.safety.hooks.hook_sources import Project, find_hooks
    from bridle.safety.hooks.trusted import unapproved

    written = list(map(written_hook, tiers.written("hooks")))
    project = Project(root=root, folder=project_folder(cwd))
    settings = {hook.path for hook in written}
    found = find_hooks(
        written,
        config_folder=where.config,
        project=project,
        cwd=cwd,
        is_trusted=lambda _path, _digest: True,
        allow_project_hooks=True,
    )
    seen: set[str] = set()
    for hook in found.hooks:
        needed: list[str] = []

        def note(path: str, _digest: str, needed: list[str] = needed) -> bool:
            needed.append(path)
            return True

        unapproved(hook, cwd=cwd, workspaces=(root,), is_trusted=note)
        for path in needed:
            if path not in settings and path not in seen:
                seen.add(path)
                yield from _hook_item(path, root, hook.shown, f"{hook.event} happens")


def written_hook(entry: WrittenEntry) -> WrittenHook:
    """An entry of a settings file as hooks read it."""
    from bridle.safety.hooks.hook_sources import WrittenHook

    origin = entry.origin
    return WrittenHook(
        value=entry.value,
        scope="project" if origin.tier in ("project", "local") else "user",
        where=origin.name if origin.line is None else f"{origin.name}:{origin.line}",
        path=origin.path or "",
    )


def has_secrets_file(root: str) -> bool:
    """Whether a project has a secrets file, whatever there is to say against it."""
    return os.path.lexists(os.path.join(root, PROJECT_FILE))


def _secrets_items(root: str) -> Iterator[Item]:
    """The secrets file of the project, if it could count; a person is shown the names in it and no value."""
    if not has_secrets_file(root):
        return
    from bridle.app.project_secrets import Unusable, digest_of, parse, read_private, without_values

    try:
        data = read_private(root)
        names, text = list(parse(data)), without_values(data)
    except Unusable:
        return
    yield Item(
        kind="config",
        root=root,
        path=PROJECT_FILE,
        shown=PROJECT_FILE,
        digest=digest_of(data),
        reviewed=ReviewedText(
            shown=PROJECT_FILE,
            text=text,
            kind="config",
            wishes=tuple(f"give the key {name}" for name in names),
        ),
        private=True,
    )


def _hook_item(path: str, root: str, command: str, when: str) -> Iterator[Item]:
    from bridle.safety.hooks.trusted import MAX_BYTES

    try:
        contents = read_limited(path, MAX_BYTES)
    except OSError:
        return
    shown = os.path.relpath(path, root)
    binary = b"\0" in contents.data
    text = (
        f"(a program of {len(contents.data)} bytes)" if binary else contents.data.decode("utf-8", "replace")
    )
    yield Item(
        kind="hook",
        root=root,
        path=shown,
        shown=shown,
        digest=content_digest(contents.data),
        data=contents.data,
        reviewed=ReviewedText(shown=shown, text=text, kind="hook", runs=command, when=when),
    )


def _launch_item(kind: TrustedKind, root: str, name: str, launch: ProgramLaunch, when: str) -> Item:
    return Item(kind=kind, root=root, path=name, shown=name, digest=launch.digest, launch=launch, when=when)


def _instruction_item(file: InstructionFile) -> Item:
    return Item(
        kind="instructions",
        root=file.root,
        path=os.path.relpath(file.path, file.root) if file.root else file.path,
        shown=file.shown,
        digest=file.sha256,
        data=file.data,
        reviewed=ReviewedText(
            shown=file.shown,
            text=file.text,
            changed_ms=file.changed_ms,
            owner=file.owner,
            truncated=file.truncated,
        ),
    )


def _config_item(file: WorkspaceFile) -> Item:
    return Item(
        kind="config",
        root=file.root,
        path=file.path,
        shown=file.shown,
        digest=file.sha256,
        data=file.data,
        reviewed=ReviewedText(
            shown=file.shown, text=file.data.decode("utf-8", "replace"), kind="config", wishes=file.wishes
        ),
    )


def config_items(files: Sequence[WorkspaceFile]) -> tuple[Item, ...]:
    """The settings files that wait for the person, to be asked about before a session begins."""
    return tuple(map(_config_item, files))
