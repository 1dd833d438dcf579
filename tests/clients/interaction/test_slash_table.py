"""Slash commands that this client carries out: what each comes to, and that the list is true."""

import pytest

from bridle.clients.interaction.commands import slash_table, work_commands
from bridle.clients.interaction.commands.command_table import SlashCommand, SlashContext, SlashTable, say
from bridle.clients.interaction.commands.setting_commands import fetch_grants, next_mode
from bridle.clients.interaction.commands.slash_table import SLASH
from bridle.clients.interaction.composer.composer import typed as typed_text
from bridle.clients.interaction.effects import Do, Effect, Fetch, Leave, LendTerminal, SayWords
from bridle.clients.interaction.engine_info import EngineInfo
from bridle.clients.interaction.render.usage import Tally
from bridle.clients.interaction.session.controller import Controller
from bridle.clients.interaction.view import SessionView
from bridle.commands.described_commands import PROMPTS
from bridle.protocol import events as e
from bridle.protocol.commands import (
    CancelTurn,
    PromoteGrant,
    RevokeGrant,
    RunSlash,
    SetMode,
    SetModel,
)
from bridle.protocol.messages import TextBlock, ToolSchema, Usage
from bridle.protocol.queries import ModelEntry, SlashEntry
from bridle.protocol.slash_arguments import SlashArgument, args_schema
from tables import table

INFO = EngineInfo(
    prompts=tuple(
        SlashEntry(name=one.name, description=one.does, args_schema=args_schema(one.arguments))
        for one in PROMPTS
    )
)
PREFIX = e.PrefixSet(
    provider="work",
    model="some-model",
    system="Header\n\n# Instructions from AGENTS.md\n\nRun make test.",
    tools=(ToolSchema(name="bash", description="x" * 400, input_schema={}),),
)


def standing(*events: e.AnyEvent, used: Tally | None = None, info: EngineInfo = INFO) -> SlashContext:
    view = SessionView("cli_me")
    for number, event in enumerate(events, 1):
        view.take(
            e.Envelope(
                id=number, kind=type(event).__name__, session="s", originator="cli_me", ts_ms=0, event=event
            )
        )
    view.used = used or Tally()
    return SlashContext(session="s", view=view, info=info, table=SLASH, is_file=lambda _path: False)


def carry_out(name: str, arguments: str, now: SlashContext) -> Effect:
    (effect,) = now.table.run(name, arguments, now)
    return effect


def lines(name: str, arguments: str = "", *, now: SlashContext | None = None) -> tuple[str, ...]:
    now = now or standing()
    effects = now.table.run(name, arguments, now)
    return tuple(effect.text for effect in effects if isinstance(effect, SayWords))


@table(
    ("typed", "outcome"),
    [
        ("plan", SetMode(session="s", mode="plan")),
        ("mode auto", SetMode(session="s", mode="auto")),
        ("model work:other", SetModel(session="s", model="work:other")),
        ("new", Do(slash_table.start_new)),
        ("resume 01J8", Do(slash_table.resume, "01J8")),
        ("rename a title", Do(slash_table.rename, "a title")),
        ("exit", Leave()),
        ("sessions", Do(slash_table.show_sessions)),
        ("sessions:list", Do(slash_table.show_sessions)),
        ("sessions:resume 01J8", Do(slash_table.resume, "01J8")),
        ("sessions:pin", Do(slash_table.pin)),
        ("sessions pin off", Do(slash_table.pin, "off")),
        ("sessions dismiss", LendTerminal(("sessions", "dismiss"))),
        ("sessions:branch", Do(slash_table.branch)),
        ("sessions:branch 3", Do(slash_table.branch, "3")),
        ("sessions:export a.md", Do(work_commands.export, "a.md")),
        ("init now", RunSlash(session="s", name="init", arguments="now")),
        ("nobody:knows", RunSlash(session="s", name="nobody:knows")),
    ],
)
@pytest.mark.requirement("G45.1")
def test_a_name_becomes_a_command_or_a_deed(typed: str, outcome: Effect) -> None:
    name, _, arguments = typed.partition(" ")
    assert carry_out(name, arguments, standing()) == outcome


def test_help_lists_exactly_what_there_is() -> None:
    listed = {line.split()[0].removeprefix("/") for line in lines("help")}
    also = {name.strip("/,()") for line in lines("help") for name in line.partition("(also ")[2].split()}
    assert listed | also == set(SLASH.names(INFO))
    for name in SLASH.names(INFO):
        sent = [one for one in SLASH.run(name, "", standing()) if isinstance(one, RunSlash)]
        assert not sent or name in {one.name for one in PROMPTS}


