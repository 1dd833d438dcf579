"""After a crash: what may have happened is a person's to judge, with what is there now in front of them."""

import asyncio
import os
import subprocess
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from bridle.agents.definition import AgentDefinition, AgentDelegation
from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.conversation import Conversation, OpenCall
from bridle.engine.steps import encode
from bridle.protocol.codec import encode_payload
from bridle.protocol.commands import AnswerQuestion
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import (
    Notice,
    QuestionAnswered,
    QuestionAsked,
    RequestedCall,
    SessionEnded,
    ToolResult,
    TurnEnded,
    TurnStarted,
)
from bridle.protocol.questions import OrphanAnswer
from bridle.providers.script import answer, call, say
from bridle.recovery.court import InterruptedRun, findings

GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "PATH": os.environ["PATH"],
}


def git(folder, *words):
    subprocess.run(
        ["git", *words], cwd=folder, env={**GIT, "HOME": str(folder)}, check=True, capture_output=True
    )


class Crashed:
    """A folder, a home, and a session in it whose log ends while its calls ran."""

    def __init__(self, root):
        self.work = root / "work"
        self.work.mkdir()
        self.places = {"folder": str(self.work), "home": str(root / "home")}
        self.session = ""

    async def during(self, *calls, before=()):
        """Lets the calls run, and forgets that they ended; `before` runs to its end first."""
        script = [*(answer(one) for one in before), answer(*calls), say("x")]
        async with harness(scripted(*script), mode="yolo", sandbox="off", **self.places) as session:
            await session.ask("go")
            whole = await session.stored()
        results = [index for index, one in enumerate(whole) if one.kind == "ToolResult"]
        started = [index for index, one in enumerate(whole) if one.kind == "ToolCallStarted"]
        cut = started[-len(calls) :] if calls else []
        kept = [
            one for index, one in enumerate(whole) if index <= cut[-1] and index not in results[len(before) :]
        ]
        async with harness(scripted(say("x")), **self.places) as session:
            log = session.engine.store.create(str(self.work), profile="default")
            for number, one in enumerate(kept, 1):
                log.append(replace(one, session=log.session, id=number), encode_payload(one.event))
            await log.committed()
            self.session = log.session
            log.close()
        return self

    @asynccontextmanager
    async def resumed(self, model, **options):
        options = {"on_orphan": "ask", "answers": True, **options}
        async with harness(model, resume=self.session, **options, **self.places) as session:
            yield session


async def judge(session, judgement, *, since=0):
    asked = await session.until(QuestionAsked, since=since)
    await session.connection.send(
        AnswerQuestion(session=session.id, question_id=asked.question_id, answer=judgement)
    )
    return asked


@pytest.fixture
def crashed(tmp_path):
    return Crashed(tmp_path)


HAPPENED = OrphanAnswer(judgement="happened")
DID_NOT = OrphanAnswer(judgement="did_not")
LATER = OrphanAnswer(judgement="later")
JUDGEMENTS = [
    (HAPPENED, "ok", "JudgedHappened", "happened"),
    (DID_NOT, "cancelled", "JudgedNotHappened", "did not happen"),
    (OrphanAnswer(judgement="unknown"), "unknown", "OutcomeUnknown", "unknown"),
    (OrphanAnswer(judgement="unknown", note="I saw half of it"), "unknown", "OutcomeUnknown", "unknown"),
]


@pytest.mark.requirement("G32.3")
@pytest.mark.parametrize(("judgement", "outcome", "reason", "judged"), JUDGEMENTS)
async def test_a_person_judges_and_the_model_is_told(crashed, judgement, outcome, reason, judged):
    await crashed.during(call("bash", command="touch a"))
    model = RecordingModel(scripted(say("x"), say("Back.")))
    async with crashed.resumed(model) as session:
        number = await session.send("go on")
        asked = await judge(session, judgement)
        assert (await session.turn_of(number))[-1].stop == "end_turn"
        stored = await session.stored()
        events = [one.event for one in stored]
        client = session.connection.client
    (result,) = of_kind(events, ToolResult)
    assert (result.outcome, result.reason, result.shown.judgement) == (outcome, reason, judged)
    assert result.shown.by == client
    (answered,) = of_kind(events, QuestionAnswered)
    assert (answered.question_id, answered.answered_by) == (asked.question_id, client)
    assert [event.stop for event in of_kind(events, TurnEnded)] == ["interrupted", "end_turn"]
    assert events.index(result) < max(i for i, event in enumerate(events) if isinstance(event, TurnStarted))
    request = Conversation.of(stored[: max(i for i, one in enumerate(stored) if one.kind == "StepStarted")])
    assert encode(request, model.wire) == model.bodies[-1]
    assert answered.answer == judgement
    assert judgement.note in result.content


