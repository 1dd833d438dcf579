"""Bundles as people have them: brought from a folder or a repository, agreed to, pinned, and taken away again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from bridle.app.user.setting_sections import TABLE
from bridle.config.bundles import bundle_sources
from bridle.protocol.events import AnyEvent, ContextAdded, InputAccepted, PrefixSet, ToolResult, text_of
from cli_kit import Place
from cli_terminal import sitting
from mcp_kit import PROGRAM
from plugin_kit import put_package

MANIFEST = """
name = "tidy"
version = "1.2"
about = "Keeps files tidy."
[[hooks]]
event = "PreToolUse"
tool = "write_file"
command = ["${BUNDLE}/bin/check"]
[mcp_servers.files]
command = ["${BUNDLE}/bin/server", "--fast"]
env = { LEVEL = "3" }
"""
ASKED = "Enter not now ›"
STOP = "#!/bin/sh\ncat > /dev/null\necho tidy says no >&2\nexit 2\n"


class Bundle:
    """A folder of files that somebody offers as a bundle."""

    def __init__(self, folder: Path, files: Mapping[str, str], programs: tuple[str, ...] = ()) -> None:
        self.folder = folder
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755 if name in programs else 0o644)

    def __str__(self) -> str:
        return str(self.folder)


@pytest.fixture
def tidy(tmp_path: Path) -> Bundle:
    files = {
        "bridle-bundle.toml": MANIFEST,
        "bin/check": STOP,
        "bin/server": "#!/bin/sh\n",
        "skills/sweep/SKILL.md": "---\nname: sweep\ndescription: Sweeps.\n---\nSweep.\n",
        "commands/dust.md": "Dust $ARGUMENTS.\n",
        "agents/maid.md": "---\nname: maid\ndescription: Tidies.\n---\nTidy.\n",
        "code.py": "raise SystemExit('a bundle is never imported')\n",
    }
    return Bundle(tmp_path / "tidy", files, ("bin/check", "bin/server"))


def digest_of(place: Place, source: object, *more: str) -> str:
    """What the content is known by, as it is told where nobody sits."""
    ran = place.bridle("plugins", "add", str(source), *more)
    assert ran.code == 3, ran.err
    found = re.search(r"--digest ([0-9a-f]{64})", ran.err)
    assert found is not None
    return found[1]


def add(place: Place, source: object, *more: str) -> None:
    ran = place.bridle("plugins", "add", str(source), *more, "--digest", digest_of(place, source, *more))
    assert ran.code == 0, ran.err


def installed(place: Place) -> list[Path]:
    folder = place.home / ".local/share/bridle/bundles"
    return sorted(path for path in folder.glob("*") if path.is_dir())


def test_nobody_but_a_person_adds_a_bundle_and_everything_it_would_add_is_shown(
    place: Place, tidy: Bundle
) -> None:
    for words in ((), ("--digest", "0" * 64)):
        ran = place.bridle("plugins", "add", str(tidy), *words)
        assert (ran.code, installed(place)) == (3, []), ran.err
    shown = place.bridle("plugins", "add", str(tidy)).out
    for words in (
        "Keeps files tidy.", "7 files, sha256 ", "hook        PreToolUse write_file  ${BUNDLE}/bin/check",
        "MCP server  tidy_files  ${BUNDLE}/bin/server --fast (variables LEVEL=3)",
        "skills      skills  as /skills:tidy:NAME",
        "commands    commands  as /tidy:NAME", "agent       agents/maid.md  as tidy__maid",
        "program     bin/check", "program     bin/server",
    ):  # fmt: skip
        assert words in shown, words
    assert place.bridle("hooks", "list").out.startswith("No hooks.")


def test_a_person_at_a_terminal_agrees_after_reading_all_of_it(place: Place, tidy: Bundle) -> None:
    with sitting(place, "plugins", "add", str(tidy)) as person:
        person.sees("Bundle tidy 1.2 is new to you. It would add:", "v to read all", ASKED)
        person.types("u\r")
        person.sees("u works when all of it was shown: v")
        person.waits(lambda: person.text.count(ASKED) == 2, "the question again")
        person.types("v\r")
        person.sees("Hooks and servers run by themselves")
        person.waits(lambda: person.text.count(ASKED) == 3, "the question again")
        person.types("u\r")
        person.sees("Bundle tidy is added.")
        assert person.ends() == 0
    with sitting(place, "plugins", "remove", "tidy") as person:
        assert person.ends() == 0
    with sitting(place, "plugins", "add", str(tidy)) as person:
        person.sees(ASKED)
        person.types("\r")
        person.sees("Nothing was added.")
        assert person.ends() == 3
    assert installed(place) == []


@pytest.mark.requirement("G10.4")
def test_what_a_bundle_adds_counts_under_its_name_and_is_told_with_where_it_comes_from(
    place: Place, tidy: Bundle
) -> None:
    add(place, tidy)
    listed = place.bridle("plugins", "list", "--why").out.splitlines()
    assert listed[0] == (
        "tidy 1.2  bundle, used: 1 hook, 1 MCP server, 1 folder of skills, 1 folder of commands, 1 agent"
    )
    assert listed[1] == f"  from     {tidy}"
    assert listed[2].startswith("  because  you agreed to sha256 ")
    (folder,) = installed(place)
    hooks = json.loads(place.bridle("hooks", "list", "--json").out)
    assert [(hook["event"], hook["where"]) for hook in hooks] == [("PreToolUse", "bundle tidy")]
    servers = json.loads(place.bridle("mcp", "list", "--json").out)
    assert [(one["name"], one["launch"], one["files"]) for one in servers] == [
        ("tidy_files", f"{folder}/bin/server --fast", ["bundle tidy"])
    ]
    agents = json.loads(place.bridle("agents", "--json").out)["agents"]
    assert [(one["name"], one["source"]) for one in agents][-1] == ("tidy__maid", "bundle")
    assert oct(folder.stat().st_mode & 0o777) == "0o700"


def test_a_hook_of_a_bundle_stops_a_call(place: Place, tidy: Bundle) -> None:
    (tidy.folder / "bridle-bundle.toml").write_text(MANIFEST.partition("[mcp_servers")[0])
    add(place, tidy)
    model = place.script('call write_file {"path": "x.txt", "content": "x"}\n---\nsay Done.\n')
    assert place.bridle("run", "-y", "-m", model, "go").code == 0
    events = [envelope.event for envelope in place.events(place.only_session())]
    (result,) = [event for event in events if isinstance(event, ToolResult)]
    assert (result.outcome, result.reason) == ("blocked", "HookBlocked")
    assert "tidy says no" in result.content


SERVER = f"""
[mcp_servers.files]
command = ["{sys.executable}", "-S", "-E", "${{BUNDLE}}/bin/server.py", '{{"named": [{{"name": "echo"}}]}}']
"""
SWEEP = "---\nname: sweep\ndescription: Sweeps.\n---\nSweep from the left.\nThen run broom.sh\n"
USED = {
    "bridle-bundle.toml": MANIFEST.partition("[mcp_servers")[0] + SERVER,
    "bin/check": STOP,
    "bin/server.py": Path(PROGRAM).read_text(),
    "skills/sweep/SKILL.md": SWEEP,
    "skills/sweep/scripts/broom.sh": "echo swept by $0\n",
    "commands/dust.md": "Dust $ARGUMENTS.\n",
}


@pytest.fixture(params=["folder", "repository"])
def added(request: pytest.FixtureRequest, place: Place, tmp_path: Path) -> str:
    """A bundle with a skill, a command, a hook and a server, brought here in one of the two ways."""
    made = Bundle(tmp_path / "tidy", USED, ("bin/check",))
    source = str(made)
    if request.param == "repository":
        source = f"file://{made}"
        for words in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "one")):
            git(made.folder, place.home, *words)
    add(place, source)
    return source


def git(folder: Path, home: Path, *words: str) -> None:
    env = {
        "PATH": os.environ.get("PATH", os.defpath), "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@example.invalid",
        "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x@example.invalid",
    }  # fmt: skip
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, timeout=30, env=env)


def events_of(place: Place, name: str) -> list[AnyEvent]:
    """What the one session of this name came to."""
    found = json.loads(place.bridle("sessions", "list", "--json").out)
    (session,) = [one["id"] for one in found if one["title"] == name]
    return [envelope.event for envelope in place.events(session)]


@pytest.mark.requirement("G10.4")
@pytest.mark.usefixtures("added")
def test_everything_in_a_bundle_is_used_in_a_session_and_gone_with_it(place: Place) -> None:
    (folder,) = installed(place)
    script = place.script(
        'call skill {"name": "tidy:sweep"}\n---\ncall mcp__tidy_files__echo {}\n---\n'
        f'call bash {{"command": "sh {folder}/skills/sweep/scripts/broom.sh"}}\n---\n'
        'call write_file {"path": "x.txt", "content": "x"}\n---\nsay Done.\n'
    )
    ran = place.bridle("run", "-y", "--name", "used", "-m", script, "/tidy:dust the shelf")
    assert (ran.code, ran.out) == (0, "[scripted] Done.\n"), ran.err
    events = events_of(place, "used")
    assert [text_of(one.content) for one in events if isinstance(one, InputAccepted)] == ["Dust the shelf."]
    (skill,) = [text_of(one.content) for one in events if isinstance(one, ContextAdded)]
    assert skill.startswith(
        '<skill name="tidy:sweep" from="a bundle, agreed to by the person" used-by="model">'
    )
    _used, echoed, swept, stopped = [one for one in events if isinstance(one, ToolResult)]
    assert echoed.outcome == "ok", echoed.content
    assert f"swept by {folder}/skills/sweep/scripts/broom.sh" in swept.content
    assert (stopped.outcome, stopped.reason) == ("blocked", "HookBlocked")
    prefix = next(one for one in events if isinstance(one, PrefixSet))
    assert "- tidy:sweep: Sweeps." in prefix.system
    listed = json.loads(place.bridle("mcp", "list", "--json").out)
    assert [one["name"] for one in listed] == ["tidy_files"]
    said = place.bridle(
        "run", "--name", "said", "-m", place.script("say Ok.\n"), "/skills:tidy:sweep the floor"
    )
    assert said.code == 0, said.err
    assert "skill    tidy:sweep" in said.err
    assert "tidy:sweep      bundle    offered" in place.bridle("skills", "list").out
    assert place.bridle("skills", "show", "tidy:sweep").out.endswith("Then run broom.sh\n")
    assert place.bridle("plugins", "remove", "tidy").code == 0
    for words in ("/tidy:dust", "/skills:tidy:sweep"):
        gone = place.bridle("run", "-m", place.script("say Ok.\n"), words)
        assert (gone.code, gone.out) == (2, ""), gone.err
    assert "tidy" not in place.bridle("skills", "list").out


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize("changed", ["commands/dust.md", "skills/sweep/SKILL.md", "bin/check"])
def test_nothing_of_a_bundle_that_changed_is_said_offered_or_asked_about(place: Place, changed: str) -> None:
    (folder,) = installed(place)
    (folder / changed).write_text((folder / changed).read_text() + "And more.\n")
    model = place.script('call skill {"name": "tidy:sweep"}\n---\nsay Done.\n')
    for words in ("/tidy:dust", "/skills:tidy:sweep"):
        ran = place.bridle("run", "-m", model, words)
        assert (ran.code, ran.out) == (2, ""), ran.err
    assert place.bridle("run", "--name", "plain", "-m", model, "go").code == 0
    events = events_of(place, "plain")
    assert "And more." not in repr(events)
    assert [one.reason for one in events if isinstance(one, ToolResult)] == ["UnknownSkill"]
    assert "tidy" not in place.bridle("skills", "list").out
    assert "tidy" not in place.bridle("trust", "list").out


@pytest.mark.requirement("G45.21")
def test_a_plugin_with_the_name_of_a_bundle_stops_the_boot_and_both_are_named(
    place: Place, tidy: Bundle
) -> None:
    add(place, tidy)
    packages = place.home / "packages"
    source = "class Plugin:\n    name = 'tidy'\n    def register(self, registrar):\n        pass\n"
    put_package(packages, "bridle_tidy", source, offers={"tidy": "bridle_tidy:Plugin"})
    (place.home / ".config/bridle").mkdir(parents=True, exist_ok=True)
    (place.home / ".config/bridle/config.toml").write_text('[plugins]\nenabled = ["tidy"]\n')
    ran = place.bridle("run", "-m", "demo", "hi", env={"PYTHONPATH": str(packages)})
    assert ran.code == 2
    assert 'a bundle has the namespace "tidy" already (bridle plugins remove tidy)' in ran.err


def test_skills_of_the_same_name_stand_side_by_side(place: Place, tidy: Bundle) -> None:
    add(place, tidy)
    own = place.home / ".config/bridle/skills/sweep/SKILL.md"
    own.parent.mkdir(parents=True)
    own.write_text(SWEEP.replace("Sweeps.", "Mine."))
    names = [one["name"] for one in json.loads(place.bridle("skills", "list", "--json").out)["skills"]]
    assert {"sweep", "tidy:sweep"} <= set(names)


def test_what_changed_since_then_counts_for_nothing_and_is_found(place: Place, tidy: Bundle) -> None:
    add(place, tidy)
    assert place.bridle("plugins", "verify").out == "1 bundle, as you agreed to them.\n"
    (folder,) = installed(place)
    program = folder / "bin/check"
    program.write_text(program.read_text() + "# more\n")
    ran = place.bridle("plugins", "verify")
    assert (ran.code, ran.out) == (3, "tidy: it changed since you agreed to it. It counts for nothing.\n")
    assert place.bridle("hooks", "list").out.startswith("No hooks.")
    ran = place.bridle("run", "-m", place.script("say Hi.\n"), "go")
    assert ran.code == 0
    assert (
        "bundle tidy: left out, because it changed since you agreed to it (bridle plugins verify)" in ran.err
    )
    assert json.loads(place.bridle("plugins", "verify", "--json").out)[0]["ok"] is False


@pytest.mark.parametrize("change", ["mode", "more", "gone", "link"])
def test_every_kind_of_change_is_one(place: Place, tidy: Bundle, change: str) -> None:
    add(place, tidy)
    (folder,) = installed(place)
    match change:
        case "mode":
            (folder / "code.py").chmod(0o755)
        case "more":
            (folder / "bin/another").write_text("x")
        case "gone":
            (folder / "agents/maid.md").unlink()
        case _:
            (folder / "agents/maid.md").unlink()
            (folder / "agents/maid.md").symlink_to("/etc/passwd")
    assert place.bridle("plugins", "verify").code == 3


def test_an_update_is_agreed_to_again_and_a_bundle_goes_without_a_trace(place: Place, tidy: Bundle) -> None:
    add(place, tidy)
    assert place.bridle("plugins", "update", "tidy").out == "tidy is as you agreed to it; nothing changed.\n"
    (tidy.folder / "bin/check").write_text(STOP + "# new\n")
    before = installed(place)
    ran = place.bridle("plugins", "update", "tidy")
    assert (ran.code, installed(place)) == (3, before), "until somebody agrees the old one stays"
    found = re.search(r"--digest ([0-9a-f]{64})", ran.err)
    assert found is not None
    assert place.bridle("plugins", "update", "tidy", "--digest", found[1]).code == 0
    assert len(installed(place)) == 1
    assert installed(place) != before
    again = place.bridle("plugins", "add", str(tidy))
    assert again.code == 2
    assert "bridle plugins update tidy" in again.err
    assert place.bridle("plugins", "remove", "tidi").err.startswith(
        'bridle: There is no bundle "tidi" here. Did you mean'
    )
    assert place.bridle("plugins", "remove", "tidy").code == 0
    assert installed(place) == []


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"README.md": "x"}, "there is neither bridle-bundle.toml nor .claude-plugin/plugin.json in it"),
        ({"bridle-bundle.toml": 'name = "Tidy!"\n'}, "name is no name for a bundle"),
        ({"bridle-bundle.toml": 'name = "skills"\n'}, 'the namespace "skills" is Bridle\'s own'),
        (
            {"bridle-bundle.toml": 'name = "x"\nschema_version = 9\n'},
            "schema_version = 9 is not one this Bridle knows",
        ),
        ({"bridle-bundle.toml": "name = \n"}, "bridle-bundle.toml line 1"),
        (
            {"bridle-bundle.toml": 'name = "x"\n[[hooks]]\nevent = "SessionStart"\nscript = "code:run"\n'},
            "a hook of a bundle is a program (command), never Python of ours (script)",
        ),
        (
            {"bridle-bundle.toml": 'name = "x"\n[[hooks]]\nevent = "Nonsense"\ncommand = "x"\n'},
            "one of its hooks means nothing",
        ),
        ({"bridle-bundle.toml": 'name = "x"\nhooks = 3\n'}, "hooks is no list of tables"),
        ({"bridle-bundle.toml": 'name = "x"\n[[hooks]]\ncommand = "x"\n'}, "has no event"),
        ({"bridle-bundle.toml": 'name = "x"\n[[hooks]]\nevent = "SessionStart"\n'}, "has no command"),
        (
            {"bridle-bundle.toml": 'name = "x"\n[[hooks]]\nevent = 3\ncommand = "x"\n'},
            "hooks[0].event",
        ),
        (
            {"bridle-bundle.toml": 'name = "x"\n[mcp_servers.a]\ncommand = "x"\nargs = 3\n'},
            "mcp_servers.x_a.args",
        ),
        (
            {".claude-plugin/plugin.json": '{"name": "x", "hooks": "gone.json"}'},
            "names gone.json, which is not there",
        ),
    ],
)
def test_what_is_no_bundle_is_said_in_one_sentence(
    place: Place, tmp_path: Path, files: dict[str, str], problem: str
) -> None:
    ran = place.bridle("plugins", "add", str(Bundle(tmp_path / "bad", files)))
    assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
    assert problem in ran.err
    assert installed(place) == []


def test_a_server_of_a_bundle_gets_no_more_than_commands_have_and_all_that_is_said_of_it_is_shown(
    place: Place, tmp_path: Path
) -> None:
    """The screen says that servers run with the rights of commands: so they do."""
    manifest = """
