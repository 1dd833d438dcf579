"""What there is to decide about a call: its risk, its files, and whether it is harmless.

*Quiet* means that nobody needs to be asked for the sake of what the call does: it reads inside the session's folders,
it is a command of which every part is proven to only read there, or it is about nothing at all. A file that looks like
it holds secrets is never quiet, nor is one of Bridle's own. Looks at the file system, changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from shlex import quote

import msgspec

from bridle.base.fs.paths import is_beneath_any
from bridle.engine.tools import Foreseen, Subject, ToolCall
from bridle.protocol.events import CommandPart, Risk
from bridle.safety.patterns import consists_of, is_plain
from bridle.safety.touched_files import (
    POLICY_FLAG,
    UNSANDBOXED_FLAG,
    PathName,
    SessionPlaces,
    TouchedFile,
    leads_out,
    seeks_secrets,
    target_of,
    touched_files,
)
from bridle.shell.command_facts import Part, Understand, Understanding
from bridle.shell.programs import BUILTINS, FETCHERS, have_subcommands, programs, wrappers

MAX_NAMED = 5
_GIT_FILLS = frozenset(
    {"checkout", "switch", "restore", "clone", "pull", "merge", "rebase", "reset", "apply", "am", "stash", "worktree",
     "cherry-pick", "revert", "submodule"}
)  # fmt: skip
"""Subcommands of git that put files into the workspace."""
_NOTHING_FORESEEN = Foreseen()


# Why somebody is asked, in a few words; "it" is the call or its file.
ESCALATES = "it asks to run outside the sandbox"
UNREADABLE = "Bridle could not read this command"
CHANGES_POLICY = "it changes a policy file"
DISCLOSES = "it prints a secret"
DELETES = "it deletes files"
HARMFUL = "it may do harm"
SECRETIVE = "it may hold secrets"
PRIVATE = "it may hold secrets, and is not of this folder"
RUNS_CODE = "it runs code"
CONNECTS = "it connects to the network"
SENDS = "it hands over what you see to another agent"
OUTSIDE = "it is outside this folder"
CHANGES = "it changes files"
UNKNOWN_FILES = "its files are not known before it runs"
RUNS_ITS_OWN = "it runs what it wrote, linked or copied itself"


class CallFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a decision looks at.

    `script` is what is known of a command and `unproven` those of its parts that are not proven harmless; `separable`
    says that the command is its parts and nothing besides, so that rules may speak about each of them. `workdir` is
    where it starts, if that is not the workspace. `policy_file`: it would change a policy file. `secret`: a file
    looks like it holds some; `private`: it is outside the session's folders, or where people keep such. `leads_out`: a
    word of it may be a path that is not the workspace's, or one of those two, so that no yes to another command covers
    it. `escalates`: it wants out of the sandbox. `discloses`: it prints a secret. `obeyed` are the files that later
    runs obey and it would change; `brings`: git would, from a commit, so that the same command may bring others the
    next time. `must_ask` says why a person is asked whatever else would allow it. `hides` says why a rule about
    programs cannot tell what it runs; it is looked for only where there are such rules. `sends` are agents it would
    have work, each with the provider that reads along. `lasts` says why its tool wants a person's word, where it does.
    `concern` says in few words why somebody might be asked.
    `lifted` are the flags by which a person answered a question of this call before it came.
    """

    tool: str
    risk: Risk
    command: str | None = None
    workdir: str = ""
    script: Understanding | None = None
    unproven: tuple[Part, ...] = ()
    separable: bool = False
    paths: tuple[PathName, ...] = ()
    unknown_paths: bool = False
    urls: tuple[str, ...] = ()
    sends: tuple[str, ...] = ()
    quiet: bool = False
    policy_file: bool = False
    secret: bool = False
    private: bool = False
    leads_out: bool = False
    escalates: bool = False
    obeyed: tuple[str, ...] = ()
    brings: bool = False
    discloses: bool = False
    must_ask: str = ""
    hides: str = ""
    lasts: str = ""
    concern: str = ""
    lifted: tuple[str, ...] = ()

    @property
    def for_person(self) -> bool:
        """Whether only a person's own word counts: no `-y`, no hook, no broad rule, and of modes at most `yolo`."""
        return self.asks_person or self.private or bool(self.lasts)

    @property
    def asks_person(self) -> bool:
        """The same, in `yolo` too."""
        return self.escalates or self.discloses or self.policy_file

    @property
    def only_person(self) -> str:
        """What nobody but a person says yes to here, in a few words; empty where others may."""
        if self.escalates:
            return "only a person lets a command leave the sandbox"
        if self.discloses:
            return "only a person lets a command print a secret"
        if self.policy_file:
            return "only the user can approve changes to policy files"
        if self.lasts:
            return f"only a person agrees that {self.lasts}"
        return "only a person lets secrets from elsewhere be read" if self.private else ""

    @property
    def lifting(self) -> tuple[str, ...]:
        """The flags by which a person could have said yes to this at the start; no flag lets a secret be printed."""
        if self.discloses:
            return ()
        return (UNSANDBOXED_FLAG,) * self.escalates + (POLICY_FLAG,) * self.policy_file

    @property
    def exceptional(self) -> bool:
        """Whether only a yes to exactly this call may be remembered, if any."""
        return (
            self.policy_file or self.secret or bool(self.lasts) or self.asks_anew or self.risk == "dangerous"
        )

    @property
    def asks_anew(self) -> bool:
        """Whether a person is asked each time: no grant and no rule says yes for them."""
        return self.escalates or self.discloses or self.brings or bool(self.must_ask or self.hides)

    @property
    def key(self) -> str | None:
        """The program and subcommand of a command that is one program with plain arguments and no more."""
        if self.script is None or self.script.shape != "simple" or not self.separable or self.exceptional:
            return None
        key = self.script.parts[0].key if len(self.script.parts) == 1 and not self.leads_out else None
        return self._where_it_starts(key) if key is not None else None

    @property
    def subjects(self) -> tuple[str, ...]:
        """What a remembered yes to exactly this is about: the command, the agent, or each of the files."""
        if self.command is not None:
            return (self._where_it_starts(self.command),)
        return self.sends or tuple(path.shown for path in self.paths)

    def _where_it_starts(self, command: str) -> str:
        """The command as it would be typed in the workspace: `make` in another folder runs another Makefile."""
        if not self.workdir:
            return command
        return f"cd {quote(self.workdir)} && {command}"

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.script.parts if self.script is not None else ()


