"""The agents Bridle brings: `build` and `plan` to talk with, `explore`, `review` and `solve` to send."""

from __future__ import annotations

from bridle.agents.definition import AgentCatalog, AgentDefinition, AgentDelegation, AgentOrigin, AgentRule

READ_ONLY_TOOLS = ("read_file", "grep", "glob", "ls", "repo_map", "ask_user")
"""What an agent sees that changes nothing."""
DEFAULT_AGENT = "build"

_OURS = AgentOrigin(scope="builtin", place="bridle")
_SENT_FREELY = AgentDelegation(invocation="allow")

_SECRETS = tuple(
    AgentRule(tool="*", verdict="deny", path=path, reason="secrets") for path in ("**/.env", "**/.env.*")
)
_VENDORED = AgentRule(tool="*", verdict="deny", path="node_modules/**", reason="vendored")


def _read_only(name: str) -> tuple[AgentRule, ...]:
    return (
        *(AgentRule(tool=tool, verdict="allow") for tool in READ_ONLY_TOOLS),
        AgentRule(tool="*", verdict="deny", reason=f"{name} is read-only"),
    )


BUILD = AgentDefinition(
    name=DEFAULT_AGENT,
    description="General coding agent: reads, changes and runs.",
    mode="primary",
    rules=(*_SECRETS, _VENDORED),
    delegation=AgentDelegation(can_delegate=True),
    catalog=AgentCatalog(category="builder"),
    origin=_OURS,
)
PLAN = AgentDefinition(
    name="plan",
    description="Works out how to do a thing, and changes nothing.",
    mode="primary",
    system=(
        "You are a planning agent. Find out what there is, then say what to do: the steps in order, the files each of "
        "them touches, what could go wrong, and how to check the result. Change nothing."
    ),
    tools=READ_ONLY_TOOLS,
    rules=_read_only("plan"),
    permission_mode="plan",
    delegation=AgentDelegation(can_delegate=True),
    catalog=AgentCatalog(category="planner", cost="cheap"),
    origin=_OURS,
)
EXPLORE = AgentDefinition(
    name="explore",
    description="Finds out where and how something is done in this project, and says it briefly.",
    mode="subagent",
    system=(
        "You are sent to find something out in this project. Search widely, read what matters, and answer the "
        "question you were given with the files and lines that show it. Change nothing."
    ),
    tools=READ_ONLY_TOOLS,
    rules=_read_only("explore"),
    permission_mode="plan",
    delegation=_SENT_FREELY,
    catalog=AgentCatalog(
        category="researcher",
        cost="cheap",
        use_when=("the answer is spread over many files and you need only what it comes to",),
        avoid_when=("you know the file already",),
    ),
    origin=_OURS,
)
REVIEW = AgentDefinition(
    name="review",
    description="Looks for faults in a change or a file, and reports them with their places.",
    mode="all",
    system=(
        "You are a reviewer. Look for what is wrong: faults, risks, missing tests, promises that are not kept. Name "
        "the file and the line of each, the worst first, and say so plainly where you found nothing. Change nothing."
    ),
    tools=READ_ONLY_TOOLS,
    rules=_read_only("review"),
    permission_mode="plan",
    delegation=_SENT_FREELY,
    catalog=AgentCatalog(
        category="reviewer",
        cost="cheap",
        use_when=("a change is done and somebody else should look at it",),
        avoid_when=("files are to be edited",),
    ),
    origin=_OURS,
)
SOLVE = AgentDefinition(
    name="solve",
    description="Thinks a hard problem through with read-only tools, and says what the cause is and what to do.",
    mode="all",
    system=(
        "You are a problem-solving agent. Find the cause before the cure: read, compare, rule out. Answer with the "
        "cause, the evidence for it, and the smallest remedy. Change nothing."
    ),
    tools=READ_ONLY_TOOLS,
    rules=_read_only("solve"),
    permission_mode="plan",
    delegation=_SENT_FREELY,
    catalog=AgentCatalog(
        category="researcher",
        use_when=("something fails and the cause is not known",),
        avoid_when=("the cause is known and the change is clear",),
    ),
    origin=_OURS,
)

BUILTIN_AGENTS: tuple[AgentDefinition, ...] = (BUILD, PLAN, EXPLORE, REVIEW, SOLVE)
