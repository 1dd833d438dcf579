"""A place with a user's folder, a workspace and whatever files a test writes there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bridle.app.user.setting_sections import TABLE, load
from bridle.config.folders import Folders, folders
from bridle.config.tiers import Tiers


class Desk:
    """`user/` is the config folder, `workspace/` a repository."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = root / "workspace"
        (self.workspace / ".git").mkdir(parents=True)
        (root / "home").mkdir()
        (root / "user").mkdir()
        (root / "home" / "config").symlink_to(root / "user")

    @property
    def where(self) -> Folders:
        return folders({"BRIDLE_HOME": str(self.root / "home")})

    def write(self, name: str, text: str | bytes, *, mode: int = 0o600) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return path

    def load(
        self,
        *,
        env: Mapping[str, str] | None = None,
        sets: Sequence[str] = (),
        profile: str | None = None,
        config_file: str | None = None,
        cwd: Path | None = None,
    ) -> Tiers:
        return load(
            where=self.where,
            cwd=str(cwd or self.workspace),
            env=env or {},
            sets=sets,
            profile=profile,
            config_file=config_file,
        )

    def told(self, **given: Any) -> list[str]:
        """Every problem as a sentence."""
        return [problem.text for problem in self.load(**given).problems]


def no_looser_choices() -> dict[str, dict[object, tuple[object, ...]]]:
    """Return, for every setting with choices that a workspace file may only tighten, what each choice allows it."""
    found: dict[str, dict[object, tuple[object, ...]]] = {}
    for setting in TABLE.settings:
        rule = setting.workspace
        choices = setting.kind.choices or ((True, False) if setting.kind.accepts(True) else ())
        if callable(rule) and choices:
            found[setting.key] = {
                own: tuple(value for value in choices if rule(value, own)) for own in choices
            }
    return found


def thawed(value: Any) -> Any:
    """Read-only values as plain ones."""
    if isinstance(value, Mapping):
        return {name: thawed(item) for name, item in value.items()}
    return [thawed(item) for item in value] if isinstance(value, tuple) else value
