"""Commands that print passwords, keys and tokens: some never run, the others ask a person each time. Nothing is run."""

from pathlib import Path

import pytest

from bridle.app.queries.explain import explain, standing
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind, outcomes
from bridle.protocol.commands import SessionOptions
from bridle.protocol.events import PermissionDecided
from bridle.providers.script import answer, call, say
from bridle.safety.call_risk import CallFacts
from bridle.safety.permission_policy import AgentPolicy, decide
from bridle.safety.rules import Rule
from tables import table

pytestmark = pytest.mark.requirement("G2.12")

NEVER = [
    *("pass show mail", "pass mail/work", "pass -c mail", "pass ls mail", "pass grep x", "pass otp mail", "pass $x"),
    *("gopass show x", "gopass cat x", "op read op://a/b/c", "op item get x", "op --account a item get x --reveal"),
    *("op document get x", "op inject -i a", "op run -- env", "op signin --raw", "bw get password x", "bw list items"),
    *("bw export", "bw unlock --raw", "rbw get x", "lpass show x", "keepassxc-cli show a.kdbx b", "keyring get a b"),
    *("gpg --export-secret-keys", "gpg -a --export-secret-keys x", "gpg --export-secret-subkeys",
    "gpg2 --export-sec x"),
    *("git credential fill", "git -C src credential fill", "git credential-store get", "git-credential-cache get"),
    *("git credential-osxkeychain get", "docker-credential-desktop get", "gh auth token",
    "gh auth token -h github.com"),
    *("gh auth status --show-token", "gh auth status -t", "glab auth status --show-token",
    "gh auth --hostname x token"),
    *("gcloud auth print-access-token", "gcloud auth print-identity-token",
    "gcloud --project p auth print-access-token"),
    *("gcloud auth application-default print-access-token", "gcloud config config-helper --format=json"),
    *("az account get-access-token", "aws configure export-credentials", "aws sts get-session-token"),
    *("aws --profile p sso get-role-credentials --role-name x", "heroku auth:token", "npm token create"),
    *("vault print token", "doppler configure get token", "fly auth token", "security find-generic-password -w"),
]  # fmt: skip
EACH_TIME = [
    *("aws configure get aws_secret_access_key", "aws secretsmanager get-secret-value --secret-id x"),
    *("aws --profile p ssm get-parameter --name x --with-decryption",
    "aws ssm get-parameters --with-decryption --names x"),
    *("aws ecr get-login-password", "aws sts assume-role --role-arn x", "vault kv get secret/x", "vault read secret/x"),
    *("vault login", "kubectl get secret", "kubectl get secrets -A", "kubectl -n prod get secret x -o yaml"),
    *("kubectl get secret/x", "kubectl get pods,secrets", "kubectl get -n prod secrets.v1", "oc get secret x"),
    *("kubectl get --raw /api/v1/secrets", "kubectl create token x", "kubectl config view --raw",
    "k3s kubectl get secret"),
    *("gcloud secrets versions access latest --secret=x", "az keyvault secret show --name x", "helm get values x"),
    *("az storage account keys list -n x", "doppler secrets", "heroku config", "terraform output -json"),
    *("terraform state pull", "sops -d x.yaml", "ansible-vault view x", "infisical secrets", "railway variables"),
]  # fmt: skip
ORDINARY = [
    *("pass", "pass ls", "pass insert mail", "pass git pull", "op item list", "gpg --list-secret-keys",
    "gpg --export x"),
    *("git credential approve", "git log --grep credential", "gh auth status", "gh pr create --title token",
    "gcloud auth list"),
    *("az account show", "aws s3 ls", "aws ssm get-parameter --name x", "aws configure list", "vault status",
    "vault kv list x"),
    *("kubectl get pods", "kubectl describe secret x", "kubectl config view", "docker-credential-desktop list",
    "ssh-add -L"),
    *("npm token list", "heroku apps", "terraform output", "ls secret", "cat pass", "echo vault kv get x"),
]  # fmt: skip
GIVEN = [
    *("docker inspect shop", "docker container inspect shop", "docker image inspect x", "docker logs shop",
    "docker container logs -f shop"),
    *("docker top shop", "docker history --no-trunc x", "docker context inspect", "docker exec shop env",
    "docker compose config"),
    *("podman inspect x", "podman logs x", "kubectl describe pod x", "kubectl exec x -- env", "systemctl show x",
    "systemctl cat x"),
    *("systemctl show-environment", "ps auxe", "ps e", "ps -E"),
]  # fmt: skip
"""What prints the variables, arguments and words of programs elsewhere: their passwords among them."""
AROUND = [
    *("sudo {}", "env X=1 {}", "sh -c '{}'", "bash -lc '{}'", "ls; {} | cat", "echo $({})", "timeout 5 {}",
    "(cd src && {})"),
    *("if true; then {}; fi", "x=$({})", "nice env {}", "f() {{ {}; }}; f"),
]  # fmt: skip


