"""Over random agents, rules, grants and modes: nobody in a chain gets further than whoever stands above them."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.agents.agent_settings import AgentSettings
from bridle.agents.definition import AgentDefinition, AgentDelegation, AgentRegistry, AgentRule
from bridle.agents.delegation import DELEGATE_NAMES, check_delegation, may_delegate
from bridle.app.sources.session_agents import WorkingAgent
from bridle.base.fs.paths import session_folders
from bridle.engine.tools import BUILTIN, Registry, Tool, never_mutating
from bridle.protocol.errors import BridleError
from bridle.protocol.events import GrantAdded
from bridle.safety.call_risk import CallFacts
from bridle.safety.permission_policy import MODE_TABLE, Permissions
from bridle.safety.rules import Rule

NAMES = ("one", "two", "three", "four")
TOOLS = ("read_file", "write_file", "bash", "delegate_agent", "Agent", "skill", "mcp__git__log")
COMMANDS = st.sampled_from(["ls", "rm x", "npm test"])
PATTERNS = st.sampled_from([*TOOLS, "*", "mcp__*"])
VERDICTS = st.sampled_from(["allow", "ask", "deny"])
MODES = st.sampled_from(list(MODE_TABLE))
FREEDOM = {"deny": 0, "ask": 1, "allow": 2}
SOME_NAMES = st.lists(st.sampled_from(NAMES), max_size=3).map(tuple)

FREE = AgentDelegation(can_delegate=True, invocation="allow")
DELEGATIONS = st.just(FREE) | st.builds(
    AgentDelegation,
    callable=st.sampled_from([None, True, False]),
    can_delegate=st.booleans(),
    allowed_agents=st.none() | SOME_NAMES,
    denied_agents=SOME_NAMES,
    max_depth=st.none() | st.integers(0, 9),
    invocation=st.none() | VERDICTS,
)
AGENT_RULES = st.lists(
    st.builds(AgentRule, tool=PATTERNS, verdict=VERDICTS, command=st.none() | COMMANDS), max_size=3
).map(tuple)
RULES = st.lists(st.builds(Rule, tool=PATTERNS, verdict=VERDICTS, command=st.none() | COMMANDS), max_size=4)
GRANTS = st.lists(
    st.builds(
        GrantAdded,
        grant_id=st.sampled_from(["g1", "g2"]),
        tool=st.sampled_from(TOOLS),
        pattern=st.just("") | COMMANDS,
        life=st.just("session"),
        match=st.just("literal"),
    ),
    max_size=2,
)
CALLS = st.builds(
    CallFacts,
    tool=st.sampled_from(TOOLS),
    risk=st.sampled_from(["read", "write", "shell", "network", "dangerous"]),
    command=st.none() | COMMANDS,
    quiet=st.booleans(),
    policy_file=st.booleans(),
    must_ask=st.sampled_from(["", "a hook says so"]),
)


GRAPHS = st.tuples(
    *(
        st.builds(
            AgentDefinition,
            name=st.just(name),
            description=st.just("x"),
            mode=st.sampled_from(["all", "subagent", "primary"]),
            hidden=st.sampled_from([False, False, True]),
            tools=st.none() | st.lists(PATTERNS, max_size=3).map(tuple),
            hidden_tools=st.lists(PATTERNS, max_size=2).map(tuple),
            rules=AGENT_RULES,
            default_verdict=st.none() | VERDICTS,
            permission_mode=st.none() | MODES,
            delegation=DELEGATIONS,
        )
        for name in NAMES
    )
).map(AgentRegistry)
SETTINGS = st.builds(
    AgentSettings,
    mode=st.sampled_from(["multi", "multi", "single"]),
    max_depth=st.integers(0, 4),
    invocation=VERDICTS,
)
WALKS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=6)


def tool(name: str) -> Tool:
    async def run(_args, _context):
        raise AssertionError("nothing runs here")

    return Tool(
        name=name, description="x", input=msgspec.Struct, risk="read", run=run, mutating=never_mutating
    )


SESSION_TOOLS = Registry()
SESSION_TOOLS.replace("test", [tool(name) for name in TOOLS], BUILTIN)


def sent_by(chain: list[WorkingAgent], name: str) -> AgentDefinition:
    caller = chain[-1]
    return check_delegation(
        name,
        registry=caller.registry,
        caller=caller.definition,
        chain=[one.definition.name for one in chain],
        settings=caller.settings,
    )


def walked(registry: AgentRegistry, settings: AgentSettings, walk: list[str]) -> list[WorkingAgent]:
    """The agents of a walk, as far as each may send the next; the first is the one a person talks to."""
    chain: list[WorkingAgent] = []
    for depth, name in enumerate(walk):
        target = registry.get(name)
        assert target is not None
        if chain:
            if not chain[-1].delegates:
                break
            try:
                target = sent_by(chain, name)
            except BridleError:
                break
        chain.append(WorkingAgent(definition=target, registry=registry, settings=settings, depth=depth))
    return chain


@pytest.mark.requirement("D11.12", "D11.13", "C30")
@given(GRAPHS, SETTINGS, WALKS)
def test_no_chain_is_longer_than_settings_let_it_be_or_comes_back_to_anybody(registry, settings, walk):
    chain = walked(registry, settings, walk)
    names = [one.definition.name for one in chain]
    assert len(names) == len(set(names))
    assert len(chain) - 1 <= (settings.max_depth if settings.mode == "multi" else 0)
    for name in names:
        with pytest.raises(BridleError):
            sent_by(chain, name)
    for above, below in pairwise(chain):
        assert above.definition.delegation.can_delegate
        assert below.definition.is_callable
        assert below.definition.delegation.invocation != "deny"
        assert below.definition.name not in above.definition.delegation.denied_agents
        deepest = above.definition.delegation.max_depth
        assert deepest is None or below.depth <= deepest
    for one in chain:
        seen = {shown.name for shown in one.tools_of(SESSION_TOOLS).list()}
        assert seen <= set(TOOLS)
        if not may_delegate(one.definition, one.depth, settings):
            assert not seen & DELEGATE_NAMES
        if one.depth:
            assert "skill" not in seen


@pytest.mark.requirement("D11.3", "D11.7", "T9.7", "D1.6")
@given(GRAPHS, WALKS, CALLS, MODES, RULES, GRANTS, st.booleans())
def test_nobody_in_a_chain_gets_more_than_the_session_or_whoever_sent_them(
    registry, walk, call, mode, rules, grants, yes
):
    session = Permissions(folders=session_folders("/w", ()), mode=lambda: mode, rules=rules, yes=yes)
    for grant in grants:
        session.remember(grant)
    alone, above = session.decide(call), session
    for definition in filter(None, map(registry.get, walk)):
        one = WorkingAgent(definition=definition, registry=registry, settings=AgentSettings())
        before, above = above.decide(call), one.permissions_of(above)
        own = above.decide(call)
        for freer in (alone, before):
            assert FREEDOM[own.verdict] <= FREEDOM[freer.verdict]
            assert own.verdict == "deny" or own.for_person or not freer.for_person
            assert own.verdict == "deny" or own.keys >= freer.keys
