"""Nothing exists that nobody uses, and the script that looks for it can be believed."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def script(repository: Path) -> ModuleType:
    """scripts/unused.py as a module; scripts is not a package."""
    spec = importlib.util.spec_from_file_location("unused_script", repository / "scripts/unused.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def found(script: ModuleType, kind: str, name: str, source: str, *, awaits: str = "", path: str = "app/a.py"):
    return script.problems([script.Word(kind, name, awaits)], [script.read_module(source, path)])


def test_every_setting_reason_port_and_kind_is_used_or_on_a_list(script: ModuleType) -> None:
    assert script.problems(script.words(), script.read_sources()) == []


@pytest.mark.parametrize(
    ("kind", "name", "uses", "does_not"),
    [
        ("setting", "ui.theme", 'tiers.get("ui.theme")', '"""Reads ui.theme."""\ntheme = tiers.get("ui")'),
        (
            "setting",
            "context.max_tokens",
            'tiers.section("context", ContextSettings).max_tokens',
            'tiers.section("limits", ContextSettings).max_tokens',
        ),
        ("setting", "servers.*.url", 'tiers.get("servers")["a"].url', "a.url"),
        ("setting", "hooks[].event", 'tiers.written("hooks"), value["event"]', 'tiers.written("hooks")'),
        ("reason", "NoModel", 'raise CommandRefused("NoModel")', "# NoModel\nraise NoModel"),
        ("event", "Notice", 'emit(Notice(reason="x"))', "match event:\n    case Notice():\n        pass"),
        ("command", "SetModel", "match it:\n    case SetModel():\n        pass", "send(SetModel())"),
        ("command", "SetModel", "isinstance(it, SetMode | SetModel)", "isinstance(it, SetMode)"),
        ("port", "engine/ports.py.Room", "def wait(room: Room): ...", "class Room(Protocol): ..."),
    ],
)
def test_a_word_is_used_by_whoever_does_something_with_it(
    script: ModuleType, kind: str, name: str, uses: str, does_not: str
) -> None:
    assert found(script, kind, name, uses) == []
    (problem,) = found(script, kind, name, does_not)
    assert problem == f"{kind} {name} is used by nobody: use it, remove it, or list what will use it"
    assert found(script, kind, name, does_not, awaits="plugins") == []


def test_what_is_used_is_on_no_list(script: ModuleType) -> None:
    (problem,) = found(script, "event", "Notice", "emit(Notice())", awaits="plugins")
    assert problem == 'event Notice is used: take it off the list that waits for "plugins"'


@pytest.mark.parametrize("path", ["conformance/a.py"])
def test_a_fake_emits_nothing(script: ModuleType, path: str) -> None:
    assert found(script, "event", "Notice", "emit(Notice())", path=path)


@pytest.mark.parametrize("path", ["clients/a.py", "conformance/a.py"])
def test_a_client_carries_nothing_out(script: ModuleType, path: str) -> None:
    assert found(script, "command", "Undo", "isinstance(it, Undo)", path=path)
