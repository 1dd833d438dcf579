"""Trust in instruction files.

trust = trust_port(approvals, clock)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from bridle.base.clock import Clock
from bridle.base.fs.files import repository_root
from bridle.config.folders import Folders
from bridle.context.consent import TrustPort
from bridle.context.imports import Imports
from bridle.context.instruction_files import InstructionFile, find_instruction_files
from bridle.context.session_instructions import OfferedSources
from bridle.safety.trust.approvals import Approvals
from bridle.safety.trust.trust_items import TrustItem
from bridle.safety.trust.trust_questions import ReviewedText


def trust_port(approvals: Approvals, clock: Clock) -> TrustPort:
    """What this person approved of instruction files, remembered with their text so that a change can be shown."""

    def approved_ms(file: InstructionFile) -> int | None:
        item = instruction_item(file)
        last = approvals.last(kind=item.kind, root=item.root, path=item.path)
        return last.approved_ms if last is not None and last.digest == item.digest else None

    return TrustPort(
        is_approved=is_trusted_file(approvals),
        approve=lambda file: instruction_item(file).approve(approvals),
        question=lambda file: instruction_item(file).question(approvals, clock.now_ms()),
        approved_ms=approved_ms,
    )


def is_trusted_file(approvals: Approvals) -> Callable[[InstructionFile], bool]:
    return lambda file: instruction_item(file).is_trusted(approvals)


def all_instruction_files(where: Folders, cwd: str, sources: Sequence[str]) -> tuple[InstructionFile, ...]:
    """The instruction files that are there, agreed to or not: listed ones, those of other agents that the person
    wants here, and what each brings along."""
    root = repository_root(cwd)
    used = OfferedSources(where.state, root).used()
    names = tuple(dict.fromkeys((*sources, *used)))
    found = find_instruction_files(cwd, config_folder=where.config, sources=names)
    return tuple(Imports(cwd=cwd, root=root, config_folder=where.config).all_of(found))


def instruction_item(file: InstructionFile) -> TrustItem:
    return TrustItem(
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
