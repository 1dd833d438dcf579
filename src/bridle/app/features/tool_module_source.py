"""Collect tool modules (`tools/NAME.py`) and their trust.

Code is trusted by content, wherever it lies: the person's own after they agreed, a project's after that and only where
their settings say `tools.project_modules`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from bridle.base.fs.files import repository_root
from bridle.base.text.terminal_text import visible
from bridle.config.folders import Folders, project_folder
from bridle.engine.features import Feature, PlacedRequestLayer
from bridle.engine.services import Health, SessionDoor
from bridle.engine.steps import AskModel, Reply, Step
from bridle.engine.tools import ToolOrigin
from bridle.protocol.errors import BridleError, sentence
from bridle.protocol.events import Notice
from bridle.safety.trust import Approvals
from bridle.safety.trust.trust_items import TrustItem
from bridle.safety.trust.trust_questions import ReviewedText
from bridle.tools.tool_modules import (
    FOLDER,
    BadModule,
    ModuleFile,
    ModulePlace,
    described_tool,
    find_tool_modules,
)

if TYPE_CHECKING:
    from bridle.app.session_parts import SessionParts

NAME: Final = "tool_modules"


class FoundModule(msgspec.Struct, frozen=True, kw_only=True):
    """A module and where it lies: below `root`, which is the person's config folder or the project."""

    file: ModuleFile
    root: str
    shown: str
    of_project: bool

    def item(self) -> TrustItem:
        """The module as what a person agrees to."""
        path = os.path.relpath(self.file.path, self.root)
        return TrustItem(
            kind="plugin",
            root=self.root,
            path=path,
            shown=self.shown,
            digest=self.file.sha256,
            data=self.file.data,
            reviewed=ReviewedText(
                shown=self.shown,
                text=self.file.data.decode("utf-8", "replace"),
                kind="plugin",
                runs=f"python {self.shown}",
                when="a session begins, and when the model calls it",
            ),
        )


def _places(where: Folders, cwd: str) -> Iterator[tuple[str, str]]:
    yield os.path.join(where.config, FOLDER), ""
    project = project_folder(cwd)
    if project is not None:
        yield os.path.join(project, FOLDER), repository_root(os.path.realpath(cwd))


def find_modules(where: Folders, cwd: str) -> Iterator[FoundModule]:
    """Every module for a session in `cwd`, agreed to or not. Nothing of them is run."""
    for folder, root in _places(where, cwd):
        for file in find_tool_modules(folder, within=root or where.config):
            shown = os.path.relpath(file.path, root) if root else file.path
            yield FoundModule(file=file, root=root or where.config, shown=shown, of_project=bool(root))


def module_items(where: Folders, cwd: str) -> Iterator[TrustItem]:
    """The modules that want a person's word, agreed to or not."""
    return (one.item() for one in find_modules(where, cwd) if not one.file.problem)


def counting_modules(
    found: Sequence[FoundModule], approvals: Approvals, *, project_too: bool
) -> tuple[list[FoundModule], list[Notice]]:
    """Those that count, and what is to be said of the others: each is named once."""
    counting: list[FoundModule] = []
    said: list[Notice] = []
    for one in found:
        if one.file.problem:
            said.append(_left_out(one, one.file.problem))
        elif not one.item().is_trusted(approvals):
            said.append(_left_out(one, "nobody agreed to it yet (bridle trust ack)"))
        elif one.of_project and not project_too:
            said.append(
                _left_out(one, "tools of projects run only where your settings say tools.project_modules")
            )
        else:
            counting.append(one)
    return counting, said


def _left_out(module: FoundModule, problem: str) -> Notice:
    data = {"path": visible(module.shown, newlines=False), "problem": visible(problem, newlines=False)[:500]}
    return Notice(reason="ToolModuleLeftOut", message=sentence("ToolModuleLeftOut", data), data=data)


def tool_modules(parts: SessionParts) -> Iterator[Feature]:
    """The tools of modules. Without a folder of them there is no feature."""
    where, cwd = parts.services.where, parts.opened.cwd
    found = list(find_modules(where, cwd))
    if not found:
        return
    counting, said = counting_modules(
        found, parts.opened.approvals, project_too=parts.settings.tools.project_modules
    )
    sources = tuple(map(ModuleSource, counting))

    async def wait(step: Step, proceed: AskModel) -> Reply:
        await asyncio.gather(*(source.wait() for source in sources))
        return await proceed(step)

    yield Feature(
        name=NAME,
        sources=sources,
        request_layers=(PlacedRequestLayer("wait_for_modules", wait),) if sources else (),
        notices=lambda: said,
    )


class ModuleSource:
    """Has a module described when the session begins, and offers the tool it is. It is its own service."""

    def __init__(self, module: FoundModule) -> None:
        self.name = f"{NAME}:{module.file.name}"
        self.origin = ToolOrigin(
            scope="project" if module.of_project else "user", path=module.shown, trusted=True
        )
        self._module = module
        self._known = asyncio.Event()
        self._door: SessionDoor | None = None

    def service(self, door: SessionDoor) -> ModuleSource:
        self._door = door
        return self

    async def wait(self) -> None:
        """Until it is known what it is; describing it takes only so long."""
        await self._known.wait()

    async def start(self) -> None:
        door = self._door
        assert door is not None, "a source serves before it starts"
        file = self._module.file
        place = ModulePlace(
            spawn=door.spawn, policy=door.policy, cwd=door.cwd, env=door.env, call_id=f"module-{file.name}"
        )
        try:
            door.offer([await described_tool(file, place)])
        except BadModule as bad:
            door.emit(_left_out(self._module, str(bad)))
        except BridleError as refused:
            door.emit(_left_out(self._module, refused.message.removesuffix(".")))
        finally:
            self._known.set()

    async def stop(self) -> None:
        """Its process ended with its answer."""
        self._known.set()

    def health(self) -> Health:
        return Health(state="up" if self._known.is_set() else "starting")