def facts_of_call(
    call: ToolCall, place: SessionPlaces, *, understand: Understand | None, named: bool = False
) -> CallFacts:
    """What there is to decide about a guarded call. With `named` somebody needs every program of a command by name."""
    command = next((subject.value for subject in call.subjects if subject.kind == "command"), None)
    facts = (
        _file_facts(call, place)
        if command is None
        else _command_facts(call, command, place, understand, named=named)
    )
    return msgspec.structs.replace(facts, must_ask=call.must_ask) if call.must_ask else facts


def shown_parts(script: Understanding | None) -> tuple[CommandPart, ...]:
    """The parts of a command as a question shows them; what is the same in each turn of a loop is shown once."""
    if script is None:
        return ()
    return tuple(
        dict.fromkeys(
            CommandPart(text=part.text, command_class=part.command_class, does=part.does)
            for part in script.parts
        )
    )


# Calls about files, or about nothing


def _file_facts(call: ToolCall, place: SessionPlaces) -> CallFacts:
    paths = [subject for subject in call.subjects if subject.kind == "path"]
    workspace = place.folders.workspace
    seen = [place.seen(subject.value, workspace, target_of(subject.resolved)) for subject in paths]
    changes_policy = any(
        subject.access == "write" and place.are_policy(file.names)
        for subject, file in zip(paths, seen, strict=True)
    )
    policy_file = changes_policy and not place.lifted.policy_changes
    secret = any(file.secret for file in seen)
    private = any(file.private for file in seen)
    outside = any(file.outside for file in seen)
    declared = call.definition.risk
    risk: Risk = "read" if declared == "write" and not call.mutating else declared
    why_person = call.definition.for_person
    lasts = why_person(call.args) if why_person is not None and call.mutating else ""
    sends = tuple(subject.value for subject in call.subjects if subject.kind == "agent")
    reads_inside = risk == "read" and not (outside or secret or sends)
    return CallFacts(
        tool=call.name,
        risk="dangerous" if policy_file else risk,
        paths=tuple(place.name(subject.resolved) for subject in paths),
        urls=tuple(subject.value for subject in call.subjects if subject.kind == "url"),
        sends=sends,
        quiet=reads_inside or not (call.mutating or call.subjects),
        policy_file=policy_file,
        secret=secret,
        private=private,
        lasts=lasts,
        concern=SENDS
        if sends
        else lasts
        or _file_concern(risk, policy_file=policy_file, secret=secret, private=private, outside=outside),
        lifted=place.lifted.used(changes_policy=changes_policy) if changes_policy else (),
    )


