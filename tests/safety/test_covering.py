"""What one yes to "this program" covers later on, and what it never does."""

import json
from pathlib import Path

import pytest

from bridle.app.queries.explain import FolderRules, explain, standing
from bridle.protocol.events import GrantAdded
from tables import table

pytestmark = pytest.mark.requirement("P21", "G8.2")

# said yes to with `p`; then these pass; these ask
KEPT = [
    ("aws s3 ls", ["aws s3 ls s3://a --region eu"], [
        "aws iam delete-user --user-name x", "aws s3 rm s3://a", "aws s3 ls --endpoint-url http://x",
        "aws --profile p s3 ls",
        "aws s3 --region x ls", "aws ec2 describe-instances", "aws s3 ls --profile other", "aws s3",
    ]),
    ("aws ec2 describe-instances --output json",
    ["aws ec2 describe-instances --region x"], ["aws ec2 describe-images"]),
    ("gcloud compute instances list", ["gcloud compute instances list --limit 5"], [
        "gcloud compute instances delete x", "gcloud compute disks list",
        "gcloud compute instances list --impersonate-service-account x",
    ]),
    ("az vm list", ["az vm list --output table"], ["az vm delete -n x", "az vm show -n x"]),
    ("gh pr create --title a", ["gh pr create --title b --body c --draft"], [
        "gh pr merge --admin 1", "gh pr create --repo other/x --title a", "gh pr create --body-file ../x",
        "gh issue create",
        "gh pr create --title a --body-file /etc/passwd",
    ]),
    ("gh pr merge 1", ["gh pr merge 2 --squash"], ["gh pr merge 1 --admin", "gh pr merge 1 -d"]),
    ("kubectl get pods", ["kubectl get pods -n x -o wide"], [
        "kubectl get nodes", "kubectl get secrets", "kubectl get pods --kubeconfig x", "kubectl get pods,secrets",
        "kubectl get -n x secrets", "kubectl delete pods x", "kubectl get pods -o custom-columns-file=/etc/x",
    ]),
    ("docker compose ps", ["docker compose ps -a"], ["docker compose exec x sh", "docker run x",
    "docker compose -f x ps"]),
    ("go test ./...", ["go test -run X -count=1 ./pkg"], [
        "go test -exec ./x ./...", "go test --exec=./x", "go test -toolexec ./x", "go test -vettool=x",
        "go test -ldflags=x",
        "go test -overlay=x", "go test -modfile=x", "go test -C ../x ./...", "go build ./...", "go test ../other/...",
        "go test -o ../x",
    ]),
    ("npm test", ["npm test -- --coverage", "npm test -- src/a.test.js"], [
        "npm test --script-shell=./x", "npm test -- -r ./x", "npm test --node-options=x", "npm run test",
        "npm test --prefix ../x",
        "npm test -- ../x", "npm --script-shell ./x test",
    ]),
    ("npm run build", ["npm run build --silent"], ["npm run deploy", "npm run build --script-shell ./x",
    "npm publish"]),
    ("npm install", ["npm install --no-audit"], ["npm install evil", "npm install ../x", "npm ci"]),
    ("cargo test", ["cargo test foo -- --nocapture", "cargo test --release -p x"], [
        "cargo test --config x", "cargo test --manifest-path ../x/Cargo.toml", "cargo run", "cargo test -Z x",
        "cargo +nightly test",
        "cargo clippy -- -C linker=./x",
    ]),
    ("pytest -x", ["pytest tests/test_a.py -k foo -vv"], [
        "pytest -p evil", "pytest -c x.ini", "pytest -o x=y", "pytest @args", "pytest ../x", "pytest --rootdir=/",
        "pytest -pevil",
        "pytest link/x", "pytest --pdbcls=x:y",
    ]),
    ("git add a.txt", ["git add src"], ["git add -f x", "git add ../x", "git -c core.hooksPath=x add a",
    "git commit -m x"]),
    ("git commit -m a", ["git commit -am 'fix: the /etc thing'"], [
        "git commit --amend -m a", "git commit -F ../x", "git commit --no-verify -m a", "git commit -S -m a",
        "git commit --template=/etc/x",
    ]),
    ("git fetch origin", ["git fetch --prune origin main"], [
        "git fetch ext::sh", "git fetch https://example.test/x", "git fetch --upload-pack=./x origin", "git fetch ../x",
        "git fetch git@example.test:x", "git push",
    ]),
    ("touch a", ["touch b", "touch -c src/x"], [
        "touch ../x", "touch /tmp/x", "touch link/x", "touch .git/hooks/x", "touch .env", "touch -r ../x a",
        "touch AGENTS.md",
        "touch src/../../x",
    ]),
    ("mkdir a", ["mkdir -p b/c"], ["mkdir ../x", "mkdir -p link/x"]),
    ("terraform plan", ["terraform plan -no-color"], [
        "terraform apply", "terraform plan -var-file=/etc/x", "terraform -chdir=../x plan", "terraform plan -out=../x",
    ]),
    ("ruff check src", ["ruff check --fix src"], ["ruff check --config ../x src", "ruff format src"]),
    ("eslint src", ["eslint --fix src"], ["eslint --config ./x.js src", "eslint --plugin x src", "eslint -c x src"]),
    ("prettier --check src", ["prettier --write src"], ["prettier --plugin ./x.js src", "prettier --write ../x"]),
    ("tsc --noEmit", ["tsc --noEmit --pretty"], ["tsc -p ../x", "tsc --outDir ../x", "tsc @args"]),
]  # fmt: skip
EXACT = [
    *("podman run x", "make test", "frobnicate build now", "pip install x", "npm install x", "npx x", "go run ./x"),
    *("git push", "git rebase main", "gh api x", "gh auth login", "ssh x ls", "rsync -a a b", "tar cf a b",
    "find . -delete"),
    *("docker run x", "cargo run x", "uv run pytest", "aws s3 rm s3://a", "kubectl apply -f a.yaml",
    "gcloud compute ssh x"),
    *("make SHELL=./x", "systemctl restart x", "patch -i a.diff", "vim a", "git remote add x y", "terraform apply"),
    *("touch ../x", "pytest -p evil", "go test -exec ./x", "just build", "dig example.test"),
]  # fmt: skip


