"""What starting a server leads to, recorded by content when it was agreed to, and compared before every start.

A pin says nothing of values: of variables it has the names and one digest, of the command what is no secret. A value
that stands in `env` or `headers` may change; one that a word of the command or the address is filled in with may not.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Final

import msgspec

from bridle.base.file_digests import FileDigests
from bridle.base.launched_code import LaunchedPart, launched_code
from bridle.base.paths import is_beneath
from bridle.base.redact import redact_values
from bridle.mcp.server_definitions import ServerDefinition

_MOST_FILLED: Final = 64
"""So many ways to fill in a command are remembered, the latest."""


class LaunchPin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One launch by its content. `program` is where its first word was found, `target` that file without links and
    `sha256` the digest of it. `unpinned` says what can be other code the next time.

    `command` is as it is written; where it has references, `filled` has the digest of what they make of it, in a pin of
    everything that was agreed to. `is_address`: nothing is started, and `command` is where it listens. `folder_run` is
    the folder whose code runs without anything saying which.
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
    parts: tuple[LaunchedPart, ...] = ()
    unpinned: str = ""
    folder_run: str = ""


def launch_pin(
    definition: ServerDefinition,
    launched: ServerDefinition,
    *,
    cwd: str,
    env: Mapping[str, str],
    digests: FileDigests,
) -> LaunchPin:
    """What starting the server in the session's folder with these variables leads to now. Files are read for it.

    `launched` has the values filled in that the definition only names; the pin has none of them.
    """
    if definition.transport != "stdio":
        return LaunchPin(
            command=redact_values(definition.url),
            command_digest=_digest(definition.url),
            filled=(_digest(_without_query(launched.url)),) if launched.url != definition.url else (),
            is_address=True,
        )
    variables = {**env, **launched.env}
    code = launched_code(
        launched.argv,
        cwd=os.path.join(cwd, launched.folder),
        env=variables,
        search_path=variables.get("PATH", os.defpath),
        digest=digests.sha256,
    )
    return LaunchPin(
        command=redact_values(shlex.join(definition.argv)),
        command_digest=_digest(*definition.argv),
        filled=(_digest(*launched.argv),) if launched.argv != definition.argv else (),
        env=tuple(sorted(definition.env)),
        env_digest=_digest(*(word for pair in sorted(definition.env.items()) for word in pair)),
        folder=definition.folder,
        program=code.program,
        target=code.target,
        sha256=digests.sha256(code.target) if code.target else "",
        parts=code.parts,
        unpinned=code.unpinned,
        folder_run=code.folder_run,
    )


def unpinned_words(definition: ServerDefinition, *, cwd: str, env: Mapping[str, str]) -> str:
    """What of a server's launch can be other code the next time, as far as what is written says; empty where nothing
    can. No program is read for it."""
    if definition.transport != "stdio":
        return ""
    variables = {**env, **definition.env}
    return launched_code(
        definition.argv,
        cwd=os.path.join(cwd, definition.folder),
        env=variables,
        search_path=variables.get("PATH", os.defpath),
        digest=lambda _path: "",
    ).unpinned


def launch_changes(pinned: LaunchPin, found: LaunchPin) -> tuple[str, ...]:
    """What of a launch is not as it was agreed to; nothing where all of it is.

    What was not known of a package when it was agreed to, or is not known now, is no change: it is fetched when the
    launcher runs, and looked at again then. Variables are the person's own settings, like the command. Pure.
    """
    changes: list[str] = []
    if pinned.command_digest != found.command_digest or pinned.folder != found.folder:
        changes.append("the command")
    if not set(found.filled) <= set(pinned.filled):
        changes.append(f"what its {'address' if found.is_address else 'command'} is filled in with")
    if (pinned.program, pinned.target) != (found.program, found.target):
        changes.append(f"where {os.path.basename(pinned.program) or 'the program'} is found")
    if pinned.sha256 != found.sha256:
        changes.append(f"the program {found.program or pinned.program}")
    before, now = ({_key(part): part for part in pin.parts} for pin in (pinned, found))
    for key in before | now:
        old, new = before.get(key), now.get(key)
        if old is None or new is None or not _is_same(old, new):
            changes.append(f"the {key[0]} {key[1]}")
    return tuple(changes)


def with_known(pinned: LaunchPin, found: LaunchPin) -> LaunchPin:
    """What was found, and of its packages what only the pin knows. Of launches without `launch_changes`. Pure."""
    before = {_key(part): part for part in pinned.parts}
    return msgspec.structs.replace(
        with_filled(pinned, found),
        parts=tuple(_completed(before.get(_key(part), part), part) for part in found.parts),
    )


def with_filled(pinned: LaunchPin, found: LaunchPin) -> LaunchPin:
    """What was found, with everything beside it that its references stood for when it was agreed to. Pure."""
    filled = tuple(dict.fromkeys((*pinned.filled, *found.filled)))[-_MOST_FILLED:]
    return msgspec.structs.replace(found, filled=filled)


def is_of_folder(pin: LaunchPin, folder: str) -> bool:
    """Whether anything that would run stands in the folder: whoever wrote the folder wrote that."""
    paths = (pin.program, pin.target, pin.folder_run, *(part.place for part in pin.parts))
    return any(path and is_beneath(path, folder) for path in paths)


def launch_text(pin: LaunchPin) -> str:
    """The launch for people, a fact a line, so that two can be compared line by line."""
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
    yield f"           sha256 {pin.sha256 or 'not known: its file cannot be read'}"
    for part in pin.parts:
        version = f" {part.version or 'of a version not known yet'}" if part.kind == "package" else ""
        yield f"{part.kind:<10} {part.name}{version}"
        if part.kind == "package" and part.place:
            yield f"           in {part.place}"
        yield f"           {part.integrity or 'its content is not known yet'}"
    if pin.unpinned:
        yield pin.unpinned


def _is_same(old: LaunchedPart, new: LaunchedPart) -> bool:
    if old.kind != "package":
        return old == new
    facts = ((old.version, new.version), (old.integrity, new.integrity), (old.place, new.place))
    return all(one == other or not one or not other for one, other in facts)


def _completed(old: LaunchedPart, new: LaunchedPart) -> LaunchedPart:
    if new.kind != "package":
        return new
    return msgspec.structs.replace(
        new,
        version=new.version or old.version,
        integrity=new.integrity or old.integrity,
        place=new.place or old.place,
    )


def _without_query(address: str) -> str:
    """Where it leads to: keys stand behind the question mark, and change."""
    return address.partition("?")[0]


def _key(part: LaunchedPart) -> tuple[str, str]:
    return part.kind, part.name


def _digest(*words: str) -> str:
    return sha256(msgspec.json.encode([os.fsencode(word) for word in words])).hexdigest()
