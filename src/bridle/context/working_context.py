"""The working context: what kind of project a session works in, by the names at its root. Nothing is read."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from bridle.base.fs.files import first_entries

ProjectType: TypeAlias = Literal["rust", "typescript", "python", "mixed", "unknown"]
MAX_NAMES: Final = 100

_SIGNS: Final[dict[ProjectType, frozenset[str]]] = {
    "rust": frozenset({"Cargo.toml"}),
    "typescript": frozenset({"package.json", "tsconfig.json"}),
    "python": frozenset({"pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile"}),
}


class WorkingContext(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session works. `top_level_files` are the names at the root, folders with a slash, `MAX_NAMES` at most."""

    project_root: str
    project_type: ProjectType
    top_level_files: tuple[str, ...]
    instruction_count: int


def working_context(root: str, instruction_count: int) -> WorkingContext:
    """The working context of the project with this root."""
    try:
        names = sorted(f"{one.name}/" if one.is_dir() else one.name for one in first_entries(root))
    except OSError:
        names = []
    return WorkingContext(
        project_root=root,
        project_type=project_type(frozenset(names)),
        top_level_files=tuple(name for name in names if name != ".git/")[:MAX_NAMES],
        instruction_count=instruction_count,
    )


def project_type(names: frozenset[str]) -> ProjectType:
    """What kind of project has these names at its root; several kinds are `mixed`. Pure."""
    kinds: list[ProjectType] = [kind for kind, signs in _SIGNS.items() if signs & names]
    if len(kinds) > 1:
        return "mixed"
    return kinds[0] if kinds else "unknown"