@pytest.fixture
def here(tmp_path: Path) -> FolderRules:
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / "link").symlink_to("..")
    (tmp_path / "person").mkdir()
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path / "person"),
        "BRIDLE_HOME": str(tmp_path / "person" / "bridle"),
    }
    return standing(env, cwd=str(work), mode="default")


async def offered(here: FolderRules, command: str) -> str:
    found = await explain(here, "bash", {"command": command})
    return next((answer.remembers for answer in found.answers if answer.answer == "pattern"), "")


async def verdict(here: FolderRules, command: str) -> str:
    return (await explain(here, "bash", {"command": command})).verdict


def say_yes(here: FolderRules, pattern: str) -> None:
    here.permissions.remember(
        GrantAdded(grant_id="g", tool="bash", pattern=pattern, life="session", match="key")
    )


@table(("command", "passes", "asks"), KEPT)
async def test_a_yes_to_a_program_keeps_its_subcommand_its_folder_and_its_harmless_options(
    here: FolderRules, command: str, passes: list[str], asks: list[str]
) -> None:
    words = await offered(here, command)
    key, said, _ = words.partition(" with ")
    assert said, words
    assert words == f"{key} with harmless arguments inside this folder, until the session ends"
    say_yes(here, key)
    assert {text: await verdict(here, text) for text in [command, *passes]} == dict.fromkeys(
        [command, *passes], "allow"
    )
    assert [text for text in asks if await verdict(here, text) == "allow"] == []


@table("command", EXACT)
async def test_any_other_command_is_remembered_as_exactly_this(here: FolderRules, command: str) -> None:
    assert " with " not in await offered(here, command)


@pytest.mark.parametrize(
    ("old", "command"),
    [
        ("aws", "aws iam delete-user x"), ("gh pr", "gh pr merge --admin"), ("podman",
        "podman run x"), ("npm install", "npm install x"),
        ("frobnicate build", "frobnicate build x"), ("go test", "go test -exec ./x"), ("touch",
        "touch ../x"), ("make", "make x"),
        ("pip install", "pip install x"), ("terraform", "terraform apply"), ("gh", "gh api x"), ("kubectl get",
        "kubectl get pods"),
        ("git remote", "git remote set-url origin x"), ("eslint", "eslint --plugin ./x src"),
    ],
)  # fmt: skip
async def test_a_grant_kept_in_the_old_form_covers_no_more_than_a_new_one(
    here: FolderRules, old: str, command: str
) -> None:
    """Written by hand as an older Bridle would have: a program with any arguments."""
    saved = Path(here.saved.path)
    saved.parent.mkdir(parents=True)
    grant = {
        "id": "grant_1",
        "tool": "bash",
        "pattern": old,
        "match": "key",
        "expires_ms": here.saved._now_ms() + 60_000,
    }
    saved.write_text(json.dumps({"version": 1, "projects": {here.permissions.root: [grant]}}))
    assert [kept.subject for kept in here.permissions.grants] == [old]
    assert await verdict(here, command) == "ask"
