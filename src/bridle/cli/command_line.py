"""From the words of a command line to a verb: parse them, run the verb, and turn failures into exit codes."""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from bridle.base.secrets.redact import error_marker, redact
from bridle.base.text.spelling import meant_words, nearest
from bridle.base.text.terminal_text import visible
from bridle.cli.console import tell, unwritten
from bridle.cli.verbs import TALK, VERBS, verb_names
from bridle.cli.verbs.rows import PATHS, Action, Args, Argument, Option, Verb
from bridle.protocol.errors import BridleError, CommandRefused, UsageError

if TYPE_CHECKING:
    from bridle.clients.print import Format

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
    """An argument parser with our error sentences and help pages. `topic` is its help page."""

    def __init__(self, *, topic: str = "", **options: Any) -> None:
        self.topic = topic
        # One formatter, which checks every argument, of a fixed width: asking the terminal would import `shutil` for
        # lists that are never shown. No abbreviations: a flag that lifts a question is written out, and a script
        # means the same when another flag comes.
        super().__init__(
            formatter_class=functools.cache(functools.partial(argparse.HelpFormatter, width=100)),
            allow_abbrev=False,
            **options,
        )

    def error(self, message: str) -> NoReturn:
        missing = message.removeprefix("the following arguments are required: ")
        said = message.removeprefix("argument ") if missing == message else f"{missing} is missing"
        option, sign, _ = said.partition(": ignored explicit argument")
        said = f"{option} takes no value" if sign else said
        raise UsageError(f"{said}. See: bridle help {self.topic}".rstrip())

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse an unknown value with those there are, and the one that was probably meant."""
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        hint = meant_words(str(value), known)
        name = "/".join(action.option_strings) or self.topic
        raise UsageError(
            f'{name}: "{value}" is none of {", ".join(known)}.{hint} See: bridle help {self.topic}'.rstrip()
        )

    def format_help(self) -> str:
        from bridle.cli.help import pages

        return pages()[self.topic]


def parser(verb: Verb) -> Parser:
    """Return the parser of one verb. Building those of all verbs would take time at every start."""
    root = Parser(prog="bridle", add_help=False)
    below = root.add_subparsers(dest="verb", required=True, parser_class=Parser)
    topic = "" if verb.name == TALK else verb.name
    of_verb = below.add_parser(verb.name, topic=topic)
    _add_row(of_verb, verb)
    if verb.actions:
        actions = of_verb.add_subparsers(dest="action", parser_class=Parser)
        for action in verb.actions:
            _add_row(actions.add_parser(action.name, topic=action.page or topic), action)
    return root


def _add_row(place: Parser, row: Action) -> None:
    for argument in row.arguments:
        place.add_argument(
            argument.dest, metavar=argument.value, nargs=argument.count, choices=argument.choices or None
        )
    groups: dict[str, Any] = {"": place}
    for option in row.options:
        if option.one_of not in groups:
            groups[option.one_of] = place.add_mutually_exclusive_group()
        groups[option.one_of].add_argument(*option.spellings, dest=option.attribute, **_way_to_store(option))
    place.set_defaults(**row.defaults)


def _way_to_store(option: Option) -> Mapping[str, Any]:
    if option.constant is not None:
        return {"action": "store_const", "const": option.constant}
    if not option.value:
        return {"action": "store_true"}
    if option.setting:
        return {"metavar": option.value, "type": _as_setting(option), "default": [], "action": "append"}
    way: dict[str, Any] = {
        "metavar": option.value,
        "type": option.read,
        "choices": option.choices or None,
        "default": [] if option.repeat else option.default,
    }
    if option.repeat:
        return {**way, "action": "append"}
    return way if option.bare is None else {**way, "nargs": "?", "const": option.bare}


def _as_setting(option: Option) -> Callable[[str], str]:
    def read(text: str) -> str:
        return f"{option.setting}={text if option.read is None else option.read(text)}"

    return read


def parse(words: list[str], verbs: Mapping[str, Verb] = VERBS) -> argparse.Namespace:
    """Return what the words of a verb mean. An unknown one is refused with the option that was probably meant."""
    behind: list[str] = []
    if words[:2] == ["mcp", "add"] and "--" in words:  # a command of its own, which may have a -- as well
        at = words.index("--")
        words, behind = words[:at], words[at + 1 :]
    verb = verbs[words[0]]
    parsed, rest = parser(verb).parse_known_args(words)
    if behind:
        parsed.words += behind
    if rest:
        meant = next(iter(getattr(parsed, "prompt", None) or ()), "")
        if verb.name == TALK and meant in verb_names(verbs):
            raise UsageError(f"Options come after the verb: bridle {meant} … See: bridle help {meant}")
        _refuse(rest[0], verb, verb.action(getattr(parsed, "action", None)) or verb)
    return parsed


def _refuse(word: str, verb: Verb, row: Action) -> NoReturn:
    """Refuse a word that means nothing after this verb or action."""
    name = word.partition("=")[0]
    topic = "" if verb.name == TALK else row.page or verb.name
    options = {spelling.lstrip("-"): spelling for option in row.options for spelling in option.spellings}
    near = nearest(name.lstrip("-"), options) if name.startswith("-") else None
    hint = ELSEWHERE.get(name) or (f"Did you mean {options[near]}?" if near else "")
    if verb.name == TALK and any(name in option.spellings for option in VERBS["run"].options):
        hint = f"It is one of a run: bridle run {name} …"
    what = f'There is no option "{name}" here' if name.startswith("-") else f'"{word}" means nothing here'
    if topic == "login" and not name.startswith("-"):
        what, hint = "One word too many", _KEY_PLACE  # which it may be, so it is not said again
    raise UsageError(" ".join(filter(None, (f"{what}.", hint, f"See: bridle help {topic}"))).rstrip())


def run_verb(arguments: list[str]) -> int:
    try:
        words = [
            os.fsencode(word).decode("utf-8", "replace") for word in arguments
        ]  # bytes of any kind arrive
        damaged = [word for word, given in zip(words, arguments, strict=True) if word != given]
        words = _without_habits(words)
        _refuse_a_folder_that_is_gone()
        try:
            _refuse_a_setting_behind_c(words)
            parsed = parse(words)
            if damaged:
                _refuse_another_file(parsed, damaged)
        except UsageError as failure:
            if (form := _form_asked(words)) is None:
                raise
            from bridle.cli.run.run import fail_as

            return fail_as(failure, form, os.environ)
        return _carry_out(parsed)
    except BridleError as failure:
        tell(visible(redact(failure.message, error_marker)))
        return failure.exit_code
    except KeyboardInterrupt:
        return 130
    except SystemExit as left:  # the help of a verb was printed
        return int(left.code or 0)
    except BrokenPipeError as problem:
        return unwritten(problem)


def _carry_out(parsed: Args) -> int:
    verb = VERBS[parsed.verb]
    row = verb.action(getattr(parsed, "action", None))
    module, _, function = ((row.module if row else "") or verb.module).partition(":")
    function = function or module.rpartition(".")[2]
    return getattr(import_module(f"bridle.cli.{module}"), function)(parsed, dict(os.environ))


def _without_habits(arguments: list[str]) -> list[str]:
    """Our name for a verb, its default action spelled out; refuses a word that is no verb."""
    if not arguments or arguments[0].startswith("-") or " " in arguments[0]:
        rest = _without_print(arguments)
        return [TALK if rest == arguments else "run", *rest]
    first, *rest = *_own_name(arguments[0]), *arguments[1:]
    if first == "creds":
        first, *rest = _older_words(rest)
    if first == "token" and rest and rest[0].startswith("-"):
        return [first, "mint", *rest]
    if first == "mcp" and (not rest or rest[0] == "-C") and _is_piped():
        return [first, "serve", *rest]
    names = verb_names(VERBS)
    if first in names and first != "help":
        if (default := VERBS[first].default_action) and (not rest or rest[0].startswith("-")):
            return [first, default, *rest]
        return [first, *(_without_print(rest) if first == "run" else rest)]
    near = "--version" if first == "version" else nearest(first, names)
    hint = f" Did you mean {near}?" if near else ""
    raise UsageError(f'No command "{first}".{hint} As a prompt: bridle -- {_quoted(arguments)}')


def _own_name(word: str) -> tuple[str, ...]:
    """Return our verb, or verb and action, for a name that other programs use."""
    for verb in VERBS.values():
        if word in verb.other_names:
            return (verb.name,)
        for action in verb.actions:
            if word in action.other_names:
                return (verb.name, action.name)
    return (word,)


def _older_words(words: list[str]) -> list[str]:
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


def _refuse_another_file(parsed: Args, damaged: Sequence[str]) -> None:
    """A path whose bytes are no text would be the path of another file, or of none. Prompts may have any bytes."""
    verb = VERBS[parsed.verb]
    row = verb.action(getattr(parsed, "action", None)) or verb
    for path in (one for place in (*row.arguments, *row.options) for one in _paths_given(place, parsed)):
        if "\ufffd" in path and any(word.endswith(path) for word in damaged):
            raise UsageError(f"{path} cannot be used: its name is not UTF-8 text. Rename it")


def _paths_given(place: Argument | Option, parsed: Args) -> Sequence[str]:
    """Return the paths that were given for an argument or an option, if it takes paths."""
    given = getattr(parsed, place.attribute) if place.value in PATHS else None
    return (given,) if isinstance(given, str) else given or ()


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
