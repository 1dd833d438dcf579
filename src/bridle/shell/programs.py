"""What is known about programs, as data: which options are safe, what their arguments are, what they do at worst.

The tables are texts (`table_system`, `table_git`, `table_developer`), one entry after the other:

    name, other name | arguments class words | what it does, for people
        options

A name of two or three words (`npm ls`) is a subcommand; the options of `npm` may stand before it. The words are
fields of `Program`. An option that is not listed is not proven, and neither is a program. Options look like this:

    -abc            three flags                 --all           a long flag
    -n:  --max:     takes a value               --color?        may take a value after `=`
    -f<  --file<    the value is a file it reads
    -o>  --output>  the value is a file it writes
    --merged~       takes the next word, if there is one
    -i^  --exec!:   with `^` it then writes, with `!` it runs something, `@` connects, `%` destroys, `+` follows links
                    to anywhere; then `:` `?` and the like
    --arg::         takes two values            --slurpfile:<   two values, the second a file it reads
    -#              a bare number (`-20`)       *               any option at all
    &name           all options of the entry `&name`
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from bridle.base.command_class import CommandClass
from bridle.shell.shell_words import names
from bridle.shell.table_developer import DEVELOPER_TABLE
from bridle.shell.table_git import GIT_TABLE
from bridle.shell.table_grants import GRANT_TABLE
from bridle.shell.table_system import SYSTEM_TABLE, WRAPPER_TABLE

Arguments: TypeAlias = Literal[
    "read", "text", "none", "pattern", "write", "delete", "copy", "url", "run", "command"
]
"""What stands after the options: files it reads, plain text, nothing at all, a pattern and then files, files it
writes or deletes, files and where they go, addresses, a file it runs, or a whole command."""


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """One program, or one of its subcommands.

    `base` is what it does at least. `at_most` positional arguments are fine. `harmless` when no option whatever makes
    it more than a reader: words nobody knows may then stand anywhere. `lenient` when an unlisted option cannot make it
    worse than `base`. `check` names a closer look. In `does`, `{}` stands for what it is done to. `before` counts the
    arguments in front of the ones that matter. With `single_dash`, `-text` is one long option.
    """

    options: str = ""
    arguments: Arguments = "read"
    base: CommandClass = "read_only"
    does: str = ""
    at_most: int = 10_000
    harmless: bool = False
    lenient: bool = False
    check: str = ""
    before: int = 0
    single_dash: bool = False


@functools.cache
def programs() -> Mapping[str, Program]:
    """Programs of the system and tools of developers."""
    return {**_read_table(SYSTEM_TABLE), **_read_table(DEVELOPER_TABLE)}


@functools.cache
def wrappers() -> Mapping[str, Program]:
    """Programs that run the command they are given: what matters is that command."""
    return _read_table(WRAPPER_TABLE)


@functools.cache
def git_subcommands() -> Mapping[str, Program]:
    return _read_table(GIT_TABLE)


@functools.cache
def grant_table() -> Mapping[str, Program]:
    """What a yes to a program covers, by the name that is kept."""
    return _read_table(GRANT_TABLE)


@functools.cache
def have_subcommands() -> frozenset[str]:
    """Programs of which single subcommands are known."""
    return frozenset(name.partition(" ")[0] for name in programs() if " " in name)


def _read_table(text: str) -> dict[str, Program]:
    entries: list[tuple[str, list[str]]] = []
    shared: dict[str, list[str]] = {}
    head = ""
    for line in text.strip("\n").split("\n"):
        if line.startswith("    "):
            for token in line.split():
                entries[-1][1].extend(shared.get(token, [token]))
        elif line.startswith("&"):
            entries.append((line, shared.setdefault(line, [])))
        else:  # a long list of names goes on in the next line
            head = f"{head} {line}".strip()
            if " | " in line:
                entries.append((head, []))
                head = ""
    found: dict[str, Program] = {}
    for head, options in entries:
        if not head.startswith("&"):
            program = _read_entry(head, " ".join(options))
            found.update(dict.fromkeys(head.partition(" | ")[0].split(", "), program))
    return found


def _read_entry(line: str, options: str) -> Program:
    _, facts, *does = line.split(" | ")
    fields: dict[str, Any] = {"options": options, "does": does[0] if does else ""}
    for word in facts.split():
        name, equals, value = word.partition("=")
        if equals:
            fields[name] = int(value) if value.isdigit() else value
        elif word in get_args(CommandClass):
            fields["base"] = word
        elif word in get_args(Arguments):
            fields["arguments"] = word
        else:
            fields[word] = True
    return msgspec.convert(fields, Program)


SHELLS = names("sh bash dash zsh ksh mksh ash rbash fish")
INTERPRETERS = names(
    "python python2 python3 pypy pypy3 perl ruby node nodejs deno bun php lua luajit Rscript tclsh osascript"
)
POWERSHELLS = names("powershell powershell.exe pwsh pwsh.exe cmd cmd.exe")
CREDENTIAL_TOOLS = names("security secret-tool keyctl kwalletcli kwallet-query gpg-connect-agent")
FETCHERS = names("curl wget fetch aria2c http https xh lynx w3m links nc ncat")

BUILTINS = names(
    "echo printf true false : pwd cd pushd popd dirs wait test [ [[ read break continue exit return shift type jobs "
    "times ulimit umask export local set"
)
"""Part of the shell itself: no file of that name can stand in for them."""

HARMLESS_VARIABLES = names(
    "LC_ALL LC_CTYPE LC_COLLATE LC_NUMERIC LC_TIME LC_MESSAGES LANG LANGUAGE TZ NO_COLOR CLICOLOR "
    "CLICOLOR_FORCE FORCE_COLOR CI COLUMNS LINES TERM COLORTERM GIT_OPTIONAL_LOCKS GIT_TERMINAL_PROMPT "
    "GREP_COLOR GREP_COLORS BLOCKSIZE HOMEBREW_NO_AUTO_UPDATE NPM_CONFIG_COLOR "
    "PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED RUST_BACKTRACE"
)
HARMLESS_VALUES = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "BAT_PAGER": "cat",
}
"""Variables that change how things look, not what runs."""

NO_KEY = names(
    "rm rmdir unlink shred dd sudo doas su env xargs eval exec ssh find sed awk gawk mawk tee chmod chown "
    "cp mv ln curl wget nc ncat socat kill pkill crontab docker make source . watch parallel time nohup "
    "nice timeout command builtin npx pnpx bunx uvx pipx systemd-run scp rsync install tar fd patch"
)
"""Programs for which a yes to more than one command would be a blank cheque, but for subcommands in `table_grants`."""

KEYED_BY_SUBCOMMAND = names(
    "git npm pnpm yarn cargo go docker kubectl gh pip pip3 uv poetry brew apt systemctl terraform bundle "
    "rake gradle mvn dotnet composer helm hg svn just task nx turbo lerna pre-commit tox nox hatch pdm "
    "rye bun deno rustup mix flutter dart swift bazel conda mamba ip"
)
