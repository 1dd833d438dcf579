"""Who may do what: kinds of command, classes of clients, attached or not, claims, as one table."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.control.authority import (
    FOR_AGENTS,
    FOR_ALL,
    FOR_THE_ATTACHED,
    Bounds,
    FollowEvents,
    MeantSession,
    is_looser,
    may,
    options_for_agents,
)
from bridle.engine.open_questions import Client
from bridle.protocol import commands as c
from bridle.protocol import queries as q
from bridle.protocol.codec import decode_command, encode_command
from bridle.protocol.errors import SENTENCES
from bridle.protocol.events import Mode
from bridle.protocol.questions import StepLimitAnswer
from bridle.protocol.tokens import Claims
from tables import table

PERSON = Client(id="cli_1", name="terminal", identity="human", answers=True)
DEAF = Client(id="cli_2", name="script", identity="human", answers=False)
AGENT = Client(id="cli_3", name="outer", identity="agent", answers=True)

S = "sess_1"
DEFAULTS = Bounds(
    mode="default", sandbox="auto", network="filtered", max_steps=100, max_cost=5.0, effort="low"
)
HERE = MeantSession(
    is_open=True,
    attached=True,
    mode="default",
    effort="medium",
    slash=frozenset({"diff"}),
    bounds=DEFAULTS,
)
AWAY = msgspec.structs.replace(HERE, attached=False)

# A command, and what is said to: a person here · a person away · an agent here · an agent away
TABLE: tuple[tuple[Any, str | None, str | None, str | None, str | None], ...] = (
    (c.CreateSession(cwd="/w"), None, None, None, None),
    (c.CreateSession(cwd="/w", resume=S), None, None, None, None),
    (c.CreateSession(cwd="/w", mode="strict"), None, None, None, None),
    (c.CreateSession(cwd="/w", mode="auto"), None, None, "OnlyStricter", "OnlyStricter"),
    (c.CreateSession(cwd="/w", env={"PATH": "/x"}), None, None, "NotAPerson", "NotAPerson"),
    (c.CreateSession(cwd="/w", profile="careful"), None, None, "NotAPerson", "NotAPerson"),
    (c.CreateSession(cwd="/w", config=c.SessionOptions(yes=True)), None, None, "NotAPerson", "NotAPerson"),
    (
        c.CreateSession(cwd="/w", config=c.SessionOptions(sandbox="off")),
        None,
        None,
        "OnlyStricter",
        "OnlyStricter",
    ),
    (c.AttachSession(session=S), None, None, None, None),
    (c.DetachSession(session=S), None, "NotAttached", None, "NotAttached"),
    (c.EndSession(session=S), None, "NotAttached", None, "NotAttached"),
    (c.SendInput(session=S, content=()), None, "NotAttached", None, "NotAttached"),
    (c.ShellRequest(session=S, command="ls"), None, "NotAttached", "NotAPerson", "NotAPerson"),
    (c.RunSlash(session=S, name="diff"), None, "NotAttached", "NotAPerson", "NotAPerson"),
    (c.RunSlash(session=S, name="review"), None, "NotAttached", None, "NotAttached"),
    (c.CancelTurn(session=S), None, "NotAttached", None, "NotAttached"),
    (c.AnswerPermission(session=S, call_id="x", answer="deny"), None, "NotAttached", None, "NotAttached"),
    *(
        (
            c.AnswerPermission(session=S, call_id="x", answer=answer),
            None,
            "NotAttached",
            "SelfApproval",
            "SelfApproval",
        )
        for answer in ("once", "pattern", "tool", "always")
    ),
    (
        c.AnswerQuestion(session=S, question_id="q", answer=StepLimitAnswer(go_on=True)),
        None,
        "NotAttached",
        "SelfApproval",
        "SelfApproval",
    ),
    (
        c.AnswerTrust(session=S, path="p", sha256="0", trusted=True),
        None,
        "NotAttached",
        "SelfApproval",
        "SelfApproval",
    ),
    (
        c.AnswerTrust(session=S, path="p", sha256="0", trusted=False),
        None,
        "NotAttached",
        None,
        "NotAttached",
    ),
    (c.SetModel(session=S, model="a:b"), None, "NotAttached", None, "NotAttached"),
    (c.SetMode(session=S, mode="yolo"), None, "NotAttached", "SelfApproval", "SelfApproval"),
    (c.SetMode(session=S, mode="safe"), None, "NotAttached", None, "NotAttached"),
    (c.EnterPlanMode(session=S), None, "NotAttached", None, "NotAttached"),
    (c.ExitPlanMode(session=S, approve=True), None, "NotAttached", "SelfApproval", "SelfApproval"),
    (c.ExitPlanMode(session=S, approve=False), None, "NotAttached", None, "NotAttached"),
    (c.ChangeInput(session=S, input=1, change="drop"), None, "NotAttached", "NotAPerson", "NotAPerson"),
    (c.AskAside(session=S, question="why"), None, "NotAttached", None, "NotAttached"),
    (c.SetEffort(session=S, effort="low"), None, "NotAttached", None, "NotAttached"),
    (c.SetEffort(session=S, effort="medium"), None, "NotAttached", None, "NotAttached"),
    (c.SetEffort(session=S, effort="high"), None, "NotAttached", "OnlyStricter", "OnlyStricter"),
    (c.RevokeGrant(session=S, grant_id="g"), None, "NotAttached", None, "NotAttached"),
    (c.PromoteGrant(session=S, grant_id="g"), None, "NotAttached", "NotAPerson", "NotAPerson"),
    (c.SaveModel(model="a:b"), None, None, "NotAPerson", "NotAPerson"),
    (c.ConnectProvider(provider="a", key="k"), None, None, "NotAPerson", "NotAPerson"),
    (c.Undo(session=S), None, "NotAttached", "NotAPerson", "NotAPerson"),
    (c.CustomCommand(namespace="n", verb="v"), None, None, "NotAPerson", "NotAPerson"),
    (c.CustomCommand(namespace="n", verb="v", session=S), None, "NotAttached", "NotAPerson", "NotAPerson"),
    (c.RenameSession(session=S, title="t"), None, None, None, "NotAttached"),
    (c.BranchSession(session=S), None, None, None, "NotAttached"),
    (c.PinSession(session=S), None, None, "NotAPerson", "NotAPerson"),
    (c.DeleteSession(session=S), None, None, "NotAPerson", "NotAPerson"),
    (FollowEvents(S), None, "NotAttached", None, "NotAttached"),
    (q.ListSessions(), None, None, None, None),
    (q.DescribeSession(session=S), None, None, None, None),
    (q.FindSession(cwd="/w"), None, None, None, None),
    (q.PreviewSession(create=c.CreateSession(cwd="/w")), None, None, "NotAPerson", "NotAPerson"),
    (q.DescribeLog(session=S), None, None, None, "NotAttached"),
    (q.SearchSessions(words="x"), None, None, None, None),
    (q.ListModels(), None, None, None, None),
    (q.ListModels(provider="a", ask_provider=True), None, None, "NotAPerson", "NotAPerson"),
    (q.ListModels(usable=True), None, None, "NotAPerson", "NotAPerson"),
    (q.ListModels(create=c.CreateSession(cwd="/w")), None, None, "NotAPerson", "NotAPerson"),
    (q.ListProviders(), None, None, "NotAPerson", "NotAPerson"),
    (q.ListProviders(session=S), None, "NotAttached", "NotAPerson", "NotAPerson"),
    (q.ListTools(session=S), None, "NotAttached", None, "NotAttached"),
    (q.ListSlash(), None, None, None, None),
    (q.ListSlash(session=S), None, "NotAttached", None, "NotAttached"),
    (q.ListSkills(), None, None, None, None),
    (q.ListSkills(session=S), None, "NotAttached", None, "NotAttached"),
    (q.DescribeSkill(name="a"), None, None, None, None),
    (q.DescribeSkill(name="a", session=S), None, "NotAttached", None, "NotAttached"),
    (q.ListAgents(), None, None, None, None),
    (q.ListAgents(session=S), None, "NotAttached", None, "NotAttached"),
    (q.ListProfiles(), None, None, None, None),
    (q.DescribeProfile(name="careful"), None, None, None, None),
    (q.ListGrants(session=S), None, "NotAttached", None, "NotAttached"),
    (q.ListChanges(session=S), None, "NotAttached", None, "NotAttached"),
    (q.ReadOutput(session=S, call_id="call_1"), None, "NotAttached", None, "NotAttached"),
    (q.SumCosts(), None, None, None, None),
    (q.SumCosts(session=S), None, None, None, None),
    (q.CheckHealth(), None, None, None, None),
    (q.CustomQuery(namespace="n", verb="v"), None, None, None, None),
    (q.CustomQuery(namespace="n", verb="v", session=S), None, "NotAttached", None, "NotAttached"),
)


def reason(client: Client, asked: Any, live: MeantSession = HERE, claims: Claims | None = None) -> str | None:
    refusal = may(client, claims, asked, live)
    return None if refusal is None else refusal.reason


def claims(**fields: Any) -> Claims:
    return Claims(ver=1, jti="t", identity_class="human", exp=0, **fields)


def test_every_kind_stands_in_the_table_of_rules_and_in_this_one() -> None:
    kinds = {*get_args(c.AnyCommand), *get_args(q.AnyQuery), FollowEvents}
    assert {*FOR_THE_ATTACHED, *FOR_ALL} == {kind.__name__ for kind in kinds}
    assert not FOR_THE_ATTACHED.keys() & FOR_ALL.keys()
    assert {type(asked) for asked, *_ in TABLE} == kinds


def test_a_kind_that_is_not_placed_is_refused() -> None:
    assert reason(PERSON, msgspec.defstruct("Unplaced", ["session"])(S)) == "NotGranted"


@pytest.mark.requirement("G20.6", "G20.8")
@table("row", TABLE)
def test_the_table(row: Any) -> None:
    asked, *expected = row
    said = [reason(client, asked, live) for client in (PERSON, AGENT) for live in (HERE, AWAY)]
    assert said == expected
    assert {one for one in said if one} <= SENTENCES.keys()


@table("row", TABLE)
def test_a_client_bound_to_sessions_has_those_and_no_other(row: Any) -> None:
    asked = row[0]
    session = asked.resume if isinstance(asked, c.CreateSession) else getattr(asked, "session", None)
    mine, other, none = claims(sessions=(S,)), claims(sessions=("sess_2",)), claims(sessions=())
    beyond = isinstance(asked, c.BranchSession | c.PromoteGrant | c.SaveModel | c.ConnectProvider)
    beyond = beyond or getattr(asked, "create", None) is not None
    if session is None or beyond:
        makes_one = beyond or isinstance(asked, c.CreateSession)
        for bound in (mine, other, none):
            assert reason(PERSON, asked, HERE, bound) == ("NotGranted" if makes_one else None)
    else:
        assert reason(PERSON, asked, HERE, mine) is None
        assert reason(PERSON, asked, HERE, other) == "UnknownSession"
        assert reason(PERSON, asked, HERE, none) == "UnknownSession"
    assert reason(PERSON, asked, HERE, claims()) is None, "without a list, all of them"


@table("row", TABLE)
def test_a_token_names_the_commands_it_is_for(row: Any) -> None:
    asked = row[0]
    assert reason(PERSON, asked, HERE, claims(commands=())) == "NotGranted"
    assert reason(PERSON, asked, HERE, claims(commands=(type(asked).__name__,))) is None


@table("row", TABLE)
@table("client", [PERSON, AGENT])
def test_what_needs_an_attachment_is_refused_where_nothing_is_open(row: Any, client: Client) -> None:
    asked, _, away, *_ = row
    if away == "NotAttached":
        assert reason(client, asked, MeantSession()) == "SessionNotOpen"


def test_somebody_who_cannot_be_asked_types_no_commands() -> None:
    assert reason(DEAF, c.ShellRequest(session=S, command="ls")) == "NotAPerson"


@table(
    ("option", "value", "refused"),
    [
        ("sandbox", "read-only", None),
        ("sandbox", "workspace-write", None),
        ("sandbox", "auto", None),
        ("sandbox", "bogus", "OnlyStricter"),
        ("network", "deny", None),
        ("network", "filtered", None),
        ("network", "inherit", "OnlyStricter"),
        ("max_steps", 100, None),
        ("max_steps", 101, "OnlyStricter"),
        ("max_cost", 4, None),
        ("max_cost", 5.01, "OnlyStricter"),
        ("max_cost", float("nan"), "OnlyStricter"),
        ("max_cost", "9", "OnlyStricter"),
        ("persistent_grants", False, None),
        ("persistent_grants", True, "OnlyStricter"),
        ("on_orphan", "ask", None),
        ("on_orphan", "mark-unknown", "OnlyStricter"),
        ("effort", "off", None),
        ("effort", "low", None),
        ("effort", "medium", "OnlyStricter"),
        ("effort", "bogus", "OnlyStricter"),
        ("deny", ("bash",), None),
        ("yes", False, None),
    ],
)
def test_an_agent_asks_for_as_much_as_the_settings_give_or_less(
    option: str, value: Any, refused: str | None
) -> None:
    command = c.CreateSession(cwd="/w", config=c.SessionOptions(**{option: value}))
    assert reason(AGENT, command) == refused
    assert reason(PERSON, command) is None


def test_where_nobody_chose_an_effort_an_agent_asks_for_none_at_all() -> None:
    plain = MeantSession(is_open=True, attached=True)
    for effort in ("low", "medium", "high", "max"):
        assert reason(AGENT, c.SetEffort(session=S, effort=effort), plain) == "OnlyStricter"
        new = c.CreateSession(cwd="/w", config=c.SessionOptions(effort=effort))
        assert reason(AGENT, new, plain) == "OnlyStricter"
    assert reason(AGENT, c.SetEffort(session=S, effort="off"), plain) is None
    assert reason(PERSON, c.SetEffort(session=S, effort="max"), plain) is None


def test_who_may_not_follow_events_gets_none_with_a_description() -> None:
    plain, whole = q.DescribeSession(session=S), q.DescribeSession(session=S, events=1)
    narrow = claims(commands=("DescribeSession",))
    assert reason(PERSON, plain, claims=narrow) is None
    assert reason(PERSON, whole, claims=narrow) == "NotGranted"
    assert reason(PERSON, whole, claims=claims(commands=("DescribeSession", "FollowEvents"))) is None


def test_who_may_only_watch_or_answer_wakes_no_stored_session() -> None:
    attach = c.AttachSession(session=S)
    assert reason(PERSON, attach, MeantSession()) is None
    assert reason(PERSON, attach, MeantSession(), claims(sessions=(S,))) is None
    assert reason(PERSON, attach, MeantSession(), claims(commands=("AttachSession",))) == "SessionNotOpen"
    assert reason(PERSON, attach, HERE, claims(commands=("AttachSession",))) is None


def test_an_agent_keeps_what_it_has_and_may_ask_for_nothing_at_all() -> None:
    assert reason(AGENT, c.SetMode(session=S, mode="default")) is None
    assert (
        reason(AGENT, c.CreateSession(cwd="/w", mode="default", config=c.SessionOptions(max_cost=0))) is None
    )
    given = c.SessionOptions(yes=True, max_steps=101, deny=("bash",))
    assert options_for_agents(given, DEFAULTS) == c.SessionOptions(deny=("bash",))


def test_an_agent_asks_a_model_aside_only_where_it_may_say_something() -> None:
    def of_agent(*commands: str) -> Claims:
        return Claims(ver=1, jti="t", identity_class="agent", exp=0, sessions=(S,), commands=commands)

    aside = c.AskAside(session=S, question="why")
    assert reason(AGENT, aside, claims=of_agent("AskAside")) == "NotGranted"
    assert reason(AGENT, aside, claims=of_agent("SendInput")) == "NotGranted"
    assert reason(AGENT, aside, claims=of_agent("AskAside", "SendInput")) is None
    assert reason(PERSON, aside, claims=claims(commands=("AskAside",))) is None


FOR_PEOPLE = {
    "yes": True,
    "allow_policy_changes": True,
    "allow_unsandboxed": True,
    "allow": ("bash",),
    "config_file": "x.toml",
    "sets": ("mode=yolo",),
    "add_dirs": ("/",),
    "lockfile": "approved.lock",
    "allow_project_hooks": True,
    "allow_hosts": ("example.com",),
    "append_system": "obey",
    "agent_mode": "multi",
    "wide_folder": "/",
    "transcript": "off",
}


def test_every_option_of_a_session_is_for_agents_or_for_people() -> None:
    assert {*FOR_AGENTS, *FOR_PEOPLE} == set(c.SessionOptions.__struct_fields__)
    for option, value in FOR_PEOPLE.items():
        create = c.CreateSession(cwd="/w", config=c.SessionOptions(**{option: value}))
        assert reason(AGENT, decode_command(encode_command(create))) == "NotAPerson", option


def test_an_agent_chooses_no_other_agent_to_talk_with_than_the_person_did() -> None:
    plan = MeantSession(bounds=Bounds(mode="default", agent="plan"))
    assert reason(AGENT, c.CreateSession(cwd="/w", agent="plan"), plan) is None
    assert reason(AGENT, c.CreateSession(cwd="/w", agent="build"), plan) == "OnlyStricter"
    assert reason(AGENT, c.CreateSession(cwd="/w", agent="plan"), MeantSession(bounds=Bounds())) is None
    assert reason(PERSON, c.CreateSession(cwd="/w", agent="build"), plan) is None


MODES = st.sampled_from(get_args(Mode))
STANDINGS = st.builds(
    MeantSession,
    is_open=st.booleans(),
    attached=st.booleans(),
    mode=MODES,
    slash=st.frozensets(st.sampled_from(["diff", "undo"])),
    bounds=st.builds(
        Bounds,
        mode=MODES,
        sandbox=st.sampled_from(["off", "auto", "workspace-write", "read-only"]),
        network=st.sampled_from(["inherit", "filtered", "deny"]),
        max_steps=st.integers(0, 500),
        max_cost=st.none() | st.floats(0, 100),
    ),
)
CLAIMS = st.none() | st.builds(claims, sessions=st.sampled_from([(), (S,), ("sess_2",)]))
VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.text(max_size=3))
CONFIGS = st.dictionaries(st.sampled_from(c.SessionOptions.__struct_fields__), VALUES)


@given(STANDINGS, CLAIMS, st.sampled_from([row[0] for row in TABLE]))
def test_nobody_gets_more_by_being_an_agent_and_none_says_yes(
    live: MeantSession, token: Claims | None, asked: Any
) -> None:
    if reason(AGENT, asked, live, token) is None:
        assert reason(PERSON, asked, live, token) is None
        assert not (isinstance(asked, c.AnswerPermission) and asked.answer != "deny")
        assert not isinstance(asked, c.AnswerQuestion | c.ShellRequest | c.DeleteSession)


@given(STANDINGS, MODES | st.none(), CONFIGS)
def test_what_an_agent_is_given_is_never_looser_than_the_settings(
    live: MeantSession, mode: Mode | None, config: dict[str, Any]
) -> None:
    if (
        reason(AGENT, c.CreateSession(cwd="/w", mode=mode, config=c.SessionOptions(**config)), live)
        is not None
    ):
        return
    assert mode is None or not is_looser(mode, live.bounds.mode)
    assert not any(value for name, value in config.items() if name not in FOR_AGENTS)
    assert config.get("sandbox") != "off" or live.bounds.sandbox == "off"
    steps = config.get("max_steps")
    assert steps is None or steps <= live.bounds.max_steps


@table(
    "asked",
    [
        c.PromoteGrant(session=S, grant_id="g"),
        c.SaveModel(model="a:b"),
        c.ConnectProvider(provider="a", key="k"),
    ],
)
def test_a_client_bound_to_sessions_changes_nothing_that_holds_for_others(asked: Any) -> None:
    assert reason(PERSON, asked, claims=claims(sessions=(S,))) == "NotGranted"
    assert reason(PERSON, asked, claims=claims()) is None


@table("resume", [None, S, "sess_2"])
@table("kind", [q.PreviewSession, q.ListModels, q.ListProviders])
def test_a_client_bound_to_sessions_looks_into_no_other_folder(kind: Any, resume: str | None) -> None:
    asked = kind(create=c.CreateSession(cwd="/elsewhere", resume=resume))
    assert reason(PERSON, asked, claims=claims(sessions=(S,))) == "NotGranted"
    assert reason(PERSON, asked, claims=claims()) is None
