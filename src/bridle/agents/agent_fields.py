"""A definition as somebody wrote it, in a file or in settings, made into an `AgentDefinition` or told what is wrong.

Every value may be text, as front matter has it, or typed, as settings do; names have both spellings. What an agent may
not say is refused and never shown: an endpoint, a key, a header or a model, for they would make a file that looks like
words a way to somewhere. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast, get_args

import msgspec

from bridle.agents.definition import (
    CHILD_STEPS,
    AgentCatalog,
    AgentCost,
    AgentDefinition,
    AgentDelegation,
    AgentMode,
    AgentOrigin,
    AgentProvider,
    AgentRule,
)
from bridle.agents.field_reader import MAX_LIST, FieldProblem, FieldReader, shown_name
from bridle.base.text.spelling import folded_name
from bridle.base.text.tool_names import TOOL_ALIASES
from bridle.protocol.events import Mode, Verdict

MAX_NAME: Final = 48
MAX_PROMPT: Final = 64 * 1024
MAX_STEPS: Final = 1_000
MAX_DEPTH: Final = 8
RESERVED_NAMES: Final = frozenset({"folders", "code", "main"})
"""Names that mean something else where an agent is named."""

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")
_TOOL: Final = re.compile(r"[A-Za-z0-9_*?\[\]-]{1,100}")
_FIELDS: Final = (
    "name", "display_name", "description", "mode", "hidden", "provider", "prompt", "append", "tools",
    "disallowed_tools", "authority", "permissions", "default_decision", "permission_mode", "max_steps", "delegation",
    "catalog",
)  # fmt: skip
_OTHER_NAMES: Final[Mapping[str, str]] = {
    "allowed_tools": "tools",
    "hidden_tools": "disallowed_tools",
    "default_verdict": "default_decision",
    "max_turns": "max_steps",
    "system": "prompt",
    "title": "display_name",
}
_REFUSED: Final = frozenset({
    "base_url", "url", "endpoint", "api_key", "key", "key_env", "api_key_env", "headers", "auth", "auth_store", "oauth",
    "credentials", "quirks", "wire", "type",
})  # fmt: skip
"""What belongs to a provider and never to an agent."""
_CLAUDE_UNUSED: Final = frozenset(
    {"color", "effort", "hooks", "initial_prompt", "mcp_servers", "memory", "skills", "working_directory"}
)
"""What others write and we have no use for."""
_CLAUDE_MODES: Final[Mapping[str, Mode | None]] = {
    "dontAsk": "safe",
    "acceptEdits": None,
    "bypassPermissions": None,
}
_DELEGATION: Final = (
    "callable", "can_delegate", "allowed_agents", "denied_agents", "max_depth", "invocation", "background", "worktree",
)  # fmt: skip
_CATALOG: Final = ("category", "cost", "use_when", "avoid_when", "triggers")
_RULE: Final = ("tool", "verdict", "path", "command", "reason", "match")


class DecodedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a definition. With problems it is no agent; `warnings` say what of it counts for nothing."""

    agent: AgentDefinition | None = None
    problems: tuple[FieldProblem, ...] = ()
    warnings: tuple[FieldProblem, ...] = ()


def name_problem(name: str) -> str:
    """Why this cannot be the name of an agent, as a clause; empty where it can."""
    if len(name) > MAX_NAME or _NAME.fullmatch(name) is None:
        rule = f"small letters, digits, single - or _, a letter first, {MAX_NAME} at most"
        return f'"{shown_name(name)}" is no name for an agent ({rule})'
    return (
        f'"{name}" is a word with a meaning of its own here: choose another name'
        if name in RESERVED_NAMES
        else ""
    )


def decode_agent(
    values: Mapping[str, Any], *, name: str, origin: AgentOrigin, body: str = "", is_file: bool = False
) -> DecodedAgent:
    """The agent these values describe. `name` is how it is called where they do not say; `body` is its prompt.

    In a file a field that others have is told of and has no meaning; in settings nobody else's file is read.
    """
    reader = _AgentReader(is_file=is_file)
    known = reader.known_fields(values)
    own_name = reader.text(known, "name") or name
    if problem := name_problem(own_name):
        reader.wrong("name", problem)
    mode: AgentMode | None = reader.choice(known, "mode", get_args(AgentMode))
    system, append = reader.prompt(known, body)
    visible_tools, rules, verdict = reader.authority(known)
    agent = AgentDefinition(
        name=own_name,
        description=reader.description(known),
        display_name=reader.text(known, "display_name", 100),
        mode=mode or "all",
        hidden=reader.flag(known, "hidden") or False,
        provider=reader.provider(known.get("provider")),
        system=system,
        append=append,
        tools=visible_tools,
        hidden_tools=reader.tools(known.get("disallowed_tools"), "disallowed_tools") or (),
        rules=rules,
        default_verdict=verdict,
        permission_mode=reader.permission_mode(known),
        max_steps=reader.whole(known, "max_steps", 1, MAX_STEPS) or CHILD_STEPS,
        delegation=reader.delegation(known),
        catalog=reader.catalog(known),
        origin=origin,
    )
    problems = tuple(reader.problems)
    return DecodedAgent(agent=None if problems else agent, problems=problems, warnings=tuple(reader.warnings))