def test_a_slip_is_answered_with_the_name_that_was_meant() -> None:
    assert SLASH.nearest_words("modle", INFO) == " Close: /mode"
    assert SLASH.nearest_words("reveiw", INFO) == " Close: /review"
    assert SLASH.nearest_words("zebra", INFO) == ""


def test_shift_tab_goes_through_three_modes_and_never_into_yolo() -> None:
    modes: list[e.Mode] = ["default"]
    for _ in range(3):
        modes.append(next_mode(modes[-1]))
    assert modes == ["default", "auto", "plan", "default"]
    assert {next_mode(mode) for mode in ("strict", "safe", "yolo")} == {"default"}


def test_a_session_is_not_left_while_a_turn_runs() -> None:
    said = e.InputAccepted(content=(TextBlock(text="go"),))
    busy = standing(said, e.TurnStarted(input=1))
    assert lines("resume", now=busy) == ("A turn is running. /stop ends it, then /resume goes on.",)
    assert carry_out("stop", "", busy) == CancelTurn(session="s")


def test_a_mode_there_is_not_is_named() -> None:
    assert lines("mode", "yol\x1blo") == (
        '"yol⟨ESC⟩lo" is not a mode (strict, default, safe, auto, yolo, plan).',
    )


def test_what_one_may_do_with_sessions_is_said_to_whoever_slips() -> None:
    assert lines("sessions", "branch soon") == ("After which turn? /sessions branch NUMBER",)
    (known,) = lines("sessions:drop")
    assert known == (
        "What about them? /sessions list, resume ID, pin [off], branch [TURN], dismiss, export [path]"
    )


def test_a_command_the_person_typed_can_be_stopped() -> None:
    typed = e.ToolCallRequested(call_id="call_1", tool="bash", input={"command": "sleep 600"}, step=0)
    assert carry_out("stop", "", standing(typed)) == CancelTurn(session="s")
    over = e.ToolResult(call_id="call_1", tool="bash", outcome="ok", content="")
    assert lines("stop", now=standing(typed, over)) == ("No turn is running.",)


def test_permissions_lists_what_is_allowed_and_takes_it_back_by_its_number() -> None:
    now = standing(
        e.GrantAdded(grant_id="g1", tool="bash", pattern="npm test", life="session"),
        e.GrantAdded(grant_id="g2", tool="edit_file", pattern="", life="session"),
        e.GrantAdded(grant_id="g3", tool="bash", pattern="git log", life="saved", match="key"),
        e.GrantRevoked(grant_id="g2"),
    )
    listed = carry_out("permissions", "", now)
    assert isinstance(listed, Fetch)
    assert listed.fetch is fetch_grants
    assert carry_out("permissions", "revoke 2", now) == RevokeGrant(session="s", grant_id="g3")
    assert carry_out("permissions:revoke", "1", now) == RevokeGrant(session="s", grant_id="g1")
    assert carry_out("permissions", "promote 2", now) == PromoteGrant(session="s", grant_id="g3")
    assert carry_out("permissions:promote", "1", now) == PromoteGrant(session="s", grant_id="g1")
    for wrong in ("revoke", "revoke 0", "revoke 3", "revoke x", "revoke -1", "promote", "promote 3"):
        assert lines("permissions", wrong, now=now)[0].startswith("Which one?")


def test_grants_of_a_session_and_its_jobs_end_with_the_program_that_had_it() -> None:
    now = standing(
        e.GrantAdded(grant_id="g1", tool="bash", pattern="npm test", life="session"),
        e.BackgroundStarted(call_id="call_1", command="npm run dev"),
        e.SessionCreated(log="log_1", cwd="/work", resumed=True),
    )
    assert not now.view.grants
    assert lines("jobs", now=now) == ("No command runs in the background.",)


def test_jobs_lists_what_still_runs() -> None:
    begun = [e.BackgroundStarted(call_id=f"call_{n}", command=f"npm run {n}") for n in (1, 2)]
    now = standing(*begun, e.BackgroundEnded(call_id="call_1", outcome="ok"))
    assert lines("jobs", now=now) == ("npm run 2",)


