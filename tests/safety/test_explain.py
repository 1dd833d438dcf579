"""Explaining: the same gates and the same decision as a real call, and nothing runs."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridle.app.queries.explain import Explained, FolderRules, Unexplainable, explain, standing
from bridle.conformance.fake_clock import FakeClock
from bridle.protocol.commands import SessionOptions
from bridle.protocol.events import CommandPart, GrantAdded
from effort import examples
from safety.script_kit import understood


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"BRIDLE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}


def here(workspace: Path, env: dict[str, str], **options) -> FolderRules:
    mode, clock = options.pop("mode", None), FakeClock()
    return standing(
        env,
        cwd=str(workspace),
        options=SessionOptions(**options),
        mode=mode,
        clock=clock,
        understand=understood,
    )


async def bash(standing: FolderRules, command: str) -> Explained:
    return await explain(standing, "bash", {"command": command})


@pytest.mark.requirement("C4")
@pytest.mark.parametrize(
    ("command", "options", "verdict", "step", "rule"),
    [
        ("ls", {}, "allow", 6, "default"),
        ("ls", {"mode": "strict"}, "ask", 6, "strict"),
        ("npm test", {}, "ask", 6, "default"),
        ("npm test", {"mode": "safe"}, "deny", 6, "safe"),
        ("npm test | tail -5", {"allow": ("bash(npm test*)",)}, "allow", 4, "bash(npm test*)"),
        ("npm test; make", {"allow": ("bash(npm test*)",)}, "ask", 6, "default"),
        ("ls; npm test", {"deny": ("bash(npm*)",), "mode": "yolo"}, "deny", 2, "bash(npm*)"),
    ],
)
async def test_every_step_of_the_order_is_named(
    workspace, env, command, options, verdict, step, rule
) -> None:
    found = await bash(here(workspace, env, **options), command)
    assert (found.verdict, found.step, found.rule) == (verdict, step, rule)


async def test_a_command_is_explained_with_its_parts_and_its_class(workspace, env) -> None:
    found = await bash(here(workspace, env), "rm -rf build && ls")
    assert (found.command_class, found.risk, found.because) == (
        "destructive",
        "dangerous",
        "it deletes files",
    )
    assert found.parts == (
        CommandPart(text="rm -rf build", command_class="destructive", does="rm does it"),
        CommandPart(text="ls", command_class="read_only", does="ls does it"),
    )
    assert [answer.answer for answer in found.answers] == ["once", "pattern", "always"]
    assert found.why.startswith("mode=default tool=bash risk=dangerous action=approval_required; step=6 ")


async def test_a_saved_yes_is_step_three(workspace, env) -> None:
    standing = here(workspace, env)
    grant = GrantAdded(grant_id="grant_1", tool="bash", pattern="make", life="saved")
    standing.saved.add(standing.permissions.root, grant)
    found = await bash(standing, "make")
    assert (found.verdict, found.step, found.rule, found.answers) == ("allow", 3, "grant_1", ())


async def test_explaining_runs_nothing_and_makes_nothing(workspace, env) -> None:
    await bash(here(workspace, env, mode="yolo"), "touch made")
    await explain(here(workspace, env, mode="yolo"), "write_file", {"path": "made", "content": "x"})
    assert not (workspace / "made").exists()
    assert not os.path.exists(env["BRIDLE_HOME"])


@pytest.mark.parametrize(
    ("tool", "given", "reason"),
    [
        ("nope", {}, "UnknownTool"),
        ("bash", {"command": 3}, "InvalidInput"),
        ("read_file", {}, "InvalidInput"),
    ],
)
async def test_what_is_no_call_cannot_be_explained(workspace, env, tool, given, reason) -> None:
    with pytest.raises(Unexplainable) as problem:
        await explain(here(workspace, env), tool, given)
    assert problem.value.reason == reason


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(50))
@given(command=st.text(min_size=1, max_size=40))
async def test_any_text_at_all_gets_a_verdict(workspace, env, command: str) -> None:
    found = await bash(here(workspace, env), command)
    assert found.verdict in ("allow", "ask", "deny")


# With the parser a session has


async def really(workspace: Path, env: dict[str, str], command: str, **options) -> Explained:
    path = {"PATH": os.environ.get("PATH", os.defpath)}
    found = standing({**env, **path}, cwd=str(workspace), options=SessionOptions(**options))
    return await explain(found, "bash", {"command": command})


@pytest.mark.requirement("G8.4", "C26", "P9")
@pytest.mark.parametrize(
    "command",
    ["git status", "git log --oneline -5", "git diff", "git branch", "ls -la src", "pwd", "cat src/a.py",
     "head -5 src/a.py", "tail -5 src/a.py", "wc -l src/a.py", "grep -rn x .", "rg x src", "find . -name '*.py'",
     "cd src && ls", "git status; git diff", "cat src/a.py | head -5", "ls 2>/dev/null"],
)  # fmt: skip
async def test_harmless_commands_ask_nobody(workspace, env, command: str) -> None:
    found = await really(workspace, env, command)
    assert (found.verdict, found.quiet) == ("allow", True)


@pytest.mark.requirement("P9")
@pytest.mark.parametrize(
    "command",
    ["cat ../shop-old/secret", "cat out/secret", "cat .env", "find . -delete", "find . -exec rm {} +", "ls > a",
     "rg --pre x y", "git -c core.pager=x log", "ls $(touch a)", "ls; touch a", "ls `touch a`", "cat $X"],
)  # fmt: skip
async def test_what_only_looks_harmless_is_asked_about(workspace, env, command: str) -> None:
    assert (await really(workspace, env, command)).verdict != "allow"


@pytest.mark.requirement("D11.40")
@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("npm test -- -x", "allow"),
        ("npm test | tail -5", "allow"),
        ("npm test 2>&1 | tail -5", "allow"),
        ("cd src && npm test", "allow"),
        ("npm test && make", "ask"),
        ("npm test $(x)", "ask"),
        ("npm test > /etc/x", "ask"),
        ("npm test > out.txt", "ask"),
        ("PATH=. npm test", "ask"),
        ("LD_PRELOAD=./x npm test", "ask"),
        ("sudo npm test", "ask"),
        ("bash -c 'npm test; make'", "ask"),
    ],
)
async def test_an_allow_rule_reads_commands_as_the_shell_does(workspace, env, command, verdict) -> None:
    assert (await really(workspace, env, command, allow=("bash(npm test*)",))).verdict == verdict


@pytest.mark.parametrize(
    "command", ["rm x", "env rm x", "sh -c 'rm x'", "ls | xargs rm", "/bin/rm x", "cd src; 'r'm x"]
)
async def test_a_deny_rule_finds_its_command_wherever_it_hides(workspace, env, command: str) -> None:
    found = await really(workspace, env, command, deny=("bash(rm *)", "bash(rm)"))
    assert (found.verdict, found.step) == ("deny", 2)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
@given(command=st.text(alphabet="abc ;&|<>$()`'\"\\\n.~*{}=-", min_size=1, max_size=30))
async def test_any_script_at_all_gets_a_verdict(workspace, env, command: str) -> None:
    assert (await really(workspace, env, command)).verdict in ("allow", "ask", "deny")
