"""Recognise policy files and files with secrets by name.

Names are compared without case and without characters that some file systems ignore: `.GIT` and `.git` may be one
folder. Nothing is read or looked up, so both answers hold for files that do not exist yet.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

# fmt: off
_POLICY_NAMES = frozenset({
    # agents: instructions, skills, servers to start
    "agents.md", "agents.override.md", "agent.md", "claude.md", "claude.local.md", "gemini.md", "qwen.md", "skill.md",
    "copilot-instructions.md", ".cursorrules", ".windsurfrules", ".clinerules", ".roorules", ".goosehints",
    ".augment-guidelines", ".rules", "warp.md", "crush.md", "opencode.md", "opencode.json", "opencode.jsonc",
    ".aider.conf.yml", ".mcp.json", "mcp.json",
    # git and what runs inside a commit
    ".gitconfig", ".gitmodules", ".pre-commit-config.yaml", ".pre-commit-config.yml", "lefthook.yml", ".lefthook.yml",
    "lefthook.yaml", ".lefthook.yaml", ".overcommit.yml", ".lintstagedrc",
    # shells and what they run when a folder is entered
    ".profile", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".zshrc", ".zshenv",
    ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".xprofile", ".xinitrc",
    ".xsession", ".xsessionrc", "config.fish", ".inputrc", ".envrc", ".mise.toml", "mise.toml", ".tmux.conf",
    # package managers and interpreters that run what these name
    ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pnpmfile.mjs", "pip.conf", ".bazelrc", ".gemrc",
    "sitecustomize.py", "usercustomize.py", ".pythonrc", ".irbrc", ".pryrc", ".rprofile", ".perltidyrc",
    # editors, debuggers, download tools
    ".vimrc", ".gvimrc", ".exrc", ".nvimrc", ".nvim.lua", ".emacs", ".dir-locals.el", ".gdbinit", ".lldbinit",
    ".curlrc", ".wgetrc",
})
_POLICY_FOLDERS = frozenset({
    ".git", ".bridle", ".agents", ".claude", ".codex", ".gemini", ".cursor", ".windsurf", ".continue", ".roo",
    ".kiro", ".amazonq", ".augment", ".trae", ".opencode", ".qwen", ".crush", ".goose", ".openhands",
    ".clinerules", ".junie", ".husky", ".githooks", ".direnv", ".vscode", ".idea", ".zed", ".fleet", ".devcontainer",
    ".ssh",
})
_POLICY_PLACES = (
    ".cargo/config", ".cargo/config.toml", ".mvn/jvm.config", ".mvn/maven.config", ".mvn/extensions.xml",
    ".github/instructions", ".github/agents", ".github/prompts", ".github/chatmodes", ".github/hooks",
    ".config/git", ".config/fish", ".config/autostart", ".config/systemd", ".config/direnv", ".config/mise",
    ".config/pip", ".config/nvim", ".config/zed", "library/launchagents",
)
_ASKED_PLACES = (".github/workflows",)
"""Asked about and no more: a build server obeys them, once somebody has pushed them."""
POLICY_PARENTS = frozenset(place.partition("/")[0] for place in _POLICY_PLACES)
"""Ordinary folders with a few files in them that programs obey."""
# fmt: on


def is_policy_file(path: str) -> bool:
    """Whether a file tells an agent, an editor, git, a shell or a package manager what to do. Whoever writes it writes
    the rules.

    The line is: it takes effect without being named. A shell reads its start-up file, git its hooks, an editor its
    tasks, an agent its instructions, npm its `.npmrc` (which may name the shell for scripts) and yarn its
    `.yarnrc.yml` (which may name the yarn to run), whatever command was typed; so does a build server its workflows.
    A Makefile or `package.json` acts only when somebody runs it, so they are ordinary files; so is `.gitattributes`,
    whose filters run only if a git config defines them.
    """
    return is_held_file(path) or _is_in(_folded(path).split("/"), _ASKED_PLACES)


@functools.lru_cache(maxsize=4_096)
def is_held_file(path: str) -> bool:
    """The same, without what is only asked about: a sandbox keeps these as they are. The names in a folder are asked
    about around every command."""
    parts = _folded(path).split("/")
    if parts[-1] in _POLICY_NAMES or not _POLICY_FOLDERS.isdisjoint(parts):
        return True
    return _is_in(parts, _POLICY_PLACES)


def held_examples() -> list[str]:
    """One file for each entry of the list that a sandbox keeps as it is; git's own folder has rules of its own."""
    folders = sorted(_POLICY_FOLDERS - {".git"})
    return [*sorted(_POLICY_NAMES), *(f"{folder}/x" for folder in folders), *_POLICY_PLACES]


