"""`bridle plugins new`: write a working plugin package with a test."""

from __future__ import annotations

import os

from bridle.base.text.terminal_text import visible_line
from bridle.cli.console import say
from bridle.config.problems import shown
from bridle.plugin.loading import name_problem
from bridle.protocol.errors import BridleError, UsageError

FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "bridle-{dashed}"
version = "0.1"

[project.entry-points."bridle.plugins"]
{name} = "bridle_{name}:Plugin"

[tool.pytest.ini_options]
asyncio_mode = "auto"
""",
    "bridle_{name}.py": '''\
"""A plugin for Bridle. Everything it adds is known by its name: {name}__greet, /{name}:hello, plugins.{name}.word."""

import bridle
from msgspec import Struct


class Settings(Struct, frozen=True):
    """What people write into [plugins.{name}]."""

    word: str = "Hello"


def greet_tool(settings: Settings) -> bridle.Tool:
    @bridle.tool(risk="read", mutating=False)
    async def greet(name: str) -> str:
        """Greets somebody by name."""
        return f"{{settings.word}}, {{name}}!"

    return greet


class Plugin:
    name = "{name}"

    def register(self, registrar: bridle.Registrar) -> None:
        settings = registrar.read_settings(Settings)

        async def hello(words: str) -> bridle.Notice:
            return bridle.Notice(reason="Custom:{name}:hello", message=f"{{settings.word}}, {{words or 'you'}}!")

        registrar.add_tool(greet_tool(settings))
        registrar.add_slash("hello", "says hello: /{name}:hello [name]", hello)
''',
    "test_{name}.py": """\
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, outcomes
from bridle.providers.script import call, say

from bridle_{name} import Plugin


async def test_the_model_can_greet():
    model = scripted(call("{name}__greet", name="Ada"), say("Done."))
    async with harness(model, plugins=[Plugin()], allow=("{name}__greet",)) as session:
        assert outcomes(await session.ask("Greet Ada.")) == ["ok"]
""",
}


def new_plugin(name: str, folder: str) -> int:
    """Writes the files into a folder that is not there yet."""
    if problem := name_problem(name):
        raise UsageError(f'"{shown(name)}" cannot name a plugin: {problem}')
    try:
        os.makedirs(folder)
        for file, text in FILES.items():
            path = os.path.join(folder, file.format(name=name))
            with open(path, "x", encoding="utf-8") as written:
                written.write(text.format(name=name, dashed=name.replace("_", "-")))
    except FileExistsError:
        raise UsageError(f"{shown(folder)} is there already; name another folder") from None
    except OSError as problem:
        raise BridleError("FileUnwritable", path=folder, problem=problem.strerror) from None
    place = visible_line(folder)
    return say(
        f"A plugin is in {place}. Install it for the Python that runs Bridle: pip install {place}\n"
        f'Then list it in your config.toml: plugins.enabled = ["{name}"]   and look: bridle plugins list --why\n'
    )
