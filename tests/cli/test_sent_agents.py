"""A run that sends agents, and its session looked at afterwards, on the command line."""

import json
import subprocess

import pytest

from bridle.protocol.events import ChildEnded
from cli_kit import Place
from cli_terminal import sitting
from git_kit import Repository

SCRIPT = """say I will have it looked at.
call delegate_agent {"agent": "review", "task": "Look at a.txt."}
---
say It is fine.
=== review
say Let me read it.
call read_file {"path": "a.txt"}
---
say No faults.
"""


@pytest.fixture
def reviewed(place: Place) -> tuple[Place, tuple[str, ...]]:
    """Somewhere with a file, and what is typed to have it reviewed."""
    (place.work / "a.txt").write_text("alpha\n")
    return place, ("run", "--model", place.script(SCRIPT), "--multi-agent")


@pytest.mark.requirement("D13.34", "D18.2")
def test_the_story_of_a_run_says_who_did_what_and_the_answer_is_the_main_agents(reviewed) -> None:
    place, run = reviewed
    ran = place.bridle(*run, "have it reviewed")
    assert ran.out == "[scripted] It is fine.\n"
    assert ran.story[1:-1] == [
        "agent review: Look at a.txt.",
        "review: ran      read a.txt                     1 line",
        "agent review: 2 steps",
    ]


@pytest.mark.requirement("D18.2", "D18.6")
def test_programs_are_told_whose_doing_each_event_is(reviewed) -> None:
    place, run = reviewed
    result = place.bridle(*run, "--json", "have it reviewed").result
    (agent,) = result["agents"]
    assert (agent["agent"], agent["task"], agent["state"]) == ("review", "Look at a.txt.", "done")
    assert (agent["steps"], agent["parent"], agent["path"]) == (2, None, ["review"])
    assert result["finalResponse"] == "[scripted] It is fine."
    own = {one["invocation"] for one in result["events"] if one.get("agent_path") == ["review"]}
    assert own == {agent["invocation"]}

    lines = place.bridle(*run, "--stream-json", "have it reviewed").stream
    children = [line for line in lines if "invocationId" in line]
    assert {(line["parentInvocationId"], *line["agentPath"]) for line in children} == {(None, "review")}
    assert "ChildStarted" not in {line["eventType"] for line in children}, "that is of who sent it"

    told = place.bridle(*run, "--output-format", "hub", "have it reviewed").stream
    by_type = {line["event_type"]: line for line in told}
    assert by_type["run.agent.child_started"]["payload"]["task"] == "Look at a.txt."
    said = by_type["run.agent.child_text"]
    assert said["payload"]["text"] == "[scripted] No faults."
    assert (said["agent_path"], said["parent_invocation_id"]) == (["review"], None)
    answer = [line["payload"]["text"] for line in told if line["event_type"] == "run.agent.text_delta"]
    assert "No faults" not in "".join(answer)
    assert told[-1]["payload"]["finalResponse"] == "[scripted] It is fine."
    assert not {"invocation_id", "agent_path"} & told[-1].keys()


@pytest.mark.requirement("D13.34")
def test_a_stored_session_shows_the_tree_of_its_agents_and_their_work_nested(reviewed) -> None:
    place, run = reviewed
    session = place.bridle(*run, "--json", "have it reviewed").result["sessionId"]
    shown = place.bridle("sessions", "show", session, "--tree")
    head, agent, task = shown.out.splitlines()
    assert head.startswith(session)
    assert agent.startswith("inv_")
    assert agent.endswith("review   done · 2 steps")
    assert task == "  Look at a.txt."
    (entry,) = json.loads(place.bridle("sessions", "show", session, "--tree", "--json").out)["agents"]
    assert entry["state"] == "done"
    assert place.bridle("sessions", "show", session).out.splitlines()[3:] == [
        *("you", "  have it reviewed", "bridle", "  [scripted] I will have it looked at."),
        "  agent review: Look at a.txt.",
        "    said     [scripted] Let me read it.",
        "    ran      read a.txt                     1 line",
        "    said     [scripted] No faults.",
        "  agent review: 2 steps",
        *("bridle", "  [scripted] It is fine."),
    ]
    for form in ("markdown", "html", "chain", "events", "jsonl"):
        assert "No faults." in place.bridle("sessions", "export", session, "--format", form).out, form
    page = place.bridle("sessions", "export", session, "--format", "markdown").out
    assert "### Agent review" in page
    assert "## Bridle\n\n[scripted] No faults." not in page


def test_a_session_without_agents_has_no_tree(place: Place) -> None:
    result = place.bridle("run", "--model", place.script("say Hello."), "--json", "hi").result
    assert "agents" not in result
    shown = place.bridle("sessions", "show", result["sessionId"], "--tree")
    assert "No agent was sent in this session." in shown.out


@pytest.mark.through_engine
def test_a_run_has_an_agent_work_by_its_name_as_at_the_prompt(reviewed) -> None:
    place, run = reviewed
    ran = place.bridle(*run, "/agents:review", "Look at it.", stdin="And at this.")
    assert (ran.code, ran.out) == (0, "[scripted] No faults.\n")
    assert ran.story[0].endswith(place.only_session())
    assert ran.story[1:-1] == [
        "agent review: Look at it. ``` And at this. ```",
        "review: ran      read a.txt                     1 line",
        "agent review: 2 steps",
    ]
    assert ran.story[-1].startswith("done ")


def test_what_an_agent_of_a_run_came_to_is_for_programs_too(reviewed) -> None:
    place, run = reviewed
    told = json.loads(place.bridle(*run, "--json", "/agents:review Look.").out)
    assert [row.title for row in place.sessions()] == ["Look."]
    assert (told["success"], told["finalResponse"]) == (True, "[scripted] No faults.")
    assert [(one["agent"], one["state"]) for one in told["agents"]] == [("review", "done")]


