"""Pins of launches: the code that starting a server runs, recorded when the user approved it and compared before every
start.

A pin holds no values: of variables it has the names and one digest, of the command the text without secrets. A value
in `env` or `headers` may change; one that is filled into a word of the command or into the address may not.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Final

import msgspec

from bridle.base.fs.paths import is_beneath
from bridle.base.process.launched_code import LaunchedPart, file_sha256, is_system_file, launched_code
from bridle.base.secrets.redact import redact_values
from bridle.mcp.server_definitions import ServerDefinition

_MOST_FILLED: Final = 64
"""The number of ways to fill in a command that are remembered, the latest ones."""
_RULES: Final = 2
"""Version of the rules that choose what a pin holds. Pins of version 1 also held modules, manifests and facts of
installed packages, and digests of programs in system folders."""


class LaunchPin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One launch by its content. `program` is the path of its first word, `target` that path without links and `sha256`
    the digest of the file. A program in a system folder (`by_path`) is known by its path, and its links are not
    followed: an upgrade moves them. `unpinned` says what can be other code the next time.

    `command` is as it is written. If it has references, `filled` has the digest of the command with its values; a
    stored pin has one for every value that was approved. `is_address`: nothing is started, and `command` is an address.
    `folder_run` is the folder whose code runs without a word that names it.
    """

    command: str
    command_digest: str
    filled: tuple[str, ...] = ()
    is_address: bool = False
    env: tuple[str, ...] = ()
    env_digest: str = ""
    folder: str = ""
    program: str = ""
    target: str = ""
    sha256: str = ""
    by_path: bool = False
    parts: tuple[LaunchedPart, ...] = ()
    unpinned: str = ""
    folder_run: str = ""
    rules: int = 1


def launch_pin(
    definition: ServerDefinition, launched: ServerDefinition, *, cwd: str, env: Mapping[str, str]
) -> LaunchPin:
    """Return the pin of the server as it would start now in the folder `cwd` with these variables. Reads files.

    `launched` is the definition with its values filled in; the pin has none of them.
    """
    if definition.transport != "stdio":
        return LaunchPin(
            command=redact_values(definition.url),
            command_digest=_digest(definition.url),
            filled=(_digest(_without_query(launched.url)),) if launched.url != definition.url else (),
            is_address=True,
            rules=_RULES,
        )
    variables = {**env, **launched.env}
    code = launched_code(
        launched.argv,
        cwd=os.path.join(cwd, launched.folder),
        env=variables,
        search_path=variables.get("PATH", os.defpath),
    )
    by_path = is_system_file(code.target)
    target = code.program if by_path and is_system_file(code.program) else code.target
    has_digest = bool(target) and (not by_path or bool(definition.sha256))
    return LaunchPin(
        command=redact_values(shlex.join(definition.argv)),
        command_digest=_digest(*definition.argv),
        filled=(_digest(*launched.argv),) if launched.argv != definition.argv else (),
        env=tuple(sorted(definition.env)),
        env_digest=_digest(*(word for pair in sorted(definition.env.items()) for word in pair)),
        folder=definition.folder,
        program=code.program,
        target=target,
        sha256=file_sha256(target) if has_digest else "",
        by_path=by_path,
        parts=code.parts,
        unpinned=code.unpinned,
        folder_run=code.folder_run,
        rules=_RULES,
    )


def unpinned_words(definition: ServerDefinition, *, cwd: str, env: Mapping[str, str]) -> str:
    """Return what of a server's launch can be other code the next time, as a sentence. Reads files."""
    if definition.transport != "stdio":
        return ""
    variables = {**env, **definition.env}
    return launched_code(
        definition.argv,
        cwd=os.path.join(cwd, definition.folder),
        env=variables,
        search_path=variables.get("PATH", os.defpath),
    ).unpinned


def launch_changes(pinned: LaunchPin, found: LaunchPin) -> tuple[str, ...]:
    """Return what of a launch differs from what was approved.

    Of a pin made by older rules only facts that the present rules compare as well count. Variables are no change: they
    are the user's own settings, like the command. Pure.
    """
    changes: list[str] = []
    if pinned.command_digest != found.command_digest or pinned.folder != found.folder:
        changes.append("the command")
    if not set(found.filled) <= set(pinned.filled):
        changes.append(f"what its {'address' if found.is_address else 'command'} is filled in with")
    is_upgradable = found.by_path and found.target == found.program
    if pinned.program != found.program or (pinned.target != found.target and not is_upgradable):
        changes.append(f"where {os.path.basename(pinned.program) or 'the program'} is found")
    if pinned.sha256 != found.sha256 and not found.by_path:
        changes.append(f"the program {found.program or pinned.program}")
    return (*changes, *_part_changes(pinned, found))


def _part_changes(pinned: LaunchPin, found: LaunchPin) -> Iterator[str]:
    is_older = pinned.rules < found.rules
    before, now = ({(part.kind, part.name): part for part in pin.parts} for pin in (pinned, found))
    for key in now if is_older else before | now:
        old, new = before.get(key), now.get(key)
        kind, name = key
        if is_older and old is None:
            yield f"the {kind} {name}, which an earlier version of Bridle did not look at"
        elif is_older and kind == "package":
            continue  # its version is a word of the command now
        elif is_older and new is not None and not new.integrity:
            continue  # it is in a system folder
        elif old != new:
            yield f"the {kind} {name}"


def with_filled(pinned: LaunchPin, found: LaunchPin) -> LaunchPin:
    """Return `found` with all values of its references that were approved before. Pure."""
    filled = tuple(dict.fromkeys((*pinned.filled, *found.filled)))[-_MOST_FILLED:]
    return msgspec.structs.replace(found, filled=filled)


def is_of_folder(pin: LaunchPin, folder: str) -> bool:
    """Return whether code of the folder would run."""
    paths = (pin.program, pin.target, pin.folder_run, *(part.place for part in pin.parts))
    return any(path and is_beneath(path, folder) for path in paths)


def launch_text(pin: LaunchPin) -> str:
    """Return the launch for users, one fact per line, so that two can be compared line by line."""
    return "".join(f"{line}\n" for line in _lines(pin))


def _lines(pin: LaunchPin) -> Iterator[str]:
    yield f"{'address' if pin.is_address else 'command':<10} {pin.command}"
    for digest in pin.filled:
        yield f"values     filled in, digest {digest[:12]}"
    if pin.is_address:
        return
    if pin.folder:
        yield f"folder     {pin.folder}"
    if pin.env:
        yield f"variables  {', '.join(pin.env)} (digest of their values {pin.env_digest[:12]})"
    leads = f" -> {pin.target}" if pin.target != pin.program else ""
    yield f"program    {pin.program + leads if pin.program else 'not found'}"
    if pin.by_path:
        yield "           in a system folder: known by its path"
    if pin.sha256 or not pin.by_path:
        yield f"           sha256 {pin.sha256 or 'not known: its file cannot be read'}"
    for part in pin.parts:
        version = f" {part.version or 'of any version'}" if part.kind == "package" else ""
        yield f"{part.kind:<10} {part.name}{version}"
        if part.kind == "package" and part.place:
            yield f"           in {part.place}"
        if part.integrity:
            yield f"           {part.integrity}"
    yield pin.unpinned or "everything else is known by the command line"


def _without_query(address: str) -> str:
    """Return the address up to its `?`: keys stand behind that, and change."""
    return address.partition("?")[0]


def _digest(*words: str) -> str:
    return sha256(msgspec.json.encode([os.fsencode(word) for word in words])).hexdigest()
