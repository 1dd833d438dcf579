"""Definitions of agents as somebody wrote them: read whole, or told what is wrong, in which line, and what to do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.agents.agent_fields import decode_agent, name_problem
from bridle.agents.agent_files import MAX_BYTES, MAX_FILES, find_agent_files, read_agent
from bridle.agents.builtin_agents import BUILD, BUILTIN_AGENTS
from bridle.agents.definition import (
    AgentCatalog,
    AgentDefinition,
    AgentDelegation,
    AgentOrigin,
    AgentProvider,
    AgentRegistry,
    AgentRule,
)
from tables import table

HERE = AgentOrigin(scope="user", place="agents/x.md")

REVIEWER = """\
---
name: reviewer
displayName: The reviewer
description: Read-only code reviewer.
mode: subagent
hidden: false
provider:
  profile: fast
  inheritRoot: false
tools:
  visible: [read_file, Grep, "mcp__git__*"]
permissions:
  - { tool: read_file, decision: allow }
  - { tool: "*", match: { pathGlob: "**/.env" }, decision: deny, reason: secrets }
  - { tool: bash, match: { commandPrefix: "git " }, decision: ask }
defaultDecision: deny
delegation:
  callable: true
  canDelegate: true
  allowedAgents: [explore]
  deniedAgents: [build]
  maxDepth: 2
  invocationDecision: allow
catalog:
  category: reviewer
  cost: cheap
  useWhen:
    - Find bugs, and risks.
  avoidWhen: [files are edited]
  triggers: [review]
