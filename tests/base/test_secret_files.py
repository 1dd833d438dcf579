"""Which files are more than data, by their names."""

from hypothesis import given
from hypothesis import strategies as st

from bridle.base.secrets.secret_files import SECRET_FILES, is_policy_file, is_secret_like
from tables import table


@table(
    "path",
    [".env", "app/.env", ".ENV", ".env.local", ".env.production", "deploy/prod.env", "server.pem", "tls/server.key",
     "id_rsa", "id_ed25519_work", "app.p12", "release.keystore", "/home/me/.ssh/deploy", ".ssh/authorized_keys",
     ".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".aws/credentials", "/home/ana/.docker/config.json",
     ".kube/config", ".config/gcloud/access/x.db", ".config/gh/hosts.yml", ".cargo/credentials.toml", "secrets.yaml",
     "config/secrets.json", "credentials.json", "client_secret_12.json", "token.json", "infra/terraform.tfstate",
     "\uff0eenv", ".e\u200dnv", ".AWS/Credentials"],
)  # fmt: skip
def test_a_file_that_holds_secrets_is_known_by_its_name(path: str) -> None:
    assert is_secret_like(path)


@table(
    "path",
    ["secrets.py", "src/secrets/__init__.py", "tokenizer.json", "tokens.json", "token.py", "credentials.ts",
     ".env.example", ".env.sample", ".env.template", "id_rsa.pub", ".ssh/known_hosts", ".ssh/config", ".environment",
     "environment.ts", "keys.py", "monkey.py", "docker/config.json", "kube/config", "gcloud/x", "README.md", ".envrc",
     "cacert.pem", ".env/bin/activate", "", "/"],
)  # fmt: skip
def test_a_file_about_secrets_is_none_that_holds_them(path: str) -> None:
    assert not is_secret_like(path)


def test_the_list_is_one_setting_and_its_last_fitting_pattern_decides() -> None:
    patterns = (*SECRET_FILES, "!*.pem", "vault/**", "!vault/open/*", "pin?.txt")
    assert not is_secret_like("a.pem", patterns)
    assert is_secret_like("x/vault/deep/a", patterns)
    assert not is_secret_like("x/vault/open/a", patterns)
    assert is_secret_like("x/vault/open/deep/a", patterns)
    assert is_secret_like("pin1.txt", patterns)
    assert not is_secret_like("pin/.txt", patterns)
    assert not is_secret_like(".env", ())


@given(st.text(alphabet="ab.*?[](){}|\\^$+!/-", max_size=12), st.text(max_size=12))
def test_any_text_is_a_pattern_and_matches_itself_when_plain(pattern: str, path: str) -> None:
    is_secret_like(path, (pattern,))
    if pattern.strip("/!") and not set("*?!") & set(pattern) and not pattern.startswith("/"):
        assert is_secret_like(f"some/folder/{pattern.strip('/')}", (pattern,))


@given(
    st.sampled_from(["a", "b/c", "/x/y", "."]),
    st.sampled_from([".env", "id_rsa", ".aws/credentials", "k.pem"]),
)
def test_a_secret_file_is_one_in_every_folder_and_case(folder: str, name: str) -> None:
    assert is_secret_like(f"{folder}/{name}")
    assert is_secret_like(f"{folder}/{name}".upper())


@table(
    "path",
    ["AGENTS.md", "docs/CLAUDE.md", "GEMINI.md", "skills/x/SKILL.md", ".cursorrules", ".mcp.json",
     ".github/copilot-instructions.md", ".github/instructions/py.md", ".git/hooks/pre-commit", ".git/config",
     ".GIT/config", "sub/.git", ".gitmodules", ".gitconfig", ".husky/pre-push", ".pre-commit-config.yaml",
     "lefthook.yml", ".bridle/config.toml",
     ".claude/settings.json", ".vscode/tasks.json", ".idea/workspace.xml", ".cursor/rules/x.mdc", ".zed/tasks.json",
     ".devcontainer/devcontainer.json", ".bashrc", "/home/me/.zshenv", ".profile", ".config/fish/config.fish", ".envrc",
     "mise.toml", ".npmrc", ".yarnrc.yml", ".pnpmfile.cjs", ".cargo/config.toml", "./.cargo//config.toml",
     "sitecustomize.py", ".ssh/config", ".github/workflows/ci.yml", "sub/.github/workflows/ci.yml", "WARP.md",
     "x/.g\u200cit/config", "Library/LaunchAgents/a.plist"],
)  # fmt: skip
def test_a_file_that_takes_effect_without_being_named_is_policy(path: str) -> None:
    assert is_policy_file(path)


@table(
    "path",
    ["Makefile", "package.json", ".github/dependabot.yml", ".gitattributes", ".gitignore", "src/git/config",
     "agents.py",
     "docs/AGENTS.md.txt", "cargo/config.toml", ".editorconfig", "config/fish.txt", ""],
)  # fmt: skip
def test_a_file_somebody_has_to_run_is_ordinary(path: str) -> None:
    assert not is_policy_file(path)
