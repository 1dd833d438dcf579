"""Decisions: every cell of the mode table, every step of the order, and what can never happen."""

from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridle.base.fs.paths import session_folders
from bridle.base.secrets.secret_files import is_policy_file
from bridle.engine.tools import Subject
from bridle.protocol.errors import UsageError
from bridle.protocol.events import GrantAdded
from bridle.safety.call_risk import CallFacts
from bridle.safety.grants import Grant
from bridle.safety.permission_policy import MODE_TABLE, AgentPolicy, Decision, Permissions, decide
from bridle.safety.question_reasons import because, explanation, offers, remembers
from bridle.safety.rules import TIERS, Rule, evaluate, in_tier_order, named_by_user, parse_rule
from bridle.safety.touched_files import PathName
from bridle.shell.command_facts import Part, PathUse, Understanding
from safety.script_kit import understood
from tables import table

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
@table("mode", TABLE)
def test_the_mode_decides_when_nothing_else_does(mode) -> None:
    for risk, cell in zip(RISKS, TABLE[mode], strict=True):
        verdicts = [
            decide(CallFacts(tool="t", risk=risk, quiet=quiet), mode=mode).verdict for quiet in (True, False)
        ]
        assert " ".join(verdicts) == cell, risk


@pytest.mark.requirement("P10")
@table("mode", TABLE)
def test_the_network_is_treated_like_a_command_that_is_not_quiet(mode) -> None:
    shell, network = (decide(CallFacts(tool="t", risk=risk), mode=mode) for risk in ("shell", "network"))
    assert network == shell


def test_the_table_has_every_mode_and_every_risk() -> None:
    assert {mode: set(cells) for mode, cells in MODE_TABLE.items()} == {mode: set(RISKS) for mode in TABLE}


def test_a_denial_by_mode_says_so() -> None:
    assert decide(CallFacts(tool="bash", risk="shell"), mode="safe") == Decision(
        verdict="deny", decided_by="mode", step=6, rule="safe", reason="ModeDenied"
    )


BASH = CallFacts(tool="bash", risk="shell", command="npm test")
DENY, ASK, ALLOW = Rule("bash", "deny"), Rule("bash", "ask"), Rule("bash", "allow")
GRANT = Grant(grant_id="grant_1", tool="bash", subject="npm test")


def agent(default=None, *, rules=(), mode=None):
    return AgentPolicy(name="review", rules=tuple(rules), default=default, mode=mode)


@pytest.mark.requirement("D11.1", "D11.2")
@table(
    ("rules", "grants", "agent_default", "verdict", "step"),
    [
        ([ALLOW, DENY], [GRANT], "allow", "deny", 2),
        ([ASK], [GRANT], "deny", "allow", 3),
        ([ASK, ALLOW], [], "allow", "ask", 4),
        ([ALLOW, ASK], [], "allow", "allow", 4),
        ([ALLOW, ASK], [], "ask", "ask", 5),
        ([ALLOW, ASK], [], "deny", "ask", 5),
        ([], [], "deny", "ask", 5),
        ([], [], "allow", "ask", 6),
        ([], [], None, "ask", 6),
        ([Rule("grep", "deny")], [], None, "ask", 6),
    ],
)
def test_the_steps_are_taken_in_order(rules, grants, agent_default, verdict, step) -> None:
    decision = decide(BASH, mode="default", rules=rules, grants=grants, agents=[agent(agent_default)])
    assert (decision.verdict, decision.step) == (verdict, step)
    assert decision.decided_by in STEPS_BY_WORD[step]


@pytest.mark.requirement("D11.4")
def test_what_an_agent_denies_itself_is_for_a_person_and_denied_where_nobody_is_asked() -> None:
    own = agent(rules=[Rule("bash", "allow", command="ls"), Rule("*", "deny", reason="it only reads")])
    asked = decide(BASH, mode="yolo", agents=[own])
    assert (asked.verdict, asked.for_person, asked.note) == ("ask", True, "it only reads")
    silent = decide(BASH, mode="yolo", agents=[agent(rules=own.rules, mode="plan")])
    assert (silent.verdict, silent.reason) == ("deny", "ModeDenied")
    assert decide(BASH, mode="default", grants=[GRANT], agents=[own]).verdict == "allow", (
        "a person said yes before"
    )