@table("command", NEVER)
def test_a_stored_password_or_a_token_that_acts_for_a_person_is_never_printed(command: str, read) -> None:
    found = read(command)
    assert (found.refused_rule, bool(found.refused)) == ("credential_tool", True)


@table("command", GIVEN)
def test_what_programs_elsewhere_were_given_is_never_shown_quietly(command: str, read) -> None:
    assert not read(command).read_only


@table("command", EACH_TIME)
def test_a_secret_of_a_project_is_said_to_be_disclosed(command: str, read) -> None:
    found = read(command)
    assert found.refused is None
    assert [part.discloses for part in found.parts if part.discloses]


@table("command", ORDINARY)
def test_what_prints_no_secret_is_left_as_it_was(command: str, read) -> None:
    found = read(command)
    assert found.refused is None
    assert not any(part.discloses for part in found.parts)


@table("around", AROUND)
@table(
    "command", ["pass show x", "/usr/bin/op read x", "/opt/bin/gh auth token", "gpg --export-secret-keys x"]
)
def test_nothing_around_it_lets_it_run(command: str, around: str, read) -> None:
    assert read(around.format(command)).refused


@table("around", AROUND)
@table("command", ["vault kv get x", "/opt/bin/kubectl get secret x", "aws configure get x"])
def test_nothing_around_it_hides_it(command: str, around: str, read) -> None:
    found = read(around.format(command))
    assert any(part.discloses for part in found.parts)


@table("command", ["echo x | xargs pass show", "xargs -I{} op read {} < list", "find . -exec pass show {} +"])
def test_words_from_elsewhere_do_not_help(command: str, read) -> None:
    assert read(command).refused


@table("command", ["pass show mail", "sudo op read x", "vault kv get x"])
def test_a_text_nobody_can_read_is_no_way_around(command: str, read) -> None:
    assert read(f"{command} <<'EOF").refused_rule == "credential_tool"


@pytest.mark.parametrize("mode", ["strict", "default", "auto", "yolo"])
async def test_a_person_is_asked_each_time_in_every_mode_that_asks_whatever_a_rule_says(
    tmp_path: Path, mode: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "BRIDLE_HOME": str(tmp_path / "bridle")}
    here = standing(env, cwd=str(work), mode=mode, options=SessionOptions(allow=("bash", "bash(vault*)")))
    found = await explain(here, "bash", {"command": "vault kv get secret/x"})
    assert (found.verdict, found.because) == ("ask", "it prints a secret")
    assert [answer.answer for answer in found.answers] == ["once"]


@table("mode", ["default", "auto", "yolo"])
async def test_a_flag_that_says_yes_does_not_say_it_here(mode: str) -> None:
    """Should it be run all the same: there is no such program on a machine that tests."""
    model = scripted(answer(call("bash", command="vault kv get secret/x")), say("Done."))
    async with harness(model, mode=mode, yes=True) as session:
        events = await session.ask("go")
    assert outcomes(events) == ["denied"]
    assert of_kind(events, PermissionDecided)[0].decided_by == "nobody"


@table("asks", [{"rules": [Rule("bash", "ask")]}, {"agents": [AgentPolicy(name="review", default="ask")]}])
def test_a_rule_or_an_agent_that_asks_leaves_it_to_a_person(asks) -> None:
    for fact in ("escalates", "discloses", "policy_file"):
        query = CallFacts(tool="bash", risk="shell", **{fact: True})
        decision = decide(query, mode="default", **asks)
        assert (decision.verdict, decision.for_person) == ("ask", True), fact