def _file_concern(risk: Risk, *, policy_file: bool, secret: bool, private: bool, outside: bool) -> str:
    if policy_file:
        return CHANGES_POLICY
    if private:
        return PRIVATE
    if secret:
        return SECRETIVE
    if outside:
        return OUTSIDE
    match risk:
        case "write":
            return CHANGES
        case "shell":
            return RUNS_CODE
        case "network":
            return CONNECTS
        case "dangerous":
            return HARMFUL
        case "read":
            return ""


# Commands


def _command_facts(
    call: ToolCall, command: str, place: SessionPlaces, understand: Understand | None, *, named: bool
) -> CallFacts:
    wants_out = bool(getattr(call.args, "escalate", ""))
    escalates = wants_out and not place.lifted.unsandboxed
    cwd = _starting_folder(call.subjects, place)
    workdir = place.folders.shown(cwd) if cwd != place.folders.workspace else ""
    if understand is None:
        return CallFacts(
            tool=call.name,
            risk=call.definition.risk,
            command=command,
            workdir=workdir,
            escalates=escalates,
            concern=ESCALATES if escalates else RUNS_CODE,
            lifted=place.lifted.used(changes_policy=False, escalates=wants_out),
        )
    script = understand(command, cwd)
    touched = [[*touched_files(part, cwd, place)] for part in script.parts]
    files = [file for part in touched for file in part]
    if _reads_unnamed(script.parts, files) and seeks_secrets(script.parts, cwd, place):
        files.append(TouchedFile(access="read", resolved=None, secret=True, private=True))
    foreseen = call.foreseen or _NOTHING_FORESEEN
    obeyed = [file.resolved for file in files if file.policy and file.resolved is not None]
    would_bring = bool(foreseen.files) or foreseen.unknown
    changes_policy = would_bring or any(file.policy for file in files)
    policy_file = changes_policy and not place.lifted.policy_changes
    brings = would_bring and policy_file
    dangerous = policy_file or script.command_class in ("destructive", "unparseable")
    unproven = tuple(
        part for part, uses in zip(script.parts, touched, strict=True) if not _is_harmless(part, uses)
    )
    return CallFacts(
        tool=call.name,
        risk="dangerous" if dangerous else _command_risk(call.definition.risk, script),
        command=command,
        workdir=workdir,
        script=script,
        unproven=unproven,
        separable=all(map(is_plain, script.parts)) and consists_of(command, [p.text for p in script.parts]),
        paths=tuple(place.name(file.resolved) for file in files if file.resolved is not None),
        unknown_paths=any(file.resolved is None for file in files),
        quiet=script.read_only and not unproven and not (wants_out or script.discloses),
        policy_file=policy_file,
        secret=any(file.secret for file in files),
        private=any(file.private for file in files),
        leads_out=len(unproven) == 1 and unproven[0].key is not None and leads_out(unproven[0], cwd, place),
        escalates=escalates,
        discloses=script.discloses,
        obeyed=(*obeyed, *foreseen.files),
        brings=brings,
        hides=(script.hidden or _runs_its_own(script.parts, touched)) if named else "",
        concern=ESCALATES
        if escalates
        else (brings and _brought(foreseen, place))
        or _command_concern(script, files, policy_file=policy_file),
        lifted=place.lifted.used(changes_policy=changes_policy, escalates=wants_out)
        if changes_policy or wants_out
        else (),
    )


