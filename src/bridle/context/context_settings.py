"""Settings of the context: instruction files, the repo map, compaction, skills and memory."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from bridle.engine.setting_fields import About, Count, Share, Wanted

TokenLimit: TypeAlias = Annotated[
    Literal["auto", "off"] | Count, Wanted('"auto", "off" or a whole number above 0')
]


class CompactionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When and how to compact.

    `max_tokens`: `auto` is as much as the model takes, less what its answer may need; with `off`, only a conversation
    that the provider refused is compacted. `summary`: `auto` asks the model where its window is known.
    """

    max_tokens: Annotated[
        TokenLimit,
        About(
            "How much of a conversation is sent at most: a number, what the model takes (auto), or no limit (off).",
            also=("max_context_tokens", "max_input_tokens"),
        ),
    ] = "auto"
    compact_at: Annotated[
        Share,
        About(
            "The share of that from which it is summarised.", also=("compact_at_ratio", "compress_at_ratio")
        ),
    ] = 0.7
    recent_turns: Annotated[Count, About("How many of the last turns stay as they are.")] = 6
    max_messages: Annotated[
        Count | None, About("The number of messages that are summarised in any case.")
    ] = None
    recent_messages: Annotated[Count | None, About("How many of the last messages stay at most.")] = None
    summary: Annotated[
        Literal["auto", "model", "deterministic"],
        Wanted("a way to summarise"),
        About("Who writes the summary: the model, Bridle, or the model where its window is known (auto)."),
    ] = "auto"
    summary_tokens: Annotated[Count, About("How long it may be.", also=("summary_target_tokens",))] = 3_000


class ContextSettings(CompactionSettings, frozen=True, kw_only=True):
    sources: Annotated[
        tuple[str, ...],
        About(
            "Instruction files to look for: names, paths below a folder, or patterns (.cursor/rules/*.mdc)."
        ),
    ] = ("AGENTS.md",)
    repo_map: Annotated[
        Literal["off", "tool", "tail"],
        Wanted("a use of the repo map"),
        About(
            "The repo map, where its extra is installed: as a tool, also after the first request by itself (tail), "
            "or off."
        ),
    ] = "tool"
    preset: Annotated[
        Literal["late", "messages", "fixed"] | None,
        Wanted("a preset of the context"),
        About("Several of these settings at once; a setting that is written goes before it."),
    ] = None


class SkillSection(msgspec.Struct, frozen=True, kw_only=True):
    enabled: Annotated[bool, About("Whether the model is told of skills.")] = True
    disabled: Annotated[tuple[str, ...], About("Names of skills that are left out.")] = ()
    folders: Annotated[
        tuple[str, ...],
        About(
            'More folders of skills, such as ".claude/skills": looked for in the project and in your home.'
        ),
    ] = ()


class MemorySettings(msgspec.Struct, frozen=True, kw_only=True):
    enabled: Annotated[bool, About("Whether notes of earlier sessions are kept and used.")] = True
    headless: Annotated[bool, About("The same for runs without a user.")] = False