---
You are a read-only reviewer.
"""


def read(text: str, stem: str = "x"):
    return read_agent(text, stem=stem, origin=HERE)


def told(text: str) -> list[str]:
    return [f"{one.line}: {one.clause}" for one in read(text).problems]


@pytest.mark.requirement("D12.40")
def test_every_field_of_a_definition_is_read_in_both_spellings() -> None:
    wanted = AgentDefinition(
        name="reviewer",
        display_name="The reviewer",
        description="Read-only code reviewer.",
        mode="subagent",
        provider=AgentProvider(profile="fast", inherit_root=False),
        system="You are a read-only reviewer.",
        tools=("read_file", "grep", "mcp__git__*"),
        rules=(
            AgentRule(tool="read_file", verdict="allow"),
            AgentRule(tool="*", verdict="deny", path="**/.env", reason="secrets"),
            AgentRule(tool="bash", verdict="ask", command="git*"),
        ),
        default_verdict="deny",
        delegation=AgentDelegation(
            callable=True,
            can_delegate=True,
            allowed_agents=("explore",),
            denied_agents=("build",),
            max_depth=2,
            invocation="allow",
        ),
        catalog=AgentCatalog(
            category="reviewer",
            cost="cheap",
            use_when=("Find bugs, and risks.",),
            avoid_when=("files are edited",),
            triggers=("review",),
        ),
        origin=HERE,
    )
    assert read(REVIEWER).agent == wanted
    snake = REVIEWER
    for written in ("displayName", "inheritRoot", "pathGlob", "commandPrefix", "defaultDecision", "canDelegate",
                    "allowedAgents", "deniedAgents", "maxDepth", "useWhen", "avoidWhen"):  # fmt: skip
        snake = snake.replace(written, "".join(f"_{c.lower()}" if c.isupper() else c for c in written))
    assert read(snake).agent == wanted


@pytest.mark.requirement("C6")
def test_a_file_of_claude_code_is_read_as_far_as_it_is_documented() -> None:
    found = read(
        "---\nname: code-reviewer\ndescription: Reviews code.\ntools: Read, Edit, Agent\ndisallowedTools: Write\n"
        "model: opus\ncolor: red\npermissionMode: acceptEdits\nmaxTurns: 4\nbackground: true\n"
        "isolation: worktree\n---\n\nReview it.\n"
    )
    assert found.agent == AgentDefinition(
        name="code-reviewer",
        description="Reviews code.",
        tools=("read_file", "write_file", "edit_file", "apply_patch", "delegate_agent"),
        hidden_tools=("write_file",),
        max_steps=4,
        delegation=AgentDelegation(background=True, worktree=True),
        system="Review it.",
        origin=HERE,
    )
    assert [f"{one.line}: {one.clause}" for one in found.warnings] == [
        "6: model is not used: an agent names no model, only one of your providers",
        "7: color is not used here",
        "8: permission_mode acceptEdits is not used: an agent is never freer than its session",
    ]


@pytest.mark.requirement("T9.1", "T9.3")
def test_the_names_of_sub_agents_elsewhere_are_understood_and_an_empty_list_leaves_nothing_out() -> None:
    values = {
        "description": "Counts.",
        "prompt": "Count.",
        "allowed_tools": ["Read"],
        "disallowed_tools": ["Bash"],
        "max_turns": 7,
        "permission_mode": "plan",
        "working_directory": "src",
    }
    found = decode_agent(values, name="counter", origin=HERE, is_file=True)
    assert found.agent == AgentDefinition(
        name="counter",
        description="Counts.",
        system="Count.",
        tools=("read_file",),
        hidden_tools=("bash",),
        max_steps=7,
        permission_mode="plan",
        origin=HERE,
    )
    assert [one.clause for one in found.warnings] == ["working_directory is not used here"]
    empty = decode_agent({**values, "allowed_tools": []}, name="counter", origin=HERE, is_file=True)
    assert empty.agent is not None
    assert empty.agent.tools is None, "everything"
    none = decode_agent(
        {"description": "x", "prompt": "y", "tools": {"visible": []}}, name="counter", origin=HERE
    )
    assert none.agent is not None
    assert none.agent.tools == (), "and this is how to say none"


@pytest.mark.requirement("D8.81", "D12.50", "D5.4")
@table(
    "field",
    ["baseURL: https://evil.example/secret", "apiKey: secret", "headers: { x: secret }", "quirks: { secret: true }",
     "key_env: secret", "provider: { profile: a, model: secret }", "provider: { base_url: secret }",
     "provider: { headers: { a: secret } }"],
)  # fmt: skip
def test_an_agent_names_a_provider_and_never_an_endpoint_a_key_or_a_model(field: str) -> None:
    (problem,) = told(f"---\nname: a\ndescription: b\n{field}\n---\nc\n")
    assert problem.startswith("4: ")
    assert problem.endswith(
        "is refused: an agent names one of your providers (provider.profile), never an endpoint, a key or a model"
    )
    assert "secret" not in problem, "what it was is nobody's business"
    found = decode_agent({"description": "x", "model": "y"}, name="a", origin=HERE)
    assert [one.field for one in found.problems] == ["model"], "in settings nobody else's file is read"


@pytest.mark.requirement("D12.50")
def test_every_mistake_of_a_file_is_told_with_its_line_and_what_to_do() -> None:
    assert told(
        "---\nname: Reviewer\nmode: sub\npermisions: []\ntools: Read, Bash(git *), we!rd\nmax_steps: many\n"
        "hidden: perhaps\npermissions: [{ tool: bash }, { decision: deny }, { tool: a, decision: no }, x]\n"
        "delegation: { canDelegat: true, maxDepth: 99 }\ncatalog: { cost: dear }\n---\n"
    ) == [
        "1: there is no description: say in a sentence what the agent is for",
        '2: "Reviewer" is no name for an agent (small letters, digits, single - or _, a letter first, 48 at most)',
        '3: mode: "sub" is none of primary, subagent, all',
        '4: there is no field "permisions": permissions was probably meant',
        "5: tools: a tool is named as it is; what it may do is said in permissions",
        '5: tools: "we!rd" is no name of a tool',
        "6: max_steps is a whole number from 1 to 1,000",
        "7: hidden is true or false",
        "8: permissions[1] has no decision",
        "8: permissions[2] has no tool",
        '8: permissions[3].verdict: "no" is none of allow, ask, deny',
        "8: permissions[4] is a table: { tool: bash, decision: deny }",
        '9: there is no field "delegation.canDelegat": can_delegate was probably meant',
        "9: delegation.max_depth is a whole number from 0 to 8",
        '10: catalog.cost: "dear" is none of free, cheap, standard, expensive',
        "12: there is no prompt: write it below the second line ---",
    ]
    assert told("no front matter") == [
        "1: it must begin with front matter: a line ---, name and description, a line ---"
    ]
    assert told("---\nname: a\ndescription: b\nprompt: c\n---\nd\n") == [
        "4: the prompt stands in the front matter and below it: keep one of them"
    ]
    assert told(f"---\nname: a\ndescription: {'b' * 2_001}\n---\nd\n") == [
        "3: description has more than 2,000 characters: shorten it"
    ]


@pytest.mark.requirement("D12.50")
@table("name", ["Build", "a b", "../a", "a__b", "1a", "a-", "", "é", "a" * 49, "folders", "code"])
def test_a_name_is_one_that_tools_and_commands_can_have(name: str) -> None:
    assert name_problem(name)
    assert not name_problem("a-2_b")


def test_what_authority_says_makes_an_agent_see_less() -> None:
    found = decode_agent(
        {
            "description": "x",
            "tools": ["read_file", "grep"],
            "authority": {
                "tools": ["grep", "bash"],
                "permissions": [{"tool": "bash", "decision": "deny"}],
                "defaultDecision": "ask",
            },
        },
        name="a",
        origin=HERE,
    )
    assert found.agent is not None
    assert (found.agent.tools, found.agent.rules, found.agent.default_verdict) == (
        ("grep",),
        (AgentRule(tool="bash", verdict="deny"),),
        "ask",
    )


def test_files_are_read_within_bounds_and_nothing_outside_is(tmp_path) -> None:
    folder = tmp_path / "project" / "agents"
    folder.mkdir(parents=True)
    (tmp_path / "secret.md").write_text("---\nname: s\ndescription: s\n---\nsecret\n")
    (folder / "out.md").symlink_to(tmp_path / "secret.md")
    (folder / "large.md").write_text("x" * (MAX_BYTES + 1))
    (folder / "latin.md").write_bytes(b"---\nname: \xe9\n---\n")
    (folder / "good.md").write_text("---\ndescription: b\n---\nc\n")
    (folder / "README.md").write_text("about")
    (folder / "folder.md").mkdir()
    found = list(find_agent_files(str(folder), HERE, within=str(tmp_path / "project")))
    assert {one.stem: one.read.problems[0].clause if one.read.problems else "" for one in found} == {
        "folder": "it cannot be read (Is a directory)",
        "good": "",
        "large": "it has more than 64 KiB: shorten it",
        "latin": "it is not UTF-8 text: save it as that",
        "out": "a link that leads out of the project is not read: put the file itself there",
    }
    assert not any(b"secret" in one.data for one in found)
    for number in range(MAX_FILES + 5):
        (folder / f"n{number:03}.md").write_text("")
    assert len(list(find_agent_files(str(folder), HERE))) == MAX_FILES


@pytest.mark.requirement("D5.1")
def test_a_name_belongs_to_the_first_that_has_it() -> None:
    registry = AgentRegistry(BUILTIN_AGENTS)
    other = AgentDefinition(name="build", description="mine", origin=HERE)
    taken = registry.register(other)
    assert taken is not None
    assert (taken.has_it, registry.get("build")) == (BUILD, BUILD)
    assert [one.name for one in registry.primary] == ["build", "plan", "review", "solve"]
    assert [one.name for one in registry.callable] == ["explore", "review", "solve"]


PLAIN = st.recursive(
    st.text(max_size=20) | st.booleans() | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["name", "description", "mode", "hidden", "provider", "prompt", "tools", "disallowedTools", "authority",
     "permissions", "defaultDecision", "permission_mode", "max_turns", "delegation", "catalog", "model"]
) | st.text(max_size=12)  # fmt: skip


@given(st.dictionaries(FIELDS, PLAIN, max_size=6), st.booleans())
def test_whatever_is_written_is_an_agent_or_has_a_problem(values: dict[str, Any], is_file: bool) -> None:
    found = decode_agent(values, name="a", origin=HERE, is_file=is_file)
    assert (found.agent is None) == bool(found.problems)
    assert all(one.clause and "\n" not in one.clause for one in (*found.problems, *found.warnings))
    if found.agent is not None:
        assert not name_problem(found.agent.name)
        assert found.agent.description


@given(st.text(max_size=200))
def test_whatever_a_file_holds_reading_it_ends(text: str) -> None:
    for whole in (text, f"---\n{text}\n---\nbody\n"):
        found = read(whole)
        assert (found.agent is None) == bool(found.problems)