class _AgentReader(FieldReader):
    def __init__(self, *, is_file: bool) -> None:
        super().__init__()
        self._is_file = is_file

    def unknown(self, written: str, field: str, known: Iterable[str]) -> None:
        """What a provider has beside its name is not for an agent to say."""
        if written.startswith("provider."):
            self._refuse(written)
        else:
            super().unknown(written, field, known)

    # Which fields there are

    def known_fields(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The fields under our names; what is no field of ours is refused or told of."""
        known: dict[str, Any] = {}
        delegation: dict[str, Any] = {}
        for written, value in values.items():
            plain = folded_name(written.replace("-", "_"))
            field = _OTHER_NAMES.get(plain, plain)
            if field in known:
                self.wrong(written, f"{shown_name(written)} says {field} a second time: keep one of them")
            elif field in _FIELDS:
                known[field], self.written[field] = value, written
            elif field in _REFUSED or (field == "model" and not self._is_file):
                self._refuse(written)
            elif field == "model":
                self.unused(written, "model is not used: an agent names no model, only one of your providers")
            elif field == "background":
                delegation["background"] = value
            elif field == "isolation" and value == "worktree":
                delegation["worktree"] = True
            elif field in _CLAUDE_UNUSED:
                self.unused(written, f"{shown_name(written)} is not used here")
            else:
                self.unknown(written, field, _FIELDS)
        if delegation:
            said = known.get("delegation")
            known["delegation"] = {
                **delegation,
                **(cast("dict[str, Any]", said) if isinstance(said, dict) else {}),
            }
        return known

    def _refuse(self, written: str) -> None:
        why = "an agent names one of your providers (provider.profile), never an endpoint, a key or a model"
        self.wrong(written, f"{shown_name(written)} is refused: {why}")

    # The parts of a definition

    def description(self, known: Mapping[str, Any]) -> str:
        text = " ".join(self.text(known, "description").split())
        if not text and not any(one.field == "description" for one in self.problems):
            self.wrong("description", "there is no description: say in a sentence what the agent is for")
        return text

    def prompt(self, known: Mapping[str, Any], body: str) -> tuple[str, str]:
        """The role of the agent, and what stands behind everything else."""
        value = known.get("prompt", "")
        given = (
            {"system": value} if isinstance(value, str) else self.table(value, "prompt", ("system", "append"))
        )
        system = self.text(given, "system", MAX_PROMPT, "prompt.")
        append = self.text(given, "append", MAX_PROMPT, "prompt.") or self.text(known, "append", MAX_PROMPT)
        if body.strip() and system:
            self.wrong("prompt", "the prompt stands in the front matter and below it: keep one of them")
        system = system or body.strip()
        if "\0" in body:
            self.wrong("prompt", "the prompt has NUL characters in it: take them out")
        if self._is_file and not system:
            self.wrong("prompt", "there is no prompt: write it below the second line ---")
        return system, append

    def tools(self, value: Any, field: str) -> tuple[str, ...] | None:
        """The names of tools under our names; None where nobody said which, so that it is all of them."""
        if value is None or value == "":
            return None
        if isinstance(value, Mapping):
            table = self.table(value, field, ("visible",))
            return self.tools(table.get("visible"), f"{field}.visible")
        names: dict[str, None] = {}
        for one in self.texts(value, field):
            if "(" in one:
                self.wrong(field, f"{field}: a tool is named as it is; what it may do is said in permissions")
            elif _TOOL.fullmatch(one) is None:
                self.wrong(field, f'{field}: "{shown_name(one)}" is no name of a tool')
            else:
                names.update(dict.fromkeys(TOOL_ALIASES.get(one, (one,))))
        return tuple(names)

    def authority(
        self, known: Mapping[str, Any]
    ) -> tuple[tuple[str, ...] | None, tuple[AgentRule, ...], Verdict | None]:
        """What it sees, its rules, and what holds beside them. What it may not use it does not see either."""
        table = self.table(known.get("authority"), "authority", ("tools", "permissions", "default_decision"))
        seen, may_use = (
            self.tools(known.get("tools"), "tools"),
            self.tools(table.get("tools"), "authority.tools"),
        )
        if not seen and isinstance(known.get("tools"), str | list | tuple):
            seen = None  # an empty list leaves nothing out
        if may_use is not None:
            seen = may_use if seen is None else tuple(one for one in seen if one in may_use)
        rules = (
            *self.rules(known.get("permissions"), "permissions"),
            *self.rules(table.get("permissions"), "authority.permissions"),
        )
        verdict: Verdict | None = self.choice(known, "default_decision", get_args(Verdict))
        beside: Verdict | None = self.choice(table, "default_decision", get_args(Verdict), "authority.")
        return seen, rules, verdict or beside

    def rules(self, value: Any, field: str) -> Iterator[AgentRule]:
        if value is None or value == "":
            return
        if not isinstance(value, list | tuple):
            self.wrong(field, f"{field} is a list of rules, each with a tool and a decision")
            return
        for number, one in enumerate(cast("list[Any]", value)[:MAX_LIST], 1):
            place = f"{field}[{number}]"
            if isinstance(one, Mapping):
                yield from self._rule(cast("Mapping[str, Any]", one), place)
            else:
                self.wrong(field, f"{place} is a table: {{ tool: bash, decision: deny }}")

    def _rule(self, value: Mapping[str, Any], place: str) -> Iterator[AgentRule]:
        rule = self.table(value, place, _RULE)
        match = self.table(rule.get("match"), f"{place}.match", ("path_glob", "command_prefix"))
        tool = self.text(rule, "tool", 100, f"{place}.")
        verdict: Verdict | None = self.choice(rule, "verdict", get_args(Verdict), f"{place}.")
        if not tool or (verdict is None and "verdict" not in rule):
            self.wrong(place, f"{place} has no {'tool' if not tool else 'decision'}")
        if not tool or verdict is None:
            return
        prefix = self.text(match, "command_prefix", 1_000, f"{place}.match.")
        path = self.text(rule, "path", 1_000, f"{place}.") or self.text(
            match, "path_glob", 1_000, f"{place}.match."
        )
        command = self.text(rule, "command", 1_000, f"{place}.") or (f"{prefix}*" if prefix else "")
        reason = " ".join(self.text(rule, "reason", 300, f"{place}.").split())
        for name in TOOL_ALIASES.get(tool, (tool,)):
            yield AgentRule(
                tool=name, verdict=verdict, path=path or None, command=command or None, reason=reason or None
            )

    def provider(self, value: Any) -> AgentProvider:
        if isinstance(value, str):
            return AgentProvider(profile=value.strip() or None)
        table = self.table(value, "provider", ("profile", "inherit_root"))
        inherits = self.flag(table, "inherit_root", "provider.")
        return AgentProvider(
            profile=self.text(table, "profile", 100, "provider.") or None, inherit_root=inherits is not False
        )

    def permission_mode(self, known: Mapping[str, Any]) -> Mode | None:
        value = known.get("permission_mode", "")
        if isinstance(value, str) and value in _CLAUDE_MODES:
            if _CLAUDE_MODES[value] is None:
                clause = f"permission_mode {value} is not used: an agent is never freer than its session"
                self.unused("permission_mode", clause)
            return _CLAUDE_MODES[value]
        return self.choice(known, "permission_mode", get_args(Mode))

    def delegation(self, known: Mapping[str, Any]) -> AgentDelegation:
        table = self.table(known.get("delegation"), "delegation", _DELEGATION)
        place = "delegation."
        allowed = table.get("allowed_agents")
        return AgentDelegation(
            callable=self.flag(table, "callable", place),
            can_delegate=self.flag(table, "can_delegate", place) or False,
            allowed_agents=None if allowed is None else self.texts(allowed, f"{place}allowed_agents"),
            denied_agents=self.texts(table.get("denied_agents", ()), f"{place}denied_agents"),
            max_depth=self.whole(table, "max_depth", 0, MAX_DEPTH, place),
            invocation=self.choice(table, "invocation", get_args(Verdict), place),
            background=self.flag(table, "background", place) or False,
            worktree=self.flag(table, "worktree", place) or False,
        )

    def catalog(self, known: Mapping[str, Any]) -> AgentCatalog:
        table = self.table(known.get("catalog"), "catalog", _CATALOG)
        cost: AgentCost | None = self.choice(table, "cost", get_args(AgentCost), "catalog.")
        return AgentCatalog(
            category=self.text(table, "category", 40, "catalog.") or "utility",
            cost=cost or "standard",
            use_when=self._sentences(table, "use_when"),
            avoid_when=self._sentences(table, "avoid_when"),
            triggers=self._sentences(table, "triggers"),
        )

    def _sentences(self, table: Mapping[str, Any], field: str) -> tuple[str, ...]:
        """A list of sentences; one text is one of them, commas and all."""
        value = table.get(field, ())
        where = f"catalog.{field}"
        found = (value,) if isinstance(value, str) else self.texts(value, where)
        if any(len(one) > 300 for one in found):
            self.wrong(where, f"{where} has an entry of more than 300 characters: shorten it")
        return tuple(" ".join(one.split()) for one in found if one.strip())