async def test_several_are_judged_one_after_the_other_and_what_only_read_is_not_asked_about(crashed):
    (crashed.work / "f").write_text("x")
    await crashed.during(
        call("bash", command="touch a"), call("read_file", path="f"), call("bash", command="touch b")
    )
    async with crashed.resumed(scripted(say("x"), say("x"), say("Back."))) as session:
        first = await judge(session, HAPPENED)
        assert (first.question.number, first.question.count) == (1, 2)
        answered = await session.until(QuestionAnswered)
        assert answered.answer == HAPPENED
        stored = await session.stored()
        second = await judge(session, DID_NOT, since=len(stored) - 1)
        assert second.question.input["command"] == "touch b"
        assert (await session.ask("go on"))[-1].stop == "end_turn"
        results = of_kind([one.event for one in await session.stored()], ToolResult)
    assert sorted(result.reason for result in results) == [
        "Interrupted",
        "JudgedHappened",
        "JudgedNotHappened",
    ]


async def test_later_leaves_everything_as_it_was_and_the_next_time_asks_again(crashed):
    await crashed.during(call("bash", command="touch a"))
    async with crashed.resumed(scripted(say("x"))) as session:
        await session.send("wait for me")
        await judge(session, LATER)
        await session.until(SessionEnded)
        events = [one.event for one in session.engine.store.events(session.id)]
        assert of_kind(events, ToolResult) == []
        assert len(of_kind(events, TurnStarted)) == 1, "nothing ran"
        past = len(events)
    async with crashed.resumed(scripted(say("x"), say("Heard."), say("Back."))) as session:
        asked = await judge(session, HAPPENED, since=past)
        assert asked.question.count == 1
        assert (await session.ask("go on"))[-1].stop == "end_turn"
        turns = of_kind([one.event for one in await session.stored()], TurnStarted)
    assert len(turns) == 3, "what was said meanwhile is heard first"


async def test_an_undo_that_is_not_possible_says_so_and_asks_again(crashed):
    await crashed.during(call("bash", command="true; touch a"))
    async with crashed.resumed(scripted(say("x"))) as session:
        asked = await session.until(QuestionAsked)
        assert asked.question.not_undoable == "here: it changed no file that is known"
        before = session.conversation.last_id
        await judge(session, OrphanAnswer(judgement="undo"))
        notice = await session.until(Notice, since=before)
        assert notice.reason == "NotUndoable"


async def test_a_stop_that_comes_as_the_look_ends_is_heard():
    loop = asyncio.get_running_loop()

    def stopped(_patch):
        loop.call_soon(sitting.cancel)
        return ()

    run = InterruptedRun(
        cwd="/", created_ms=0, stopped_ms=0, understand=None, repository_at=None, files_of_patch=stopped
    )
    asked = RequestedCall(call_id="1", wire_id="1", tool="apply_patch", input={"patch": "x"})

    async def sit():
        await findings(OpenCall(call=asked), run)
        for _ in range(10):
            await asyncio.sleep(0)

    sitting = asyncio.create_task(sit())
    await asyncio.wait((sitting,))
    assert sitting.cancelled()


async def test_an_agent_does_not_judge(crashed):
    await crashed.during(call("bash", command="touch a"))
    async with crashed.resumed(scripted(say("x"))) as session:
        asked = await session.until(QuestionAsked)
        agent = session.engine.connect(name="agent", identity="agent", answers=True)
        with pytest.raises(CommandRefused) as refused:
            await agent.send(
                AnswerQuestion(session=session.id, question_id=asked.question_id, answer=HAPPENED)
            )
    assert refused.value.reason == "SelfApproval"


async def test_where_nobody_can_be_asked_nothing_runs(crashed):
    await crashed.during(call("bash", command="touch a"))
    async with crashed.resumed(scripted(say("x")), answers=False) as session:
        await session.until(SessionEnded)
        events = [one.event for one in session.engine.store.events(session.id)]
    assert (of_kind(events, QuestionAsked), of_kind(events, ToolResult)) == ([], [])


async def test_a_refusal_carries_what_was_found(crashed):
    await crashed.during(call("write_file", path="a.txt", content="hello\n"))
    with pytest.raises(CommandRefused) as refused:
        async with crashed.resumed(scripted(say("x")), on_orphan="fail"):
            pass
    assert refused.value.exit_code == 3
    (orphan,) = refused.value.data["orphans"]
    assert (orphan["tool"], orphan["input"]["path"]) == ("write_file", "a.txt")
    assert orphan["now"] == ["a.txt holds exactly this: it looks done"]


# What is there now


async def looked_at(crashed):
    with pytest.raises(CommandRefused) as refused:
        async with crashed.resumed(scripted(say("x")), on_orphan="fail"):
            pass
    return [line for orphan in refused.value.data["orphans"] for line in orphan["now"]]


async def test_a_file_that_is_not_there_or_older_says_so(crashed):
    await crashed.during(call("write_file", path="a.txt", content="hello\n"))
    (crashed.work / "a.txt").write_text("other")
    os.utime(crashed.work / "a.txt", (1_000_000, 1_000_000))
    (line,) = await looked_at(crashed)
    assert line.startswith("a.txt was last changed at ")
    assert line.endswith("before this began: it looks not done")
    (crashed.work / "a.txt").unlink()
    assert await looked_at(crashed) == ["a.txt is not there"]


