"""The prompt and options of a run, from arguments and stdin.

What comes from a file or from stdin is text, whatever it looks like: somebody else may have written it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from bridle.app.user.setting_sections import MultimodalSettings
from bridle.base.text.spelling import nearest
from bridle.cli.option_values import settings_here
from bridle.cli.stdin import GivenPrompt
from bridle.cli.stdin import prompt_of as given_prompt
from bridle.cli.verbs.rows import Args, Env
from bridle.clients.images import image_block
from bridle.clients.interaction.composer.parse import Slash, Words, missing_files, parse
from bridle.clients.print import RunInput
from bridle.clients.run_result import schema_prompt
from bridle.commands.described_commands import PROMPTS, ROLE_COMMANDS, WRITES, prompt_of
from bridle.config.bundles import has_bundle
from bridle.config.folders import Folders, folders
from bridle.protocol.commands import RunSlash
from bridle.protocol.errors import UsageError
from bridle.protocol.messages import InputBlock, TextBlock
from bridle.protocol.slash_arguments import AGENT_PREFIX, bare_name, in_full


def run_input(
    parsed: Args,
    schema: dict[str, Any] | None,
    say: Callable[[str], None],
    env: Env,
) -> RunInput:
    """What is to be done: a git command, a skill, a goal, or what the model is sent."""
    if parsed.goal or any(one is not None for one in (parsed.check, parsed.check_agent, parsed.rounds)):
        return goal_wanted(parsed, schema, given_prompt(parsed.prompt, parsed.prompt_file, say))
    given = given_prompt(parsed.prompt, parsed.prompt_file, say)
    if given.typed.startswith("/") and os.path.isfile(os.path.join(folders(env).config, "aliases.toml")):
        given = without_alias(given, folders(env))
    command = command_of(given, folders(env).data) if given.typed.startswith("/") else None
    if command is None:
        return _content(given, parsed, schema, say, env)
    if schema is not None or parsed.image:
        raise UsageError(f"/{command.name} takes no --output-schema and no --image. Nothing was done")
    return command


def _content(
    given: GivenPrompt,
    parsed: Args,
    schema: dict[str, Any] | None,
    say: Callable[[str], None],
    env: Env,
) -> tuple[InputBlock, ...]:
    """What the model is sent: words, images in the order of their flags, and the wish for a form."""
    wish = ""
    if schema is not None:
        wish = schema_prompt(schema)
    words = input_of(given, cwd=parsed.cwd or ".", say=say, also=wish)
    return (*words, *(_images(parsed, env) if parsed.image else ()))


def _images(parsed: Args, env: Env) -> Iterator[InputBlock]:
    """The images, each within what the settings say of them."""
    tiers = settings_here(parsed, env, cwd=os.path.abspath(parsed.cwd or ".")).checked()
    limits = tiers.section("multimodal", MultimodalSettings)
    return (
        image_block(source, max_bytes=limits.max_image_bytes, detail=limits.detail) for source in parsed.image
    )


def goal_wanted(parsed: Args, schema: dict[str, Any] | None, given: GivenPrompt) -> RunSlash:
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
    return schema_prompt(schema)


_PROMPTS = ("skills", "user", "project")
"""The namespaces of prompts and skills, beside those of bundles."""


def command_of(given: GivenPrompt, data_folder: str) -> RunSlash | None:
    """The git command, the goal, the agent, the prompt or skill by name, that a person typed; None for anything else.

    `data_folder` is where bundles are. It names no session yet. Raises `UsageError` for a git command beside other
    words; for a prompt they are what it is about.
    """
    typed = parse(given.typed, lambda _path: False)
    if isinstance(typed, Slash) and _is_prompt(typed.name, data_folder):
        words = (given.before.strip(), typed.arguments, given.after.strip())
        return RunSlash(session="", name=typed.name, arguments="\n\n".join(filter(None, words)))
    if isinstance(typed, Slash) and bare_name(typed.name) == "goal":
        return _typed_goal(typed.arguments, given)
    if isinstance(typed, Slash) and (agents := _agents_of(typed.name)):
        return _sent_agent(agents, typed.arguments, given)
    if not isinstance(typed, Slash) or (name := bare_name(typed.name)) not in WRITES:
        return None
    if given.before.strip() or given.after.strip():
        raise UsageError(f"/{typed.name} takes nothing from a file or from stdin. Nothing was done")
    return RunSlash(session="", name=name, arguments=typed.arguments)


def _agents_of(name: str) -> str:
    """The name of the command that has one agent work, or several; empty for any other."""
    bare = bare_name(name)
    is_one = name.startswith(AGENT_PREFIX) and name != AGENT_PREFIX
    return bare if is_one or any(bare == one.name for one in ROLE_COMMANDS) else ""


def _sent_agent(name: str, arguments: str, given: GivenPrompt) -> RunSlash:
    """What an agent is to work on, with what comes from elsewhere around it."""
    words = "\n\n".join(filter(None, (given.before.strip(), arguments, given.after.strip())))
    if not words:
        raise UsageError(f"/{name} works on words behind it: /{name} WORDS. Nothing was sent")
    return RunSlash(session="", name=name, arguments=words)


def _typed_goal(arguments: str, given: GivenPrompt) -> RunSlash:
    """The goal that was typed, with what it is about from elsewhere behind it."""
    if arguments.strip() in ("", "stop"):
        raise UsageError(
            "A run begins a goal: /goal --check 'COMMAND' WORDS. One under way: bridle -c, then /goal"
        )
    words = (arguments, given.before.strip(), given.after.strip())
    return goal_command("\n\n".join(filter(None, words)))


def without_alias(given: GivenPrompt, where: Folders) -> GivenPrompt:
    """What was typed, with the line that it stands for in the place of an alias."""
    from bridle.app.features.alias_source import aliases_of

    typed = parse(given.typed, lambda _path: False)
    if not isinstance(typed, Slash):
        return given
    name, arguments = in_full(typed.name, typed.arguments, aliases_of(where).lines)
    if name == typed.name:
        return given
    return msgspec.structs.replace(given, typed=f"/{name} {arguments}".rstrip())


def _is_prompt(name: str, data_folder: str) -> bool:
    lead, colon, _ = name.partition(":")
    if not colon or name == "skills:reload":
        return False
    if lead in _PROMPTS:
        return True
    return has_bundle(lead, data_folder)


def input_of(
    given: GivenPrompt, *, cwd: str, say: Callable[[str], None], also: str = ""
) -> tuple[InputBlock, ...]:
    """What the model is sent, `also` last. Raises `UsageError` for a command that a run does not know."""
    if given.before.strip() == "/compact" and not given.typed:  # a habit; to a model it means nothing
        raise _unknown("compact")
    typed: tuple[InputBlock | str, ...] = (given.typed.strip(),)
    if given.typed.startswith("/") or "@" in given.typed:
        typed = _read(given.typed, cwd, say)
    parts = ((given.before,), typed, (given.after,), (also,))
    return tuple(_joined(parts))


def _read(typed: str, cwd: str, say: Callable[[str], None]) -> tuple[InputBlock | str, ...]:
    """What a person typed, with the meaning it has at a terminal."""

    # Most runs have none of it.
    def is_file(path: str) -> bool:
        return os.path.isfile(os.path.join(cwd, path))

    match parse(typed, is_file):
        case Slash(name=name, arguments=arguments):
            return (_named_prompt(name, arguments),)
        case Words(content=content):
            for sentence in missing_files(typed, is_file):
                say(sentence)
            return content
        case _:
            return (typed,)


def _joined(parts: Iterable[tuple[InputBlock | str, ...]]) -> Iterable[InputBlock]:
    """The parts with an empty line between two of them, text beside text as one block."""
    text = ""
    for part in parts:
        text += "\n\n" if text and any(part) else ""
        for block in part:
            if isinstance(block, str | TextBlock):
                text += block if isinstance(block, str) else block.text
            else:
                if text:
                    yield TextBlock(text=text)
                text = ""
                yield block
    if text:
        yield TextBlock(text=text)


def _named_prompt(name: str, arguments: str) -> str:
    text = prompt_of(name, arguments)
    if text is None:
        raise _unknown(name)
    return text


def _unknown(name: str) -> UsageError:
    roles = (one.name for one in ROLE_COMMANDS)
    names = (*(one.name for one in PROMPTS), *WRITES, *roles, "goal")
    *others, last = (f"/{one}" for one in names)
    near = nearest(name, names)
    known = f"/skills:NAME, /agents:NAME, {', '.join(others)} and {last}"
    hint = f" Did you mean /{near}?" if near else ""
    return UsageError(
        f"A run does not know /{name}, only {known}.{hint} Others are for a conversation: bridle -c. "
        f"As text: //{name}. Nothing was sent"
    )
