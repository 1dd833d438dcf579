"""The corpus as typed data: tricky and ordinary commands, hidden code, paths. Knows nothing of what judges them.

Each list is read with one function. `Scene` and `Layout` make the folders an entry is about.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from bridle.base.command_class import CommandClass

HERE = Path(__file__).parent
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
PathOutcome: TypeAlias = Literal["allowed", "asks", "blocked"]


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of a data file."""


class Tricky(Entry, frozen=True):
    """A command that is worse than it looks, and a harmless one of the same look. The file says what fields mean."""

    command: str
    why: str
    twin: str
    at_least: CommandClass = "read_only"
    refused: bool = False
    twin_quiet: bool = True
    uses: tuple[str, ...] = ()
    files: dict[str, str] = {}
    links: dict[str, str] = {}
    git_config: str = ""
    search_path: str = ""
    cwd: str = ""
    family: str = ""


class Hostile(Entry, frozen=True):
    """A command that would do harm, and what would come of it."""

    command: str
    why: str
    family: str = ""


class Ordinary(Entry, frozen=True):
    """A command of every day. `quiet`: it must run without a question in mode default; else `why` not."""

    command: str
    quiet: bool = True
    why: str = ""
    family: str = ""


class Hidden(Entry, frozen=True):
    """A command with code inside what looks like a secret. `visible` is what a question must show of it."""

    command: str
    visible: tuple[str, ...]
    why: str
    twin: str


class PathCase(Entry, frozen=True):
    """A path, what becomes of reading and of writing it, and a harmless path of the same look.

    `or_stricter`: the system decides how far it leads, so a harder answer is right too. `linux`: only there.
    """

    path: str
    read: PathOutcome
    write: PathOutcome
    why: str
    twin: str
    twin_read: PathOutcome = "allowed"
    twin_write: PathOutcome = "allowed"
    or_stricter: bool = False
    linux: bool = False
    family: str = ""


class Layout(Entry, frozen=True):
    """Folders, files and links to make, relative to a scratch folder."""

    folders: tuple[str, ...]
    files: tuple[str, ...]
    links: dict[str, str]

    def make(self, root: Path) -> None:
        for folder in self.folders:
            (root / folder).mkdir(parents=True, exist_ok=True)
        for name in self.files:
            (root / name).write_text("x\n", encoding="utf-8")
        for name, target in self.links.items():
            (root / name).symlink_to(filled(target, root=root, cwd=root / "shop"))


def tricky() -> tuple[Tricky, ...]:
    return tuple(
        msgspec.convert(case | {"family": family["name"]}, Tricky)
        for family in _read("tricky.toml")["family"]
        for case in family["cases"]
    )


def hostile() -> tuple[Hostile, ...]:
    return tuple(
        msgspec.convert(case | {"family": family["name"]}, Hostile)
        for family in _read("hostile.toml")["family"]
        for case in family["cases"]
    )


def ordinary() -> tuple[Ordinary, ...]:
    return _grouped("ordinary.toml")


def _grouped(file: str) -> tuple[Ordinary, ...]:
    found: list[Ordinary] = []
    for group in _read(file)["group"]:
        found += (Ordinary(command=command, family=group["name"]) for command in group.get("quiet", ()))
        found += (
            msgspec.convert(case | {"quiet": False, "family": group["name"]}, Ordinary)
            for case in group.get("asks", ())
        )
    return tuple(found)


def daily() -> tuple[Ordinary, ...]:
    """A day's work that only looks, as `ordinary` has it."""
    return _grouped("daily.toml")


def daily_deeds() -> tuple[str, ...]:
    """What the same day changes or runs: there a question is right."""
    return tuple(command for group in _read("daily.toml")["group"] for command in group["does"])


def hidden() -> tuple[Hidden, ...]:
    return msgspec.convert(_read("hidden.toml")["case"], tuple[Hidden, ...])


def paths() -> tuple[PathCase, ...]:
    return tuple(
        msgspec.convert(case | {"family": group["name"]}, PathCase)
        for group in _read("paths.toml")["group"]
        for case in group["cases"]
    )


def path_layout() -> Layout:
    return msgspec.convert(_read("paths.toml")["layout"], Layout)


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """A scratch workspace with a plain git repository in it, and a home."""

    cwd: str
    home: str

    @classmethod
    def make(cls, root: Path) -> "Scene":
        """What the ordinary commands find. The git folder is as plain as `git init` leaves it."""
        cwd, home = root / "home" / "project", root / "home"
        for folder in ("src", "tests", "docs", "dist", ".git/objects", ".git/refs/heads", ".git/hooks"):
            (cwd / folder).mkdir(parents=True)
        for name, text in _ORDINARY_FILES.items():
            (cwd / name).write_text(text, encoding="utf-8")
        return cls(cwd=os.path.realpath(cwd), home=os.path.realpath(home))

    @classmethod
    def make_daily(cls, root: Path) -> "Scene":
        """The same with four languages in it."""
        scene = cls.make(root)
        for name, text in DAILY_FILES.items():
            path = Path(scene.cwd, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return scene

    def add(self, case: Tricky) -> None:
        """What one case needs besides."""
        for name, text in case.files.items():
            path = Path(self.cwd, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755)
        for name, target in case.links.items():
            Path(self.cwd, name).symlink_to(self.filled(target))
        if case.git_config:
            with Path(self.cwd, ".git/config").open("a", encoding="utf-8") as config:
                config.write(case.git_config)

    def filled(self, text: str) -> str:
        return text.replace("@HOME@", self.home).replace("@CWD@", self.cwd)


DAILY_FILES: Mapping[str, str] = {
    "pyproject.toml": '[project]\nname = "app"\nversion = "1.0"\n',
    "src/app/__init__.py": "import os\n\n\ndef main():\n    pass\n",
    "tsconfig.json": "{}\n",
    "src/index.ts": "import x from './x'\n",
    "src/x.ts": "export default 1\n",
    "go.mod": "module example.org/app\n\ngo 1.21\n",
    "cmd/main.go": "package main\n\nfunc main() {}\n",
    "Cargo.toml": '[package]\nname = "app"\nversion = "0.1.0"\n',
    "src/main.rs": "fn main() {}\n",
    "src/lib.rs": "pub fn a() {}\n",
    "data.csv": "a,b\nc,d\n",
}


_ORDINARY_FILES: Mapping[str, str] = {
    "README.md": "# Shop\n\nfoo\n",
    "package.json": '{"name": "shop", "scripts": {"test": "true"}}\n',
    "Makefile": "all:\n\techo all\n",
    "src/a.py": "import os\n\ndef main():\n    return os.sep\n",
    "src/b.py": "x = 1\n",
    "tests/test_a.py": "def test_a():\n    assert True\n",
    "docs/x.md": "x\n",
    ".env.example": "KEY=\n",
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/config": "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n",
}


def filled(text: str, *, root: Path, cwd: Path) -> str:
    """A path of the corpus with its placeholders replaced."""
    return (
        text.replace("@ROOT@", str(root))
        .replace("@CWD@", str(cwd))
        .replace("@LONG@", "n" * 300)
        .replace("@DEEP@", "/".join(["deep"] * 1_000))
    )


def named(text: str, *, seen: int) -> str:
    """A readable test id: the text itself, short, with what a terminal would obey written out."""
    short = text if len(text) <= 60 else text[:57] + "..."
    return f"{seen}:{short.encode('unicode_escape').decode('ascii')}"


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((HERE / name).read_text(encoding="utf-8"))
