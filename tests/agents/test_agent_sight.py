"""What an agent's rules about files keep from it is out of its sight, however it looks."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.agents.definition import AgentDefinition, AgentDelegation, AgentRule
from bridle.base.fs.paths import session_folders
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.engine.tools import EVERYTHING
from bridle.protocol import events as e
from bridle.providers.script import call, say
from bridle.safety.call_risk import CallFacts
from bridle.safety.path_guard import without
from bridle.safety.permission_policy import AgentPolicy, Permissions
from bridle.safety.rules import Rule

FREELY = AgentDelegation(invocation="allow", can_delegate=True)
KEPT = AgentRule(tool="*", verdict="deny", path="secrets/**", reason="not needed")
LOOKER = AgentDefinition(name="looker", description="x", mode="all", delegation=FREELY, rules=(KEPT,))
PLAIN = AgentDefinition(name="plain", description="x", mode="all", delegation=FREELY)
LOOKS = (
    call("grep", pattern="word"),
    call("grep", pattern="word", path="secrets"),
    call("glob", pattern="**/*"),
    call("ls", path="secrets"),
    call("read_file", path="secrets/a.txt"),
    call("repo_map"),
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    for name in ("open.txt", "secrets/a.txt", "secrets/deep/b.txt", "src/c.txt"):
        (tmp_path / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "work" / name).write_text(f"word of {name}\n")
    (tmp_path / "work" / "secrets" / "key.py").write_text("def hidden_function(): pass\n")
    return tmp_path / "work"


async def seen_by(work: Path, script: dict[str, object], first: tuple[object, ...], **options: object) -> str:
    """All that tools brought back in a session whose looking agents are asked about nothing and by nobody."""
    model = scripted(*first, agents=script)
    given = {"agents": [LOOKER, PLAIN], "agent_mode": "multi", "mode": "yolo", **options}
    async with harness(model, folder=str(work), sets=("delegation.max_depth=2",), **given) as session:
        events = await session.ask("go")
    found = [event for event in events if isinstance(event, e.ToolResult) and event.tool != e.DELEGATE]
    assert len(found) == len(LOOKS)
    return "\n".join(event.content for event in found)


def send(agent: str) -> object:
    return call("delegate_agent", agent=agent, task="Look.")


@pytest.mark.parametrize("who", ["main", "child", "below"])
async def test_no_tool_shows_an_agent_the_files_that_it_or_its_sender_is_kept_from(
    work: Path, who: str
) -> None:
    looks = [*LOOKS, say("x")]
    match who:
        case "main":
            seen = await seen_by(work, {}, (*looks,), agent="looker")
        case "child":
            seen = await seen_by(work, {"looker": looks}, (send("looker"), say("x")))
        case _:
            below = {"looker": [send("plain"), say("x")], "plain": looks}
            seen = await seen_by(work, below, (send("looker"), say("x")))
    assert "word of open.txt" in seen
    assert "src/c.txt" in seen
    assert "word of secrets" not in seen
    assert "hidden_function" not in seen
    assert "b.txt" not in seen


async def test_whoever_is_kept_from_nothing_sees_it(work: Path) -> None:
    """The same looks, so that the test above is about the rule."""
    seen = await seen_by(work, {"plain": [*LOOKS, say("x")]}, (send("plain"), say("x")))
    assert "word of secrets/a.txt" in seen
    assert "b.txt" in seen


async def test_an_agent_that_a_person_sends_is_not_bounded_by_the_one_they_talk_with(work: Path) -> None:
    from agents.test_roles import run_slash

    model = scripted(say("x"), agents={"code": [call("grep", pattern="word", path="secrets"), say("x")]})
    async with harness(model, folder=str(work), agents=[LOOKER], agent="looker") as session:
        events = await run_slash(session, "code", "look")
    (found,) = (event for event in events if isinstance(event, e.ToolResult))
    assert "word of secrets/a.txt" in found.content


FILES = ("a.txt", "docs/b.md", "docs/deep/c.md", "secrets/d", "secrets/e.txt")
PATHS = st.sampled_from(
    ["**", "docs/**", "docs/deep/**", "*.txt", "secrets/**", "secrets/e.txt", "a.txt", "docs"]
)
RULES = st.lists(
    st.builds(
        Rule,
        tool=st.sampled_from(["*", "read_file", "grep", "Read", "write_file"]),
        verdict=st.sampled_from(["allow", "ask", "deny"]),
        path=st.none() | PATHS,
    ),
    max_size=4,
).map(tuple)
CHAINS = st.lists(
    st.builds(AgentPolicy, name=st.just("x"), rules=RULES, default=st.sampled_from([None, "allow", "deny"])),
    min_size=1,
    max_size=3,
)


@given(CHAINS)
def test_what_is_in_sight_is_what_the_whole_chain_may_read(chain: list[AgentPolicy]) -> None:
    permissions = Permissions(folders=session_folders("/w"), mode=lambda: "yolo")
    for policy in chain:
        permissions = permissions.within(policy)
    kept = permissions.kept_from_agents()
    seen = EVERYTHING if kept is None else without(EVERYTHING, kept)
    about_files = any(
        rule.path is not None and rule.tool in ("*", "read_file", "Read")
        for one in chain
        for rule in one.rules
    )
    for name in FILES:
        path = f"/w/{name}"
        shown = seen.shows_name(path)
        assert shown == seen.shows_content(path)
        reading = CallFacts(tool="read_file", risk="read", paths=(permissions.places.name(path),))
        decided = permissions.decide(reading)
        if shown and about_files and all(_speaks_of_files(one) for one in chain):
            assert decided.verdict == "allow" or _asks_about_every_call(chain, reading)


def _speaks_of_files(policy: AgentPolicy) -> bool:
    return any(rule.path is not None and rule.tool in ("*", "read_file", "Read") for rule in policy.rules)


def _asks_about_every_call(chain: list[AgentPolicy], reading: CallFacts) -> bool:
    """A rule without a path asked about the call that looks already."""
    from bridle.safety.rules import matches

    first = [next((rule for rule in one.rules if matches(rule, reading)), None) for one in chain]
    return any(rule is not None and rule.path is None and rule.verdict == "ask" for rule in first)


def test_a_file_that_an_earlier_rule_allows_stays_in_sight() -> None:
    rules = (Rule("*", "allow", path="secrets/e.txt"), Rule("*", "deny", path="secrets/**"))
    permissions = Permissions(folders=session_folders("/w")).within(AgentPolicy(name="x", rules=rules))
    kept = permissions.kept_from_agents()
    assert kept is not None
    assert [kept(f"/w/{name}") for name in FILES] == [False, False, False, True, False]
