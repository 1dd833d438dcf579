"""Who may import whom is what `.importlinter` says, and no package can be forgotten in it.

import-linter refuses names that do not exist, so the lists of packages follow the listing of `src/bridle`.
After adding, renaming or removing a package run `python tests/test_layers.py`: it rewrites that part of it.
"""

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / ".importlinter"
MARKER = "# Written by `python tests/test_layers.py` from the listing of src/bridle; do not edit below.\n"
NOT_LAYERS = {"__init__", "__main__", "_version"}
VISIBLE_TO_CLIENTS = {"clients", "protocol", "base"}
VISIBLE_TO_CONTROL = {"control", "engine", "protocol", "base"}
PURE = ("engine", "protocol")
WIRES = ("providers.anthropic", "providers.openai_chat", "providers.openai_responses")
INPUT_OUTPUT = (
    *(
        "base.fs.files",
        "base.process.guardian",
        "base.net.http",
        "base.net.http_connection",
        "base.net.http_dial",
        "base.net.http_routes",
    ),
    "base.process.processes",
    "base.process.user_programs",
)
INPUT_OUTPUT_MODULES = ("apsw", "h11", "os", "socket", "sqlite3", "ssl", "subprocess")
LAYERS = (
    *("cli", "conformance", "app", "control", "clients", "plugin"),
    *(
        "providers",
        "tools",
        "safety",
        "sandbox",
        "recovery",
        "context",
        "mcp",
        "lsp",
        "agents",
        "commands",
        "sessions",
        "undo",
        "credentials",
    ),
    *("config", "engine", "protocol", "shell", "base"),
)


def listing(package: Path) -> list[str]:
    """The names of the layers that exist: packages and modules directly below, sorted."""
    names = {path.stem for path in package.glob("*.py")} | {
        path.parent.name for path in package.glob("*/*.py")
    }
    return sorted(names - NOT_LAYERS)


def existing(package: Path, names: Iterable[str]) -> list[str]:
    """Those dotted names below `bridle` that are a module or a package, in full."""
    return [f"bridle.{name}" for name in names if _is_there(package.joinpath(*name.split(".")))]


def _is_there(path: Path) -> bool:
    return path.with_suffix(".py").is_file() or path.joinpath("__init__.py").is_file()


def written_contracts(package: Path) -> str:
    """The contracts that name packages, for the packages there are; one without a subject is left out."""
    names = listing(package)
    sections = [
        _forbidden(
            "clients",
            "clients see protocol and base only",
            existing(package, ["clients"]),
            existing(package, [name for name in names if name not in VISIBLE_TO_CLIENTS]),
        ),
        _forbidden(
            "control",
            "control sees engine, protocol and base only",
            existing(package, ["control"]),
            existing(package, [name for name in names if name not in VISIBLE_TO_CONTROL]),
        ),
        _forbidden(
            "pure",
            "engine and protocol do no input or output themselves",
            existing(package, PURE),
            [*existing(package, INPUT_OUTPUT), *INPUT_OUTPUT_MODULES],
            # What they do import from base may well use these.
            allow_indirect_imports="True",
        ),
        _wires(existing(package, WIRES)),
    ]
    return "\n".join(filter(None, sections))


def _forbidden(contract: str, name: str, sources: list[str], forbidden: list[str], **options: str) -> str:
    if not sources or not forbidden:
        return ""
    lists = {"source_modules": sources, "forbidden_modules": forbidden}
    return _section(contract, {"name": name, "type": "forbidden", **options}, lists)


def _wires(wires: list[str]) -> str:
    if len(wires) < 2:
        return ""
    return _section(
        "wires", {"name": "wires do not know each other", "type": "independence"}, {"modules": wires}
    )


def _section(contract: str, options: Mapping[str, str], lists: Mapping[str, list[str]]) -> str:
    lines = [f"[importlinter:contract:{contract}]", *(f"{key} = {value}" for key, value in options.items())]
    for key, values in lists.items():
        lines += [f"{key} =", *(f"    {value}" for value in values)]
    return "\n".join(lines) + "\n"


def with_written_contracts(config: str, package: Path) -> str:
    """The configuration with the part below the marker made anew."""
    kept, marker, _ = config.partition(MARKER)
    assert marker, f"{CONFIG.name} lost its marker line: {MARKER}"
    return kept + marker + "\n" + written_contracts(package)


