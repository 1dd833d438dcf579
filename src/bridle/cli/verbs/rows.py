"""Types of the table of verbs, readers of option values, and options that many verbs share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from bridle.base.ids import SESS, read_list_place
from bridle.protocol.events import Mode

Args: TypeAlias = argparse.Namespace
"""The parsed arguments of a verb."""
Env: TypeAlias = Mapping[str, str]
"""The environment of a command."""


class Argument(msgspec.Struct, frozen=True):
    """A positional argument: its name for the code, its name for users, and its count as in `argparse`."""

    dest: str
    value: str
    count: Literal["?", "*", "+"] | None = None
    choices: tuple[str, ...] = ()

    @property
    def attribute(self) -> str:
        return self.dest

    @property
    def usage(self) -> str:
        several = f"{self.value}…" if self.count in ("*", "+") else self.value
        return f"[{several}]" if self.count in ("?", "*") else several


class Option(msgspec.Struct, frozen=True):
    """An option: every spelling, and one line of help. Without `value` it is a flag."""

    names: str
    """Spellings as a help page shows them: `-m, --model`."""
    help: str
    value: str = ""
    """The value's name on help pages."""
    choices: tuple[str, ...] = ()
    read: Callable[[str], Any] | None = None
    """Convert and check a value. Raises `argparse.ArgumentTypeError`."""
    repeat: bool = False
    default: Any = None
    dest: str = ""
    """The attribute of the parsed arguments, if it is not named after the option."""
    constant: Any = None
    """The value of a flag that is not simply on or off."""
    bare: str | None = None
    """The value if none is given; None: a value is required."""
    one_of: str = ""
    """Options with the same word here exclude each other."""
    setting: str = ""
    """The setting that it is short for: `--NAME VALUE` is `--set SETTING=VALUE`."""

    @property
    def spellings(self) -> tuple[str, ...]:
        return tuple(self.names.split(", "))

    @property
    def attribute(self) -> str:
        """Its name among the parsed arguments."""
        if self.setting:
            return "set"
        longest = next((name for name in self.spellings if name.startswith("--")), self.names)
        return self.dest or longest.lstrip("-").replace("-", "_")

    @property
    def usage(self) -> str:
        value = f" [{self.value}]" if self.bare is not None else f" {self.value}"
        return self.names + (value if self.value else "")

    @property
    def line(self) -> str:
        """Its help with the choices, and that it may be repeated."""
        more = (", ".join(self.choices), "repeatable" if self.repeat else "")
        return self.help + "".join(f" ({text})" for text in more if text)


class Action(msgspec.Struct, frozen=True):
    """A word below a verb, such as `list` in `bridle sessions list`."""

    name: str
    purpose: str
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    defaults: Mapping[str, Any] = {}
    """Values of parsed arguments that no option of this row sets, or sets otherwise."""
    module: str = ""
    """The module below `bridle.cli`, then the function after a colon unless it has the module's name."""
    other_names: tuple[str, ...] = ()
    """Names that other programs use for it."""
    page: str = ""
    """The help page, if it is not that of the verb."""
    options_page: str = ""
    """The help page that lists its options, if that is another one."""
    examples: str = ""
    notes: str = ""

    @property
    def usage(self) -> str:
        return " ".join((self.name, *(argument.usage for argument in self.arguments)))


class Verb(Action, frozen=True, kw_only=True):
    """A verb: `bridle NAME`."""

    actions: tuple[Action, ...] = ()
    default_action: str = ""
    """The action if none is named."""

    def action(self, name: str | None) -> Action | None:
        return next((action for action in self.actions if action.name == name), None)


def _number(sentence: str, *, limit: float, prefix: str = "", suffix: str = "") -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            number = float(text.removeprefix(prefix).removesuffix(suffix))
        except ValueError:
            number = 0
        if not 0 < number <= limit:
            raise argparse.ArgumentTypeError(f'"{text}" is not {sentence}')
        return number

    return read


seconds = _number("a number of seconds above 0", limit=1e7)
pace = _number("how many times as fast", limit=1e6, suffix="x")
dollars = _number("an amount of dollars above 0", limit=1e9, prefix="$")
share = _number("a share above 0 and at most 1", limit=1)


def positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number above 0')
    return number


def place_in_list(text: str) -> tuple[int, str]:
    place = read_list_place(text, SESS)
    if place is None:
        raise argparse.ArgumentTypeError(f'"{text}" is no place that bridle sessions list gave out')
    return place


PATHS = frozenset({"FILE", "DIR"})
"""Values that are paths: shells complete files, and a name that is not UTF-8 is refused."""
MODES = get_args(Mode)
SANDBOX_MODES = ("auto", "off", "read-only", "workspace-write")

ID = Argument("id", "ID")
NAME = Argument("name", "NAME")

HELP = Option("-h, --help", "show the help page")
JSON = Option("--json", "print JSON")
YES = Option("-y, --yes", "do not ask")
DRY_RUN = Option("--dry-run", "only show what would happen")
OUTPUT = Option("-o, --output", "write to this file", value="FILE")
WORK_DIR = Option("-C, --cwd", "work in this folder", value="DIR", default=".")
ADD_DIR = Option("--add-dir", "also allow this folder", value="DIR", repeat=True)
DESCRIPTION = Option("--description", "when to use it", value="TEXT")
PROJECT_HOOKS = Option("--allow-project-hooks", "run the project's hooks whose files you trust")

SETTINGS = (
    Option("--config", "settings file on top of the others", value="FILE"),
    Option("--profile", "profile to use", value="PROFILE"),
    Option("--set", "set one setting", value="KEY=VALUE", repeat=True),
)
LOOK = (
    Option("--plain", "append-only output, raw Markdown"),
    Option("--no-color", "no colours"),
)
NETWORK = (
    Option("--network", "network of commands", value="MODE", choices=("inherit", "filtered", "deny")),
    Option("--allow-host", "host to allow with --network filtered", value="HOST", repeat=True),
)
RULES = (
    Option("--allow", "allow matching calls, such as 'bash(npm test*)'", value="RULE", repeat=True),
    Option("--deny", "deny matching calls; nothing lifts it", value="RULE", repeat=True),
)
PERSONAL_APPROVALS = (
    Option("--allow-policy-changes", "allow changes to policy files such as AGENTS.md"),
    Option("--allow-unsandboxed", "allow commands to leave the sandbox"),
)
"""Approvals that `-y`, a mode or a file never gives."""
