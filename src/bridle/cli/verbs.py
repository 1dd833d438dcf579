"""The way from words to a verb; failures become one sentence and an exit code here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING

from bridle.cli.arguments import DEFAULT_ACTIONS, OTHER_NAMES, TALK, VERBS, older_words, parser
from bridle.cli.console import tell, unwritten
from bridle.protocol.errors import BridleError, CommandRefused, UsageError

if TYPE_CHECKING:
    import argparse

    from bridle.clients.print import Format


_PATHS = (
    "cwd",
    "output",
    "prompt_file",
    "image",
    "output_schema",
    "config",
    "env_file",
    "lockfile",
    "add_dir",
)
"""Options whose values are paths."""
_FUNCTIONS = {
    "talk": "talk.talk:talk_verb",
    "attach": "talk.attach",
    "run": "run.run",
    "demo": "run.demo",
    "redact": "run.redact:redact_verb",
    "sessions": "sessions.sessions",
    "undo": "sessions.undo",
    "cost": "sessions.cost",
    "memory": "sessions.memory",
    "login": "accounts.login",
    "logout": "accounts.login:logout",
    "models": "accounts.models",
    "token": "accounts.token",
    "permissions": "policy.permissions",
    "trust": "policy.trust",
    "sandbox": "policy.sandbox",
    "hooks": "policy.hooks",
    "mcp": "mcp.mcp_servers",
    "mcp serve": "mcp.mcp_serve",
    "mcp parents": "mcp.mcp_allow",
    "mcp allow": "mcp.mcp_allow",
    "mcp forget": "mcp.mcp_allow",
    "mcp test": "mcp.mcp_trial:mcp_test",
    "mcp approve": "mcp.mcp_approve",
    "mcp login": "mcp.mcp_login",
    "mcp logout": "mcp.mcp_login",
    "mcp add": "mcp.mcp_edit",
    "mcp remove": "mcp.mcp_edit",
    "mcp import": "mcp.mcp_import",
    "mcp secret": "mcp.mcp_secret",
    "mcp restart": "mcp.mcp_restart",
    "tools": "setup.tools",
    "skills": "setup.skills",
    "agents": "setup.agents",
    "config": "setup.config",
    "profiles": "setup.profile_verbs:profiles",
    "plugins": "setup.plugin_verbs:plugins",
    "serve": "setup.serve",
    "doctor": "setup.doctor",
    "debug": "setup.debug",
    "conformance": "setup.conformance",
    "completion": "completion",
}
"""The module of a verb, or of a verb and an action, and its function if that has another name than the module."""


def run_verb(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    try:
        words = [
            os.fsencode(word).decode("utf-8", "replace") for word in arguments
        ]  # bytes of any kind arrive
        damaged = [word for word, given in zip(words, arguments, strict=True) if word != given]
        words = _without_habits(words)
        _refuse_a_folder_that_is_gone()
        try:
            _refuse_a_setting_behind_c(words)
            parsed = parser(only=words[0]).parse_words(words)
            if damaged:
                _refuse_another_file(parsed, damaged)
        except UsageError as failure:
            if (form := _form_asked(words)) is None:
                raise
            from bridle.cli.run.run import fail_as

            return fail_as(failure, form, os.environ)
        return _carry_out(parsed)
    except BridleError as failure:
        from bridle.base.secrets.redact import error_marker, redact
        from bridle.base.text.terminal_text import visible

        tell(visible(redact(failure.message, error_marker)))
        return failure.exit_code
    except KeyboardInterrupt:
        return 130
    except SystemExit as left:  # the help of a verb was printed
        return int(left.code or 0)
    except BrokenPipeError as problem:
        return unwritten(problem)


def _carry_out(parsed: argparse.Namespace) -> int:
    """Import the function of a verb and run it."""
    verb = parsed.verb
    action = f"{verb} {getattr(parsed, 'action', '')}"
    module, _, function = (_FUNCTIONS.get(action) or _FUNCTIONS[verb]).partition(":")
    function = function or module.rpartition(".")[2]
    return getattr(import_module(f"bridle.cli.{module}"), function)(parsed, dict(os.environ))


def _without_habits(arguments: list[str]) -> list[str]:
    """Our name for a verb, its default action spelled out; refuses a word that is no verb."""
    if not arguments or arguments[0].startswith("-") or " " in arguments[0]:
        rest = _without_print(arguments)
        return [TALK if rest == arguments else "run", *rest]
    first, *rest = *OTHER_NAMES.get(arguments[0], arguments[0]).split(" "), *arguments[1:]
    if first == "creds":
        first, *rest = older_words(rest)
    if first == "token" and rest and rest[0].startswith("-"):
        return [first, "mint", *rest]
    if first == "mcp" and (not rest or rest[0] == "-C") and _is_piped():
        return [first, "serve", *rest]
    if first in DEFAULT_ACTIONS and (not rest or rest[0].startswith("-")):
        return [first, DEFAULT_ACTIONS[first], *rest]
    if first in VERBS:
        return [first, *(_without_print(rest) if first == "run" else rest)]
    from bridle.base.text.spelling import nearest

    near = "--version" if first == "version" else nearest(first, VERBS)
    hint = f" Did you mean {near}?" if near else ""
    raise UsageError(f'No command "{first}".{hint} As a prompt: bridle -- {_quoted(arguments)}')


def _is_piped() -> bool:
    """Whether another program is at the other end of stdin."""
    import stat

    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _without_print(words: list[str]) -> list[str]:
    """Without the `-p` that means a run, wherever it stands; what comes behind `--` is a prompt."""
    options = words[: words.index("--")] if "--" in words else words
    place = next((at for at, word in enumerate(options) if word in ("-p", "--print")), None)
    return words if place is None else words[:place] + words[place + 1 :]


def _refuse_a_folder_that_is_gone() -> None:
    """Where nothing can be relative to, nothing begins."""
    try:
        os.getcwd()
    except OSError as problem:
        raise CommandRefused(
            "UnreadableFolder", path="The current folder", problem=problem.strerror
        ) from None


def _refuse_another_file(parsed: argparse.Namespace, damaged: Sequence[str]) -> None:
    """A path whose bytes are no text would be the path of another file, or of none. Prompts may have any bytes."""
    for name in _PATHS:
        given = getattr(parsed, name, None) or ()
        for path in (given,) if isinstance(given, str) else given:
            if "\ufffd" in path and any(word.endswith(path) for word in damaged):
                raise UsageError(f"{path} cannot be used: its name is not UTF-8 text. Rename it")


def _refuse_a_setting_behind_c(words: Sequence[str]) -> None:
    """`-c key=value` is a setting elsewhere; here it would send the setting to a model, in the newest session."""
    for option, word in pairwise(words):
        if option == "--" or words[0] not in (TALK, "run"):
            return
        name, equals, _ = word.partition("=")
        if option == "-c" and equals and " " not in word and name.replace(".", "_").isidentifier():
            raise UsageError(
                f"-c goes on with the newest session. For a setting: --set {word}. As a prompt: -c -- {word}"
            )


def _form_asked(words: Sequence[str]) -> Format | None:
    """The form for programs that a run was asked for, in words of which others mean nothing; None for people."""
    if words[0] != "run":
        return None
    options = words[: words.index("--")] if "--" in words else words
    named = {
        word.partition("=")[2] or after
        for word, after in pairwise((*options, ""))
        if word.startswith("--output-format")
    }
    if "hub" in named:
        return "hub"
    if "--stream-json" in options or "stream-json" in named:
        return "stream-json"
    return "json" if "--json" in options or "json" in named else None


def _quoted(arguments: Sequence[str]) -> str:
    import shlex

    return shlex.quote(" ".join(arguments))
