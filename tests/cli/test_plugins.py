"""Plugins as people use them: a package beside Bridle, listed in one's own settings. Nothing of ours is touched."""

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from cli_kit import TIMEOUT_S, Place, Ran
from cli_terminal import sitting
from plugin_kit import page_files, put_package, put_page_package

OPEN = """
class Plugin:
    name = "{name}"
    def register(self, registrar):
        {body}
"""


class Plugged:
    """A person with a folder of packages, and settings of their own."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.packages = place.home / "packages"

    def settings(self, text: str) -> None:
        folder = self.place.home / ".config/bridle"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(text, encoding="utf-8")

    def offers(self, name: str, body: str = "pass", *, module: str = "", called: str = "") -> None:
        """A package that offers a plugin `name`, which calls itself `called` where that is given."""
        module = module or f"package_{name}"
        source = OPEN.format(name=called or name, body=body)
        put_package(self.packages, module, source, offers={name: f"{module}:Plugin"})

    def enables(self, *names: str) -> None:
        self.settings(f"[plugins]\nenabled = {json.dumps(names)}\n")

    def bridle(self, *words: str) -> Ran:
        return self.place.bridle(*words, env={"PYTHONPATH": str(self.packages)})


@pytest.fixture
def plugged(place: Place) -> Plugged:
    return Plugged(place)


@pytest.fixture
def weather(plugged: Plugged, repository: Path) -> dict[str, str]:
    """The plugin of the page, as its reader would have it."""
    files = put_page_package(plugged.packages, repository / "docs/extending.md")
    plugged.settings(files["config.toml"])
    return files


@pytest.mark.requirement("G1.5", "G10.4", "G16.12")
def test_the_plugin_of_the_page_works_as_it_stands(
    place: Place, plugged: Plugged, weather: dict[str, str]
) -> None:
    plugged.settings(weather["config.toml"] + f'diary = "{place.work}/diary.txt"\n')
    model = place.script(
        'call weather__forecast {}\n---\ncall weather__report {"words": "a rainbow"}\n---\nsay Done.\n'
    )
    ran = plugged.bridle(
        "run", "-m", model, "--allow", "weather__forecast", "--allow", "weather__report", "--json", "go"
    )
    assert ran.code == 0, ran.err
    events = [envelope.event for envelope in place.events(place.only_session())]
    results = [(event.outcome, event.content) for event in events if type(event).__name__ == "ToolResult"]
    assert results == [("ok", "Sun over Bonn"), ("ok", "Noted.")], "the layer took the town of the settings"
    (own,) = [event for event in events if type(event).__name__ == "CustomEvent"]
    assert (own.namespace, own.name, own.payload) == ("weather", "reported", {"words": "a rainbow"})
    assert (place.work / "diary.txt").read_text() == "a rainbow\n"


def test_the_hook_of_the_page_stops_a_call_before_anybody_is_asked(
    place: Place, plugged: Plugged, weather: dict[str, str]
) -> None:
    fetch = 'call web_fetch {"url": "https://weather.example/ulm"}\n---\nsay Done.\n'
    assert plugged.bridle("run", "-m", place.script(fetch), "go").code == 0
    events = [envelope.event for envelope in place.events(place.only_session())]
    (result,) = [event for event in events if type(event).__name__ == "ToolResult"]
    assert (result.outcome, result.reason) == ("blocked", "HookBlocked")
    assert "weather__forecast knows it" in result.content
    assert "PermissionDecided" not in {type(event).__name__ for event in events}


def test_the_package_of_the_page_can_be_built_with_all_its_files_in_one_folder(
    tmp_path: Path, repository: Path
) -> None:
    files = page_files(repository / "docs/extending.md")
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    backend = tomllib.loads(files["pyproject.toml"])["build-system"]["build-backend"]
    build = f"import {backend} as backend; print(backend.build_wheel('.'))"
    built = subprocess.run(
        [sys.executable, "-c", build], cwd=tmp_path, capture_output=True, timeout=TIMEOUT_S, check=True
    )
    with zipfile.ZipFile(tmp_path / built.stdout.decode().split()[-1]) as wheel:
        assert wheel.read("bridle_weather.py").decode() == files["bridle_weather.py"]
        assert b"weather = bridle_weather:Weather" in wheel.read(
            "bridle_weather-1.0.dist-info/entry_points.txt"
        )


def test_a_value_that_a_plugin_cannot_use_is_not_written(
    place: Place, plugged: Plugged, weather: dict[str, str]
) -> None:
    def says(key: str, value: str) -> tuple[int, str]:
        ran = plugged.bridle("config", "set", key, value)
        return ran.code, ran.err

    assert says("plugins.weather.town", "3") == (
        2,
        "bridle: plugins.weather.town = 3 is not text\n",
    )
    assert says("plugins.weather.twon", "Ulm") == (
        2,
        'bridle: there is no setting "plugins.weather.twon" (nearest: plugins.weather.town)\n',
    )
    code, said = says("plugins.enabled", '["nosuch"]')
    assert (code, "it is not installed" in said) == (2, True)
    assert (place.home / ".config/bridle/config.toml").read_text() == weather["config.toml"]
    assert says("plugins.weather.town", "Ulm") == (0, "")


def test_without_being_listed_nothing_of_an_installed_plugin_runs(
    place: Place, plugged: Plugged, weather: dict[str, str]
) -> None:
    plugged.settings("")
    ran = plugged.bridle("run", "-m", place.script("call weather__forecast {}\n---\nsay Done.\n"), "go")
    assert ran.code == 0
    events = [envelope.event for envelope in place.events(place.only_session())]
    (result,) = [event for event in events if type(event).__name__ == "ToolResult"]
    assert (result.outcome, result.reason) == ("error", "UnknownTool")


def test_a_tool_of_a_plugin_is_asked_about_like_any_other(
    place: Place, plugged: Plugged, weather: dict[str, str]
) -> None:
    ran = plugged.bridle("run", "-m", place.script("call weather__forecast {}\n---\nsay Done.\n"), "go")
    events = [envelope.event for envelope in place.events(place.only_session())]
    decided = [event for event in events if type(event).__name__ == "PermissionDecided"]
    explained = plugged.bridle("permissions", "explain", "weather__forecast", '{"place": "Ulm"}', "--json")
    assert [event.tool for event in decided] == ["weather__forecast"], ran.err
    assert explained.code == 0
    assert explained.result["verdict"] == decided[0].verdict


@pytest.mark.parametrize("file", ["config.toml", "config.local.toml"])
def test_a_workspace_lists_no_plugin_and_sets_nothing_of_one(
    place: Place, plugged: Plugged, weather: dict[str, str], file: str
) -> None:
    plugged.settings("")
    (place.work / ".bridle").mkdir()
    (place.work / ".bridle" / file).write_text(weather["config.toml"])
    assert plugged.bridle("trust", "--all", "--yes").code in {0, 2}
    ran = plugged.bridle("run", "-m", place.script("call weather__forecast {}\n---\nsay Done.\n"), "go")
    assert (
        f".bridle/{file}: ignored plugins.enabled, plugins.weather.town (only your own config may set these)."
        in ran.err
    )
    events = [envelope.event for envelope in place.events(place.only_session())]
    (result,) = [event for event in events if type(event).__name__ == "ToolResult"]
    assert result.reason == "UnknownTool"


def test_a_profile_and_a_flag_may_list_one(place: Place, plugged: Plugged, weather: dict[str, str]) -> None:
    plugged.settings("")
    (place.work / "sunny.toml").write_text(weather["config.toml"])
    model = place.script("call weather__forecast {}\n---\nsay Done.\n")
    for words in (("--profile", "./sunny.toml"), ("--set", 'plugins.enabled=["weather"]')):
        ran = plugged.bridle("run", "-m", model, "--allow", "weather__forecast", *words, "--json", "go")
        assert (ran.code, ran.story[1].split()[:2]) == (0, ["ran", "weather__forecast"])


def test_a_person_finds_and_runs_its_slash_command(
    place: Place, plugged: Plugged, weather: dict[str, str]
) -> None:
    with sitting(place, "-m", "demo", PYTHONPATH=str(plugged.packages)) as person:
        person.sees("Type what you want.")
        person.types("/help\r")
        person.sees("/weather:today", "the weather here")
        person.types("/weather:tod\t Ulm\r")
        person.sees("Sun over Ulm.")
        person.types("\x03\x03")
        assert person.ends() == 0


# What cannot be used


BAD = 'config.toml line 2: the plugin "{name}" cannot be used: '


def refused(plugged: Plugged, name: str) -> str:
    """What a person is told behind the place; nothing begins, and nobody sees our code."""
    ran = plugged.bridle("run", "-m", "demo", "hi")
    assert ran.code == 2
    assert ran.out == ""
    assert plugged.place.sessions() == []
    (line,) = ran.story
    opening = BAD.format(name=name)
    assert line.startswith(opening)
    return line.removeprefix(opening)


def test_a_plugin_that_is_not_installed_is_named(plugged: Plugged) -> None:
    plugged.offers("rain")
    plugged.enables("wind")
    assert refused(plugged, "wind") == (
        "it is not installed (installed: rain). Install it, or take it out of plugins.enabled."
    )


def test_one_that_cannot_be_imported_is_named(plugged: Plugged) -> None:
    put_package(plugged.packages, "broken", "import no_such_module\n", offers={"rain": "broken:Plugin"})
    plugged.enables("rain")
    assert (
        refused(plugged, "rain")
        == "importing it failed (ModuleNotFoundError: No module named 'no_such_module')."
    )


def test_one_whose_package_names_no_module_is_named(plugged: Plugged) -> None:
    put_package(plugged.packages, "odd", "", offers={"rain": "!"})
    plugged.enables("rain")
    assert refused(plugged, "rain").startswith("importing it failed (")


def test_one_that_wants_to_leave_while_it_is_imported_is_named(plugged: Plugged) -> None:
    put_package(plugged.packages, "leaving", "raise SystemExit(0)\n", offers={"rain": "leaving:Plugin"})
    plugged.enables("rain")
    assert refused(plugged, "rain") == "importing it failed (SystemExit: 0)."


def test_one_that_fails_while_it_registers_is_named_and_no_other_is_used(plugged: Plugged) -> None:
    plugged.offers("wind", f"open({str(plugged.place.work / 'began')!r}, 'w').close()")
    plugged.offers("rain", "raise ValueError('no umbrella\\nsecond line')")
    plugged.enables("wind", "rain")
    assert refused(plugged, "rain") == "its register failed (ValueError: no umbrella)."


def test_a_workspace_cannot_bring_a_plugin_by_lying_about_what_is_installed(plugged: Plugged) -> None:
    """Python itself may look for packages in the working folder first."""
    source = f"open({str(plugged.place.home / 'was_here')!r}, 'w').close()\n" + OPEN.format(
        name="rain", body="pass"
    )
    put_package(plugged.place.work, "evil", source, offers={"rain": "evil:Plugin"})
    plugged.enables("rain")
    assert refused(plugged, "rain").startswith("it is not installed (installed: none).")
    assert not (plugged.place.home / "was_here").exists()


def shadowed(plugged: Plugged) -> Path:
    """A plugin, and a file of its name in the workspace. Returns what is there once that was run."""
    marker = plugged.place.home / "was_here"
    plugged.offers("rain", module="package_rain")
    source = f"open({str(marker)!r}, 'w').close()\n" + OPEN.format(name="rain", body="pass")
    (plugged.place.work / "package_rain.py").write_text(source)
    plugged.enables("rain")
    return marker


def test_a_workspace_cannot_put_its_code_in_the_place_of_a_plugins(plugged: Plugged) -> None:
    marker = shadowed(plugged)
    assert plugged.bridle("run", "-m", "demo", "hi").code == 0
    assert not marker.exists()


def test_a_program_that_looks_into_its_working_folder_gets_no_plugin_from_there(plugged: Plugged) -> None:
    marker = shadowed(plugged)
    program = "import sys; from bridle.cli.command_line import run_verb; sys.exit(run_verb(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, "run", "-m", "demo", "hi"],
        capture_output=True,
        cwd=plugged.place.work,
        env=plugged.place.environment(PYTHONPATH=str(plugged.packages)),
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert b"its code would come from the working folder, " in done.stderr
    assert not marker.exists()


@pytest.mark.requirement("G10.4", "G45.21")
def test_two_packages_that_offer_one_name_are_refused(plugged: Plugged) -> None:
    plugged.offers("rain", module="package_one")
    plugged.offers("rain", module="package_two")
    plugged.enables("rain")
    assert refused(plugged, "rain") == "package_one and package_two both offer it. Uninstall one."


@pytest.mark.requirement("G45.21")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("git", "the namespace is Bridle's own."),
        ("mcp", "the namespace is Bridle's own."),
        ("my__rain", "its name is small letters, digits and single underscores, 24 at most."),
        ("Rain", "its name is small letters, digits and single underscores, 24 at most."),
    ],
)
def test_a_namespace_of_ours_and_a_name_that_is_none_are_refused(
    plugged: Plugged, name: str, problem: str
) -> None:
    plugged.offers(name)
    plugged.enables(name)
    assert refused(plugged, name) == problem


def test_one_that_calls_itself_something_else_is_refused(plugged: Plugged) -> None:
    plugged.offers("rain", called="sun")
    plugged.enables("rain")
    assert refused(plugged, "rain") == 'it calls itself "sun".'


@pytest.mark.requirement("G45.21")
def test_a_name_a_plugin_uses_twice_is_refused(plugged: Plugged) -> None:
    twice = "[registrar.add_slash('now', 'now', None) for _ in range(2)]"
    plugged.offers("rain", twice)
    plugged.enables("rain")
    ran = plugged.bridle("run", "-m", "demo", "hi")
    assert (ran.code, plugged.place.sessions()) == (2, [])
    (line,) = ran.story
    assert line.startswith('rain cannot be used: the slash command "rain:now" is there already, from rain.')


@pytest.mark.parametrize(
    "body",
    [
        "registrar.add_rule('bash', 'allow')",
        "import bridle; registrar.add_slash('with space', 'x', None)",
    ],
)
def test_what_a_plugin_may_not_add_keeps_it_out(plugged: Plugged, body: str) -> None:
    plugged.offers("rain", body)
    plugged.enables("rain")
    assert refused(plugged, "rain").startswith("its register failed (ValueError: ")


# Settings


def test_a_wrong_value_of_a_plugins_setting_is_named_with_file_and_line(
    plugged: Plugged, weather: dict[str, str]
) -> None:
    plugged.settings(weather["config.toml"].replace('"Bonn"', "3"))
    sentence = "config.toml line 5: plugins.weather.town = 3 is not text."
    ran = plugged.bridle("run", "-m", "demo", "hi")
    assert (ran.code, ran.story, plugged.place.sessions()) == (2, [sentence], [])
    checked = plugged.bridle("config", "validate")
    assert (checked.code, checked.out.splitlines()[0]) == (2, f"error  {sentence}")


def test_a_key_the_plugin_does_not_know_is_named_and_the_nearest_one(
    plugged: Plugged, weather: dict[str, str]
) -> None:
    plugged.settings(weather["config.toml"].replace("town", "twon"))
    sentence = (
        'config.toml line 5: there is no setting "plugins.weather.twon" (nearest: plugins.weather.town).'
    )
    ran = plugged.bridle("run", "-m", "demo", "hi")
    assert ran.code == 0
    assert sentence in ran.err
    checked = plugged.bridle("config", "validate")
    assert (checked.code, checked.out.splitlines()[0]) == (0, f"warn   {sentence}")


def test_settings_of_a_plugin_that_nobody_lists_are_told(plugged: Plugged, weather: dict[str, str]) -> None:
    plugged.settings('[plugins.wether]\ntown = "Bonn"\n')
    sentence = 'config.toml line 1: plugins.wether is used by nobody: "wether" is not in plugins.enabled.'
    assert sentence in plugged.bridle("run", "-m", "demo", "hi").err
    assert plugged.bridle("config", "validate").out.splitlines()[0] == f"warn   {sentence}"


def test_what_cannot_be_used_is_found_by_validating(plugged: Plugged) -> None:
    plugged.enables("wind")
    checked = plugged.bridle("config", "validate")
    assert checked.code == 2
    assert BAD.format(name="wind") in checked.out


def test_settings_of_plugins_are_shown_with_their_origin(plugged: Plugged, weather: dict[str, str]) -> None:
    shown = plugged.bridle("config", "show", "--origin").out
    assert 'plugins.enabled = ["weather"]' in shown
    (line,) = [line for line in shown.splitlines() if line.startswith("plugins.weather.town")]
    assert line.split() == ["plugins.weather.town", "=", '"Bonn"', "#", "user", "config,", "line", "5"]
    assert plugged.bridle("config", "set", "plugins.weather.town", "Ulm").code == 0
    assert plugged.bridle("config", "get", "plugins.weather.town").out == "Ulm\n"


def test_a_rule_about_a_tool_of_a_plugin_is_about_something(
    plugged: Plugged, weather: dict[str, str]
) -> None:
    plugged.settings('disallowed_tools = ["weather__forecast"]\n' + weather["config.toml"])
    assert plugged.bridle("config", "validate").out.startswith("Nothing is wrong.")
    assert "there is no tool" not in plugged.bridle("run", "-m", "demo", "hi").err


# Looking


def test_the_doctor_names_each_plugin_its_version_and_what_it_adds(
    plugged: Plugged, weather: dict[str, str]
) -> None:
    out = plugged.bridle("doctor", "--offline").out
    (line,) = [line for line in out.splitlines() if line.split()[1:2] == ["plugin"]]
    assert line.split(maxsplit=2)[0::2] == [
        "ok",
        "weather 1.0: 2 tools, 1 layer, 1 slash command, 1 listener, 1 rule, 1 hook",
    ]


def test_the_doctor_says_which_plugin_cannot_be_used(plugged: Plugged) -> None:
    plugged.enables("wind")
    ran = plugged.bridle("doctor", "--offline")
    (line,) = [line for line in ran.out.splitlines() if line.split()[1:2] == ["config"]]
    assert (ran.code, line.split()[0]) == (1, "fail")
    assert BAD.format(name="wind") in line


def test_the_tools_of_plugins_are_listed_with_where_they_come_from(
    plugged: Plugged, weather: dict[str, str]
) -> None:
    listed = json.loads(plugged.bridle("tools", "--json").out)
    assert [(row["name"], row["source"]) for row in listed[-2:]] == [
        ("weather__forecast", "plugin weather"),
        ("weather__report", "plugin weather"),
    ]


# The rest of the page


def run_page_file(place: Place, plugged: Plugged, name: str, text: str, *words: str) -> str:
    (place.work / name).write_text(text)
    done = subprocess.run(
        [sys.executable, *words],
        input=b"y\n",
        cwd=place.work,
        env=place.environment(PYTHONPATH=str(plugged.packages), BRIDLE_MODEL="demo:it.script"),
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stderr.decode()) == (0, ""), done.stdout.decode()
    return done.stdout.decode()


def test_the_client_of_the_page_asks_its_person(
    place: Place, plugged: Plugged, weather: dict[str, str]
) -> None:
    plugged.settings('mode = "strict"\n' + weather["config.toml"])
    place.script("call weather__forecast {}\n---\nsay Done.\n")
    out = run_page_file(place, plugged, "client.py", weather["client.py"], "client.py", "go")
    assert out == "weather__forecast? (y/n) [scripted] Done.\n"


def test_the_test_of_the_page_passes(place: Place, plugged: Plugged, weather: dict[str, str]) -> None:
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto")
    words = (*words, "-W", "ignore", "test_weather.py")
    assert "1 passed" in run_page_file(place, plugged, "test_weather.py", weather["test_weather.py"], *words)


@pytest.mark.parametrize(
    "call", [("ls", "{}"), ("bash", '{"command": "secret-tool lookup a b"}')], ids=["decided", "refused"]
)
def test_explain_says_that_layers_of_plugins_are_not_run(plugged: Plugged, call: tuple[str, str]) -> None:
    body = "registrar.add_tool_layer(lambda call, proceed: 1 / 0)"
    plugged.offers("rain", body)
    plugged.enables("rain")
    said = plugged.bridle("permissions", "explain", *call)
    assert said.code == 0, said.err
    assert "the plugin rain has a layer around calls, which is not run here" in said.out
