"""`bridle plugins list` and `new`: what each plugin adds and why, and one's own in ten minutes."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cli_kit import TIMEOUT_S, Place, Ran
from plugin_kit import put_package, put_page_package

EVERYTHING = '''
import bridle
from msgspec import Struct


class Settings(Struct, frozen=True):
    town: str = "Ulm"


class Service:
    name = "ticker"

    async def run(self):
        return None

    async def stop(self):
        return None


class Plugin:
    name = "many"

    def register(self, registrar):
        registrar.read_settings(Settings)

        @bridle.tool(risk="network", mutating=True)
        async def post(words: str) -> str:
            """Posts."""
            return words

        async def answer(_query):
            return {}

        async def event(_given):
            return bridle.Notice(reason="Custom:many:done", message="Done.")

        async def layer(step, proceed):
            return await proceed(step)

        async def around(call, proceed):
            return await proceed(call)

        registrar.add_tool(post)
        registrar.add_request_layer(layer)
        registrar.add_tool_layer(around)
        registrar.add_slash("go", "goes", event)
        registrar.add_query("state", answer)
        registrar.add_command("begin", event)
        registrar.add_listener({"TurnEnded", "Notice"}, lambda _envelope: None)
        registrar.add_rule("bash", "ask", command="curl *", reason="look first")
        registrar.add_hook("SessionStart", "true")
        registrar.add_provider(wire="openai_chat", base_url="http://127.0.0.1:9/v1", local=True)
        registrar.set_transport(lambda door: None)
'''


class Person:
    """Somebody with a folder of packages beside Bridle."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.packages = place.home / "packages"

    def lists(self, *names: str) -> None:
        folder = self.place.home / ".config/bridle"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(f"[plugins]\nenabled = {json.dumps(names)}\n", encoding="utf-8")

    def bridle(self, *words: str) -> Ran:
        return self.place.bridle(*words, env={"PYTHONPATH": str(self.packages)})


@pytest.fixture
def person(place: Place) -> Person:
    return Person(place)


@pytest.mark.requirement("G10.4")
def test_everything_a_plugin_adds_is_listed_with_where_it_comes_from(person: Person) -> None:
    put_package(
        person.packages, "bridle_many", EVERYTHING, offers={"many": "bridle_many:Plugin"}, name="bridle-many"
    )
    ran = person.bridle("plugins")
    assert ran.out == "many  plugin, not listed: plugins.enabled does not name it\n", ran.err
    person.lists("many")
    ran = person.bridle("plugins", "list", "--why")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        (
            "many 1.0  plugin, used: 1 tool, 2 layers, 1 slash command, 1 query verb, 1 command, 1 listener, 1 rule, "
            "1 hook, 1 provider, 1 transport, 1 setting"
        ),
        "  from     bridle-many 1.0",
        "  because  config.toml line 2",
        "  tool           many__post  risk network",
        "  layer          around requests, in context",
        "  layer          around calls, in before_checks",
        "  slash command  /many:go  goes",
        "  query          many.state",
        "  command        many.begin",
        "  listener       Notice, TurnEnded",
        "  rule           ask bash  curl *, look first",
        "  hook           SessionStart  true",
        "  provider       many  http://127.0.0.1:9/v1",
        "  transport      /v1/plugins/many",
        "  setting        plugins.many.town",
    ]


@pytest.mark.requirement("G10.4")
def test_the_provider_of_a_plugin_is_among_the_models_and_a_bad_plugin_leaves_the_others(
    person: Person,
) -> None:
    put_package(person.packages, "bridle_many", EVERYTHING, offers={"many": "bridle_many:Plugin"})
    assert "many" not in person.bridle("models").out
    person.lists("many")
    found = json.loads(person.bridle("models", "--json").out)
    many = next(one for one in found["providers"] if one["name"] == "many")
    assert many["address"] == "http://127.0.0.1:9"
    person.lists("many", "nowhere")
    ran = person.bridle("models", "--json")
    assert ran.code == 0
    assert "nowhere" in ran.err
    assert "many" not in {one["name"] for one in json.loads(ran.out)["providers"]}


def test_what_is_installed_and_not_listed_is_not_even_imported(person: Person) -> None:
    trace = person.place.home / "imported"
    source = f"open({str(trace)!r}, 'w').close()\nclass Plugin:\n    name = 'sly'\n"
    put_package(person.packages, "bridle_sly", source, offers={"sly": "bridle_sly:Plugin"})
    assert "sly  plugin, not listed" in person.bridle("plugins", "list").out
    assert not trace.exists()


@pytest.mark.requirement("G45.21")
def test_two_packages_with_one_namespace_are_refused_by_both_names(person: Person) -> None:
    for package in ("bridle-one", "bridle-two"):
        module = package.replace("-", "_")
        put_package(
            person.packages,
            module,
            "class Plugin:\n    name = 'same'\n",
            offers={"same": f"{module}:Plugin"},
            name=package,
        )
    person.lists("same")
    ran = person.bridle("plugins", "list")
    assert ran.code == 2
    assert "bridle-one and bridle-two both offer it" in ran.err
    assert "same  plugin, not used" in ran.out
    assert person.bridle("run", "-m", "demo", "hi").code == 2


@pytest.mark.requirement("G25.5")
@pytest.mark.parametrize("name", ["x_mine", "_mine", "profiles"])
def test_reserved_names_are_nobodys(person: Person, name: str) -> None:
    put_package(
        person.packages,
        "bridle_odd",
        f"class Plugin:\n    name = '{name}'\n",
        offers={name: "bridle_odd:Plugin"},
    )
    person.lists(name)
    ran = person.bridle("run", "-m", "demo", "hi")
    assert ran.code == 2
    assert f'the plugin "{name}" cannot be used' in ran.err
    assert person.bridle("plugins", "new", name).code == 2


@pytest.mark.full
def test_a_plugin_of_the_template_is_built_tested_and_used_as_it_stands(
    person: Person, tmp_path: Path
) -> None:
    place = person.place
    made = place.bridle("plugins", "new", "first_one", "plug")
    assert made.code == 0, made.err
    folder = place.work / "plug"
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(folder)],
        cwd=folder, env=place.environment(PYTHONPATH=str(folder)), capture_output=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout.decode() + tested.stderr.decode()
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    put_package(
        person.packages,
        "bridle_first_one",
        (folder / "bridle_first_one.py").read_text(),
        offers=project["entry-points"]["bridle.plugins"],
        name=project["name"],
    )
    person.lists("first_one")
    listed = person.bridle("plugins", "list", "--why").out
    assert "first_one__greet" in listed
    assert "/first_one:hello" in listed
    assert "plugins.first_one.word" in listed
    model = place.script('call first_one__greet {"name": "Ada"}\n---\nsay Done.\n')
    assert person.bridle("run", "-m", model, "--allow", "first_one__greet", "go").code == 0
    assert place.bridle("plugins", "new", "first_one", "plug").code == 2, "nothing is written over"
    assert place.bridle("plugins", "new", "Not a name").code == 2


def test_the_plugin_of_the_page_is_listed_as_it_stands(person: Person, repository: Path) -> None:
    put_page_package(person.packages, repository / "docs/extending.md")
    person.lists("weather")
    assert (
        "weather 1.0  plugin, used: 2 tools, 1 layer, 1 slash command" in person.bridle("plugins", "list").out
    )
