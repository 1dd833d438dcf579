"""`bridle completion SHELL`: print a completion script, made from the table of verbs.

The script holds every word itself but for sessions, profiles, models, skills, agents and servers, which it asks for
when Tab is pressed. Where no word fits, the shell offers files.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bridle.app.user.setting_sections import TABLE
from bridle.app.user.stored_keys import store_to_look
from bridle.base.ids import short_ids
from bridle.cli.accounts.models import ModelDesk
from bridle.cli.console import say, say_lines
from bridle.cli.help import topics
from bridle.cli.mcp.mcp_servers import folder_servers
from bridle.cli.option_values import settings_here
from bridle.cli.setup.agents import agent_names
from bridle.cli.setup.skills import skill_names
from bridle.cli.verbs import VERBS, verb_names
from bridle.cli.verbs.rows import HELP, PATHS, Action, Args, Env, Verb
from bridle.config.folders import folders
from bridle.config.profiles import profile_names
from bridle.protocol.errors import BridleError
from bridle.providers.presets import PRESETS

_LIVE = {
    "ID": "sessions",
    "PROFILE": "profiles",
    "MODEL": "models",
    "SKILL": "skills",
    "AGENT": "agents",
    "SERVER": "servers",
}
"""What the pages write in capitals and only Bridle knows, with the word that lists it."""
_OTHER_IDS = ("permissions", "mcp")
"""Where an ID is not that of a session."""


class CompletionOption(NamedTuple):
    """One option: its spellings, and what may follow it. `values` is None where it stands alone; `live` names what is
    asked for when Tab is pressed."""

    names: tuple[str, ...]
    values: tuple[str, ...] | None
    takes_file: bool
    live: str = ""


class CompletionLevel(NamedTuple):
    """What can be typed at one place: the verbs before it, the words there, and the options."""

    verbs: tuple[str, ...]
    words: tuple[str, ...]
    options: tuple[CompletionOption, ...]
    live: str = ""


def completion(parsed: Args, env: Env) -> int:
    if parsed.shell in _LIVE.values():
        # A shell reads the words again, so only those pass in which there is nothing to read.
        words = filter(_is_harmless, _live_words(parsed.shell, env))
        return say_lines(words)
    found = list(levels())
    match parsed.shell:
        case "bash":
            return say(bash_script(found))
        case "zsh":
            return say(zsh_script(found))
        case _:
            return say(fish_script(found))


def _live_words(what: str, env: Env) -> list[str]:
    """Return the names there are now; none where settings, keys or sessions cannot be read. No server is asked."""
    nothing = argparse.Namespace()
    try:
        match what:
            case "profiles":
                return profile_names(folders(env).config)
            case "models":
                return ModelDesk(settings_here(nothing, env), env).known.names_set_up()
            case "skills":
                return skill_names(env)
            case "agents":
                return agent_names(env)
            case "servers":
                return [row.name for row in folder_servers(nothing, env).rows(env)]
            case _:
                with store_to_look(env) as store:
                    return list(short_ids(row.id for row in store.list()).values())
    except BridleError:
        return []


_HARMLESS = re.compile(r"[A-Za-z0-9_.:/+@-]+")


def _is_harmless(word: str) -> bool:
    return _HARMLESS.fullmatch(word) is not None


def levels(verbs: Mapping[str, Verb] = VERBS) -> Iterator[CompletionLevel]:
    """Yield every place of the table of verbs, from the outside in."""
    first = tuple(CompletionOption((name,), None, takes_file=False) for name in ("--help", "--version"))
    yield CompletionLevel((), verb_names(verbs), first)
    yield CompletionLevel(("help",), tuple(topics(verbs)), ())
    for verb in verbs.values():
        yield _level(verb, (verb.name,), words=tuple(action.name for action in verb.actions))
        for action in verb.actions:
            yield _level(action, (verb.name, action.name))


def _level(row: Action, place: tuple[str, ...], words: tuple[str, ...] = ()) -> CompletionLevel:
    live_of = {value: live for value, live in _LIVE.items() if value != "ID" or place[0] not in _OTHER_IDS}
    named = _named_values()
    options = [
        CompletionOption(
            option.spellings,
            (option.choices or named.get(option.value, ())) if option.value else None,
            option.value in PATHS,
            live_of.get(option.value, ""),
        )
        for option in (HELP, *row.options)
    ]
    for argument in row.arguments:
        words += argument.choices or named.get(argument.value, ())
    asked = next((live_of[argument.value] for argument in row.arguments if argument.value in live_of), "")
    return CompletionLevel(place, words, tuple(options), asked)


def _named_values() -> Mapping[str, tuple[str, ...]]:
    """What stands for the arguments that the pages write in capitals, where it is a known list."""
    keys = tuple(
        setting.key
        for setting in TABLE.settings
        if not setting.about.secret and "*" not in setting.key and "[]" not in setting.key
    )
    return {"KEY": keys, "PROVIDER": tuple(known.name for known in PRESETS)}


def bash_script(found: list[CompletionLevel]) -> str:
    return f"""\
