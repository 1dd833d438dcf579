"""Every verb and option there is: the one argument parser. `completion` reads from it what can be typed."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, get_args

from bridle.base.ids import SESS, read_list_place
from bridle.base.text.spelling import meant_words, nearest
from bridle.protocol.errors import UsageError
from bridle.protocol.events import Mode

VERBS = (
    "run", "demo", "sessions", "undo", "cost", "login", "logout", "models", "tools", "skills", "agents", "memory",
    "config", "profiles", "plugins", "permissions", "trust", "sandbox", "hooks", "mcp", "serve", "attach", "token",
    "doctor", "redact", "debug", "conformance", "completion", "help",
)  # fmt: skip
TALK = "talk"
"""The verb of a call without one: nothing at all, options, or a prompt of several words."""
DEFAULT_ACTIONS = {
    "sessions": "list",
    "skills": "list",
    "agents": "list",
    "config": "show",
    "profiles": "list",
    "plugins": "list",
    "permissions": "list",
    "trust": "list",
    "sandbox": "show",
    "hooks": "list",
    "memory": "list",
    "mcp": "list",
    "token": "list",
    "debug": "request",
}
"""What a verb does when no action is named."""
OTHER_NAMES = {
    "exec": "run", "list-tools": "tools", "list-agents": "agents", "policy": "permissions",
    "ack": "trust ack", "verify-ack": "trust verify",
}  # fmt: skip
"""What other tools taught people to type."""
_KEY_PLACE = (
    "A key is never a word of a command, where the shell's history keeps it: bridle login asks for it, or reads it "
    "from stdin."
)
_MODE_HERE = "Here it is --mode."
ELSEWHERE = {
    "--dangerously-skip-permissions": "Yes to questions of one run: -y. No questions at all: --mode yolo.",
    "--dangerously-bypass-approvals-and-sandbox": "No questions at all: --mode yolo. No sandbox: -s off.",
    "--full-auto": "Without questions, in the sandbox: --mode auto.",
    "--allowedTools": "What runs without a question: --allow RULE.",
    "--allowed-tools": "What runs without a question: --allow RULE.",
    "--disallowedTools": "What never runs: --deny RULE.",
    "--disallowed-tools": "What never runs: --deny RULE.",
    "--permission-mode": _MODE_HERE,
    "--approval-mode": _MODE_HERE,
    "--ask-for-approval": _MODE_HERE,
    "--thinking": "Here it is --effort.",
    "--session-id": "Here it is --session KEY.",
    "--fork-session": "Here it is --fork.",
    "--system-prompt": "Here it is --append-system-prompt.",
    "--cd": "Here it is -C.",
    "--api-key": _KEY_PLACE,
}
"""Options of other agents, each with what to type here."""


class Parser(argparse.ArgumentParser):
    """Argument errors in our words; help pages instead of generated lists."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.arguments: list[argparse.Action] = []
        """Its own options and positional arguments, in order."""
        self.below: dict[str, Parser] = {}
        """The parsers of its verbs or actions, by name."""
        # One formatter, which checks every argument, of a fixed width: asking the terminal would import `shutil` for
        # lists that are never shown. No abbreviations: a flag that lifts a question is written out, and a script goes
        # on to mean the same when another flag comes.
        super().__init__(
            *arguments,
            formatter_class=functools.cache(functools.partial(argparse.HelpFormatter, width=100)),
            allow_abbrev=False,
            **options,
        )

    def add_argument(self, *arguments: Any, **options: Any) -> argparse.Action:
        action = super().add_argument(*arguments, **options)
        self.arguments.append(action)
        return action

    def add_below(self, dest: str, *, required: bool = False) -> Callable[[str], Parser]:
        """What makes the parsers one level down: verbs, or the actions of a verb."""
        group = self.add_subparsers(dest=dest, required=required, parser_class=Parser)

        def add(name: str) -> Parser:
            self.below[name] = group.add_parser(name)
            return self.below[name]

        return add

    def parse_words(self, words: list[str]) -> argparse.Namespace:
        """What was typed. A word that means nothing is named with the option that was probably meant."""
        behind: list[str] = []
        if words[:2] == ["mcp", "add"] and "--" in words:  # a command of its own, which may have a -- as well
            at = words.index("--")
            words, behind = words[:at], words[at + 1 :]
        parsed, rest = self.parse_known_args(words)
        if behind:
            parsed.words += behind
        if rest:
            meant = next(iter(getattr(parsed, "prompt", None) or ()), "")
            if meant in VERBS and words[0] not in VERBS:
                raise UsageError(f"Options come after the verb: bridle {meant} … See: bridle help {meant}")
            verb = self.below[words[0]]
            verb.below.get(getattr(parsed, "action", None) or "", verb).refuse(rest[0])
        return parsed

    def refuse(self, word: str) -> NoReturn:
        """There is no such word here."""
        name = word.partition("=")[0]
        options = {
            option.lstrip("-"): option for action in self.arguments for option in action.option_strings
        }
        near = nearest(name.lstrip("-"), options) if name.startswith("-") else None
        hint = ELSEWHERE.get(name) or (f"Did you mean {options[near]}?" if near else "")
        if self.prog == f"bridle {TALK}" and _is_of_run(name):
            hint = f"It is one of a run: bridle run {name} …"
        what = f'There is no option "{name}" here' if name.startswith("-") else f'"{word}" means nothing here'
        if self._topic == "login" and not name.startswith("-"):
            what, hint = "One word too many", _KEY_PLACE  # which it may be, so it is not said again
        raise UsageError(
            " ".join(filter(None, (f"{what}.", hint, f"See: bridle help {self._topic}"))).rstrip()
        )

    def error(self, message: str) -> NoReturn:
        missing = message.removeprefix("the following arguments are required: ")
        said = message.removeprefix("argument ") if missing == message else f"{missing} is missing"
        option, sign, _ = said.partition(": ignored explicit argument")
        said = f"{option} takes no value" if sign else said
        raise UsageError(f"{said}. See: bridle help {self._topic}".rstrip())

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """A word that is none of those there are is named with them, and with the one that was probably meant."""
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        hint = meant_words(str(value), known)
        name = "/".join(action.option_strings) or self._topic
        raise UsageError(
            f'{name}: "{value}" is none of {", ".join(known)}.{hint} See: bridle help {self._topic}'.rstrip()
        )

    def format_help(self) -> str:
        from bridle.cli.help import PAGES

        return PAGES[self._topic]

    @property
    def _topic(self) -> str:
        from bridle.cli.help import topic_of

        return topic_of(self.prog.split()[1:])