@pytest.mark.parametrize(
    ("options", "words", "code", "said"),
    [
        (("--multi-agent",), "/agents:nobody x", 2, '"nobody" is not a NAME of /agents'),
        (("--multi-agent",), "/agents:review", 2, "/agents:review works on words behind it"),
        ((), "/agents:review x", 2, "with one agent alone nobody else is sent. More than one: --multi-agent"),
        ((), "/code", 2, "/code works on words behind it"),
        (("--multi-agent",), "/agents:explore x", 1, "The agent explore did not finish: "),
    ],
)
def test_a_run_says_once_why_an_agent_did_not_work(place: Place, options, words, code, said) -> None:
    script = place.script("say x\n=== explore\nfail bad_credentials\n")
    ran = place.bridle("run", "--model", script, *options, words)
    assert (ran.code, ran.out) == (code, "")
    assert sum(said in line for line in ran.story) == 1, ran.story


def test_a_slip_of_the_hand_does_not_come_between_a_person_and_their_conversation(place: Place) -> None:
    model = place.script("say x\n---\nsay y\n")
    assert place.bridle("run", "-m", model, "first words").code == 0
    assert place.bridle("run", "-m", model, "--multi-agent", "/agents:nobody x").code == 2
    assert place.bridle("run", "-c", "and on").code == 0
    assert [(row.title, row.turns) for row in place.sessions()] == [("first words", 2), ("", 0)]


@pytest.mark.through_engine
def test_a_run_has_several_agents_work_one_after_the_other(place: Place) -> None:
    """What the last of them says is the answer."""
    script = place.script("say x\n=== plan\nsay First.\n=== code\nsay Then.\n=== solve\nsay It is right.\n")
    ran = place.bridle("run", "--model", script, "/auto do it")
    assert (ran.code, ran.out) == (0, "[scripted] It is right.\n")
    assert [line for line in ran.story if line.endswith("1 step") and line.startswith("agent")] == [
        "agent plan: 1 step",
        "agent code: 1 step",
        "agent solve: 1 step",
    ]


def test_what_is_changed_in_a_worktree_is_not_changed_in_the_folder(place: Place) -> None:
    (own := place.home / ".config/bridle/agents").mkdir(parents=True)
    (own / "writer.md").write_text("---\ndescription: x\ndelegation: { worktree: true }\n---\nWrite.\n")
    for words in (("init", "-q", "-b", "main"), ("commit", "-q", "--allow-empty", "-m", "one")):
        who = ("-c", "user.name=me", "-c", "user.email=me@x.example")
        subprocess.run(("git", *who, *words), cwd=place.work, env=place.environment(), check=True)
    model = place.script(
        'call delegate_agent {"agent": "writer", "task": "Write."}\n---\nsay Done.\n'
        '=== writer\ncall write_file {"path": "b.txt", "content": "b"}\n---\nsay Written.\n'
    )
    ran = place.bridle("run", "-m", model, "--multi-agent", "-y", "--json", "go")
    assert ran.result["agents"][0]["branch"].startswith("bridle/writer-")
    assert ran.result["changed_files"] == []
    assert ran.story[-1].endswith(" · 2 steps")


BESIDE = """---
description: x
mode: subagent
delegation: { background: true, invocation_decision: allow }
---
Look.
"""
BESIDE_SCRIPT = """call delegate_agent {"agent": "beside", "task": "Look."}
---
say Sent.
---
say It says that all is well.
=== beside
say All is well.
"""


@pytest.mark.parametrize("at_terminal", [False, True])
def test_a_run_ends_when_those_in_the_background_are_done(place: Place, *, at_terminal: bool) -> None:
    """Where nobody can be asked it is waited for in its call; at a terminal its end begins another turn."""
    (own := place.home / ".config/bridle/agents").mkdir(parents=True)
    (own / "beside.md").write_text(BESIDE)
    words = ("run", "-m", place.script(BESIDE_SCRIPT), "--multi-agent", "go")
    if at_terminal:
        with sitting(place, *words) as person:
            person.sees("It says that all is well.", "done ")
            assert person.ends() == 0
    else:
        ran = place.bridle(*words)
        assert (ran.code, ran.out) == (0, "[scripted] Sent.\n")
    ended = [one.event for one in place.events(place.only_session()) if isinstance(one.event, ChildEnded)]
    assert [one.ok for one in ended] == [True]


APART = """---
name: writer
description: Writes.
mode: subagent
delegation: { worktree: true }
---
Write.
"""
WRITES_TWICE = """say x
=== writer
call write_file {"path": "a.txt", "content": "x"}
call bash {"command": "echo x > b.txt"}
---
say Done.
"""


def test_files_that_an_agent_changed_in_its_worktree_are_not_those_of_the_folder(place: Place) -> None:
    repo = Repository(place.work, place.home)
    repo.git("init", "-q")
    repo.commit("a.txt")
    own = place.home / ".config/bridle/agents"
    own.mkdir(parents=True)
    (own / "writer.md").write_text(APART)
    run = ("run", "-y", "--multi-agent", "--model", place.script(WRITES_TWICE))
    told = place.bridle(*run, "/agents:writer go")
    assert "changed" not in told.story[-1]
    result = place.bridle(*run, "--json", "/agents:writer go").result
    assert result["changed_files"] == []
    assert result["agents"][0]["branch"].startswith("bridle/writer-")
    diff = place.bridle("sessions", "diff", result["sessionId"])
    assert (diff.code, "a.txt" in diff.out) == (0, False)
