"""What a command finds in its environment: none of the secrets that people keep there, whatever they are called."""

import json
import os
from pathlib import Path

import pytest

from bridle.base.process.processes import Processes
from bridle.engine.ports import SpawnPolicy
from bridle.sandbox.plain_spawn import ALLOWED_NAMES, EnvOnlySpawn, allowed_environment
from cli_kit import Place

NAMES = (
    *("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "AZURE_CLIENT_SECRET", "ARM_CLIENT_SECRET"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "CI_JOB_TOKEN", "BITBUCKET_TOKEN"),
    *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MISTRAL_API_KEY", "HF_TOKEN", "BRIDLE_API_KEY", "NPM_TOKEN"),
    *("TWINE_PASSWORD", "UV_PUBLISH_TOKEN", "CARGO_REGISTRY_TOKEN", "DOCKER_PASSWORD", "DOCKER_AUTH_CONFIG"),
    *("VAULT_TOKEN", "TF_TOKEN_app_terraform_io", "PGPASSWORD", "MYSQL_PWD", "REDISCLI_AUTH", "DATABASE_URL"),
    *("SENTRY_AUTH_TOKEN", "SLACK_BOT_TOKEN", "SSH_AUTH_SOCK", "SSH_ASKPASS", "GPG_TTY", "NETRC", "KUBECONFIG"),
    *("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "PIP_INDEX_URL", "GIT_ASKPASS", "GIT_CONFIG_PARAMETERS"),
    *("LC_SECRET", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SECRET", "PASSWORD", "TOKEN", "plain_name"),
    *("LD_PRELOAD_X", "PYTHONSTARTUP", "NODE_OPTIONS", "BASH_ENV", "ENV", "PERL5OPT", "JAVA_TOOL_OPTIONS"),
)  # fmt: skip
PLANTED = {name: f"planted-value-number-{number}-end" for number, name in enumerate(NAMES)}


def leaked(text: str) -> list[str]:
    return [name for name, value in PLANTED.items() if value in text]


def test_enough_is_planted_and_nothing_of_it_is_on_the_list() -> None:
    assert len(set(NAMES)) >= 30
    assert not set(NAMES) & ALLOWED_NAMES
    assert allowed_environment({**PLANTED, "PATH": "/bin"}) == {"PATH": "/bin"}
    assert leaked(" ".join(PLANTED.values())) == list(NAMES)


async def test_a_command_started_without_a_sandbox_sees_none_of_it(tmp_path: Path) -> None:
    printed: list[bytes] = []
    processes = Processes()
    try:
        process = await EnvOnlySpawn(processes)(
            ["env"],
            cwd=str(tmp_path),
            env={**PLANTED, "PATH": os.defpath, "HOME": str(tmp_path)},
            policy=SpawnPolicy(mode="workspace-write", workspace=str(tmp_path)),
            call_id="call_1",
            on_output=printed.append,
        )
        assert await process.wait() == 0
    finally:
        await processes.close()
    text = b"".join(printed).decode()
    assert f"HOME={tmp_path}\n" in text
    assert leaked(text) == []


@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_in_a_run_neither_commands_nor_hooks_see_any_of_it(tmp_path: Path, sandbox: str) -> None:
    place = Place(tmp_path)
    told = tmp_path / "told"
    hook = place.home / ".config/bridle/hooks/PreToolUse"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\nenv > '{told}'\n")
    hook.chmod(0o700)
    script = place.script('call bash {"command": "env"}\n---\nsay done\n')
    ran = place.bridle(
        *("run", "--mode", "yolo", "--sandbox", sandbox, "--stream-json", "-m", script, "go"),
        env=place.environment(**PLANTED),
    )
    assert ran.code == 0, ran.err
    results = [line for line in ran.stream if line.get("eventType") == "ToolResult"]
    assert "HOME=" in json.dumps(results)
    assert leaked(ran.out + ran.err) == []
    assert "HOME=" in told.read_text()
    assert leaked(told.read_text()) == []