@functools.cache
def parser(only: str | None = None) -> Parser:
    """The parser of every verb, or of one: each costs time before the first word.

    `completion` reads from the whole one what can be typed.
    """
    root = Parser(prog="bridle", add_help=False)
    verb = root.add_below("verb", required=True)
    for name, add_words in _WORDS.items():
        if only in (None, name):
            add_words(verb(name))
    return root


def _is_of_run(option: str) -> bool:
    return any(option in action.option_strings for action in parser("run").below["run"].arguments)


class _NamedFolder(argparse.Action):
    """A folder that was named, not one that somebody happens to be in."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        namespace.cwd, namespace.folder_named = values, True


def _session_options(verb: Parser) -> None:
    """What opens or resumes a session, for talking and for a run alike."""
    verb.add_argument("prompt", nargs="*")
    verb.add_argument("-m", "--model", metavar="MODEL")
    verb.add_argument("-y", "--yes", "--auto-approve", action="store_true")
    _personal_answers(verb)
    verb.add_argument("--mode", choices=get_args(Mode))
    for mode in ("plan", "yolo"):
        verb.add_argument(
            f"--{mode}", dest="mode", action="store_const", const=mode, default=argparse.SUPPRESS
        )
    verb.add_argument("--strict-permissions", action="store_true")
    _agent_options(verb)
    verb.add_argument("--append-system-prompt", metavar="TEXT|@FILE")
    verb.add_argument("--persistent-grants", action=argparse.BooleanOptionalAction)
    verb.add_argument("--memory", action=argparse.BooleanOptionalAction)
    verb.add_argument("-s", "--sandbox", choices=("auto", "off", "read-only", "workspace-write"))
    _network_options(verb)
    verb.add_argument("-C", "--cwd", default=".", metavar="DIR", action=_NamedFolder)
    verb.set_defaults(folder_named=False)
    verb.add_argument("-c", "--continue", dest="resume_newest", action="store_true")
    verb.add_argument("--fork", action="store_true")
    verb.add_argument("--session", metavar="NAME")
    verb.add_argument("-n", "--name", metavar="TITLE")
    verb.add_argument("--allow", action="append", default=[], metavar="RULE")
    verb.add_argument("--deny", action="append", default=[], metavar="RULE")
    verb.add_argument("--max-steps", "--max-turns", type=_positive)
    verb.add_argument("--max-cost", type=_dollars, metavar="USD")
    verb.add_argument("--effort", choices=("off", "low", "medium", "high", "max"))
    verb.add_argument("--dry-run", action="store_true")
    verb.add_argument("--no-transcript", dest="transcript", action="store_const", const="off")
    verb.add_argument("--add-dir", action="append", default=[], metavar="DIR")
    verb.add_argument("--env-file", metavar="FILE")
    verb.add_argument("--lockfile", metavar="FILE")
    verb.add_argument("--require-trust", action="store_true")
    verb.add_argument("--allow-project-hooks", action="store_true")
    verb.add_argument("--verbose", action="store_true")
    verb.add_argument("--log-level", metavar="LEVELS")
    verb.add_argument("--log-to-stderr", action="store_true")
    verb.add_argument("--no-attach", action="store_true")
    verb.add_argument("--on-orphan", choices=("ask", "fail", "mark-unknown"), default="fail")
    _settings_options(verb)


def _agent_options(verb: Parser) -> None:
    """Who is talked with, whether they may send others, and how much each of them reads."""
    verb.add_argument("--agent", metavar="AGENT")
    verb.add_argument("--agent-mode", choices=("single", "multi"))
    for mode in ("single", "multi"):
        verb.add_argument(
            f"--{mode}-agent", dest="agent_mode", action="store_const", const=mode, default=argparse.SUPPRESS
        )
    for who in ("main", "sub"):
        verb.add_argument(f"--{who}-max-context-tokens", type=_positive, metavar="N")
        verb.add_argument(f"--{who}-compact-at", type=_share, metavar="SHARE")


def _personal_answers(verb: Parser) -> None:
    """What a person may say at the start and nobody but them: `-y`, a mode or a file never means it."""
    verb.add_argument("--allow-policy-changes", action="store_true")
    verb.add_argument("--allow-unsandboxed", action="store_true")


def _talk_words(talk: Parser) -> None:
    _session_options(talk)
    talk.add_argument("-r", "--resume", metavar="ID", nargs="?", const="")
    talk.add_argument("--plain", action="store_true")
    talk.add_argument("--no-color", action="store_true")
    talk.set_defaults(on_ask=None, on_orphan="ask")


def _run_words(run: Parser) -> None:
    _session_options(run)
    run.add_argument("-r", "--resume", metavar="ID")
    run.add_argument("--json", action="store_true")
    run.add_argument("--stream-json", action="store_true")
    run.add_argument("--output-format", choices=("text", "json", "stream-json", "hub"))
    run.add_argument("--stream", action=argparse.BooleanOptionalAction)
    run.add_argument("--plain", action="store_true")
    run.add_argument("--no-color", action="store_true")
    run.add_argument("-q", "--quiet", action="store_true")
    run.add_argument("--timeout", type=_seconds, metavar="S")
    run.add_argument("--on-ask", choices=("deny", "fail", "wait"))
    run.add_argument("-i", "--image", action="append", default=[], metavar="FILE")
    run.add_argument("--prompt-file", metavar="FILE")
    run.add_argument("--output-schema", metavar="FILE")
    run.add_argument("--goal", action="store_true")
    run.add_argument("--check", metavar="COMMAND")
    run.add_argument("--check-agent", metavar="NAME")
    run.add_argument("--rounds", type=_positive, metavar="N")
    run.add_argument("-o", "--output", metavar="FILE")


def _serve_words(serve: Parser) -> None:
    serve.add_argument("--listen", metavar="HOST:PORT")
    serve.add_argument("--no-listen", action="store_true")
    serve.add_argument("--auth-token-file", metavar="FILE")
    serve.add_argument("--tls-cert", metavar="FILE")
    serve.add_argument("--tls-key", metavar="FILE")
    serve.add_argument("--auth-channel", choices=("notify",))
    serve.add_argument("--idle-exit", type=_seconds, metavar="S")
    serve.add_argument(
        "--print-unit", nargs="?", choices=("systemd", "launchd"), const=_unit_of_this_system()
    )


def _mcp_words(mcp: Parser) -> None:
    action = mcp.add_below("action")
    _mcp_server_words(action)
    _mcp_client_words(action)


def _mcp_client_words(action: Callable[[str], Parser]) -> None:
    """The servers whose tools sessions have."""
    listed, show, test = action("list"), action("show"), action("test")
    add, remove, logs, restart = action("add"), action("remove"), action("logs"), action("restart")
    login, logout, secret, imported = action("login"), action("logout"), action("secret"), action("import")
    approve = action("approve")
    for verb in (show, test, remove, logs, restart, login, logout, approve):
        verb.add_argument("name", metavar="SERVER")
    for verb in (add, secret):
        verb.add_argument("name", metavar="NAME")
    secret.add_argument("--remove", action="store_true")
    imported.add_argument("file", nargs="?", metavar="FILE")
    for name in ("--dry-run", "--yes", "--json"):
        imported.add_argument(name, action="store_true")
    add.add_argument("words", nargs="*", metavar="CMD|URL")
    add.add_argument("--transport", choices=("http", "sse"))
    logs.add_argument("-n", "--lines", type=_positive, default=100, metavar="N")
    test.add_argument("--call", metavar="TOOL")
    test.add_argument("--arguments", metavar="JSON")
    test.add_argument("--defaults", action="store_true")
    for option in ("--no-open", "--no-check", "--secret"):
        login.add_argument(option, action="store_true")
    for verb in (listed, show, test):
        verb.add_argument("--json", action="store_true")
    for verb in (listed, show, test, login, approve):
        _settings_options(verb)


def _mcp_server_words(action: Callable[[str], Parser]) -> None:
    """Bridle as a tool of other programs, and which of those a person lets in."""
    action("serve").add_argument("-C", "--cwd", default=".", metavar="DIR")
    action("parents").add_argument("--json", action="store_true")
    allow = action("allow")
    allow.add_argument("id", metavar="ID")
    allow.add_argument("--auto-attach", action="store_true")
    action("forget").add_argument("id", metavar="ID")


def _profiles_words(profiles: Parser) -> None:
    action = profiles.add_below("action")
    listed, show, new, check = action("list"), action("show"), action("new"), action("check")
    show.add_argument("name", metavar="PROFILE")
    new.add_argument("name", metavar="NAME")
    new.add_argument("--like", metavar="PROFILE")
    check.add_argument("name", nargs="?", metavar="PROFILE")
    for verb in (listed, show, check):
        verb.add_argument("--json", action="store_true")


def _plugins_words(plugins: Parser) -> None:
    action = plugins.add_below("action")
    listed = action("list")
    listed.add_argument("--why", action="store_true")
    listed.add_argument("--json", action="store_true")
    _settings_options(listed)
    add = action("add")
    add.add_argument("source", metavar="DIR|URL")
    add.add_argument("--ref", metavar="REF")
    add.add_argument("--digest", metavar="SHA256")
    update = action("update")
    update.add_argument("name", metavar="NAME")
    update.add_argument("--digest", metavar="SHA256")
    action("remove").add_argument("name", metavar="NAME")
    action("verify").add_argument("--json", action="store_true")
    new = action("new")
    new.add_argument("name", metavar="NAME")
    new.add_argument("folder", nargs="?", metavar="DIR")


def _attach_words(attach: Parser) -> None:
    attach.add_argument("target", nargs="?", metavar="ID|URL")
    attach.add_argument("--watch", action="store_true")
    attach.add_argument("--session", metavar="ID")
    attach.add_argument("--token-file", metavar="FILE")
    attach.add_argument("--ca-file", metavar="FILE")
    attach.add_argument("--plain", action="store_true")
    attach.add_argument("--no-color", action="store_true")


def _conformance_words(conformance: Parser) -> None:
    conformance.add_argument("--self", action="store_true")
    conformance.add_argument("--against", metavar="URL")
    conformance.add_argument(
        "--transport",
        choices=("all", "inproc", "rest-unix", "rest-tcp", "ws-unix", "ws-tcp"),
        default="all",
    )
    conformance.add_argument("--token-file", action="append", default=[], metavar="FILE")
    conformance.add_argument("--agent-token-file", action="append", default=[], metavar="FILE")
    conformance.add_argument("--ca-file", metavar="FILE")
    conformance.add_argument("-C", "--cwd", metavar="DIR")
    conformance.add_argument("--models", metavar="PREFIX")
    conformance.add_argument("--json", action="store_true")
    conformance.add_argument("--badge", metavar="FILE")


def _unit_of_this_system() -> str:
    return "launchd" if sys.platform == "darwin" else "systemd"


def _no_words(_demo: Parser) -> None:
    """It takes none."""


def _sessions_words(sessions: Parser) -> None:
    action = sessions.add_below("action")
    listed = action("list")
    listed.add_argument("--all", action="store_true")
    listed.add_argument("--limit", type=_positive, metavar="N")
    listed.add_argument("--after", type=_place_in_list, metavar="PLACE")
    listed.add_argument("--json", action="store_true")
    show = action("show")
    show.add_argument("id", metavar="ID")
    show.add_argument("--json", action="store_true")
    show.add_argument("--tree", action="store_true")
    replay = action("replay")
    replay.add_argument("id", metavar="ID")
    replay.add_argument("--pace", type=_pace, metavar="N")
    replay.add_argument("--step", action="store_true")
    search = action("search")
    search.add_argument("words", nargs="+", metavar="WORDS")
    search.add_argument("--all", action="store_true")
    search.add_argument("--limit", type=_positive, default=20, metavar="N")
    search.add_argument("--json", action="store_true")
    export = action("export")
    export.add_argument("id", nargs="?")
    export.add_argument("--json", action="store_true")  # the default form is JSON
    export.add_argument("--session", dest="id_option", metavar="ID")
    export.add_argument(
        "--format", choices=("jsonl", "envelope", "events", "chain", "markdown", "md", "html")
    )
    export.add_argument("-o", "--output", metavar="FILE")
    export.add_argument("--force", action="store_true")
    diff = action("diff")
    diff.add_argument("id", metavar="ID")
    diff.add_argument("other", nargs="?", metavar="ID")
    diff.add_argument("--stat", action="store_true")
    diff.add_argument("--json", action="store_true")
    _session_changes_words(action)


def _session_changes_words(action: Callable[[str], Parser]) -> None:
    branch = action("branch")
    branch.add_argument("id", metavar="ID")
    branch.add_argument("--at", type=_positive, metavar="TURN")
    branch.add_argument("-n", "--name", metavar="TITLE")
    branch.add_argument("--json", action="store_true")
    imported = action("import")
    imported.add_argument("file", metavar="FILE")
    imported.add_argument("-C", "--cwd", default=".", metavar="DIR")
    imported.add_argument("--json", action="store_true")
    rename = action("rename")
    rename.add_argument("id", metavar="ID")
    rename.add_argument("title", nargs="*", metavar="TITLE")
    pin = action("pin")
    pin.add_argument("id", metavar="ID")
    pin.add_argument("--off", action="store_true")
    action("dismiss").add_argument("id", nargs="*", metavar="ID")
    delete = action("delete")
    delete.add_argument("id", nargs="+", metavar="ID")
    delete.add_argument("-y", "--yes", action="store_true")
    action("prune").add_argument("--dry-run", action="store_true")
    repair = action("repair")
    repair.add_argument("--check", action="store_true")
    repair.add_argument("--json", action="store_true")
    backup = action("backup")
    backup.add_argument("file", metavar="FILE")
    backup.add_argument("--json", action="store_true")
    action("rekey")


def _undo_words(undo: Parser) -> None:
    undo.add_argument("what", nargs="?", metavar="TURN|CALL|SESSION")
    undo.add_argument("--redo", action="store_true")
    undo.add_argument("--dry-run", action="store_true")
    undo.add_argument("-y", "--yes", action="store_true")
    undo.add_argument("--conflicts", choices=("skip", "overwrite", "stop"))
    undo.add_argument("--session", metavar="ID")
    undo.add_argument("-C", "--cwd", default=".", metavar="DIR")
    undo.add_argument("--add-dir", action="append", default=[], metavar="DIR")


def _cost_words(cost: Parser) -> None:
    cost.add_argument("--since", metavar="7d")
    cost.add_argument("--by", choices=("model", "session", "day"), default="model")
    cost.add_argument("--session", metavar="ID")
    cost.add_argument("--json", action="store_true")
    _settings_options(cost)


def _login_words(login: Parser) -> None:
    login.add_argument("provider", nargs="?", metavar="PROVIDER")
    what = login.add_mutually_exclusive_group()
    for option in ("--key", "--device", "--browser", "--list", "--check"):
        login.arguments.append(what.add_argument(option, action="store_true"))
    login.arguments.append(what.add_argument("--export", metavar="FILE"))
    login.arguments.append(what.add_argument("--import", dest="import_file", metavar="FILE"))
    login.arguments.append(what.add_argument("--lock", choices=("passphrase", "machine", "automatic")))
    login.add_argument("--stdin", action="store_true")  # a key; what is piped in is read anyway
    login.add_argument("--no-check", action="store_true")
    login.add_argument("--no-open", action="store_true")
    login.add_argument("--account", metavar="NAME")
    login.add_argument("--json", action="store_true")
    _settings_options(login)


def _logout_words(logout: Parser) -> None:
    logout.add_argument("provider", nargs="?", metavar="PROVIDER")
    logout.add_argument("--all", action="store_true")
    _settings_options(logout)


def older_words(words: list[str]) -> list[str]:
    """`creds add|list|delete|import|export` as the verbs of today. Raises `UsageError` for anything else."""
    match words:
        case [] | ["list", *_]:
            return ["login", "--list", *words[1:]]
        case ["add", provider]:
            return ["login", provider]
        case ["add", provider, account]:
            return ["login", provider, "--account", account]
        case ["add", _, _, *_]:
            raise UsageError(
                "A key is never a word of a command: others on this machine could read it. bridle login asks for it"
            )
        case ["delete", provider, *_]:
            return ["logout", provider]
        case ["import" | "export" as action, file]:
            return ["login", f"--{action}", file]
        case _:
            raise UsageError("See: bridle help login")


def _models_words(models: Parser) -> None:
    models.add_argument("filter", nargs="?", metavar="PROVIDER")
    models.add_argument("--keys", action="store_true")
    models.add_argument("--refresh", action="store_true")
    models.add_argument("--json", action="store_true")
    _settings_options(models)


def _tools_words(tools: Parser) -> None:
    tools.add_argument("action", nargs="?", choices=("list",))
    tools.add_argument("--json", action="store_true")
    _settings_options(tools)


def _skills_words(skills: Parser) -> None:
    action = skills.add_below("action")
    listed = action("list")
    show = action("show")
    show.add_argument("name", metavar="SKILL")
    for verb in (listed, show):
        _settings_options(verb)
    check = action("check")
    check.add_argument("path", nargs="*", metavar="PATH")
    new = action("new")
    new.add_argument("name", metavar="NAME")
    new.add_argument("--description", metavar="TEXT")
    new.add_argument("--own", action="store_true")
    for verb in (listed, show, check, new):
        verb.add_argument("--json", action="store_true")


def _agents_words(agents: Parser) -> None:
    action = agents.add_below("action")
    listed, show, check, new = action("list"), action("show"), action("check"), action("new")
    use, forget = action("use"), action("forget")
    use.add_argument("name", metavar="AGENT")
    show.add_argument("name", metavar="AGENT")
    check.add_argument("path", nargs="*", metavar="FILE")
    new.add_argument("name", metavar="NAME")
    new.add_argument("--description", metavar="TEXT")
    new.add_argument("--own", action="store_true")
    for verb in (listed, show, check):
        _settings_options(verb)
    for verb in (listed, show, check, new, use, forget):
        verb.add_argument("--json", action="store_true")


def _config_words(config: Parser) -> None:
    action = config.add_below("action")
    show = action("show")
    show.add_argument("--origin", action="store_true")
    show.add_argument("--json", action="store_true")
    _settings_options(show)
    get = action("get")
    get.add_argument("key", metavar="KEY")
    _settings_options(get)
    change = action("set")
    change.add_argument("key", metavar="KEY")
    change.add_argument("value", metavar="VALUE")
    action("unset").add_argument("key", metavar="KEY")
    edit = action("edit")
    edit.add_argument("--project", action="store_true")
    edit.add_argument("--local", action="store_true")
    validate = action("validate")
    validate.add_argument("--json", action="store_true")
    _settings_options(validate)
    action("path")


def _permissions_words(permissions: Parser) -> None:
    action = permissions.add_below("action")
    listed = action("list")
    listed.add_argument("--json", action="store_true")
    explain = action("explain")
    explain.add_argument("tool", nargs="?", metavar="TOOL")
    explain.add_argument("input", nargs="?", metavar="JSON")
    explain.add_argument("--batch", action="store_true")
    explain.add_argument("--json", action="store_true")
    explain.add_argument("--mode", choices=get_args(Mode))
    _personal_answers(explain)
    explain.add_argument("--allow", action="append", default=[], metavar="RULE")
    explain.add_argument("--deny", action="append", default=[], metavar="RULE")
    explain.add_argument("--add-dir", action="append", default=[], metavar="DIR")
    for verb in (listed, explain):
        _settings_options(verb)
    action("revoke").add_argument("grant", metavar="ID|all")
    action("promote").add_argument("grant", metavar="ID")


def _token_words(token: Parser) -> None:
    action = token.add_below("action")
    mint = action("mint")
    mint.add_argument("--session", action="append", default=[], metavar="ID")
    mint.add_argument("--identity-class", choices=("human", "agent"), default="human")
    mint.add_argument("--watch", action="store_true")
    mint.add_argument("--approve", action="store_true")
    mint.add_argument("--for", dest="life", default="24h", metavar="TIME")
    mint.add_argument("--name", metavar="NAME")
    mint.add_argument("--out", metavar="FILE")
    mint.add_argument("--print", action="store_true")
    mint.add_argument("--ci", action="store_true")
    action("list").add_argument("--json", action="store_true")
    action("revoke").add_argument("jti", metavar="TOKEN_ID")
    audit = action("audit")
    audit.add_argument("--session", action="append", default=[], metavar="ID")
    audit.add_argument("--json", action="store_true")


def _trust_words(trust: Parser) -> None:
    action = trust.add_below("action")
    listed = action("list")
    listed.add_argument("--all", action="store_true")
    listed.add_argument("--json", action="store_true")
    ack = action("ack")
    ack.add_argument("path", nargs="*", metavar="PATH")
    ack.add_argument("--all", action="store_true")
    ack.add_argument("--emit-lockfile", nargs="?", const="approved.lock", metavar="FILE")
    action("verify").add_argument("--lockfile", metavar="FILE")
    action("diff").add_argument("path", metavar="PATH")
    action("revoke").add_argument("what", metavar="PATH|ID|all")


def _network_options(verb: Parser) -> None:
    verb.add_argument("--network", choices=("inherit", "filtered", "deny"))
    verb.add_argument("--allow-host", action="append", default=[], metavar="HOST")


def _sandbox_words(sandbox: Parser) -> None:
    action = sandbox.add_below("action")
    show = action("show")
    show.add_argument("--json", action="store_true")
    run = action("run")
    run.add_argument("command", nargs="*", metavar="CMD")
    run.add_argument("--mode", choices=("auto", "off", "read-only", "workspace-write"))
    run.add_argument("-C", "--cwd", default=".", metavar="DIR")
    run.add_argument("--add-dir", action="append", default=[], metavar="DIR")
    probe = action("probe")
    probe.add_argument("--adapter", choices=("bubblewrap", "landlock", "unshare", "sandbox-exec"))
    probe.add_argument("--json", action="store_true")
    back = action("give-back")
    back.add_argument("path", nargs="+", metavar="PATH")
    for verb in (run, probe):
        _network_options(verb)
    for verb in (show, run, probe):
        _settings_options(verb)


def _hooks_words(hooks: Parser) -> None:
    action = hooks.add_below("action")
    listed = action("list")
    listed.add_argument("--json", action="store_true")
    test = action("test")
    test.add_argument("event", metavar="EVENT")
    test.add_argument("--tool", metavar="NAME")
    test.add_argument("--input", metavar="JSON")
    for verb in (listed, test):
        verb.add_argument("--allow-project-hooks", action="store_true")
        _settings_options(verb)


def _memory_words(memory: Parser) -> None:
    action = memory.add_below("action")
    listed, show, path = action("list"), action("show"), action("path")
    for verb in (listed, show, path):
        verb.add_argument("--json", action="store_true")
    path.add_argument("name", nargs="?", metavar="NAME")
    add = action("add")
    for verb in (show, add, action("edit"), action("remove")):
        verb.add_argument("name", metavar="NAME")
    add.add_argument("text", nargs="*", metavar="TEXT|-")
    add.add_argument("-d", "--description", metavar="LINE")
    add.add_argument("--scope", choices=("project", "user"), default="project")
    add.add_argument("--type", choices=("user", "feedback", "project", "reference"))
    add.add_argument("--tag", action="append", default=[], metavar="WORD")


def _doctor_words(doctor: Parser) -> None:
    doctor.add_argument("--offline", action="store_true")
    doctor.add_argument("--json", action="store_true")
    _settings_options(doctor)


def _redact_words(redact: Parser) -> None:
    redact.add_argument("--kinds", action="store_true")


def _debug_words(debug: Parser) -> None:
    below = debug.add_below("action")
    below("raw").add_argument("id", metavar="ID", nargs="?")
    request = below("request")
    _session_options(request)
    request.add_argument("-r", "--resume", metavar="ID")
    request.set_defaults(on_ask="deny")


def _completion_words(completion: Parser) -> None:
    completion.add_argument(
        "shell",
        metavar="SHELL",
        choices=("bash", "zsh", "fish", "sessions", "profiles", "models", "skills", "agents", "servers"),
    )


_WORDS: Mapping[str, Callable[[Parser], None]] = {
    "talk": _talk_words,
    "run": _run_words,
    "demo": _no_words,
    "sessions": _sessions_words,
    "undo": _undo_words,
    "cost": _cost_words,
    "login": _login_words,
    "logout": _logout_words,
    "models": _models_words,
    "tools": _tools_words,
    "skills": _skills_words,
    "agents": _agents_words,
    "config": _config_words,
    "profiles": _profiles_words,
    "plugins": _plugins_words,
    "permissions": _permissions_words,
    "trust": _trust_words,
    "sandbox": _sandbox_words,
    "hooks": _hooks_words,
    "memory": _memory_words,
    "mcp": _mcp_words,
    "serve": _serve_words,
    "attach": _attach_words,
    "token": _token_words,
    "doctor": _doctor_words,
    "redact": _redact_words,
    "debug": _debug_words,
    "conformance": _conformance_words,
    "completion": _completion_words,
}
"""What may follow each verb."""


def _settings_options(verb: Parser) -> None:
    verb.add_argument("--config", metavar="FILE")
    verb.add_argument("--profile", metavar="PROFILE")
    verb.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number < 1e7:
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of seconds above 0')
    return number


def _pace(text: str) -> float:
    try:
        number = float(text.removesuffix("x"))
    except ValueError:
        number = 0
    if not 0 < number <= 1e6:
        raise argparse.ArgumentTypeError(f'"{text}" is not how many times as fast')
    return number


def _dollars(text: str) -> float:
    try:
        number = float(text.removeprefix("$"))
    except ValueError:
        number = 0
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError(f'"{text}" is not an amount of dollars above 0')
    return number


def _share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f'"{text}" is not a share above 0 and at most 1')
    return number


def _place_in_list(text: str) -> tuple[int, str]:
    place = read_list_place(text, SESS)
    if place is None:
        raise argparse.ArgumentTypeError(f'"{text}" is no place that bridle sessions list gave out')
    return place


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number above 0')
    return number