def lint(folder: Path, config: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the package found from that folder."""
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo", "--config", config]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A folder with a small `bridle` that has every layer, to be broken and linted."""
    modules = ["__init__", "_version", *(f"{layer}/__init__" for layer in LAYERS)]
    modules += [name.replace(".", "/") for name in (*WIRES, *INPUT_OUTPUT)]
    modules += ["engine/turn", "engine/bus", "clients/line", "base/ids"]
    for module in modules:
        path = tmp_path / "bridle" / f"{module}.py"
        path.parent.mkdir(exist_ok=True, parents=True)
        (path.parent / "__init__.py").touch()
        path.touch()
    return tmp_path


def lint_scratch(scratch: Path) -> subprocess.CompletedProcess[str]:
    config = scratch / ".importlinter"
    config.write_text(with_written_contracts(CONFIG.read_text("utf-8"), scratch / "bridle"), "utf-8")
    return lint(scratch, config)


def test_the_lists_of_packages_follow_the_source_tree() -> None:
    config = CONFIG.read_text("utf-8")
    assert config == with_written_contracts(config, ROOT / "src/bridle"), "run: python tests/test_layers.py"


def test_the_source_tree_keeps_every_contract() -> None:
    finished = lint(ROOT / "src", CONFIG)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_a_tree_that_only_imports_downwards_is_accepted(scratch: Path) -> None:
    (scratch / "bridle/base/ids.py").write_text("import os\n")
    (scratch / "bridle/engine/turn.py").write_text(
        "import asyncio\nimport bridle.base.ids\nimport bridle.protocol\n"
    )
    (scratch / "bridle/app").joinpath("__init__.py").write_text(
        "import bridle.clients.line\nimport bridle.control\n"
    )
    finished = lint_scratch(scratch)
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.parametrize(
    ("module", "statement", "contract"),
    [
        pytest.param("base/ids.py", "import bridle.protocol", "downwards only", id="upwards"),
        pytest.param(
            "base/ids.py", "from bridle import app", "downwards only", id="upwards through the root"
        ),
        pytest.param("tools/__init__.py", "import bridle.safety", "downwards only", id="sideways"),
        pytest.param(
            "control/__init__.py", "import bridle.clients", "downwards only", id="control and clients"
        ),
        pytest.param("utilities.py", "", "downwards only", id="module outside the layers"),
        pytest.param(
            "clients/line.py", "from bridle.engine import turn", "clients see", id="client to engine"
        ),
        pytest.param("clients/line.py", "import bridle.config", "clients see", id="client to feature"),
        pytest.param(
            "control/__init__.py", "import bridle.sessions", "control sees", id="control to feature"
        ),
        pytest.param("engine/turn.py", "import os", "engine and protocol", id="engine and os"),
        pytest.param(
            "engine/turn.py",
            "def work():\n    import socket",
            "engine and protocol",
            id="engine and a late import",
        ),
        pytest.param(
            "engine/turn.py", "import bridle.base.fs.files", "engine and protocol", id="engine and files"
        ),
        pytest.param(
            "protocol/__init__.py", "import sqlite3", "engine and protocol", id="protocol and a database"
        ),
        pytest.param(
            "providers/anthropic.py", "import bridle.providers.openai_chat", "wires", id="wire to wire"
        ),
    ],
)
def test_a_forbidden_import_is_found(scratch: Path, module: str, statement: str, contract: str) -> None:
    (scratch / "bridle" / module).write_text(statement + "\n")
    finished = lint_scratch(scratch)
    assert finished.returncode == 1, finished.stdout + finished.stderr
    broken = [line for line in finished.stdout.splitlines() if line.endswith(" BROKEN")]
    assert any(contract in line for line in broken), finished.stdout


def test_a_cycle_inside_a_package_is_found(scratch: Path) -> None:
    (scratch / "bridle/engine/turn.py").write_text("import bridle.engine.bus\n")
    (scratch / "bridle/engine/bus.py").write_text("def late():\n    import bridle.engine.turn\n")
    finished = lint_scratch(scratch)
    assert finished.returncode == 1
    assert "No cycles are allowed in bridle.engine" in finished.stdout


if __name__ == "__main__":
    CONFIG.write_text(with_written_contracts(CONFIG.read_text("utf-8"), ROOT / "src/bridle"), "utf-8")
