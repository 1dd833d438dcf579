"""The goal of a run: `--goal` with its check and limits, as the command that begins it."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import Any

from bridle.cli.stdin import GivenPrompt
from bridle.clients.structured import asked_for
from bridle.protocol.commands import RunSlash
from bridle.protocol.errors import UsageError


def goal_wanted(parsed: argparse.Namespace, schema: dict[str, Any] | None, given: GivenPrompt) -> RunSlash:
    """The goal that the options of a run ask for. Raises `UsageError` where something of it is missing."""
    if not parsed.goal:
        given_options = (("--check", parsed.check), ("--check-agent", parsed.check_agent))
        option = next((name for name, value in given_options if value is not None), "--rounds")
        raise UsageError(f"{option} belongs to a goal: bridle run --goal --check 'COMMAND' WORDS")
    if schema is None and not (parsed.check or parsed.check_agent or "").strip():
        raise UsageError(
            "A goal needs a check that tells when it is reached: --check 'COMMAND', --output-schema FILE or "
            "--check-agent NAME"
        )
    if parsed.image:
        raise UsageError("--goal takes no --image. Nothing was done")
    options = [f"--check {shlex.quote(parsed.check)}"] if parsed.check else []
    if parsed.check_agent:
        options.append(f"--check-agent {shlex.quote(parsed.check_agent)}")
    if parsed.rounds is not None:
        options.append(f"--rounds {parsed.rounds}")
    words = (given.before.strip(), given.typed.strip(), given.after.strip(), _wish(schema))
    return goal_command(" ".join((*options, "--", "\n\n".join(filter(None, words)))))


def goal_command(arguments: str) -> RunSlash:
    """`/goal` as a run gives it, with an id by which its own events are told from earlier ones. No session yet."""
    return RunSlash(session="", id=f"goal-{os.urandom(8).hex()}", name="goal", arguments=arguments)


def _wish(schema: dict[str, Any] | None) -> str:
    if schema is None:
        return ""
    return asked_for(schema)