def _brought(foreseen: Foreseen, place: SessionPlaces) -> str:
    """What git would bring, in a few words."""
    if foreseen.unknown and not foreseen.files:
        return "it may change a policy file: what it brings is not known before"
    names = [place.name(path).shown for path in foreseen.files]
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{CHANGES_POLICY}: {', '.join(names[:MAX_NAMED])}{more}" if names else ""


def _runs_its_own(parts: Sequence[Part], touched: Sequence[Sequence[TouchedFile]]) -> str:
    """Whether a command runs a file that it wrote, linked or copied itself, or may have."""
    files = [file for uses in touched for file in uses]
    written = [file.resolved for file in files if file.access == "write"]
    written += [None for part, uses in zip(parts, touched, strict=True) if _writes_unnamed(part, uses)]
    if not written:
        return ""
    known = [path for path in written if path is not None]
    for file in files:
        if file.access == "run" and (
            None in written or file.resolved is None or is_beneath_any(file.resolved, known)
        ):
            return RUNS_ITS_OWN
    made = {os.path.basename(path) for path in known}
    ran = {(part.words[0] or "").rpartition("/")[2] for part in parts if part.words}
    unheard_of = None in written and any(not _is_known(name) for name in ran)
    return RUNS_ITS_OWN if unheard_of or made & ran else ""


def _writes_unnamed(part: Part, uses: Sequence[TouchedFile]) -> bool:
    """Whether it puts files somewhere without naming them: an archive, a checkout, a download."""
    if any(file.access in ("write", "delete") for file in uses) or not part.words:
        return False
    program = (part.words[0] or "").rpartition("/")[2]
    if program == "git":
        return any(word in _GIT_FILLS for word in part.words[1:])
    return part.command_class == "writes" or program in FETCHERS


def _is_known(program: str) -> bool:
    return (
        program == "git"
        or program in BUILTINS
        or program in programs()
        or program in wrappers()
        or program in have_subcommands()
    )


def _starting_folder(subjects: Iterable[Subject], place: SessionPlaces) -> str:
    return next((subject.resolved for subject in subjects if subject.kind == "path"), place.folders.workspace)


def _command_risk(declared: Risk, script: Understanding) -> Risk:
    return "network" if script.command_class == "network" else declared


def _reads_unnamed(parts: Sequence[Part], files: Sequence[TouchedFile]) -> bool:
    """Whether a program is given a file whose name the text does not say."""
    return any(file.resolved is None for file in files) or any(
        part.command_class != "read_only" and None in part.words[1:] for part in parts
    )


def _is_harmless(part: Part, files: Sequence[TouchedFile]) -> bool:
    return part.command_class == "read_only" and all(file.harmless for file in files)


def _command_concern(script: Understanding, files: Sequence[TouchedFile], *, policy_file: bool) -> str:
    """The worst of what is known, in a few words."""
    worst = script.command_class
    if worst == "unparseable":
        return UNREADABLE
    if policy_file:
        return CHANGES_POLICY
    if script.discloses:
        return DISCLOSES
    if worst == "destructive":
        return DELETES if any(file.access == "delete" for file in files) else HARMFUL
    if any(file.private for file in files):
        return PRIVATE
    if any(file.secret for file in files):
        return SECRETIVE
    if worst == "executes":
        return RUNS_CODE
    if worst == "network":
        return CONNECTS
    if any(file.outside for file in files):
        return OUTSIDE
    if worst == "writes":
        return CHANGES
    return UNKNOWN_FILES if any(file.resolved is None for file in files) else ""
