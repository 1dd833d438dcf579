"""Settings of the tools of a session."""

from typing import Annotated

import msgspec

from bridle.engine.setting_fields import About, are_fewer


class ToolSettings(msgspec.Struct, frozen=True, kw_only=True):
    packs: Annotated[
        tuple[str, ...] | None,
        About(
            "The groups of tools a session has: read, edit, fs (both), shell, web, and plugins by name; unset, all.",
            workspace=are_fewer,
        ),
    ] = None
    project_modules: Annotated[
        bool,
        About("Whether tools that are files of a project (.bridle/tools) may run, each after your consent."),
    ] = False
