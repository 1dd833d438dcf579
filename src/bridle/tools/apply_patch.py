"""`apply_patch`: changes to several files, all of them or none.

The result is computed in memory first. If a file cannot be written, those before it are put back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from bridle.engine.tools import Subject, Tool, ToolCall, ToolContext, ToolOutput
from bridle.protocol.display_values import EditedFile, ShownEdit
from bridle.protocol.events import FileChange
from bridle.tools.names import failed, relative_path
from bridle.tools.patches.atomic_writes import NotPut, put_all
from bridle.tools.patches.foreseen_changes import bounded, file_change
from bridle.tools.patches.patch_plan import NotApplied, Planning
from bridle.tools.patches.patches import parse_patch
from bridle.tools.patches.text_files import is_storable

if TYPE_CHECKING:
    from bridle.engine.known_files import KnownFiles
    from bridle.tools.patches.patch_plan import FileReport, Plan

MAX_PATCH_CHARACTERS = 1 << 20


class PatchArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    patch: Annotated[str, Meta(description="Unified diff, or *** Begin Patch … *** End Patch.")]

    def __post_init__(self) -> None:
        if len(self.patch) > MAX_PATCH_CHARACTERS:
            raise ValueError("the patch has more than 1 MB")
        if not is_storable(self.patch):
            raise ValueError("the patch has characters that cannot be stored")
        parse_patch(self.patch)


async def apply_patch(args: PatchArgs, context: ToolContext) -> ToolOutput:
    plan = await asyncio.to_thread(_planned, args, context.call, context.cwd)
    if isinstance(plan, ToolOutput):
        return plan
    try:
        put_all(plan.states)
    except NotPut as failure:
        path = relative_path(failure.path, context.cwd)
        return failed(
            "FileUnwritable", path=path, problem=f"{failure.problem}; {_put_back(failure, context.cwd)}"
        )
    output, seen = _done(plan), dict[str, str]()
    for state in plan.states:
        if state.after is not None:
            seen |= context.known.saw(state.path, state.after.encoded(state.after.text))["seen"]
    return msgspec.structs.replace(output, metadata={"seen": seen})


def _planned(args: PatchArgs, call: ToolCall, cwd: str) -> Plan | ToolOutput:
    """What the patch makes of the files, or the output of one that does not fit."""
    try:
        return Planning(call.resolved, cwd).plan(parse_patch(args.patch))
    except NotApplied as refused:
        return _not_applied(refused)


def _changes(
    args: PatchArgs, call: ToolCall, cwd: str, _known: KnownFiles
) -> tuple[FileChange, ...] | ToolOutput:
    plan = _planned(args, call, cwd)
    if isinstance(plan, ToolOutput):
        return plan
    digests = {relative_path(subject.resolved, cwd): subject.content for subject in call.subjects}
    return bounded(
        [
            file_change(
                report.path,
                report.old,
                report.new,
                kind=report.kind,
                moved_from=report.moved_from,
                sha256=digests.get(report.moved_from or report.path, ""),
            )
            for report in plan.reports
        ]
    )


def _done(plan: Plan) -> ToolOutput:
    added, removed = (sum(getattr(r.diff, name) for r in plan.reports) for name in ("added", "removed"))
    count = len(plan.reports)
    lines = [f"Changed {count} file{'s' if count != 1 else ''} (+{added} -{removed})."]
    lines += (f"  {_summary(report)}" for report in plan.reports)
    lines += (f"[{note}]" for note in plan.notes)
    return ToolOutput(content="\n".join(lines) + "\n", shown=_shown(plan.reports))


def _summary(report: FileReport) -> str:
    change = f"+{report.diff.added} -{report.diff.removed}"
    match report.kind:
        case "create":
            return f"{report.path}  created, +{report.diff.added}"
        case "delete":
            return f"{report.path}  deleted, -{report.diff.removed}"
        case "move":
            return f"{report.moved_from} → {report.path}  moved, {change}"
        case "change":
            return f"{report.path}  {change}"


def _shown(reports: Sequence[FileReport]) -> ShownEdit:
    return ShownEdit(
        files=tuple(
            EditedFile(
                path=report.path,
                kind=report.kind,
                moved_from=report.moved_from,
                diff=report.diff.text,
                added=report.diff.added,
                removed=report.diff.removed,
            )
            for report in reports
        )
    )


def _put_back(failure: NotPut, cwd: str) -> str:
    if not failure.left:
        return "nothing was changed"
    left = ", ".join(relative_path(path, cwd) for path in failure.left)
    return f"these were changed before and could not be put back: {left}"


def _not_applied(refused: NotApplied) -> ToolOutput:
    if refused.reason != "InvalidInput":
        return failed(
            refused.reason, path=refused.path, problem=f"{refused.help.problem}; nothing was written"
        )
    output = failed("PatchDoesNotApply", problem=f"{refused.path}: {refused.help.problem}")
    return msgspec.structs.replace(output, content=output.content + refused.help.excerpt)


def _subjects(args: PatchArgs) -> tuple[Subject, ...]:
    """Every path the patch names, so that a guard sees all of them. Arguments were parsed when they came in."""
    named = dict.fromkeys(path for change in parse_patch(args.patch) for path in change.paths)
    return tuple(Subject(kind="path", access="write", value=path) for path in named)


APPLY_PATCH = Tool(
    name="apply_patch",
    description=(
        "Change, create, delete or move files with one patch; all of it or nothing. Takes a git-style unified "
        "diff, or *** Begin Patch with *** Update File: / *** Add File: / *** Delete File: PATH, "
        "*** Move to: PATH, @@ and lines marked ' ', - or +, then *** End Patch."
    ),
    input=PatchArgs,
    risk="write",
    run=apply_patch,
    concurrency="exclusive",
    subjects=_subjects,
    side_effect="workspace",
    safety_notes=("changes, creates and deletes every file the patch names",),
    changes=_changes,
)
