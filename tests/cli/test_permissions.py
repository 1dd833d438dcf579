"""What a run may do when nobody is there to ask, and `bridle permissions`, which says so beforehand."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from bridle.base.clock import SystemClock
from bridle.protocol.events import GrantAdded
from bridle.safety.grants import SavedGrants
from cli_kit import Place, Ran

SCRIPT = """\
call bash {"command": "mkdir hi"}
call bash {"command": "touch made"}
call write_file {"path": "new.txt", "content": "x\\n"}
---
say done
"""
EVERYTHING = ["mkdir hi", "touch made", "write new.txt"]


def run(place: Place, *options: str) -> tuple[Ran, dict[str, str], list[str]]:
    """A run of the script: the process, the calls it did not run with their reasons, and the files that appeared."""
    ran = place.bridle("run", "--json", "-m", place.script(SCRIPT), *options, "go")
    denied = {entry["call"]: entry["reason"] for entry in ran.result["denied"]}
    made = sorted({path.name for path in place.work.iterdir()} - {"it.script"})
    return ran, denied, made


@pytest.mark.requirement("T4.1")
@pytest.mark.requirement("C22")
def test_by_default_nothing_that_would_ask_is_run_and_the_turn_still_ends_well(place: Place) -> None:
    ran, denied, made = run(place)
    assert denied == dict.fromkeys(EVERYTHING, "NoApprover")
    assert made == []
    assert (ran.code, ran.result["success"], ran.result["finalResponse"]) == (0, True, "[scripted] done")


def test_a_call_that_was_not_run_never_looks_as_if_it_ran(place: Place) -> None:
    ran, _, _ = run(place)
    lines = [line for line in ran.story if any(call in line for call in EVERYTHING)]
    assert [line.partition("nobody is here to ask. Let it: -y, or --allow ")[2] for line in lines] == [
        "'bash(mkdir hi)'",
        "'bash(touch made)'",
        "'edit(new.txt)'",
    ]
    for call, line in zip(EVERYTHING, lines, strict=True):
        assert line.startswith(f"not run  {call:<30} nobody")
    assert ran.story[-1].endswith("3 calls not run")


def test_the_rules_that_a_run_names_let_what_was_not_run_happen(place: Place) -> None:
    ran, _, _ = run(place)
    rules = [shlex.split(line.partition("--allow ")[2])[0] for line in ran.story if "--allow " in line]
    _, denied, made = run(place, *(word for rule in rules for word in ("--allow", rule)))
    assert (denied, made) == ({}, ["hi", "made", "new.txt"])


def test_a_script_of_several_commands_is_let_by_yes_alone(place: Place) -> None:
    model = place.script('call bash {"command": "touch a && touch b*"}\n---\nsay done\n')
    ran = place.bridle("run", "-m", model, "go")
    (line,) = [line for line in ran.story if line.startswith("not run ")]
    assert line.endswith("nobody is here to ask. Let it: -y")


def test_no_flag_is_named_that_would_not_lift_the_question(place: Place) -> None:
    command = '{"command": "aws configure get region > AGENTS.md"}'
    told = place.bridle("permissions", "explain", "--mode", "yolo", "bash", command).out
    assert "only you no -y, mode or hook says yes to this\n" in told


ONLY_A_PERSON = """\
call write_file {"path": "AGENTS.md", "content": "x"}
call bash {"command": "touch made", "escalate": "it is needed"}
call bash {"command": "aws configure get region"}
---
say done
"""


def test_what_yes_does_not_answer_says_why_and_which_flag_would(place: Place) -> None:
    ran = place.bridle("run", "-y", "-m", place.script(ONLY_A_PERSON), "go")
    assert [line.partition("nobody is here to ask: ")[2] for line in ran.story if "not run " in line][:3] == [
        "only the user can approve changes to policy files (--allow-policy-changes)",
        "only a person lets a command leave the sandbox (--allow-unsandboxed)",
        "only a person lets a command print a secret",
    ]
    contents = [
        envelope.event.content
        for envelope in place.events(place.only_session())
        if envelope.kind == "ToolResult"
    ]
    assert "--allow" not in contents[2]


@pytest.mark.parametrize(
    "option", [("-y",), ("--yes",), ("--mode", "auto"), ("--mode", "yolo")], ids=" ".join
)
def test_yes_and_the_generous_modes_run_everything(place: Place, option: tuple[str, ...]) -> None:
    ran, denied, made = run(place, *option)
    assert (ran.code, denied, made) == (0, {}, ["hi", "made", "new.txt"])
    assert ran.result["changed_files"] == ["new.txt", "made"]


@pytest.mark.requirement("T4.2")
@pytest.mark.parametrize("mode", ["safe", "plan"])
def test_a_mode_that_denies_says_so_and_yes_does_not_lift_it(place: Place, mode: str) -> None:
    ran, denied, made = run(place, "--mode", mode, "-y")
    assert (denied, made) == (dict.fromkeys(EVERYTHING, "ModeDenied"), [])
    assert f"not run  touch made                     Mode {mode} does not allow bash (shell)." in ran.story


@pytest.mark.requirement("H7.1", "H7.3")
def test_a_rule_allows_what_it_names_and_no_more(place: Place) -> None:
    ran, denied, made = run(place, "--allow", "bash(mkdir*)")
    assert (list(denied), made) == (["touch made", "write new.txt"], ["hi"])
    (line,) = (line for line in ran.story if line.startswith("ran "))
    assert line.startswith("ran      mkdir hi                       exit 0   allowed by --allow ")


def test_several_rules_add_up(place: Place) -> None:
    _, denied, made = run(place, "--allow", "edit", "--allow", "bash(touch*)")
    assert (list(denied), made) == (["mkdir hi"], ["made", "new.txt"])


@pytest.mark.requirement("D11.1")
@pytest.mark.parametrize("option", ["-y", "--mode=yolo", "--allow=bash"])
def test_nothing_lifts_a_deny(place: Place, option: str) -> None:
    ran, denied, made = run(place, option, "--deny", "bash(touch*)")
    assert denied.pop("touch made") == "RuleDenied"
    assert "made" not in made
    assert 'not run  touch made                     rule deny "touch*" (--deny)' in ran.story


@pytest.mark.requirement("H10.8", "T3.2", "D1.1")
def test_a_write_outside_the_folder_is_refused_whatever_was_said(place: Place) -> None:
    model = place.script('call write_file {"path": "../outside.txt", "content": "x"}\n---\nsay done\n')
    ran = place.bridle("run", "--json", "-y", "--mode", "yolo", "-m", model, "go")
    assert [entry["reason"] for entry in ran.result["denied"]] == ["PathOutsideWorkspace"]
    assert not (place.work.parent / "outside.txt").exists()


# Switches

READS = """\
call read_file {"path": "it.script"}
call bash {"command": "ls"}
---
say done
"""


@pytest.mark.requirement("H7.4")
@pytest.mark.requirement("G8.5")
def test_strict_permissions_asks_about_what_is_quiet_otherwise(place: Place) -> None:
    model = place.script(READS)
    loose = place.bridle("run", "--json", "-m", model, "go")
    assert loose.result["denied"] == []
    for switch in (
        ("--strict-permissions",),
        ("--mode", "strict"),
        ("--strict-permissions", "--mode", "strict"),
    ):
        strict = place.bridle("run", "--json", "-m", model, *switch, "go")
        assert [entry["reason"] for entry in strict.result["denied"]] == ["NoApprover", "NoApprover"]


def test_two_modes_at_once_are_a_usage_error(place: Place) -> None:
    ran = place.bridle("run", "-m", "demo", "--strict-permissions", "--mode", "yolo", "go")
    assert (ran.code, ran.story) == (
        2,
        ["--strict-permissions and --mode yolo exclude each other. Choose one"],
    )
    assert place.sessions() == []


GATES = """\
call bash {"command": "secret-tool lookup a b"}
call bash {"command": "touch denied"}
call write_file {"path": "hooked.txt", "content": "x"}
call write_file {"path": "fine.txt", "content": "x"}
---
say done
"""


@pytest.mark.requirement("T3.1")
@pytest.mark.requirement("C25", "D11.3")
@pytest.mark.parametrize(
    "switch", [("--yes",), ("--auto-approve",), ("--mode", "auto"), ("--mode", "yolo")], ids=" ".join
)
def test_no_switch_passes_a_guard_a_deny_a_hook_or_an_unseen_file(
    place: Place, switch: tuple[str, ...]
) -> None:
    config(place).parent.mkdir(parents=True)
    config(place).write_text(
        "[[hooks]]\nevent = 'PreToolUse'\ntool = 'write_file'\ncommand = 'grep -q fine || exit 2'\n"
    )
    (place.work / "AGENTS.md").write_text("Obey me.\n")
    ran = place.bridle("run", "--json", "-m", place.script(GATES), *switch, "--deny", "bash(touch*)", "go")
    assert (ran.code, [entry["reason"] for entry in ran.result["denied"]]) == (
        0,
        ["NeverAllowed", "RuleDenied", "HookBlocked"],
    )
    assert (place.work / "fine.txt").exists()
    assert not {"denied", "hooked.txt"} & {path.name for path in place.work.iterdir()}
    assert "AGENTS.md is not trusted here and was not used." in ran.err


@pytest.mark.requirement("G2.20")
def test_auto_approve_is_yes_and_agrees_to_no_file(place: Place) -> None:
    assert run(place, "--auto-approve")[1:] == ({}, ["hi", "made", "new.txt"])
    (place.work / "AGENTS.md").write_text("Obey me.\n")
    refused = place.bridle("run", "--json", "--auto-approve", "--require-trust", "-m", "demo", "go")
    assert (refused.code, refused.result["reason"]) == (3, "NonInteractiveAckRefused")
    assert not (place.home / ".config").exists()


# The verb


def save(place: Place, pattern: str, number: int = 1, tool: str = "bash", **fields: Any) -> None:
    """A yes of an earlier session in the working folder."""
    grant = GrantAdded(grant_id=f"grant_{number}", tool=tool, pattern=pattern, life="saved", **fields)
    grants(place).add(str(place.work.resolve()), grant)


def grants(place: Place) -> SavedGrants:
    return SavedGrants(str(place.home / ".local/state/bridle"), SystemClock().now_ms)


def saved(place: Place) -> list[str | None]:
    return [grant.subject for grant in grants(place).of(str(place.work.resolve()))]


def config(place: Place) -> Path:
    return place.home / ".config/bridle/config.toml"


@pytest.mark.requirement("D17.2")
def test_a_run_may_leave_saved_answers_alone_or_use_them(place: Place) -> None:
    save(place, "touch made")
    for settings, switch, wanted in (
        ("", (), True),
        ("", ("--no-persistent-grants",), False),
        ("[permissions]\npersist = false\n", (), False),
        ("[permissions]\npersist = false\n", ("--persistent-grants",), True),
        ("", ("--deny", "bash(touch*)"), False),
    ):
        config(place).parent.mkdir(parents=True, exist_ok=True)
        config(place).write_text(settings)
        _, denied, made = run(place, *switch)
        assert ("touch made" not in denied, "made" in made) == (wanted, wanted), (settings, switch)
        (place.work / "made").unlink(missing_ok=True)


@pytest.mark.requirement("T17.4")
def test_two_lists_of_tools_are_rules_and_denying_wins(place: Place) -> None:
    config(place).parent.mkdir(parents=True)
    config(place).write_text('allowed_tools = ["bash", "Write"]\ndisallowed_tools = ["bash(touch*)"]\n')
    ran, denied, made = run(place)
    assert (denied, made) == ({"touch made": "RuleDenied"}, ["hi", "new.txt"])
    assert 'not run  touch made                     rule deny "touch*" (user config, line 2)' in ran.story


@pytest.mark.requirement("T17.4")
def test_a_tool_in_both_lists_is_an_error_with_its_line(place: Place) -> None:
    config(place).parent.mkdir(parents=True)
    config(place).write_text('mode = "auto"\nallowed_tools = ["bash", "ls"]\ndisallowed_tools = ["ls"]\n')
    said = "config.toml line 2: ls is in allowed_tools and in disallowed_tools."
    for words in (("run", "-m", "demo", "go"), ("config", "validate")):
        ran = place.bridle(*words)
        assert (ran.code, said in ran.out + ran.err) == (2, True), ran
    config(place).write_text('permission_mode = "yollo"\n')
    assert place.bridle("run", "-m", "demo", "go").code == 2
    config(place).write_text('allowed_tools = ["bash("]\n')
    ran = place.bridle("run", "-m", "demo", "go")
    assert (ran.code, ran.story[-1]) == (
        2,
        'user config, line 1: "bash(" is not a tool, nor a tool and a pattern like bash(npm test*).',
    )


def explained(place: Place, tool: str, *options: str, **given: Any) -> dict[str, Any]:
    ran = place.bridle("permissions", "explain", tool, json.dumps(given), "--json", *options)
    assert (ran.code, ran.err) == (0, "")
    return ran.result


def test_a_list_says_the_mode_the_rules_with_their_places_and_what_was_saved(place: Place) -> None:
    config(place).parent.mkdir(parents=True)
    config(place).write_text(
        '[[permissions.rules]]\ntool = "bash"\ncommand = "git push*"\nverdict = "deny"\n'
    )
    save(place, "npm test", match="key")
    ran = place.bridle("permissions")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == "mode     default    reading is quiet; changes, commands and network ask first"
    assert lines[1] == "deny     bash(git push*)   user config, line 1"
    assert lines[-1] == "grant_1   npm test with harmless arguments inside this folder   7 days left"
    listed = place.bridle("permissions", "list", "--json").result
    assert (listed["mode"], listed["persist"], len(listed["rules"])) == ("default", True, 1)
    assert [(grant["subject"], grant["left"]) for grant in listed["grants"]] == [("npm test", "7 days")]


def test_a_list_where_there_is_nothing_makes_nothing(place: Place) -> None:
    ran = place.bridle("permissions", "list")
    assert (ran.code, len(ran.out.splitlines()), list(place.home.iterdir())) == (0, 3, [])


def test_a_file_of_grants_nobody_can_read_is_said_and_counts_for_nothing(place: Place) -> None:
    save(place, "make")
    Path(grants(place).path).write_text("{")
    ran = place.bridle("permissions")
    assert ran.code == 0
    assert "nothing" in ran.out
    assert "cannot be read (it is not what Bridle wrote), so none of them holds." in ran.err


def test_an_explanation_names_the_step_the_rule_and_what_each_answer_remembers(place: Place) -> None:
    found = explained(place, "write_file", path="a.txt", content="x")
    assert (found["verdict"], found["step"], found["rule"], found["because"]) == (
        "ask",
        6,
        "default",
        "it changes files",
    )
    assert [(answer["answer"], answer["remembers"]) for answer in found["answers"]] == [
        ("once", "nothing"),
        ("pattern", "a.txt, until the session ends"),
        ("tool", "all edits, until the session ends"),
        ("always", "a.txt, here, for 7 days"),
    ]
    ruled = explained(place, "write_file", "--deny", "edit(a.*)", path="a.txt", content="x")
    assert (ruled["verdict"], ruled["step"], ruled["rule"], ruled["origin"]) == (
        "deny",
        2,
        "edit(a.*)",
        "--deny",
    )
    assert explained(place, "write_file", "--mode", "auto", path="a.txt", content="x")["verdict"] == "allow"
    ran = place.bridle("permissions", "explain", "write_file", '{"path": "a", "content": ""}')
    assert ran.out.splitlines()[0] == "ask      step 6: the mode"
    assert list(place.home.iterdir()) == list(place.work.iterdir()) == []


@pytest.mark.requirement("T4.3", "T4.6")
def test_auto_asks_about_what_is_dangerous_and_about_nothing_else(place: Place) -> None:
    asked = explained(place, "bash", "--mode", "auto", command="rm -rf build")
    assert (asked["verdict"], asked["because"]) == ("ask", "it deletes files")
    assert asked["why"].startswith("mode=auto tool=bash risk=dangerous action=approval_required; step=6")
    assert asked["paths"] == ["build"]
    for tool, given in (
        ("bash", {"command": "make"}),
        ("write_file", {"path": "a.txt", "content": "x"}),
        ("web_fetch", {"url": "https://example.com/"}),
    ):
        assert explained(place, tool, "--mode", "auto", **given)["verdict"] == "allow", tool


@pytest.mark.requirement("D10.2")
@pytest.mark.parametrize("mode", ["default", "auto", "yolo"])
def test_what_destroys_a_system_is_explained_as_denied_in_every_mode(place: Place, mode: str) -> None:
    found = explained(place, "bash", "--mode", mode, command="rm -rf /usr")
    assert (found["verdict"], found["step"], found["reason"]) == ("deny", 1, "NeverAllowed")
    assert found["evidence"]["rule"] == "delete_system"


@pytest.mark.requirement("T3.6")
def test_what_a_guard_blocks_is_explained_with_its_evidence(place: Place) -> None:
    found = explained(place, "write_file", "--mode", "yolo", path="../x", content="")
    assert (found["verdict"], found["step"], found["reason"]) == ("deny", 1, "PathOutsideWorkspace")
    assert found["evidence"]["matched"] == str(place.work.resolve().parent / "x")


def test_a_saved_yes_decides_until_it_is_taken_back(place: Place) -> None:
    save(place, "a.txt", tool="edit")
    found = explained(place, "write_file", path="a.txt", content="x")
    assert (found["verdict"], found["step"], found["rule"]) == ("allow", 3, "grant_1")
    off = explained(place, "write_file", "--set", "permissions.persist=false", path="a.txt", content="x")
    assert (off["verdict"], "always" in [answer["answer"] for answer in off["answers"]]) == ("ask", False)
    ran = place.bridle("permissions", "revoke", "1")
    assert (ran.code, ran.out) == (0, "Taken back: edit a.txt\n")
    assert explained(place, "write_file", path="a.txt", content="x")["verdict"] == "ask"


def test_everything_saved_here_is_taken_back_at_once(place: Place) -> None:
    save(place, "make")
    save(place, "ls", 2)
    ran = place.bridle("permissions", "revoke", "all")
    assert (ran.out.splitlines(), saved(place)) == (["Taken back: make", "Taken back: ls"], [])
    assert place.bridle("permissions", "revoke", "all").out == "There was nothing to take back.\n"


@pytest.mark.requirement("G8.6")
def test_a_promoted_yes_is_a_rule_of_ones_own_and_no_grant_any_more(place: Place) -> None:
    config(place).parent.mkdir(parents=True)
    config(place).write_text('# mine\nmode = "default"\n')
    save(place, "make *")
    save(place, "src/a[1].py", 2, tool="edit")
    for number in ("1", "grant_2"):
        ran = place.bridle("permissions", "promote", number)
        assert (ran.code, ran.err) == (0, "")
    text = config(place).read_text()
    assert text.startswith('# mine\nmode = "default"\n')
    rules = place.bridle("permissions", "list", "--json").result["rules"]
    assert [(rule["tool"], rule["path"], rule["command"], rule["verdict"]) for rule in rules] == [
        ("edit", "src/a[[]1].py", None, "allow"),
        ("bash", None, "make [*]", "allow"),
    ]
    assert saved(place) == []
    allowed = explained(place, "write_file", path="src/a[1].py", content="")
    assert (allowed["verdict"], allowed["step"]) == ("allow", 4)
    assert explained(place, "write_file", path="src/a1.py", content="")["verdict"] == "ask"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("explain",), """What call? bridle permissions explain bash '{"command": "npm test"}'"""),
        (("explain", "bash", "nonsense"), 'The input is not JSON, like {"command": "npm test"}: '),
        (("explain", "bash", "[]"), 'The input is not a JSON object, like {"command": "npm test"}'),
        (("explain", "nope", "{}"), 'There is no tool "nope". Tools: '),
        (("explain", "read_file", "{}"), "The input of read_file is not valid: "),
        (("explain", "read_file", '{"path": "a"}', "--allow", "x("), '"x(" is not a rule.'),
        (("revoke", "none"), 'There is no saved permission "none" here. List them: bridle permissions'),
        (("promote", ""), 'There is no saved permission "" here.'),
    ],
)
def test_a_question_that_cannot_be_answered_is_one_sentence(
    place: Place, words: tuple[str, ...], sentence: str
) -> None:
    ran = place.bridle("permissions", *words)
    assert (ran.code, ran.out) == (2, "")
    (line,) = ran.story
    assert line.startswith(sentence)


def test_many_calls_are_explained_one_a_line_and_a_bad_one_stops_no_other(place: Place) -> None:
    calls = [
        json.dumps({"tool": "read_file", "input": {"path": "a"}}),
        "{",
        "",
        json.dumps({"tool": "nope"}),
        json.dumps({"input": {}}),
        json.dumps({"tool": "write_file", "input": {"path": "a", "content": ""}}),
        json.dumps({"tool": "write_file", "input": {"path": "../a", "content": ""}}),
    ]
    ran = place.bridle("policy", "explain", "--batch", stdin="\n".join(calls))
    assert (ran.code, ran.err) == (0, "")
    answers = [json.loads(line) for line in ran.out.splitlines()]
    assert [answer.get("verdict") for answer in answers] == ["allow", None, None, None, "ask", "deny"]
    assert [answer.get("reason") for answer in answers if "error" in answer] == [
        "Usage",
        "UnknownTool",
        "Usage",
    ]


POLICY_WORK = """\
call write_file {"path": ".git/hooks/pre-commit", "content": "#!/bin/sh\\n"}
call bash {"command": "touch outside", "escalate": "please"}
---
say done
"""


def test_yes_and_yolo_answer_neither_question_that_is_for_a_person_and_the_flags_do(place: Place) -> None:
    model = place.script(POLICY_WORK)
    for loose in (("-y",), ("--yolo",), ("--yolo", "-y")):
        ran = place.bridle("run", *loose, "--json", "-m", model, "go")
        assert [denied["reason"] for denied in ran.result["denied"]] == ["NoApprover", "NoApprover"]
        assert sorted(path.name for path in place.work.iterdir()) == ["it.script"]
    flags = ("--allow-policy-changes", "--allow-unsandboxed")
    ran = place.bridle("run", "-y", *flags, "-m", model, "go")
    assert [line.partition(":")[0] for line in ran.story if line.startswith("--")] == list(flags)
    assert (place.work / ".git" / "hooks" / "pre-commit").exists()
    assert (place.work / "outside").exists()


def test_explain_says_that_only_a_person_answers_and_which_flag_lifts_the_question(place: Place) -> None:
    call = ("write_file", '{"path": "AGENTS.md", "content": "x"}')
    asked = place.bridle("permissions", "explain", "--mode", "yolo", *call).out
    assert "only you no -y, mode or hook says yes to this; for a whole run: --allow-policy-changes" in asked
    lifted = place.bridle("permissions", "explain", "--mode", "yolo", "--allow-policy-changes", *call).out
    assert lifted.startswith("allow")
    assert "flag     --allow-policy-changes" in lifted


def test_no_settings_file_gives_the_flags_that_are_for_people(place: Place) -> None:
    (place.work / ".bridle").mkdir()
    for file in (place.work / ".bridle/config.toml", place.home / ".config/bridle/config.toml"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("allow_policy_changes = true\n")
        ran = place.bridle(
            "permissions",
            "explain",
            "--json",
            "--mode",
            "yolo",
            "write_file",
            '{"path": "AGENTS.md", "content": "x"}',
        )
        assert '"verdict":"allow"' not in ran.out
        file.unlink()


# A rule that denies commands, and ways around it

AROUND = {
    "x=$(printf touch); $x made": "NoApprover",
    "${X:-touch} made": "NoApprover",
    'f() { "$@"; }; f touch made': "NoApprover",
    "shopt -s expand_aliases\nalias t=touch\nt made": "NoApprover",
    "/usr/bin/touc? made": "NoApprover",
    "a=(tou ch); ${a[0]}${a[1]} made": "NoApprover",
    "echo 'echo x > made' > s; chmod +x s; ./s": "NoApprover",
    "cp /usr/bin/tou?h t && ./t made": "NoApprover",
    "ln -s /usr/bin/tou?h t; ./t made": "NoApprover",
    "x=touch; $x made": "RuleDenied",
    "for x in ls touch; do $x made; done": "RuleDenied",
}


@pytest.mark.parametrize(
    "option",
    [
        ("-y",),
        ("--mode", "auto"),
        ("--mode", "yolo"),
        ("--allow", "bash"),
        ("--mode", "yolo", "-y", "--allow", "bash"),
    ],
    ids=" ".join,
)
def test_no_spelling_passes_a_rule_that_denies_and_the_reason_names_the_rule(
    place: Place, option: tuple[str, ...]
) -> None:
    calls = "".join(f"call bash {json.dumps({'command': command})}\n" for command in AROUND)
    model = place.script(f"{calls}---\nsay done\n")
    ran = place.bridle("run", "--json", "-m", model, *option, "--deny", "bash(touch*)", "go")
    assert [entry["reason"] for entry in ran.result["denied"]] == list(AROUND.values())
    assert {path.name for path in place.work.iterdir()} == {"it.script"}
    results = [e["payload"] for e in ran.result["events"] if e["kind"] == "ToolResult"]
    assert all("bash(touch*)" in result["content"] for result in results), results
    assert all("--allow" not in result["content"] for result in results)


def test_a_rule_that_denies_leaves_alone_what_can_be_read(place: Place) -> None:
    (place.work / "build.sh").write_text("echo built > out\n")
    calls = ("sh build.sh", "x=mkdir; $x hi", "echo $(date) | wc -l", "echo x > notes; cat notes")
    lines = "".join(f"call bash {json.dumps({'command': command})}\n" for command in calls)
    ran = place.bridle(
        "run", "--json", "-m", place.script(f"{lines}---\nsay done\n"), "-y", "--deny", "bash(touch*)", "go"
    )
    assert ran.result["denied"] == []
    assert {path.name for path in place.work.iterdir()} == {"it.script", "build.sh", "out", "hi", "notes"}


def test_a_rule_in_a_file_asks_like_one_of_a_flag(place: Place) -> None:
    config(place).parent.mkdir(parents=True)
    config(place).write_text("[[permissions.rules]]\ntool = 'bash'\ncommand = 'touch*'\nverdict = 'deny'\n")
    model = place.script('call bash {"command": "$(printf touch) made"}\n---\nsay done\n')
    ran = place.bridle("run", "--json", "-m", model, "-y", "go")
    assert [entry["reason"] for entry in ran.result["denied"]] == ["NoApprover"]
    assert not (place.work / "made").exists()


def test_explaining_says_that_a_rule_holds_no_program_that_another_starts(place: Place) -> None:
    call = ("permissions", "explain", "--mode", "yolo", "--deny", "bash(rm*)", "bash")
    told = place.bridle(*call, '{"command": "make clean"}').out
    assert "limit    a rule that denies commands does not hold what the programs of this one start\n" in told
    asked = place.bridle(*call, '{"command": "$x y"}').out
    assert (
        "ask      step 2: a rule that denies\nby       bash(rm*)   --deny\nbecause  the name of a program"
        in asked
    )
    assert "limit" not in place.bridle("permissions", "explain", "bash", '{"command": "make clean"}').out


@pytest.mark.parametrize(("mode", "told"), [("yolo", True), ("auto", False), ("default", False)])
def test_allow_in_a_mode_that_allows_everything_says_that_it_is_no_limit(
    place: Place, mode: str, told: bool
) -> None:
    ran = place.bridle("run", "--mode", mode, "--allow", "bash(ls*)", "-m", place.script("say done\n"), "go")
    assert (ran.err.count("--allow limits nothing in mode yolo") == 1) == told
    given = ("permissions", "explain", "--mode", mode, "--allow", "bash(ls*)", "bash", '{"command": "make"}')
    assert ("--allow limits nothing" in place.bridle(*given).out) == told
