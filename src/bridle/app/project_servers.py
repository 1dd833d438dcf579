"""The MCP servers that a project has a say in: what each would start, and whether a person agreed to that."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.base.files import repository_root

if TYPE_CHECKING:
    from bridle.app.settings import ServerSettings
    from bridle.safety.trust.approvals import Approvals
    from bridle.safety.trust.trust_items import TrustItem


class ServerPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where servers would start: the folder of the session, its variables, and the state folder of the person."""

    cwd: str
    env: Mapping[str, str]
    state: str


def untrusted_servers(settings: ServerSettings, place: ServerPlace, approvals: Approvals) -> Iterator[str]:
    """The servers that a project has a say in and that no person has agreed to start."""
    for one in settings.definitions:
        if one.of_project and one.transport == "stdio":
            item = project_server_item(one.name, settings.tables[one.name], place)
            if not item.is_trusted(approvals):
                yield one.name


def project_server_item(name: str, table: Mapping[str, Any], place: ServerPlace) -> TrustItem:
    """A program that a project wants to have started as a server. Of files, those are read that changed since."""
    from bridle.base.file_digests import FileDigests
    from bridle.mcp.server_pins import digests_path
    from bridle.safety.trust.trust_items import launch_item, server_launch

    root = repository_root(place.cwd)
    digests = FileDigests(digests_path(place.state))
    search_path = place.env.get("PATH", os.defpath)
    launch = server_launch(table, root=root, cwd=place.cwd, search_path=search_path, digest=digests.sha256)
    digests.save()
    return launch_item("mcp_server", root, f"mcp_servers.{name}", launch, "Bridle starts")
