"""Decisions: every cell of the mode table, every step of the order, and what can never happen."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.engine.tools import Subject
from bridle.protocol.errors import UsageError
from bridle.protocol.events import GrantAdded
from bridle.safety.paths import session_folders
from bridle.safety.permissions import (
    MODE_TABLE,
    TIERS,
    Decision,
    Grant,
    PathName,
    Permissions,
    Query,
    Rule,
    decide,
    evaluate,
    explanation,
    in_tier_order,
    parse_rule,
)
from bridle.safety.sensitive import is_policy_file

pytestmark = pytest.mark.requirement("C4")

RISKS = ("read", "write", "shell", "network", "dangerous")
TABLE = {  # mode: verdict for quiet calls and for others, by risk
    "strict": ("ask ask", "ask ask", "ask ask", "ask ask", "ask ask"),
    "default": ("allow ask", "ask ask", "allow ask", "ask ask", "ask ask"),
    "safe": ("allow deny", "deny deny", "allow deny", "deny deny", "deny deny"),
    "auto": ("allow allow", "allow allow", "allow allow", "allow allow", "ask ask"),
    "yolo": ("allow allow", "allow allow", "allow allow", "allow allow", "allow allow"),
    "plan": ("allow deny", "deny deny", "allow deny", "deny deny", "deny deny"),
}


@pytest.mark.requirement("T4.1", "T4.2", "T4.3", "T4.4", "T4.5")
@pytest.mark.parametrize("mode", TABLE)
def test_the_mode_decides_when_nothing_else_does(mode) -> None:
    for risk, cell in zip(RISKS, TABLE[mode], strict=True):
        verdicts = [
            decide(Query(tool="t", risk=risk, quiet=quiet), mode=mode).verdict for quiet in (True, False)
        ]
        assert " ".join(verdicts) == cell, risk


def test_the_table_has_every_mode_and_every_risk() -> None:
    assert {mode: set(cells) for mode, cells in MODE_TABLE.items()} == {mode: set(RISKS) for mode in TABLE}


def test_a_denial_by_mode_says_so() -> None:
    assert decide(Query(tool="bash", risk="shell"), mode="safe") == Decision(
        verdict="deny", decided_by="mode", rule="safe", reason="ModeDenied"
    )


BASH = Query(tool="bash", risk="shell", command="npm test")
DENY, ASK, ALLOW = Rule("bash", "deny"), Rule("bash", "ask"), Rule("bash", "allow")
GRANT = Grant(grant_id="grant_1", tool="bash", subject="npm test")


@pytest.mark.parametrize(
    ("rules", "grants", "agent_default", "verdict", "decided_by"),
    [
        ([ALLOW, DENY], [GRANT], "allow", "deny", "rule"),
        ([ASK], [GRANT], "deny", "allow", "grant"),
        ([ASK, ALLOW], [], "deny", "ask", "rule"),
        ([ALLOW, ASK], [], "deny", "allow", "rule"),
        ([], [], "deny", "deny", "agent"),
        ([], [], "allow", "allow", "agent"),
        ([], [], None, "ask", "mode"),
        ([Rule("grep", "deny")], [], None, "ask", "mode"),
    ],
)
def test_the_steps_are_taken_in_order(rules, grants, agent_default, verdict, decided_by) -> None:
    query = Query(tool="bash", risk="shell", command="npm test", agent_default=agent_default)
    decision = decide(query, mode="default", rules=rules, grants=grants)
    assert (decision.verdict, decision.decided_by) == (verdict, decided_by)


@pytest.mark.requirement("H7.6")
def test_a_decision_names_the_rule_and_where_it_was_written() -> None:
    rule = parse_rule("bash(git push --force*)", "deny", tier="user", origin="user config, line 12")
    decision = decide(
        Query(tool="bash", risk="shell", command="cd x && git push --force"), mode="yolo", rules=[rule]
    )
    assert decision == Decision(
        verdict="deny",
        decided_by="rule",
        rule="bash(git push --force*)",
        origin="user config, line 12",
        reason="RuleDenied",
    )


def test_tiers_come_in_order_and_inside_a_tier_the_first_written_rule_wins() -> None:
    written = [
        Rule("bash", "ask", tier=tier, origin=f"{tier} {n}") for n in (1, 2) for tier in reversed(TIERS)
    ]
    ordered = in_tier_order(written)
    assert [rule.origin for rule in ordered] == [f"{tier} {n}" for tier in TIERS for n in (1, 2)]
    assert decide(BASH, mode="default", rules=ordered).origin == "flags 1"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("edit", Rule("edit", "allow", tier="flags")),
        ("mcp__*", Rule("mcp__*", "allow", tier="flags")),
        ("bash(npm test*)", Rule("bash", "allow", command="npm test*", tier="flags")),
        ("Bash(f() { :; })", Rule("Bash", "allow", command="f() { :; }", tier="flags")),
        ("Read(docs/**)", Rule("Read", "allow", path="docs/**", tier="flags")),
        ("edit(src/*)", Rule("edit", "allow", path="src/*", tier="flags")),
    ],
)
def test_the_short_form_of_a_rule(text: str, rule: Rule) -> None:
    assert parse_rule(text, "allow") == rule


@pytest.mark.parametrize(
    "text", ["", "()", "bash(", "bash()", "bash(x", "(x)", "todo(x)", "bash(x) y", "*(x)"]
)
def test_what_is_no_rule_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="is not a rule"):
        parse_rule(text, "allow")


def paths(*names: str) -> tuple[PathName, ...]:
    return tuple(PathName(absolute=f"/w/{name}", relative=name) for name in names)


def test_an_allow_rule_needs_every_path_and_a_deny_rule_only_one() -> None:
    query = Query(tool="apply_patch", risk="write", paths=paths("src/a.py", "docs/b.md"))
    allow, deny = parse_rule("edit(src/**)", "allow"), parse_rule("edit(src/**)", "deny")
    assert decide(query, mode="default", rules=[allow]).verdict == "ask"
    assert decide(query, mode="yolo", rules=[deny]).verdict == "deny"


def test_a_relative_pattern_allows_nothing_outside_the_workspace() -> None:
    query = Query(tool="read_file", risk="read", paths=(PathName(absolute="/etc/passwd"),))
    assert decide(query, mode="default", rules=[parse_rule("Read(**)", "allow")]).verdict == "ask"
    assert decide(query, mode="default", rules=[parse_rule("Read(/etc/*)", "allow")]).verdict == "allow"
    assert decide(query, mode="yolo", rules=[parse_rule("Read(passwd)", "deny")]).verdict == "deny"


@pytest.mark.parametrize("subject", ["npm*", "npm tes?", "*", "npm", "npm test -x"])
def test_a_grant_is_literal(subject: str) -> None:
    grant = Grant(grant_id="g", tool="bash", subject=subject)
    assert decide(BASH, mode="default", grants=[grant]).verdict == "ask"


def test_a_grant_for_one_tool_is_none_for_another() -> None:
    query = Query(tool="edit_file", risk="write", paths=paths("a"))
    grants = [Grant(grant_id="g", tool="write_file"), Grant(grant_id="h", tool="edit_file", subject="b")]
    assert decide(query, mode="default", grants=grants).verdict == "ask"
    assert decide(query, mode="default", grants=[Grant(grant_id="g", tool="edit_file")]).verdict == "allow"


@pytest.mark.parametrize(
    "path",
    [".git/hooks/pre-commit", "sub/.git/config", ".bridle/config.toml", "AGENTS.md", "x/agents.md",
     ".mcp.json", ".vscode/tasks.json", ".bashrc", ".git"],
)  # fmt: skip
def test_a_file_that_later_runs_obey_needs_its_own_yes(path: str) -> None:
    assert is_policy_file(path)
    query = Query(tool="write_file", risk="dangerous", paths=paths(path), policy_file=True)
    whole_tool = Grant(grant_id="g", tool="write_file")
    assert (
        decide(query, mode="auto", grants=[whole_tool], rules=[parse_rule("edit", "allow")]).verdict == "ask"
    )
    this_file = Grant(grant_id="g", tool="write_file", subject=path)
    assert decide(query, mode="default", grants=[this_file]).verdict == "allow"
    assert decide(query, mode="default", rules=[parse_rule(f"edit({path})", "allow")]).verdict == "allow"


@pytest.mark.parametrize(
    "path", ["src/git/config", "agents.py", "docs/AGENTS.md.txt", ".github/workflows/x.yml"]
)
def test_ordinary_files_are_no_policy(path: str) -> None:
    assert not is_policy_file(path)


@pytest.mark.requirement("T4.6")
def test_the_explanation_begins_with_the_facts() -> None:
    decision = decide(BASH, mode="default")
    assert explanation(BASH, decision, "default", ["it runs"]) == (
        "mode=default tool=bash risk=shell action=approval_required; decided_by=mode; rule=default; it runs"
    )


@pytest.mark.requirement("H7.1", "H7.2", "H7.3", "H7.4")
def test_evaluate_takes_the_first_matching_rule_and_asks_otherwise() -> None:
    rules = [Rule("read_*", "allow"), Rule("*", "deny", reason="no"), Rule("read_file", "ask")]
    assert evaluate(rules, "read_file") == ("allow", rules[0])
    assert evaluate(rules, "bash") == ("deny", rules[1])
    assert evaluate([Rule("Bash", "allow")], "bash") == ("ask", None)
    assert evaluate([], "read_file") == ("ask", None)


# A session's permissions


def test_reading_is_quiet_inside_the_sessions_folders_only(calls, workspace) -> None:
    permissions = Permissions(folders=session_folders(str(workspace), ["../shop-old"]))

    def verdict(*resolved: str) -> str:
        subjects = tuple(Subject(kind="path", access="read", value=path, resolved=path) for path in resolved)
        return permissions.decide(
            permissions.query(msgspec.structs.replace(calls.make(), subjects=subjects))
        ).verdict

    inside, added, outside = str(workspace / "src"), str(workspace.parent / "shop-old" / "x"), "/etc/passwd"
    assert [verdict(inside), verdict(added), verdict(), verdict(outside), verdict(inside, outside)] == [
        "allow", "allow", "allow", "ask", "ask",
    ]  # fmt: skip


def test_the_mode_can_change_and_a_grant_can_be_revoked(workspace) -> None:
    modes = ["default"]
    permissions = Permissions(folders=session_folders(str(workspace)), mode=lambda: modes[-1])
    permissions.remember(GrantAdded(grant_id="g", tool="bash", pattern="npm test", life="session"))
    assert permissions.decide(BASH).decided_by == "grant"
    assert (permissions.revoke("g"), permissions.revoke("g")) == (True, False)
    assert permissions.decide(BASH).verdict == "ask"
    modes.append("auto")
    assert permissions.decide(BASH).verdict == "allow"


# What can never happen

VERDICTS = st.sampled_from(["allow", "ask", "deny"])
TOOLS = st.sampled_from(["bash", "read_file", "write_file", "edit", "Bash", "*", "*_file"])
COMMANDS = st.sampled_from(["npm test", "npm*", "rm x", "npm test; rm x", "*", "rm*"])
PATHS = st.sampled_from(["a.py", "src/a.py", "src/*", "**", "*", ".git/config"])
RULES = st.lists(
    st.builds(
        Rule,
        tool=TOOLS,
        verdict=VERDICTS,
        path=st.none() | PATHS,
        command=st.none() | COMMANDS,
        tier=st.sampled_from(TIERS),
    ),
    max_size=6,
)
GRANTS = st.lists(
    st.builds(
        Grant,
        grant_id=st.just("g"),
        tool=st.sampled_from(["bash", "write_file"]),
        subject=st.none() | COMMANDS,
    ),
    max_size=3,
)
QUERIES = st.builds(
    Query,
    tool=st.sampled_from(["bash", "read_file", "write_file"]),
    risk=st.sampled_from(RISKS),
    command=st.none() | COMMANDS,
    paths=st.lists(PATHS, max_size=2).map(lambda names: paths(*names)),
    quiet=st.booleans(),
    policy_file=st.booleans(),
    agent_default=st.none() | VERDICTS,
)
MODES = st.sampled_from(list(TABLE))


@given(QUERIES, MODES, RULES, GRANTS)
def test_nothing_outvotes_a_rule_that_denies(query, mode, rules, grants) -> None:
    for rule in rules:
        if rule.verdict == "deny" and decide(query, mode="yolo", rules=[rule]).verdict == "deny":
            if query.agent_default == "deny" and decide(query, mode="yolo").verdict == "deny":
                continue
            decision = decide(query, mode=mode, rules=rules, grants=grants)
            assert (decision.verdict, decision.decided_by) == ("deny", "rule")


@given(QUERIES, MODES, RULES, GRANTS)
def test_adding_a_deny_rule_never_allows_more(query, mode, rules, grants) -> None:
    before = decide(query, mode=mode, rules=rules, grants=grants).verdict
    after = decide(query, mode=mode, rules=[*rules, Rule("*", "deny", command="rm*")], grants=grants).verdict
    assert after in (before, "deny")


@given(QUERIES, MODES, RULES, GRANTS)
def test_every_decision_says_what_decided(query, mode, rules, grants) -> None:
    decision = decide(query, mode=mode, rules=rules, grants=grants)
    assert (decision.reason is not None) == (decision.verdict == "deny")
    assert decision.rule is not None or decision.decided_by in ("agent", "default")
