"""A name means one thing, modules import in one direction, and the script that looks for it can be believed."""

import importlib.util
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def script(repository: Path) -> ModuleType:
    """scripts/names.py as a module; scripts is not a package."""
    spec = importlib.util.spec_from_file_location("names_script", repository / "scripts/names.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def found(script: ModuleType, sources: Mapping[str, str], **lists: Mapping[str, str]) -> list[str]:
    """The problems of a tree of files, where nothing is on a list but what is given."""
    modules = [script.read_module(source, path) for path, source in sources.items()]
    return script.problems(modules, script.Exceptions(**lists))


def test_the_sources_have_no_problem(script: ModuleType) -> None:
    assert script.problems(script.read_sources(), script.EXCEPTIONS) == []


def test_few_names_of_modules_may_stand_twice(script: ModuleType) -> None:
    assert len(script.EXCEPTIONS.module_names) <= 8


def test_a_module_name_in_two_packages_needs_a_reason(script: ModuleType) -> None:
    sources = {"bridle/app/words.py": "", "bridle/base/words.py": "", "bridle/base/__init__.py": ""}
    assert found(script, sources) == [
        "module name words: bridle/app/words.py and bridle/base/words.py. Say in one of them what is inside"
    ]
    assert found(script, sources, module_names={"words": "a verb"}) == []


def test_a_type_name_in_three_modules_needs_a_reason(script: ModuleType) -> None:
    sources = {
        "bridle/app/a.py": "class Answer: ...",
        "bridle/app/b.py": "from typing import TypeAlias\nAnswer: TypeAlias = int",
        "bridle/app/c.py": "class Answer(Base): ...",
        "bridle/app/d.py": "def f():\n    class Answer: ...",
    }
    assert found(script, sources) == [
        "type name Answer: bridle/app/a.py, bridle/app/b.py and bridle/app/c.py. Say in each name whose it is"
    ]
    assert found(script, sources, type_names={"Answer": "one each"}) == []
    del sources["bridle/app/b.py"]
    assert found(script, sources) == []


def test_names_of_ones_own_are_nobodys_business(script: ModuleType) -> None:
    assert found(script, {f"bridle/app/{name}.py": "class _State: ..." for name in "abc"}) == []


@pytest.mark.parametrize(
    "back",
    [
        "from bridle.app.a import x",
        "from bridle.app import a",
        "import bridle.app.a",
        "from . import a",
        "from .a import x",
        "def f():\n    from bridle.app.a import x",
        "class C:\n    def f(self):\n        import bridle.app.a",
        "if TYPE_CHECKING:\n    import os\nelse:\n    from bridle.app.a import x",
        'import importlib\nimportlib.import_module("bridle.app.a")',
    ],
)
def test_modules_that_import_each_other_are_a_problem(script: ModuleType, back: str) -> None:
    sources = {"bridle/app/a.py": "from bridle.app.b import y", "bridle/app/b.py": back}
    assert found(script, sources) == [
        "import cycle: bridle.app.a > bridle.app.b > bridle.app.a. Move what both need to a module of its own"
    ]


@pytest.mark.parametrize(
    "apart",
    [
        "if TYPE_CHECKING:\n    from bridle.app.a import x",
        "if typing.TYPE_CHECKING:\n    from bridle.app.a import x",
        "from bridle.app.c import x",
        "from elsewhere.app.a import x",
    ],
)
def test_imports_for_types_close_no_cycle(script: ModuleType, apart: str) -> None:
    sources = {"bridle/app/a.py": "import bridle.app.b", "bridle/app/b.py": apart, "bridle/app/c.py": ""}
    assert found(script, sources) == []


def test_a_door_that_its_own_rooms_use_is_a_cycle(script: ModuleType) -> None:
    sources = {
        "bridle/cli/__init__.py": "def main():\n    from bridle.cli.run.run import run\ndef say(): ...",
        "bridle/cli/run/run.py": "from bridle.cli import say",
    }
    assert found(script, sources) == [
        "import cycle: bridle.cli > bridle.cli.run.run > bridle.cli. Move what both need to a module of its own"
    ]


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=24))
def test_every_cycle_told_is_one_and_without_any_the_modules_can_be_put_in_order(
    script: ModuleType, pairs: list[tuple[int, int]]
) -> None:
    graph = {str(node): {str(b) for a, b in pairs if a == node} for node in range(8)}
    told = list(script.import_cycles(graph))
    for cycle in told:
        assert cycle[0] == cycle[-1]
        assert len(cycle) > 2
        assert all(after in graph[before] for before, after in pairwise(cycle))
    without_own = {node: after - {node} for node, after in graph.items()}
    while leaves := [node for node, after in without_own.items() if not after]:
        without_own = {node: after - {*leaves} for node, after in without_own.items() if node not in leaves}
    assert bool(told) == bool(without_own)


def test_a_function_longer_than_a_hundred_lines_needs_a_reason(script: ModuleType) -> None:
    hundred = "def f():\n" + "    pass\n" * 99
    assert found(script, {"bridle/app/a.py": hundred}) == []
    longer = {"bridle/app/a.py": "class C:\n    async " + hundred.replace("\n", "\n    ") + "    pass\n"}
    assert found(script, longer) == ["function bridle/app/a.py f: 101 lines. Which two ideas are in it?"]
    assert found(script, longer, functions={"bridle/app/a.py f": "a table"}) == []


def test_what_is_on_a_list_for_nothing_is_taken_off(script: ModuleType) -> None:
    stale = {
        "module_names": {"a": "once"},
        "type_names": {"B": "once"},
        "functions": {"bridle/a.py c": "once"},
    }
    assert found(script, {"bridle/a.py": "class B: ...\ndef c(): ..."}, **stale) == [
        "a stands on the list in scripts/names.py and needs no reason: take it off",
        "B stands on the list in scripts/names.py and needs no reason: take it off",
        "bridle/a.py c stands on the list in scripts/names.py and needs no reason: take it off",
    ]