def test_context_tells_every_part_and_calls_estimates_estimates() -> None:
    now = standing(
        e.Notice(reason="NotTrusted", message="", data={"path": "CLAUDE.md"}),
        PREFIX,
        e.InputAccepted(content=(TextBlock(text="a" * 40),)),
        e.StepStarted(step=1, provider="work", model="some-model"),
        e.TextDelta(text="lost in a failed attempt"),
        e.StepFailed(step=1, attempt=1, reason="x", message=""),
        e.TextDelta(text="b" * 8),
        e.StepEnded(
            step=1, stop="end_turn", text_sha256="", usage=Usage(input_tokens=900, output_tokens=100)
        ),
    )
    assert carry_out("context", "", now) == Do(work_commands.show_context)
    told = now.view.contents.lines(now.info.window_of(now.view.model))
    assert told[0] == "In every request. Tokens are estimates: 4 characters each."
    assert any(line.split()[:1] == ["AGENTS.md"] and line.endswith("in use") for line in told)
    assert any("CLAUDE.md" in line and "not in use" in line for line in told)
    assert any(line.split()[0] == "bash" for line in told)
    assert any(line.split() == ["conversation", "48", "characters", "about", "13", "tokens"] for line in told)
    assert told[-2] == "The last request and its answer had 1000 tokens, counted."
    assert told[-1].startswith("How much this model takes is unknown.")
    model = now.view.model
    window = EngineInfo(models={model: ModelEntry(model=model, context_tokens=4000)})
    known = now.view.contents.lines(window.window_of(model))
    assert known[-1] == "Context 25% full (1000 of 4000)."


def test_cost_never_shows_money_nobody_knows() -> None:
    used = Tally()
    used.add(
        e.CostIncremented(provider="w", model="m", usage=Usage(input_tokens=1200, output_tokens=80), usd=None)
    )
    assert lines("cost", now=standing(used=used)) == (
        "tokens   1200 in · 80 out",
        "cost     cost unknown for this model",
    )
    local = EngineInfo(models={"w:m": ModelEntry(model="w:m", local=True)})
    assert lines("cost", now=standing(used=used, info=local))[1] == "cost     local"
    assert lines("cost") == ("Nothing used yet.",)


@pytest.mark.requirement("G45.20")
def test_help_of_a_command_tells_how_it_is_written() -> None:
    assert lines("help", "/mode") == (
        "/mode [NAME]",
        "  what each mode does, or another one: strict default safe auto yolo plan",
        "  NAME        the mode: strict default safe auto yolo plan",
    )
    assert lines("help", "review") == (
        "/review [words]",
        "  have the uncommitted changes reviewed; nothing is changed",
        "  words       what else the model is to know or to look at",
    )
    assert lines("help", "sessions:pin")[0] == "/sessions:pin [more]"
    assert lines("help", "reveiw") == ("There is no command /reveiw. Close: /review /help lists them.",)
    assert lines("help", "\x1b[31m") == ("There is no command /⟨ESC⟩[31m. /help lists them.",)


def test_every_command_of_the_client_says_what_it_takes() -> None:
    for name in SLASH.names(EngineInfo()):
        assert lines("help", name)[0].startswith(f"/{name}"), name
        SLASH.choices_for(name, 0, INFO)


@pytest.mark.requirement("G45.20")
def test_words_behind_a_command_that_takes_none_are_not_dropped_unsaid() -> None:
    assert lines("hooks", "all") == ("/hooks takes no words.",)
    assert lines("copy", "all") == ("/copy takes no words.",)
    assert carry_out("quit", "now", standing()) == Leave()


@table(
    ("name", "at", "known"),
    [
        ("mode", 0, ("strict", "default", "safe", "auto", "yolo", "plan")),
        ("mode", 1, ()),
        ("permissions", 0, ("revoke", "promote")),
        ("permissions:revoke", 0, ()),
        ("deploy", 0, ("staging", "live", "canary")),
        ("unknown", 0, ()),
    ],
)
@pytest.mark.requirement("G45.20")
def test_tab_knows_what_may_stand_behind_a_name(name: str, at: int, known: tuple[str, ...]) -> None:
    where = SlashArgument(name="where", choices=("staging", "live"), examples=("canary",))
    deploy = SlashEntry(name="deploy", description="", args_schema=args_schema((where,)))
    assert SLASH.choices_for(name, at, EngineInfo(prompts=(deploy,))) == known


@pytest.mark.requirement("G45.20")
def test_a_new_command_is_one_value() -> None:
    """Dispatch, help, Tab and what is near a slip come from the table that has it."""
    place = SlashArgument(name="PLACE", about="where to", choices=("staging", "live"))
    deploy = SlashCommand("deploy", "send it out", lambda _now, where: say(f"to {where}"), (place,))
    table = SlashTable((*SLASH.commands, deploy))
    client = Controller(SessionView("cli_me"), "s", slash=table)
    said = client.handle(typed_text("/deploy live"))
    assert SayWords("to live", "  ") in said
    helped = client.handle(typed_text("/help deploy"))
    assert [one.text for one in helped if isinstance(one, SayWords)] == [
        "/deploy [PLACE]",
        "  send it out",
        "  PLACE       where to: staging live",
    ]
    assert "deploy" in table.completed_names(EngineInfo())
    assert table.choices_for("deploy", 0, EngineInfo()) == ("staging", "live")
    assert table.nearest_words("deplyo", EngineInfo()) == " Close: /deploy"