async def test_an_edit_is_found_by_its_text(crashed):
    (crashed.work / "a.txt").write_text("one two\n")
    await crashed.during(
        call("edit_file", path="a.txt", old_string="two", new_string="three"),
        before=[call("read_file", path="a.txt")],
    )
    assert await looked_at(crashed) == ["a.txt holds the new text: it looks done"]
    (crashed.work / "a.txt").write_text("one two\n")
    assert await looked_at(crashed) == ["a.txt holds the old text: it looks not done"]


async def test_a_patch_is_found_by_the_files_it_names(crashed):
    patch = "*** Begin Patch\n*** Add File: a.txt\n+hello\n*** Add File: b.txt\n+hello\n*** End Patch\n"
    await crashed.during(call("apply_patch", patch=patch))
    (crashed.work / "b.txt").unlink()
    first, second = await looked_at(crashed)
    assert first.startswith("a.txt was changed at ")
    assert second == "b.txt is not there"


async def test_a_commit_and_a_push_are_compared_with_what_is_there(crashed, tmp_path):
    remote = tmp_path / "remote.git"
    git(tmp_path, "init", "-q", "--bare", str(remote))
    git(crashed.work, "init", "-q", "-b", "main")
    git(crashed.work, "commit", "-q", "--allow-empty", "-m", "one")
    await crashed.during(
        call("bash", command="git commit -q --allow-empty -m two; git push origin main; true")
    )
    commit, push = await looked_at(crashed)
    assert commit.startswith("HEAD is at ")
    assert push == "origin/main was never seen from here: it looks not done"
    git(crashed.work, "remote", "add", "origin", str(remote))
    git(crashed.work, "commit", "-q", "--allow-empty", "-m", "two")
    git(crashed.work, "push", "-q", "origin", "main")
    commit, push = await looked_at(crashed)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=crashed.work, env=GIT, check=True, capture_output=True, text=True
    ).stdout[:7]
    assert commit.startswith(f"HEAD is at {head}, made at ")
    assert commit.endswith("after this began: it looks done")
    assert push == f"origin/main is at {head}, the commit made in this session: it looks done"


async def test_a_process_that_still_runs_is_named(crashed):
    await crashed.during(call("bash", command="touch a; sleep 0"))
    left = subprocess.Popen(
        ["sleep", "60"], cwd=crashed.work, env={"INSIDE_BRIDLE": "x.1", "PATH": os.defpath}
    )
    try:
        assert f"process {left.pid} still runs: sleep 60" in await looked_at(crashed)
    finally:
        left.kill()
        left.wait()
    assert not any("still runs" in line for line in await looked_at(crashed))


@pytest.mark.requirement("D1.6")
async def test_a_call_that_an_agent_left_open_is_judged_by_a_person_in_its_name(tmp_path) -> None:
    writer = AgentDefinition(name="writer", description="x", delegation=AgentDelegation(invocation="allow"))
    places = {"folder": str(tmp_path / "work"), "home": str(tmp_path / "home")}
    (tmp_path / "work").mkdir()
    options = {"mode": "yolo", "sandbox": "off", "agents": [writer], "agent_mode": "multi", **places}
    writes = call("write_file", path="a.txt", content="x")
    model = scripted(
        call("delegate_agent", agent="writer", task="x"), say("x"), agents={"writer": [writes, say("x")]}
    )
    async with harness(model, **options) as session:
        await session.ask("go")
        whole = await session.stored()
        log = session.engine.store.create(str(tmp_path / "work"), profile="default")
        begun = next(n for n, one in enumerate(whole) if one.kind == "ToolCallStarted" and one.agent_path)
        for number, one in enumerate(whole[: begun + 1], 1):
            log.append(replace(one, session=log.session, id=number), encode_payload(one.event))
        await log.committed()
        crashed = log.session
        log.close()
    back = scripted(say("I am back."), say("I am back."))
    async with harness(back, resume=crashed, on_orphan="ask", answers=True, **options) as session:
        asked = await session.until(QuestionAsked)
        await session.connection.send(
            AnswerQuestion(
                session=session.id, question_id=asked.question_id, answer=OrphanAnswer(judgement="happened")
            )
        )
        await session.ask("go on")
        stored = await session.stored()
        assert session.conversation.children == {}
        assert session.conversation.open_calls == ()
    (question,) = [one for one in stored if one.kind == "QuestionAsked"]
    assert (question.event.question.tool, question.agent_path) == ("write_file", ("writer",))
    told = {(one.kind, one.agent_path) for one in stored[begun + 1 :]}
    assert ("ToolResult", ("writer",)) in told
    assert ("TurnEnded", ("writer",)) in told
    (ended,) = [one.event for one in stored if one.kind == "ChildEnded"]
    assert (ended.agent, ended.ok) == ("writer", False)