STEPS_BY_WORD = {2: ("rule",), 3: ("grant",), 4: ("rule",), 5: ("agent",), 6: ("mode",), 7: ("default",)}


@pytest.mark.requirement("T4.2")
@table("mode", ["safe", "plan"])
def test_a_mode_that_only_reads_asks_nobody_whatever_wants_to(mode) -> None:
    for query in (
        msgspec.structs.replace(BASH, escalates=True),
        msgspec.structs.replace(BASH, quiet=True),
    ):
        decision = decide(query, mode=mode, rules=[] if query.escalates else [ASK])
        assert (decision.verdict, decision.reason, decision.step) == ("deny", "ModeDenied", 6)


@pytest.mark.requirement("H7.6")
def test_a_decision_names_the_rule_and_where_it_was_written() -> None:
    rule = parse_rule("bash(git push --force*)", "deny", tier="user", origin="user config, line 12")
    decision = decide(
        CallFacts(tool="bash", risk="shell", command="cd x && git push --force"), mode="yolo", rules=[rule]
    )
    assert decision == Decision(
        verdict="deny",
        decided_by="rule",
        step=2,
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


@table(
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


@table("text", ["", "()", "bash(", "bash()", "bash(x", "(x)", "todo(x)", "bash(x) y", "*(x)"])
def test_what_is_no_rule_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="is not a rule"):
        parse_rule(text, "allow")


def paths(*names: str) -> tuple[PathName, ...]:
    return tuple(PathName(absolute=f"/w/{name}", relative=name) for name in names)


def test_an_allow_rule_needs_every_path_and_a_deny_rule_only_one() -> None:
    query = CallFacts(tool="apply_patch", risk="write", paths=paths("src/a.py", "docs/b.md"))
    allow, deny = parse_rule("edit(src/**)", "allow"), parse_rule("edit(src/**)", "deny")
    assert decide(query, mode="default", rules=[allow]).verdict == "ask"
    assert decide(query, mode="yolo", rules=[deny]).verdict == "deny"


def test_a_relative_pattern_allows_nothing_outside_the_workspace() -> None:
    query = CallFacts(tool="read_file", risk="read", paths=(PathName(absolute="/etc/passwd"),))
    assert decide(query, mode="default", rules=[parse_rule("Read(**)", "allow")]).verdict == "ask"
    assert decide(query, mode="default", rules=[parse_rule("Read(/etc/*)", "allow")]).verdict == "allow"
    assert decide(query, mode="yolo", rules=[parse_rule("Read(passwd)", "deny")]).verdict == "deny"


@table("subject", ["npm*", "npm tes?", "*", "npm", "npm test -x"])
def test_a_grant_is_literal(subject: str) -> None:
    grant = Grant(grant_id="g", tool="bash", subject=subject)
    assert decide(BASH, mode="default", grants=[grant]).verdict == "ask"


def test_a_grant_for_one_tool_is_none_for_another() -> None:
    query = CallFacts(tool="edit_file", risk="write", paths=paths("a"))
    grants = [Grant(grant_id="g", tool="write_file"), Grant(grant_id="h", tool="edit_file", subject="b")]
    assert decide(query, mode="default", grants=grants).verdict == "ask"
    assert decide(query, mode="default", grants=[Grant(grant_id="g", tool="edit_file")]).verdict == "allow"
    assert decide(query, mode="default", grants=[Grant(grant_id="g", tool="edit*")]).verdict == "ask"


def test_a_grant_for_edits_is_one_for_every_way_to_change_files() -> None:
    grant = Grant(grant_id="g", tool="edit")
    tools = ("write_file", "edit_file", "apply_patch", "read_file", "bash")
    queries = [CallFacts(tool=tool, risk="write", paths=paths("a")) for tool in tools]
    verdicts = [decide(query, mode="strict", grants=[grant]).verdict for query in queries]
    assert verdicts == ["allow", "allow", "allow", "ask", "ask"]


@table(
    "path",
    [".git/hooks/pre-commit", "sub/.git/config", ".bridle/config.toml", "AGENTS.md", "x/agents.md",
     ".mcp.json", ".vscode/tasks.json", ".bashrc", ".git"],
)  # fmt: skip
def test_a_file_that_later_runs_obey_needs_its_own_yes(path: str) -> None:
    assert is_policy_file(path)
    query = CallFacts(tool="write_file", risk="dangerous", paths=paths(path), policy_file=True)
    whole_tool = Grant(grant_id="g", tool="write_file")
    assert (
        decide(query, mode="auto", grants=[whole_tool], rules=[parse_rule("edit", "allow")]).verdict == "ask"
    )
    this_file = Grant(grant_id="g", tool="write_file", subject=path)
    assert decide(query, mode="default", grants=[this_file]).verdict == "allow"
    assert decide(query, mode="default", rules=[parse_rule(f"edit({path})", "allow")]).verdict == "allow"


@table("path", ["src/git/config", "agents.py", "docs/AGENTS.md.txt", ".github/dependabot.yml"])
def test_ordinary_files_are_no_policy(path: str) -> None:
    assert not is_policy_file(path)


@pytest.mark.requirement("T4.6")
def test_the_explanation_begins_with_the_facts() -> None:
    decision = decide(BASH, mode="default")
    assert explanation(BASH, decision, "default", ["it runs"]) == (
        "mode=default tool=bash risk=shell action=approval_required; "
        "step=6 decided_by=mode; rule=default; it runs"
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


def test_a_file_is_named_by_a_rule_of_ones_own_that_means_no_other(workspace) -> None:
    def named(text: str, tier="user", access="write", verdict="allow") -> bool:
        rule = parse_rule(text, verdict, tier=tier)
        return named_by_user([rule], session_folders(str(workspace)))(str(workspace / ".env"), access)

    assert (named("edit(.env)"), named("Read(.env)", access="read"), named(f"edit({workspace}/.env)")) == (
        (True,) * 3
    )
    assert not any((named("edit(.env*)"), named("edit(**)"), named("edit"), named("edit(x.env)")))
    assert not any((named("Read(.env)"), named("edit(.env)", "project"), named("edit(.env)", verdict="ask")))


def test_the_mode_can_change_and_a_grant_can_be_revoked(workspace) -> None:
    modes = ["default"]
    permissions = Permissions(folders=session_folders(str(workspace)), mode=lambda: modes[-1])
    permissions.remember(GrantAdded(grant_id="g", tool="bash", pattern="npm test", life="session"))
    assert permissions.decide(BASH).decided_by == "grant"
    assert (permissions.revoke("g"), permissions.revoke("g")) == (True, False)
    assert permissions.decide(BASH).verdict == "ask"
    modes.append("auto")
    assert permissions.decide(BASH).verdict == "allow"


# Commands that were understood


class Shell:
    """The permissions of a session in which commands are understood."""

    def __init__(self, calls, workspace, **options) -> None:
        self._calls = calls
        self.permissions = Permissions(
            folders=session_folders(str(workspace)),
            understand=understood,
            protected=(str(workspace.parent / "shop-old" / "bridle"),),
            **options,
        )
        self._here = Subject(kind="path", access="read", value=".", resolved=str(workspace))

    def query(self, command: str, **arguments) -> CallFacts:
        subject = Subject(kind="command", access="run", value=command)
        call = self._calls.make("bash", risk="shell", access="run", command=command)
        args = SimpleNamespace(command=command, **arguments)
        return self.permissions.query(
            msgspec.structs.replace(call, subjects=(self._here, subject), args=args)
        )

    def verdict(self, command: str, **arguments) -> str:
        return self.permissions.decide(self.query(command, **arguments)).verdict


@pytest.fixture
def shell(calls, workspace) -> Shell:
    return Shell(calls, workspace)


@pytest.mark.requirement("P9", "C26")
@pytest.mark.parametrize(
    "command",
    ["ls", "ls src", "cat src/a.py", "ls | tail -5", "cd src && ls", "git status; git diff", "cat in/a.py",
     "cat src/a.py > /dev/null", ""],
)  # fmt: skip
def test_a_command_whose_every_part_only_reads_here_is_quiet(shell, command: str) -> None:
    assert (shell.query(command).quiet, shell.verdict(command)) == (True, "allow")


@pytest.mark.requirement("P9")
@pytest.mark.parametrize(
    ("command", "risk", "concern"),
    [
        ("cat /etc/hosts", "shell", "it is outside this folder"),
        ("cat out/secret", "shell", "it is outside this folder"),
        ("cat up/shop-old/secret", "shell", "it is outside this folder"),
        ("cat .env", "shell", "it may hold secrets"),
        ("tail deploy.pem | cat", "shell", "it may hold secrets"),
        ("ls && touch x", "shell", "it changes files"),
        ("ls > files", "shell", "it changes files"),
        ("cat src/a.py > .git/hooks/pre-commit", "dangerous", "it changes a policy file"),
        ("npm test", "shell", "it runs code"),
        ("curl example.test", "network", "it connects to the network"),
        ("rm -rf build", "dangerous", "it deletes files"),
        ("ls; rm -rf build", "dangerous", "it deletes files"),
        ("ls $(rm x)", "dangerous", "Bridle could not read this command"),
        ("cat circle", "shell", "its files are not known before it runs"),
    ],
)
def test_any_other_command_is_asked_about_with_the_worst_it_does(shell, command, risk, concern) -> None:
    query = shell.query(command)
    assert (query.quiet, query.risk, query.concern, shell.verdict(command)) == (False, risk, concern, "ask")


def test_what_bridle_keeps_is_never_quiet(calls, workspace) -> None:
    ours = workspace.parent / "shop-old" / "bridle"
    ours.mkdir()
    added = Permissions(
        folders=session_folders(str(workspace), ["../shop-old"]),
        understand=understood,
        protected=(str(ours),),
    )
    shell = Shell(calls, workspace)
    shell.permissions = added
    assert shell.query("cat ../shop-old/secret").quiet
    assert not shell.query("cat ../shop-old/bridle/grants.json").quiet
    assert shell.query("touch ../shop-old/bridle/grants.json").risk == "dangerous"


def test_a_command_starts_in_its_own_folder(calls, workspace) -> None:
    shell = Shell(calls, workspace)
    folders: list[str] = []

    def understand(command: str, cwd: str):
        folders.append(cwd)
        return understood(command)

    permissions = Permissions(folders=session_folders(str(workspace)), understand=understand)
    subjects = (
        Subject(kind="path", access="read", value="src", resolved=str(workspace / "src")),
        Subject(kind="command", access="run", value="cat a.py"),
    )
    call = msgspec.structs.replace(shell._calls.make("bash", risk="shell"), subjects=subjects)
    query = permissions.query(call)
    assert (folders, [path.shown for path in query.paths]) == ([str(workspace / "src")], ["src/a.py"])


def test_reading_what_looks_like_a_secret_is_never_quiet(calls, workspace) -> None:
    permissions = Permissions(folders=session_folders(str(workspace)))
    (workspace / ".env").write_text("x")
    (workspace / "notes").symlink_to(".env")
    for value in (".env", "notes", "src/key.pem"):
        resolved = str((workspace / value).resolve())
        subject = Subject(kind="path", access="read", value=value, resolved=resolved)
        query = permissions.query(msgspec.structs.replace(calls.make(), subjects=(subject,)))
        verdicts = [decide(query, mode=mode).verdict for mode in ("default", "safe", "plan", "yolo")]
        assert (query.concern, verdicts) == ("it may hold secrets", ["ask", "deny", "deny", "allow"])


@pytest.mark.requirement("D11.40")
@table(
    ("command", "verdict"),
    [
        ("npm test", "allow"),
        ("npm test -- -x", "allow"),
        ("npm test | tail -5", "allow"),
        ("cd src && npm test", "allow"),
        ("npm test 2>&1 | tail -5", "allow"),
        ("npm test && make lint", "allow"),
        ("npm test; rm -rf ~", "ask"),
        ("npm test && make", "ask"),
        ("npm test $(x)", "ask"),
        ("npm test > /etc/x", "ask"),
        ("npm test > out.txt", "ask"),
        ("PATH=. npm test", "ask"),
        ("npm test &", "ask"),
        ("(npm test)", "ask"),
        ("npm test $X", "ask"),
        ("npm test | cat .env", "ask"),
        ("npm test | tail /etc/hosts", "ask"),
    ],
)
def test_an_allow_rule_covers_a_script_whose_every_part_is_allowed_or_quiet(
    calls, workspace, command, verdict
) -> None:
    rules = [parse_rule("bash(npm test*)", "allow"), parse_rule("bash(make lint)", "allow")]
    assert Shell(calls, workspace, rules=rules).verdict(command) == verdict


def test_a_rule_that_asks_about_one_part_asks_about_the_script(calls, workspace) -> None:
    npm, ask, make = (
        parse_rule("bash(npm*)", "allow"),
        parse_rule("bash(make*)", "ask"),
        parse_rule("bash(make*)", "allow"),
    )
    assert Shell(calls, workspace, rules=[npm, ask, make]).verdict("npm test && make") == "ask"
    assert Shell(calls, workspace, rules=[make, npm, ask]).verdict("npm test && make") == "allow"
    quiet = parse_rule("bash(ls*)", "ask")
    assert Shell(calls, workspace, rules=[npm, quiet]).verdict("npm test && ls") == "ask"


@table("command", ["rm x", "cat a | rm x", "ls; /bin/rm x", "cd src && 'rm' x"])
def test_a_deny_rule_finds_any_part_under_any_name(calls, workspace, command: str) -> None:
    shell = Shell(calls, workspace, rules=[parse_rule("bash(rm *)", "deny")], mode=lambda: "yolo")
    assert shell.verdict(command) == "deny"


def test_a_path_in_a_rule_for_commands_is_about_the_files_they_name(calls, workspace) -> None:
    deny = Shell(calls, workspace, rules=[Rule("bash", "deny", path="secrets/**")], mode=lambda: "yolo")
    verdicts = [deny.verdict(text) for text in ("cat secrets/a", "ls; rm secrets/b", "ls")]
    assert verdicts == ["deny", "deny", "allow"]
    allow = Shell(calls, workspace, rules=[Rule("bash", "allow", path="build/**")])
    commands = ("touch build/a", "touch a", "cp build/a b", "rm build/a", "npm build/a")
    assert [allow.verdict(text) for text in commands] == ["allow", "ask", "ask", "ask", "ask"]


@pytest.mark.requirement("G8.2", "P21", "D11.41")
def test_a_key_is_for_one_plain_command_with_any_arguments(shell) -> None:
    shell.permissions.remember(
        GrantAdded(grant_id="g", tool="bash", pattern="npm test", life="session", match="key")
    )
    assert [shell.verdict(text) for text in ("npm test", "npm test -- -x")] == ["allow", "allow"]
    others = (
        "npm publish",
        "npm test; ls",
        "npm test | tail -5",
        "npm test > x",
        "X=1 npm test",
        "npm test $(ls)",
    )
    assert {shell.verdict(text) for text in others} == {"ask"}


@pytest.mark.parametrize("command", ["rm -rf build", "cat .env", "ls > .bashrc", "ls $(x)"])
def test_what_is_exceptional_passes_with_a_literal_grant_only(shell, command: str) -> None:
    for grant in (
        GrantAdded(grant_id="t", tool="bash", pattern="", life="session"),
        GrantAdded(grant_id="k", tool="bash", pattern=command.split()[0], life="session", match="key"),
    ):
        shell.permissions.remember(grant)
    assert (shell.verdict("make"), shell.verdict(command)) == ("allow", "ask")
    shell.permissions.remember(GrantAdded(grant_id="l", tool="bash", pattern=command, life="session"))
    assert shell.verdict(command) == "allow"


def test_a_command_that_wants_out_of_the_sandbox_always_asks(calls, workspace) -> None:
    shell = Shell(calls, workspace, rules=[parse_rule("bash", "allow")], mode=lambda: "yolo")
    shell.permissions.remember(GrantAdded(grant_id="g", tool="bash", pattern="ls", life="session"))
    query = shell.query("ls", escalate="the cache is elsewhere")
    assert (query.quiet, query.concern) == (False, "it asks to run outside the sandbox")
    decision = shell.permissions.decide(query)
    assert (decision.verdict, decision.step) == ("ask", 7)
    assert offers(query, persists=True) == ()


def test_what_a_hook_wants_asked_is_asked_whatever_would_allow_it(calls, workspace) -> None:
    shell = Shell(calls, workspace, rules=[parse_rule("bash", "allow")], mode=lambda: "yolo")
    query = msgspec.structs.replace(shell.query("ls"), must_ask="hook check: production")
    decision = shell.permissions.decide(query)
    assert (decision.verdict, decision.step, because(query, decision)) == ("ask", 1, "hook check: production")
    assert offers(query, persists=True) == ()
    denied = Shell(calls, workspace, rules=[parse_rule("bash(ls)", "deny")]).permissions.decide(query)
    assert denied.verdict == "deny"


def test_a_pattern_is_quiet_only_if_everything_it_means_is(calls, workspace) -> None:
    def understand(command: str, _cwd: str) -> Understanding:
        program, pattern = command.split()
        use = PathUse(path=pattern, access="read", pattern=True)
        part = Part(text=command, words=(program, None), command_class="read_only", uses=(use,))
        return Understanding(command=command, shape="simple", parts=(part,), command_class="read_only")

    shell = Shell(calls, workspace)
    shell.permissions = Permissions(folders=session_folders(str(workspace)), understand=understand)
    (workspace / "src" / "deploy.pem").write_text("x")
    patterns = ("src/*.py", "no*", "out/*", "*/secret", "src/*", "/etc/host*")
    assert [shell.query(f"cat {pattern}").quiet for pattern in patterns] == [True, True] + [False] * 4
    for number in range(300):
        (workspace / f"n{number}").touch()
    assert not shell.query("cat n*").quiet


# What each answer would remember


@pytest.mark.requirement("C5", "P21")
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            "npm test -- -x",
            {
                "pattern": "npm test with harmless arguments inside this folder, until the session ends",
                "tool": "every bash call, until the session ends",
                "always": "npm test -- -x, here, for 7 days",
            },
        ),
        (
            "npm test && make",
            {
                "pattern": "npm test && make, until the session ends",
                "tool": "every bash call, until the session ends",
                "always": "npm test && make, here, for 7 days",
            },
        ),
        (
            "rm -rf build",
            {
                "pattern": "rm -rf build, until the session ends",
                "always": "rm -rf build, here, for 7 days",
            },
        ),
    ],
)
def test_an_answer_says_what_it_remembers(shell, command: str, words: dict[str, str]) -> None:
    found = {offer.answer: remembers(offer) for offer in offers(shell.query(command), persists=True)}
    assert found == words
    kept = [offer.answer for offer in offers(shell.query(command), persists=False)]
    assert kept == [answer for answer in words if answer != "always"]


