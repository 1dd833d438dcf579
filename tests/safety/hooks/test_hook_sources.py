"""Where hooks come from, and which of them count."""

import os
from pathlib import Path
from typing import Any

import pytest

from bridle.protocol.errors import BridleError
from bridle.safety.hooks.definitions import HookDefaults, content_digest
from bridle.safety.hooks.hook_sources import FoundHooks, Project, WrittenHook, find_hooks

from .conftest import Bench


class Place:
    """A person's config folder and a project with a `.bridle` folder."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.root = bench.workspace
        self.folder = self.root / ".bridle"
        self.folder.mkdir()
        self.config = self.folder / "config.toml"
        self.config.write_text("# hooks\n")
        self.written: list[WrittenHook] = []

    def entry(self, scope: Any, line: int, **value: Any) -> None:
        file = self.config if scope == "project" else self.bench.own / "config.toml"
        name = ".bridle/config.toml" if scope == "project" else "config.toml"
        self.written.append(WrittenHook(value=value, scope=scope, where=f"{name}:{line}", path=str(file)))

    def approve(self, *paths: str | Path) -> None:
        for path in map(str, paths):
            self.bench.trusted.add((path, content_digest(path) or ""))

    def find(self, *, allow: bool = True, **more: Any) -> FoundHooks:
        return find_hooks(
            self.written,
            config_folder=str(self.bench.own),
            project=Project(root=str(self.root), folder=str(self.folder)),
            cwd=str(self.root),
            is_trusted=lambda path, sha256: (path, sha256) in self.bench.trusted,
            allow_project_hooks=allow,
            **more,
        )


@pytest.fixture
def place(bench: Bench) -> Place:
    return Place(bench)


def shown(found: FoundHooks) -> list[tuple[str, str]]:
    return [(hook.event, hook.where) for hook in found.hooks]


def left_out(found: FoundHooks) -> list[tuple[str, str]]:
    return [(one.where, one.why) for one in found.ignored]


@pytest.mark.requirement("G44.5")
def test_programs_in_the_two_folders_are_hooks_named_for_their_moment(place: Place) -> None:
    own, project = place.bench.own / "hooks", place.folder / "hooks"
    for name in ("Stop", "PreToolUse.d/20-b", "PreToolUse.d/10-a.py", "post_tool_use.sh"):
        place.bench.script(name, "exit 0", folder=own)
    program = place.bench.script("PreToolUse", "exit 0", folder=project)
    place.approve(program)
    found = place.find()
    assert shown(found) == [
        ("PreToolUse", ".bridle/hooks/PreToolUse"),
        ("PreToolUse", "hooks/PreToolUse.d/10-a.py"),
        ("PreToolUse", "hooks/PreToolUse.d/20-b"),
        ("Stop", "hooks/Stop"),
        ("PostToolUse", "hooks/post_tool_use.sh"),
    ]
    assert found.hooks[0].folder == str(place.root)
    assert found.hooks[0].approved == (program,)
    assert found.notice is None


def test_what_cannot_be_a_hook_is_named_and_a_readme_is_not(place: Place) -> None:
    own = place.bench.own / "hooks"
    place.bench.script("PreTool", "exit 0", folder=own)
    os.chmod(place.bench.script("Stop", "exit 0", folder=own), 0o644)
    os.chmod(place.bench.script("SessionEnd", "exit 0", folder=own), 0o777)
    (own / "README").write_text("mine")
    (own / ".Stop.swp").write_text("")
    (own / "Compact").symlink_to(place.bench.script("elsewhere", "exit 0"))
    (own / "SessionStart").symlink_to("nowhere")
    project = place.folder / "hooks"
    project.mkdir()
    (project / "Stop").symlink_to("/bin/true")
    os.mkfifo(project / "PreToolUse")
    found = place.find()
    assert shown(found) == [("Compact", "hooks/Compact")], "a person's own folder may hold links"
    reasons = dict(left_out(found))
    assert reasons.pop("hooks/PreTool").startswith("named for no event (SessionStart, ")
    assert reasons == {
        ".bridle/hooks/PreToolUse": "not a file",
        ".bridle/hooks/Stop": "a symbolic link",
        "hooks/SessionEnd": "others can write it",
        "hooks/SessionStart": "no such file or directory",
        "hooks/Stop": "not executable",
    }


def test_a_projects_hook_needs_the_flag_and_the_approval_of_its_own_file(place: Place) -> None:
    place.entry("project", 3, event="Stop", command="notify")
    program = place.bench.script("hooks/PreToolUse", "exit 0", folder=place.folder)
    config, file = ".bridle/config.toml:3 notify", ".bridle/hooks/PreToolUse"
    flag, approval = "add --allow-project-hooks", "not approved yet"
    assert left_out(place.find(allow=False)) == [
        (config, f"{flag}; {approval}"),
        (file, f"{flag}; {approval}"),
    ]
    place.approve(place.config)
    assert left_out(place.find(allow=False)) == [(config, flag), (file, f"{flag}; {approval}")]
    found = place.find()
    assert (shown(found), left_out(found)) == ([("Stop", ".bridle/config.toml:3")], [(file, approval)])
    assert found.notice == f"ignored hooks: {file} ({approval})."
    place.approve(program)
    assert len(place.find().hooks) == 2
    place.config.write_text("# changed\n")
    assert shown(place.find()) == [("PreToolUse", ".bridle/hooks/PreToolUse")]


def test_the_program_a_projects_hook_names_has_to_be_approved_too(place: Place) -> None:
    place.entry("project", 3, event="Stop", command="scripts/notify --now")
    program = place.bench.script("scripts/notify", "exit 0", folder=place.root)
    place.approve(place.config)
    assert [why for _, why in left_out(place.find())] == ["scripts/notify is not approved yet"]
    place.approve(program)
    (hook,) = place.find().hooks
    assert (hook.folder, hook.argv) == (str(place.root), ("scripts/notify", "--now"))


@pytest.mark.requirement("G1.22")
def test_the_persons_own_hooks_count_without_ceremony_and_look_last(place: Place) -> None:
    place.entry("user", 1, event="PreToolUse", command="own")
    place.entry("project", 1, event="PreToolUse", command="theirs")
    place.approve(place.config)
    assert [hook.shown for hook in place.find().hooks] == ["theirs", "own"]
    open_ones = place.find(defaults=HookDefaults(failure_policy="open", timeout_ms=9))
    assert [(hook.on_error, hook.timeout_ms) for hook in open_ones.hooks] == [("block", 9), ("warn", 9)]


def test_an_own_entry_that_means_nothing_is_an_error_and_a_projects_is_left_out(place: Place) -> None:
    place.entry("project", 4, event="Sometime", command="x")
    assert left_out(place.find())[0][1].startswith('event = "Sometime" is not a hook event')
    place.entry("user", 7, event="Sometime", command="x")
    with pytest.raises(
        BridleError, match=r'config\.toml:7: event = "Sometime" is not a hook event'
    ) as refused:
        place.find()
    assert refused.value.exit_code == 2


def test_without_any_folder_there_are_no_hooks(tmp_path: Path) -> None:
    found = find_hooks(
        (),
        config_folder=str(tmp_path / "none"),
        project=Project(root=str(tmp_path)),
        cwd=str(tmp_path),
        is_trusted=lambda _path, _sha256: True,
        allow_project_hooks=True,
    )
    assert found == FoundHooks((), ())