# Bridle for bash. Put this into ~/.bashrc:  eval "$(bridle completion bash)"
_bridle() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} place= words= i
    if [ "$word" = "=" ]; then word=; elif [ "$before" = "=" ]; then before=${{COMP_WORDS[COMP_CWORD-2]}}; fi
    local at=$COMP_CWORD whole=$word  # bash takes a colon for the end of a word
    while ((at > 1)) && [[ ${{COMP_WORDS[at]}} == : || ${{COMP_WORDS[at-1]}} == : ]]; do
        whole=${{COMP_WORDS[at-1]}}$whole; at=$((at-1)); before=${{COMP_WORDS[at-1]}}
    done
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$place ${{COMP_WORDS[i]}}" in
{_steps(found)}
        esac
    done
    case "$place $before" in
{_after_options(found, one="words={}", files="return")}
        *) case "$place" in
{_at_places(found, "words={}")}
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$whole"))
    COMPREPLY=("${{COMPREPLY[@]#"${{whole%"${{whole##*:}}"}}"}}")
}}
complete -o default -F _bridle bridle
"""


def zsh_script(found: list[CompletionLevel]) -> str:
    return f"""\
#compdef bridle
# Bridle for zsh. Put this into ~/.zshrc, after compinit:  eval "$(bridle completion zsh)"
_bridle() {{
    local before=${{words[CURRENT-1]}} place= found= i
    for ((i = 2; i < CURRENT; i++)); do
        case "$place ${{words[i]}}" in
{_steps(found)}
        esac
    done
    case "$place $before" in
{_after_options(found, one="found={}", files="_files; return")}
        *) case "$place" in
{_at_places(found, "found={}")}
        esac ;;
    esac
    if [ -n "$found" ]; then compadd -- ${{=found}}; else _files; fi
}}
if [ "$funcstack[1]" = "_bridle" ]; then _bridle "$@"; else compdef _bridle bridle; fi
"""


def _steps(found: list[CompletionLevel]) -> str:
    """Which words lead from one place to the next. A place is its verbs, each after a space."""
    lines: list[str] = []
    for level in found:
        if level.verbs:
            *outer, name = level.verbs
            lines.append(
                f"            {_quoted(_place(outer) + ' ' + name)}) place={_quoted(_place(level.verbs))} ;;"
            )
    return "\n".join(lines)


def _after_options(found: list[CompletionLevel], *, one: str, files: str) -> str:
    """What follows an option that wants a value. An option without a known value gets no words, but stops here."""
    lines: list[str] = []
    for level in found:
        for option in level.options:
            if option.values is not None:
                places = "|".join(_quoted(f"{_place(level.verbs)} {name}") for name in option.names)
                values = _words(" ".join(option.values), option.live)
                lines.append(f"        {places}) {files if option.takes_file else one.format(values)} ;;")
    return "\n".join(lines)


def _at_places(found: list[CompletionLevel], one: str) -> str:
    return "\n".join(
        f"            {_quoted(_place(level.verbs))}) {one.format(_words(' '.join(_everything(level)), level.live))} ;;"
        for level in found
    )


def fish_script(found: list[CompletionLevel]) -> str:
    lines = [
        "# Bridle for fish. Put this into ~/.config/fish/completions/bridle.fish",
        "complete -c bridle -e",
    ]
    for level in found:
        condition = _fish_condition(level, found)
        if level.words:
            lines.append(f"complete -c bridle -n {condition} -a {_quoted(' '.join(level.words))}")
        if level.live:
            lines.append(f"complete -c bridle -n {condition} -a {_quoted(f'({_question(level.live)})')}")
        lines += [f"complete -c bridle -n {condition} {_fish_option(option)}" for option in level.options]
    return "\n".join(lines) + "\n"


def _fish_condition(level: CompletionLevel, found: list[CompletionLevel]) -> str:
    if not level.verbs:
        return "__fish_use_subcommand"
    seen = [f"__fish_seen_subcommand_from {verb}" for verb in level.verbs]
    deeper = [other.verbs[-1] for other in found if other.verbs[:-1] == level.verbs]
    if deeper:
        seen.append(f"not __fish_seen_subcommand_from {' '.join(deeper)}")
    return _quoted("; and ".join(seen))


def _fish_option(option: CompletionOption) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    if option.values is None:
        return " ".join(names)
    if option.takes_file:
        return " ".join((*names, "-r", "-F"))
    known = f"({_question(option.live)})" if option.live else " ".join(option.values)
    values = ("-a", _quoted(known)) if known else ()
    return " ".join((*names, "-x", *values))


def _everything(level: CompletionLevel) -> list[str]:
    return [*level.words, *(name for option in level.options for name in option.names)]


def _place(verbs: tuple[str, ...] | list[str]) -> str:
    return "".join(f" {verb}" for verb in verbs)


def _words(known: str, live: str) -> str:
    """The words for a shell: those known, and those that are asked for when Tab is pressed."""
    return _quoted(known) + (f'" $({_question(live)})"' if live else "")


def _question(live: str) -> str:
    return f"bridle completion {live} 2>/dev/null"


def _quoted(text: str) -> str:
    """One word of a shell, with nothing in it that the shell would read."""
    return shlex.quote(text)