def test_a_command_with_a_secret_in_it_is_not_saved(shell) -> None:
    token = "ghp_" + "a1B2" * 9
    offered = offers(shell.query(f"curl -H {token} example.test"), persists=True)
    assert [offer.answer for offer in offered] == ["pattern", "tool"]


def test_a_change_of_two_files_is_remembered_as_both_for_every_way_to_change_them() -> None:
    query = CallFacts(tool="apply_patch", risk="write", paths=paths("a.py", "b.py"))
    assert [(offer.answer, offer.tool, offer.pattern) for offer in offers(query, persists=False)] == [
        ("pattern", "edit", "a.py"),
        ("pattern", "edit", "b.py"),
        ("tool", "edit", ""),
    ]


def test_the_words_for_why_it_is_asked_name_a_rule_or_the_mode(shell) -> None:
    rule = Rule("bash", "ask", command="git*", reason="the history is public")
    query = shell.query("git status")
    assert because(query, decide(query, mode="default", rules=[rule])) == "the history is public"
    plain = decide(query, mode="default", rules=[Rule("bash", "ask")])
    assert because(query, plain) == "a rule says to ask"
    assert because(query, decide(query, mode="strict")) == "mode strict asks about everything"
    assert because(query, decide(query, mode="default", agents=[agent("ask")])) == "this agent asks first"


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
    CallFacts,
    tool=st.sampled_from(["bash", "read_file", "write_file"]),
    risk=st.sampled_from(RISKS),
    command=st.none() | COMMANDS,
    paths=st.lists(PATHS, max_size=2).map(lambda names: paths(*names)),
    quiet=st.booleans(),
    policy_file=st.booleans(),
)
MODES = st.sampled_from(list(TABLE))
AGENTS = st.builds(
    AgentPolicy,
    name=st.just("review"),
    rules=RULES.map(tuple),
    default=st.none() | VERDICTS,
    mode=st.none() | MODES,
)
FREEDOM = {"deny": 0, "ask": 1, "allow": 2}


