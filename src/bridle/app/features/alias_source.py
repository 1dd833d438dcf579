"""Read the user's aliases."""

from __future__ import annotations

import os
from collections.abc import Iterable

from bridle.app.queries.query_answers import shipped_slash
from bridle.app.session_parts import SessionParts
from bridle.base.fs.files import read_limited
from bridle.clients.interaction.commands.slash_table import own_names
from bridle.commands.aliases import FILE, MAX_BYTES, Aliases, read_aliases
from bridle.config.bundles import bundle_name, counting_bundles
from bridle.config.folders import Folders
from bridle.config.problems import Problem
from bridle.engine.features import Feature
from bridle.engine.slash_command import DescribedSlash, SaidPrompt, SessionPrompts
from bridle.plugin.loading import RESERVED
from bridle.protocol.errors import sentence
from bridle.protocol.events import Notice


def aliases_of(where: Folders, namespaces: Iterable[str] = ()) -> Aliases:
    """The person's own aliases as their file has them now. `namespaces` are those of plugins and bundles."""
    path = os.path.join(where.config, FILE)
    if not os.path.isfile(path):
        return Aliases()
    try:
        found = read_limited(path, MAX_BYTES)
    except OSError as problem:
        return Aliases(problems=(f"it cannot be read ({problem.strerror})",))
    if found.truncated:
        return Aliases(problems=(f"it has more than {MAX_BYTES >> 10} KiB: nothing of it counts",))
    return read_aliases(found.data, frozenset((*_shipped(), *namespaces)))


def aliases(parts: SessionParts) -> Feature:
    """The aliases in the list of commands, and those that are refused named once."""
    opened, where = parts.opened, parts.services.where
    namespaces = (*map(bundle_name, parts.settings.bundles), *(one.name for one in opened.plugged))

    def names() -> list[DescribedSlash]:
        found = aliases_of(where, namespaces).lines
        return [
            DescribedSlash(name=name, does=f"short for {line} ({FILE})", stands_for=line)
            for name, line in found.items()
        ]

    def say(_name: str, _words: str) -> SaidPrompt | None:
        return None  # whoever types one puts in what it stands for

    def refused() -> list[Notice]:
        return [_notice(problem) for problem in aliases_of(where, namespaces).problems]

    return Feature(name="alias", prompts=SessionPrompts(names=names, say=say), notices=refused)


def alias_problems(where: Folders) -> list[Problem]:
    """Which are refused and why, for whoever looks at all settings."""
    path = os.path.join(where.config, FILE)
    found = aliases_of(where, [bundle.name for bundle in counting_bundles(where.data)]).problems
    return [Problem(severity="warning", source=FILE, problem=one, path=path) for one in found]


def _notice(problem: str) -> Notice:
    data = {"problem": problem}
    return Notice(reason="BadAlias", message=sentence("BadAlias", data), data=dict(data))


def _shipped() -> Iterable[str]:
    """Every bare name that comes with Bridle, and every namespace of its own."""
    return (*own_names(), *RESERVED, *(one.name for one in shipped_slash()))
