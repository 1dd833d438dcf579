"""`bridle agents`: listing, showing, checking and beginning agents, and a run that talks with one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cli_kit import Place
from cli_terminal import sitting

GOOD = "---\nname: {}\ndescription: Counts beans.\n---\n\nCount twice.\n"


def write(folder: Path, name: str, text: str = GOOD) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text.format(name))
    return folder / f"{name}.md"


@pytest.fixture
def own(place: Place) -> Path:
    return place.home / ".config/bridle/agents"


@pytest.mark.requirement("D13.13")
def test_the_list_names_source_mode_provider_cost_and_trust(place: Place, own: Path) -> None:
    write(own, "beans", GOOD.replace("---\n\n", "mode: subagent\ncatalog: {{ cost: cheap }}\n---\n\n"))
    write(own, "broken", "---\nname: broken\n---\nx\n")
    write(place.work / ".bridle/agents", "waiting")
    shown = place.bridle("agents", "--set", "agent=plan")
    rows = {line.split()[0]: line for line in shown.out.splitlines()}
    assert list(rows) == ["agent", "build", "plan", "explore", "review", "solve", "beans", "waiting", "*"]
    assert rows["*"] == "* plan: --set"
    assert rows["plan"].startswith("plan *")
    assert rows["beans"].split() == [
        "beans", "subagent", "the", "session's", "cheap", "~/.config/bridle/agents/beans.md", "Counts", "beans.",
    ]  # fmt: skip
    assert rows["waiting"].split() == [
        "waiting", ".bridle/agents/waiting.md", "not", "trusted:", "bridle", "trust", "ack",
    ]  # fmt: skip
    assert "~/.config/bridle/agents/broken.md:1: there is no description" in shown.err
    listed = json.loads(place.bridle("list-agents", "--json").out)
    assert [(one["name"], one["source"], one["trusted"]) for one in listed["agents"]][-2:] == [
        ("beans", "user", True),
        ("waiting", "project", False),
    ]
    assert place.bridle("trust", "list").out.split()[:3] == ["new", "agent", ".bridle/agents/waiting.md"]


@pytest.mark.parametrize("columns", [80, 44])
def test_the_list_fits_the_terminal(place: Place, columns: int) -> None:
    with sitting(place, "agents", "list", columns=columns) as person:
        assert person.ends() == 0
    rows = person.bytes.decode().splitlines()
    assert max(map(len, rows)) <= columns
    assert [row.split()[0] for row in rows if row[0] != " "] == [
        "build",
        "plan",
        "explore",
        "review",
        "solve",
    ]
    assert "subagent · cheap · builtin" in person.text


def test_one_is_shown_with_how_it_is_sent(place: Place, own: Path) -> None:
    how = "{{ background: true, worktree: true, can_delegate: true, allowed_agents: [review] }}"
    write(own, "beans", GOOD.replace("---\n\n", f"delegation: {how}\n---\n\n"))
    shown = place.bridle("agents", "show", "beans").out.splitlines()
    sent = "delegation: may send others, can be sent, 10 steps, in the background, in a worktree of its own"
    assert [sent, "may send: review"] == shown[shown.index(sent) :][:2]


def test_one_is_shown_whole_and_one_that_waits_is_not(place: Place, own: Path) -> None:
    write(own, "beans")
    write(place.work / ".bridle/agents", "waiting")
    shown = place.bridle("agents", "show", "beans")
    assert (shown.code, shown.out.splitlines()[-1]) == (0, "Count twice.")
    assert json.loads(place.bridle("agents", "show", "beans", "--json").out)["system"] == "Count twice."
    assert "rule: deny * (plan is read-only)" in place.bridle("agents", "show", "plan").out
    refused = place.bridle("agents", "show", "waiting")
    assert (refused.code, refused.out, "Count" in refused.err) == (3, "", False)
    unknown = place.bridle("agents", "show", "nothing")
    assert (unknown.code, unknown.out) == (2, "")
    assert 'There is no agent "nothing".' in unknown.err
    write(own, "broken", "---\nname: broken\n---\nx\n")
    assert "broken.md:1: there is no description" in place.bridle("agents", "show", "broken").err


def test_a_check_says_file_line_and_what_to_change(place: Place, own: Path) -> None:
    agents = place.work / ".bridle/agents"
    write(agents, "good")
    write(agents, "claude", GOOD.replace("---\n\n", "model: opus\n---\n\n"))
    assert (done := place.bridle("agents", "check")).code == 0, done.out
    assert done.out.splitlines() == [
        ".bridle/agents/claude.md:4: model is not used: an agent names no model, only one of your providers",
        ".bridle/agents/claude.md: good",
        ".bridle/agents/good.md: good",
    ]
    bad = write(own, "build")
    write(own, "empty", "---\nmode: x\n---\n")
    done = place.bridle("agents", "check", str(bad), str(own / "empty.md"), str(own / "gone.md"), "--json")
    assert done.code == 1
    assert [[one["clause"] for one in each["problems"]] for each in json.loads(done.out)] == [
        ["Bridle brings an agent build: choose another name"],
        [
            "there is no description: say in a sentence what the agent is for",
            'mode: "x" is none of primary, subagent, all',
            "there is no prompt: write it below the second line ---",
        ],
        ["it cannot be read (No such file or directory)"],
    ]


def test_a_new_one_is_a_good_one_and_nothing_is_written_over(place: Place, own: Path) -> None:
    made = place.bridle("agents", "new", "beans", "--description", "Counts: beans")
    assert (made.code, "bridle trust ack" in made.out) == (0, True)
    assert place.bridle("agents", "check").out == ".bridle/agents/beans.md: good\n"
    again = place.bridle("agents", "new", "beans")
    assert (again.code, ".bridle/agents/beans.md is there already. Nothing was changed" in again.err) == (
        2,
        True,
    )
    assert place.bridle("agents", "new", "--own", "beans").code == 0
    assert (own / "beans.md").is_file()
    for name, words in (("Bad", '"Bad" is no name'), ("plan", "Bridle brings an agent plan")):
        refused = place.bridle("agents", "new", name)
        assert (refused.code, words in refused.err) == (2, True)


@pytest.mark.through_engine
@pytest.mark.requirement("D13.5", "D12.41")
def test_a_run_talks_with_an_agent_and_says_who_can_be_chosen(place: Place, own: Path) -> None:
    write(own, "beans")
    assert place.bridle("run", "-m", "demo", "--agent", "beans", "hi").code == 0
    refused = place.bridle("run", "-m", "demo", "--agent", "explore", "hi")
    assert refused.code == 2
    assert refused.err.splitlines()[-1] == (
        "bridle: The agent explore is only for other agents to send. "
        "You can talk with: build, plan, review, solve, beans."
    )
    unknown = place.bridle("run", "-m", "demo", "--agent", "nobody", "hi")
    assert (unknown.code, 'There is no agent "nobody".' in unknown.err) == (2, True)


WRITES = 'call write_file {"path": "a.txt", "content": "x"}\n---\nsay Done.\n'


def may_write(place: Place, *options: str) -> bool:
    """Whether a run writes, which `build` does and `plan` does not."""
    (place.work / "a.txt").unlink(missing_ok=True)
    assert place.bridle("run", "-y", "-m", place.script(WRITES), *options, "go").code == 0
    return (place.work / "a.txt").exists()


@pytest.mark.requirement("D12.2", "D13.5")
def test_whom_to_talk_with_is_remembered_for_one_project_and_forgotten(place: Place) -> None:
    """Above every settings file, below what is said for a run."""
    assert may_write(place)
    chosen = place.bridle("agents", "use", "plan")
    assert chosen.out == (
        "plan is whom you talk with in this project from now on. bridle agents forget undoes it.\n"
    )
    assert place.bridle("config", "set", "agent", "build").code == 0
    assert not may_write(place), "what was chosen here goes before what was chosen for all"
    assert may_write(place, "--agent", "build")
    listed = place.bridle("agents").out.splitlines()
    assert listed[-1] == "* plan: chosen for this project. To forget it: bridle agents forget"
    assert 'agent = "plan"' in place.bridle("config", "show", "--origin").out
    assert json.loads(place.bridle("agents", "--json").out)["chosen"] == {
        "agent": "plan",
        "said_by": "chosen for this project",
    }
    assert place.bridle("agents", "forget").out == "plan is not chosen here any more.\n"
    assert place.bridle("agents", "forget").out == "No agent was chosen for this project.\n"
    assert may_write(place)
    assert place.bridle("agents").out.splitlines()[-1].startswith("* build: user config, line ")


def test_a_choice_holds_in_the_whole_project_and_nowhere_else(place: Place) -> None:
    below, elsewhere = place.work / "src", place.work.parent / "elsewhere"
    for folder in (below, elsewhere, place.work / ".git"):
        folder.mkdir()
    assert place.bridle("agents", "use", "code", cwd=below).code == 0
    for folder, is_chosen in ((place.work, True), (below, True), (elsewhere, False)):
        chosen = json.loads(place.bridle("agents", "--json", cwd=folder).out)["chosen"]
        assert (chosen["agent"] == "build") is is_chosen


@pytest.mark.parametrize("name", ["explore", "nobody"])
def test_whoever_cannot_be_talked_with_is_not_remembered(place: Place, name: str) -> None:
    refused = place.bridle("agents", "use", name)
    assert (refused.code, refused.out) == (2, "")
    assert "You can talk with: build, plan, review, solve." in refused.err
    assert place.bridle("agents", "forget").out == "No agent was chosen for this project.\n"


def test_a_file_of_choices_that_cannot_be_read_chooses_nothing_and_is_said(place: Place) -> None:
    assert place.bridle("agents", "use", "plan").code == 0
    (kept,) = place.home.rglob("project-choices.json")
    kept.write_text("{")
    ran = place.bridle("run", "-m", "demo", "hi")
    assert ran.code == 0
    assert "what was chosen for projects does not count: it is not what Bridle wrote" in ran.err
    assert place.bridle("agents", "use", "plan").code == 0, "what cannot be read gives way"
    kept.chmod(0o666)
    assert "others can write to it" in place.bridle("run", "-m", "demo", "hi").err


def test_a_choice_is_remembered_for_a_folder_whose_name_is_no_text(place: Place) -> None:
    odd = Path(os.fsdecode(os.fsencode(place.work) + b"/\xff"))
    odd.mkdir()
    assert place.bridle("agents", "use", "plan", cwd=odd).code == 0
    assert place.bridle("agents", cwd=odd).out.splitlines()[-1].startswith("* plan: chosen for this project")
    assert place.bridle("agents", "forget", cwd=odd).out == "plan is not chosen here any more.\n"


@pytest.mark.requirement("D13.9")
def test_the_options_of_agents_are_settings_of_the_run(place: Place) -> None:
    given = ("--multi-agent", "--sub-max-context-tokens", "9000", "--sub-compact-at", "0.5",
             "--main-max-context-tokens", "30000", "--main-compact-at", "0.6")  # fmt: skip
    assert place.bridle("run", "-m", "demo", *given, "hi").code == 0
    for wrong, words in (
        (("--sub-compact-at", "2"), '"2" is not a share above 0 and at most 1'),
        (("--sub-max-context-tokens", "no"), '"no" is not a whole number above 0'),
        (("--agent-mode", "many"), '"many" is none of single, multi'),
    ):
        refused = place.bridle("run", "-m", "demo", *wrong, "hi")
        assert (refused.code, words in refused.err) == (2, True), wrong


def test_at_a_terminal_the_agent_of_a_project_is_read_and_agreed_to(place: Place) -> None:
    write(place.work / ".bridle/agents", "beans")
    with sitting(place, "-m", "demo", "--agent", "beans", columns=84) as person:
        person.sees("Enter not now ›")
        asked = "The agent of .bridle/agents/beans.md wants to be talked with and sent. It is new to"
        assert person.text.splitlines()[:2] == [asked, "you.  6 lines"]
        person.types("u\r")
        person.sees("Type what you want.")
    assert "trusted" in place.bridle("trust", "list").out


@pytest.mark.requirement("D13.13", "D12.43")
def test_tools_that_are_files_are_listed_with_their_source_and_their_trust(place: Place) -> None:
    folder = place.work / ".bridle/tools"
    folder.mkdir(parents=True)
    (folder / "count.py").write_text("open('ran', 'w')\n")
    row = place.bridle("tools", "list").out.splitlines()[-1]
    assert row.split()[:5] == ["count", "shell", "serial", "process", ".bridle/tools/count.py"]
    assert row.endswith("nobody agreed to it yet (bridle trust ack)")
    (listed,) = [one for one in json.loads(place.bridle("tools", "--json").out) if one["name"] == "count"]
    assert listed["trusted"] is False
    assert place.bridle("trust", "list").out.split()[:3] == ["new", "plugin", ".bridle/tools/count.py"]
    assert not (place.work / "ran").exists(), "none is run to be listed"


def test_names_of_agents_are_completed(place: Place, own: Path) -> None:
    write(own, "beans")
    assert place.bridle("completion", "agents").out.split() == [
        "build", "plan", "explore", "review", "solve", "beans",
    ]  # fmt: skip