def _is_in(parts: Sequence[str], places: Iterable[str]) -> bool:
    if len(parts) == 1:
        return False
    whole = f"/{'/'.join(part for part in parts if part not in {'', '.'})}/"
    return any(f"/{place}/" in whole for place in places)


# fmt: off
SECRET_FILES: tuple[str, ...] = (
    # environment files
    ".env", ".env.*", "*.env", ".bridle-secrets/**",
    # private keys and key stores
    "*.pem", "*.key", "*.p8", "*.p12", "*.pfx", "*.ppk", "*.jks", "*.keystore", "*.kdbx", "id_rsa*", "id_dsa*",
    "id_ecdsa*", "id_ed25519*", "private_key", "private_key.txt", "*_private_key", ".ssh/*", ".gnupg/**",
    ".password-store/**",
    # files in which programs keep passwords and tokens
    ".netrc", "_netrc", ".pgpass", ".my.cnf", ".mylogin.cnf", ".git-credentials", ".npmrc", ".pypirc", ".htpasswd",
    ".dockercfg", ".docker/config.json", ".aws/credentials", ".kube/config", "kubeconfig", "*.kubeconfig",
    ".config/gcloud/**", ".config/gh/hosts.yml", ".config/glab-cli/config.yml", ".config/hub", ".azure/*token*",
    ".terraformrc", ".terraform.d/credentials.tfrc.json", "*.tfstate", "*.tfstate.backup", ".cargo/credentials",
    ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".m2/settings-security.xml",
    ".gradle/gradle.properties", ".composer/auth.json", ".config/composer/auth.json", ".codex/auth.json",
    ".claude/.credentials.json", ".vault-token", ".vault_pass*", ".databricks.cfg", ".boto", ".s3cfg", "rclone.conf",
    ".bash_history", ".zsh_history", ".psql_history", ".mysql_history",
    # files whose names say so
    "credentials", "credentials.json", "credentials.toml", "credentials.ini", "credentials.csv", "credentials.yml",
    "credentials.yaml", "application_default_credentials.json", "client_secret*.json", "service-account*.json",
    "service_account*.json", "secret.json", "secret.toml", "secret.ini", "secret.txt", "secret.yml", "secret.yaml",
    "secret.properties", "secrets.json", "secrets.toml", "secrets.ini", "secrets.txt", "secrets.yml", "secrets.yaml",
    "secrets.properties", "*.secret", "*.secrets", "token", "token.txt", "token.json", "*.token",
    # harmless after all
    "!*.pub", "!*.example", "!*.sample", "!*.template", "!*.dist", "!.env.defaults", "!example.env", "!sample.env",
    "!template.env", "!cacert.pem", "!.ssh/known_hosts*", "!.ssh/config",
)
# fmt: on
"""Which files look like they hold secrets; the default of `permissions.secret_files`.

Patterns are for the end of a path: `.env` is a file of that name in any folder, `.aws/credentials` one in a folder
`.aws`. `*` and `?` stay inside one name, `**` at the end is everything below. The last pattern that fits decides; `!`
in front of it says that the file is harmless. They are about files that hold values: a module of a program that
deals with secrets (`secrets.py`, `tokenizer.json`) is not meant. A file that may hold a token or not (`.npmrc`) counts,
because finding out would be reading it.
"""