name = "tidy"
[mcp_servers.files]
command = ["${BUNDLE}/bin/server"]
cwd = "/elsewhere"
sandbox = "off"
network = "inherit"
read_only_trusted = true
readOnlyTrusted = true
sampling = true
[mcp_servers.web]
url = "https://example.invalid/mcp"
headers = { Authorization = "Bearer ${HOME}" }
oauth_client_id = "somebody"
"""
    bundle = Bundle(tmp_path / "tidy", {"bridle-bundle.toml": manifest, "bin/server": "x"}, ("bin/server",))
    shown = place.bridle("plugins", "add", str(bundle)).out
    for words in ('cwd = "/elsewhere"', "Bearer ${HOME}"):
        assert words in shown, words
    for key in ("sandbox", "network", "read_only_trusted", "readOnlyTrusted", "sampling"):
        assert f"not used    {key} of server files, which only your own settings may say" in shown, key
    add(place, bundle)
    (source,) = bundle_sources(TABLE, str(place.home / ".local/share/bridle"), [])
    servers = source.values["mcp_servers"]
    assert servers["tidy_files"].keys() == {"command", "cwd"}
    assert servers["tidy_web"].keys() == {"url", "headers"}


def test_a_link_out_of_a_bundle_is_refused(place: Place, tidy: Bundle) -> None:
    (tidy.folder / "skills/secrets").symlink_to(place.home)
    assert "skills/secrets is a link, and a bundle has none" in place.bridle("plugins", "add", str(tidy)).err


def test_a_claude_plugin_is_read_as_far_as_it_is_documented(place: Place, tmp_path: Path) -> None:
    hooks = {
        "hooks": {
            "PreToolUse": [
                {
                    "matcher": "Write|Edit",
                    "hooks": [
                        {"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/scripts/lint.sh", "timeout": 30}
                    ],
                }
            ],
            "PreCompact": [{"hooks": [{"type": "command", "command": "true"}]}],
            "Notification": [{"hooks": [{"type": "command", "command": "true"}]}],
            "Stop": [{"hooks": [{"type": "prompt", "prompt": "Are you done?"}]}],
        }
    }
    files = {
        ".claude-plugin/plugin.json": json.dumps(
            {"name": "code-review", "version": "2.0.0", "description": "Reviews.", "outputStyles": "./styles"}
        ),
        "hooks/hooks.json": json.dumps(hooks),
        ".mcp.json": json.dumps(
            {
                "mcpServers": {
                    "db": {"command": "${CLAUDE_PLUGIN_ROOT}/db", "args": ["--x"], "env": {"A": "b"}}
                }
            }
        ),
        "commands/review.md": "Review $ARGUMENTS\n",
        "skills/review/SKILL.md": "---\nname: review\ndescription: x\n---\n",
        "agents/critic.md": "x",
        "scripts/lint.sh": "#!/bin/sh\n",
    }
    source = Bundle(tmp_path / "review", files, ("scripts/lint.sh",))
    add(place, source)
    (folder,) = installed(place)
    found = json.loads(place.bridle("hooks", "list", "--json").out)
    assert [(one["event"], one["tool"]) for one in found] == [("PreToolUse", "Write|Edit"), ("Compact", "")]
    assert f"{folder}/scripts/lint.sh".startswith(found[0]["command"].rstrip("…"))
    (server,) = json.loads(place.bridle("mcp", "list", "--json").out)
    assert (server["name"], server["launch"]) == ("code-review_db", f"{folder}/db --x")
    (row,) = json.loads(place.bridle("plugins", "list", "--json").out)
    unused = [thing["name"] for thing in row["adds"] if thing["kind"] == "not used"]
    assert unused == [
        ".claude-plugin/plugin.json: outputStyles",
        "hooks at Notification",
        "a hook of type prompt at Stop",
    ]


# From a repository


class Repository:
    """A git repository that was made to run something in everybody who fetches it."""

    def __init__(self, root: Path, home: Path) -> None:
        self.folder, self.traces, self._home = root / "repository", root / "traces", home
        self.traces.mkdir()
        files = {
            "bridle-bundle.toml": 'name = "evil"\n',
            "README.md": "x\n",
            ".gitattributes": "* filter=evil diff=evil\n",
        }
        Bundle(self.folder, files)
        self.git("init", "-q", "-b", "main")
        self.git("add", ".")
        self.commit("one")
        for name in (
            "post-checkout",
            "post-merge",
            "reference-transaction",
            "pre-auto-gc",
            "post-upload-pack",
        ):
            self._program(self.folder / ".git/hooks" / name, name)
        for key, name in (
            ("filter.evil.smudge", "smudge"), ("filter.evil.clean", "clean"), ("core.fsmonitor", "fsmonitor"),
            ("core.pager", "pager"), ("core.sshCommand", "ssh"), ("uploadpack.packObjectsHook", "pack"),
        ):  # fmt: skip
            self.git("config", key, str(self._program(self.folder / ".git" / f"trap-{name}", name)))

    def _program(self, path: Path, name: str) -> Path:
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n: > {self.traces}/{name}\nexec cat\n")
        path.chmod(0o755)
        return path

    def git(self, *words: str) -> str:
        env = {
            "PATH": os.environ.get("PATH", os.defpath), "HOME": str(self._home),
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        ran = subprocess.run(
            ["git", *words], cwd=self.folder, check=True, capture_output=True, timeout=30, env=env
        )
        return ran.stdout.decode().strip()

    def commit(self, words: str) -> None:
        self.git("-c", "user.name=x", "-c", "user.email=x@example.invalid", "-c", "core.hooksPath=/dev/null",
                 "-c", "core.fsmonitor=false", "commit", "-q", "-m", words)  # fmt: skip

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    def sprung(self) -> list[str]:
        return sorted(os.listdir(self.traces))


@pytest.fixture
def hostile(tmp_path: Path, place: Place) -> Repository:
    made = Repository(tmp_path, place.home)
    for trace in made.traces.iterdir():
        trace.unlink()
    return made


def test_fetching_a_hostile_repository_runs_nothing_of_it(place: Place, hostile: Repository) -> None:
    evil = hostile.traces / "of-the-person"
    (place.home / ".gitconfig").write_text(
        f'[filter "evil"]\n\tsmudge = touch {evil}\n\tprocess = touch {evil}\n'
    )
    add(place, hostile.url)
    assert hostile.sprung() == []
    (row,) = json.loads(place.bridle("plugins", "list", "--json").out)
    assert row["origin"] == f"{hostile.url} at {hostile.git('rev-parse', 'HEAD')[:12]}"
    (folder,) = installed(place)
    assert sorted(path.name for path in folder.iterdir()) == [
        ".gitattributes",
        "README.md",
        "bridle-bundle.toml",
    ]
    (hostile.folder / "README.md").write_text("changed\n")
    hostile.git("-c", "core.fsmonitor=false", "-c", "filter.evil.clean=cat", "add", "README.md")
    hostile.commit("two")
    for trace in hostile.traces.iterdir():
        trace.unlink()
    ran = place.bridle("plugins", "update", "evil")
    assert ran.code == 3
    assert hostile.git("rev-parse", "HEAD") in ran.out
    assert hostile.sprung() == []


def test_links_and_other_repositories_inside_one_are_refused(place: Place, hostile: Repository) -> None:
    git = hostile.git
    blob = git("-c", "core.fsmonitor=false", "rev-parse", "HEAD:README.md")
    for mode, words in (("120000", "is a link"), ("160000", "is another repository")):
        target = blob if mode == "120000" else git("rev-parse", "HEAD")
        git("-c", "core.fsmonitor=false", "update-index", "--add", "--cacheinfo", f"{mode},{target},inner")
        hostile.commit(mode)
        ran = place.bridle("plugins", "add", hostile.url)
        assert ran.code == 2
        assert f"inner {words}, and a bundle has none" in ran.err
    assert installed(place) == []


@pytest.mark.parametrize(
    "source",
    [
        "ext::sh -c touch% /tmp/never", "http://example.invalid/x.git", "git://example.invalid/x", "--upload-pack=x",
        "https://me:secret@example.invalid/x", "ssh://-oProxyCommand=x/y", "file://host/x", "fd::3",
    ],
)  # fmt: skip
def test_only_plain_addresses_by_https_ssh_and_file_are_asked(place: Place, source: str) -> None:
    ran = place.bridle("plugins", "add", "--", source)
    assert ran.code == 2, ran.out
    assert "Traceback" not in ran.err
    assert "secret" not in ran.err


@pytest.mark.parametrize("ref", ["--upload-pack=x", "a..b", "-x", "a b"])
def test_a_version_is_a_name_and_nothing_else(place: Place, hostile: Repository, ref: str) -> None:
    ran = place.bridle("plugins", "add", hostile.url, f"--ref={ref}")
    assert ran.code == 2
    assert "is no name of a version" in ran.err


def test_another_version_can_be_named(place: Place, hostile: Repository) -> None:
    hostile.git("-c", "core.hooksPath=/dev/null", "branch", "old")
    assert place.bridle("plugins", "add", hostile.url, "--ref", "old").code == 3
    gone = place.bridle("plugins", "add", hostile.url, "--ref", "nowhere")
    assert gone.code == 2
    assert "git says: " in gone.err


def test_a_list_that_others_could_have_written_counts_for_nothing(place: Place, tidy: Bundle) -> None:
    add(place, tidy)
    (place.home / ".local/share/bridle/bundles/bundles.json").chmod(0o666)
    assert place.bridle("hooks", "list").out.startswith("No hooks.")
    assert place.bridle("plugins", "list").code != 0
