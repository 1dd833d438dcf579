"""Files that are more than data: those that tell programs what to do, and those that hold secrets."""

from __future__ import annotations

import fnmatch

# fmt: off
_POLICY_NAMES = frozenset({  # in lower case: some file systems do not tell the difference
    "agents.md", "claude.md", "skill.md", ".mcp.json", ".envrc", ".gitconfig", ".gitmodules", ".profile",
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".zshrc", ".zshenv", ".zprofile", ".zlogin",
})
# fmt: on
_POLICY_FOLDERS = frozenset({".git", ".bridle", ".vscode", ".idea"})


def is_policy_file(path: str) -> bool:
    """Whether a file tells this agent, its editor, git or a shell what to do.

    Whoever writes it writes the rules.
    """
    *folders, name = path.split("/")
    return name.lower() in _POLICY_NAMES or any(part.lower() in _POLICY_FOLDERS for part in (*folders, name))


# fmt: off
SECRET_PATTERNS = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
    ".netrc", ".pgpass", ".npmrc", ".pypirc", "credentials", "credentials.json", "secrets.*", ".git-credentials",
)
# fmt: on
"""File names that look like they hold secrets."""
HARMLESS_PATTERNS = (".env.example", ".env.sample", ".env.template", ".env.dist", "*.pub")


def is_secret_like(path: str) -> bool:
    """Whether a file looks like it holds secrets, by its name alone, in any case."""
    name = path.rsplit("/", 1)[-1].lower()
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in HARMLESS_PATTERNS):
        return False
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in SECRET_PATTERNS)