SECRET_NAMES = tuple(name for pattern in SECRET_FILES if not {*(name := pattern.rstrip("*"))} & {*"*!/"})
"""What such files are called: those whose name is known, or at least how it begins."""


def is_secret_like(path: str, patterns: tuple[str, ...] = SECRET_FILES) -> bool:
    """Whether a file looks like it holds secrets. Ask for the name as it was written and for where it leads."""
    return secret_matcher(patterns)(path)


@functools.lru_cache(maxsize=8)
def secret_matcher(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """The question of `is_secret_like`, ready to be put to many files."""

    @functools.cache
    def last_first() -> tuple[tuple[bool, Callable[[str, str], bool]], ...]:
        """Made with the first file: a session may never ask about one."""
        return tuple(_group(secret, run) for secret, run in reversed(_runs(patterns)))

    def matcher(path: str) -> bool:
        folded = path.lower() if path.isascii() else _folded(path)
        name = folded.rpartition("/")[2]
        # Nearly every file fits no pattern at all: what calls one harmless is asked where another calls it secret.
        groups = last_first()
        for at, (secret, fits) in enumerate(groups):
            if secret and fits(folded, name):
                return not any(harmless(folded, name) for _, harmless in groups[:at])
        return False

    return matcher


def _runs(patterns: Iterable[str]) -> list[tuple[bool, list[str]]]:
    """Neighbouring patterns of one kind together."""
    runs: list[tuple[bool, list[str]]] = []
    for pattern in patterns:
        secret = not pattern.startswith("!")
        if not runs or runs[-1][0] != secret:
            runs.append((secret, []))
        runs[-1][1].append(_folded(pattern.removeprefix("!")).strip("/"))
    return runs


def _group(secret: bool, patterns: Iterable[str]) -> tuple[bool, Callable[[str, str], bool]]:
    """Whether one of the patterns fits a path and its last name; most are settled without a regular expression."""
    names: set[str] = set()
    beginnings: list[str] = []
    ends: list[str] = []
    others: list[str] = []
    places: list[str] = []
    for pattern in patterns:
        wild = [index for index, character in enumerate(pattern) if character in "*?"]
        if "/" in pattern or "**" in pattern:
            places.append(pattern)
        elif not wild:
            names.add(pattern)
        elif wild == [len(pattern) - 1] and pattern.endswith("*"):
            beginnings.append(pattern[:-1])
        elif wild == [0] and pattern.startswith("*"):
            ends.append(pattern[1:])
        else:
            others.append(pattern)
    other = re.compile("|".join(map(_expression, others)) or r"(?!)").fullmatch
    place = re.compile(rf"(?:\A|/)(?:{'|'.join(map(_expression, places)) or '(?!)'})\Z", re.DOTALL).search
    begins, ends_with = tuple(beginnings), tuple(ends)
    hidden = all(pattern.startswith(".") for pattern in places)

    def fits(path: str, name: str) -> bool:
        if name in names or name.endswith(ends_with) or name.startswith(begins) or other(name):
            return True
        return (not hidden or "/." in path or path.startswith(".")) and place(path) is not None

    return secret, fits


_WILD = {"**": ".+", "*": "[^/]*", "?": "[^/]"}


def _expression(pattern: str) -> str:
    pieces = re.split(r"(\*\*|\*|\?)", pattern)
    return "".join(_WILD.get(piece, re.escape(piece)) for piece in pieces)


def _folded(path: str) -> str:
    """The path in the spelling in which names are compared."""
    if path.isascii():
        return path.lower()
    plain = unicodedata.normalize("NFKC", path).casefold()
    return "".join(character for character in plain if unicodedata.category(character) != "Cf")