@pytest.mark.requirement("D11.7", "T9.7", "D11.3")
@given(QUERIES, MODES, RULES, GRANTS, AGENTS)
def test_an_agent_never_gets_more_than_its_session(query, mode, rules, grants, agent) -> None:
    session = decide(query, mode=mode, rules=rules, grants=grants)
    own = decide(query, mode=mode, rules=rules, grants=grants, agents=[agent])
    assert FREEDOM[own.verdict] <= FREEDOM[session.verdict]
    assert own.for_person or not session.for_person or own.verdict == "deny"


def test_where_nobody_is_asked_an_agent_that_would_ask_is_denied() -> None:
    quiet = CallFacts(tool="read_file", risk="read", quiet=True)
    decision = decide(quiet, mode="safe", agents=[agent(mode="strict")])
    assert (decision.verdict, decision.rule, decision.reason) == ("deny", "safe", "ModeDenied")


@given(QUERIES, MODES, RULES, GRANTS)
def test_nothing_outvotes_a_rule_that_denies(query, mode, rules, grants) -> None:
    for rule in rules:
        if rule.verdict == "deny" and decide(query, mode="yolo", rules=[rule]).verdict == "deny":
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


PARTS = st.sampled_from(
    ["ls", "npm test", "npm test -- -x", "make", "rm x", "cat .env", "cat /etc/hosts", "touch a", "X=1 npm test",
     "npm test > /etc/x", "ls > a", "curl x", "echo $(rm x)", "npm test $X"]
)  # fmt: skip
SCRIPTS = st.lists(st.tuples(PARTS, st.sampled_from([" && ", "; ", " | ", "\n"])), min_size=1, max_size=3)
ALLOWS = st.lists(
    st.builds(
        Rule,
        tool=st.just("bash"),
        verdict=st.sampled_from(["allow", "ask"]),
        command=st.sampled_from(["npm test*", "make", "rm*", "touch *", "*test", "npm test", "ls*", "*"]),
    ),
    max_size=4,
)
KEYS = st.lists(
    st.builds(
        Grant,
        grant_id=st.just("g"),
        tool=st.just("bash"),
        subject=st.sampled_from(["npm test", "make", "touch", "ls"]),
        match=st.sampled_from(["literal", "key"]),
    ),
    max_size=2,
)
SHARED_FIXTURES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@SHARED_FIXTURES
@given(
    script=SCRIPTS, part=PARTS, joint=st.sampled_from([" && ", "; ", " | ", "\n"]), rules=ALLOWS, grants=KEYS
)
def test_adding_a_part_never_lets_pass_what_was_asked_about_alone(
    shell, script, part, joint, rules, grants
) -> None:
    alone = shell.query(part)
    if decide(alone, mode="default", rules=rules, grants=grants).verdict != "ask":
        return
    before = "".join(text + joint for text, joint in script)
    for whole in (before + part, part + joint + before.strip("&;| \n")):
        assert decide(shell.query(whole), mode="default", rules=rules, grants=grants).verdict == "ask", whole


@SHARED_FIXTURES
@given(command=st.text(max_size=60) | st.text(alphabet="abc /;&|<>$()`'\"\\\n.~*", max_size=40), mode=MODES)
def test_a_decision_is_made_about_any_text_whatever(shell, command, mode) -> None:
    query = shell.query(command)
    decision = decide(
        query, mode=mode, rules=[parse_rule("bash(npm*)", "allow"), parse_rule("bash(rm*)", "deny")]
    )
    assert decision.verdict in ("allow", "ask", "deny")
    assert len(offers(query, persists=True)) <= 3
