"""What is understood of commands, judged by lists nobody tuned it to."""

import os
import shutil
import subprocess

import pytest

from bridle.shell.command_facts import SEVERITY, ScriptContext, Understanding
from bridle.shell.understanding import understand
from safety.corpus.loading import SYSTEM_PATH, Ordinary, Scene, Tricky, named, ordinary, tricky
from tables import table

TRICKY = tricky()
ORDINARY = ordinary()
MAY_ASK = 0.02
"""More questions than this about harmless commands, and people stop reading them."""


@pytest.fixture
def scene(tmp_path) -> Scene:
    return Scene.make(tmp_path)


@pytest.fixture(scope="module")
def shared_scene(tmp_path_factory) -> Scene:
    """For commands that need nothing special; nothing is run in it."""
    return Scene.make(tmp_path_factory.mktemp("scene"))


def understood(command: str, scene: Scene, *, search_path: str = "", cwd: str = "") -> Understanding:
    searched = f"{scene.filled(search_path)}:{SYSTEM_PATH}" if search_path else SYSTEM_PATH
    here = os.path.join(scene.cwd, cwd) if cwd else scene.cwd
    return understand(scene.filled(command), ScriptContext(cwd=here, home=scene.home, search_path=searched))


def ids(cases: tuple[Tricky, ...] | tuple[Ordinary, ...]) -> list[str]:
    return [f"{case.family}:{named(case.command, seen=number)}" for number, case in enumerate(cases, 1)]


def admits(found: Understanding, expected: str, scene: Scene) -> bool:
    """Whether a use is among those found, by its path or as one that is not known."""
    access, path = scene.filled(expected).split(" ", 1)
    wanted = os.path.normpath(path)
    for use in (use for part in found.parts for use in part.uses if use.access == access):
        if use.path is None or (use.pattern and path == "?"):
            return True
        if os.path.normpath(os.path.join(scene.cwd, use.path)) == wanted:
            return True
    return False


@pytest.mark.requirement("P9")
@pytest.mark.parametrize("case", TRICKY)
def test_a_tricky_command_is_seen_for_what_it_is(case: Tricky, scene: Scene) -> None:
    scene.add(case)
    found = understood(case.command, scene, search_path=case.search_path, cwd=case.cwd)
    if case.refused:
        assert found.refused is not None, f"{case.why}: {found.command_class}"
        assert found.refused_rule
    if found.refused is None:
        assert SEVERITY.index(found.command_class) >= SEVERITY.index(case.at_least), case.why
    if found.read_only:
        unseen = [use for use in case.uses if not admits(found, use, scene)]
        assert unseen == [], f"{case.why}: {[use for part in found.parts for use in part.uses]}"


@table("case", TRICKY)
def test_its_harmless_twin_is_left_alone(case: Tricky, shared_scene: Scene) -> None:
    found = understood(case.twin, shared_scene)
    assert found.refused is None, case.twin
    if case.twin_quiet:
        assert found.read_only, f"{case.twin!r} is {found.command_class}: {found.problem}"


@pytest.mark.requirement("G8.4", "C26")
@table("case", ORDINARY)
def test_an_ordinary_command_is_understood(case: Ordinary, shared_scene: Scene) -> None:
    found = understood(case.command, shared_scene)
    assert found.refused is None
    if case.quiet:
        assert found.read_only, f"{found.command_class}: {found.problem}"
        outside = [use for part in found.parts for use in part.uses if _is_outside(use.path, shared_scene)]
        assert outside == []


def _is_outside(path: str | None, scene: Scene) -> bool:
    """Whether a use would make somebody ask: it is not known, or not in the workspace."""
    if path is None:
        return True
    absolute = os.path.normpath(os.path.join(scene.cwd, path))
    return absolute != "/dev/null" and absolute != scene.cwd and not absolute.startswith(scene.cwd + "/")


def test_the_list_asks_seldom_and_says_why() -> None:
    asking = [case for case in ORDINARY if not case.quiet]
    assert all(case.why for case in asking)
    assert len(asking) <= MAY_ASK * len(ORDINARY)


def test_the_lists_are_as_large_as_promised_and_hold_nothing_twice() -> None:
    commands = [(case.command, case.git_config, tuple(case.files), case.search_path) for case in TRICKY]
    assert (len(TRICKY) >= 170, len(ORDINARY) >= 200) == (True, True)
    assert len(set(commands)) == len(commands)
    assert len({case.command for case in ORDINARY}) == len(ORDINARY)


LONG = {
    "many substitutions": "$(" * 2_000 + "ls" + ")" * 2_000,
    "many subshells": "(" * 2_000 + "ls" + ")" * 2_000,
    "many backticks": "echo " + "`" * 4_001,
    "many braces": "echo " + "{a,b}" * 200,
    "one long word": "echo " + "a" * 200_000,
    "many commands": "ls;" * 5_000,
    "many quotes": "echo " + "''\"\"" * 20_000,
    "many documents": "".join(f"cat <<E{n}\nx\nE{n}\n" for n in range(500)),
    "many conditions": "if true; then " * 500 + "ls" + "; fi" * 500,
    "nested shells": "bash -c " * 300 + "ls",
    "nested wrappers": "env " * 5_000 + "touch x",
    "one long brace range": "echo {1..1000000000}",
}


@pytest.mark.parametrize("name", LONG)
def test_a_monstrous_script_is_answered_quickly_and_never_by_a_crash(name: str, shared_scene: Scene) -> None:
    assert understood(LONG[name], shared_scene).command == LONG[name]


def test_a_monstrous_script_hides_nothing_at_its_end(shared_scene: Scene) -> None:
    for script in ("ls;" * 5_000, "(" * 2_000 + "ls" + ")" * 2_000 + ";", "echo {1..1000000};"):
        assert not understood(script + "touch x", shared_scene).read_only
        found = understood(script + "rm -rf /", shared_scene)
        assert found.refused is not None or found.command_class == "unparseable"


def git(folder: str, *words: str) -> None:
    env = {"PATH": SYSTEM_PATH, "HOME": folder, "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, env=env, check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("git", path=SYSTEM_PATH) is None, reason="needs git")
@pytest.mark.parametrize("command", ["git status", "git diff", "git describe --dirty"])
def test_git_looks_into_submodules_with_their_settings_in_force(tmp_path, command: str) -> None:
    """Seen with a real git: a program named by a submodule's own settings runs when the outer one is looked at."""
    outer, inner = str(tmp_path), str(tmp_path / "inner")
    os.mkdir(inner)
    git(inner, "init", "-q")
    git(inner, "commit", "-q", "--allow-empty", "-m", "x")
    git(outer, "init", "-q")
    git(outer, "add", "inner")
    here = ScriptContext(cwd=os.path.realpath(outer), home=os.path.realpath(outer), search_path=SYSTEM_PATH)
    assert understand(command, here).read_only
    git(inner, "config", "core.fsmonitor", "./x")
    assert not understand(command, here).read_only


DOUBTFUL = (
    *(
        "tox",
        "flake8",
        "pylint",
        "poetry",
        "jekyll",
        "bazel",
        "yarn",
        "pytest",
        "ninja",
        "ctest",
        "nox",
        "R",
        "php",
        "lua",
    ),
    *(
        "nodejs",
        "npx",
        "uvx",
        "black",
        "isort",
        "ssh",
        "curl",
        "gmake",
        "cmake",
        "gcc",
        "dash",
        "zsh",
        "vim",
        "tmux",
        "mysql",
    ),
)


def test_version_as_a_plain_word_is_a_file_a_target_a_package_or_a_machine(shared_scene: Scene) -> None:
    assert [name for name in DOUBTFUL if understood(f"{name} version", shared_scene).read_only] == []


BEYOND_A_GRANT = (
    *("git rebase -x ./x main", "git fetch --upload-pack=./x", "git clone --upload-pack=./x . y"),
    *("git clone -c core.pager=./x y", "git ls-remote 'ext::sh -c touch% x'", "git submodule foreach ./x"),
    *("git bisect run ./x", "git push --receive-pack=./x", "docker ps > ~/.bashrc", "FOO=1 npm test"),
    *("npm test $(touch x)", "npm test | sh", "é=/../evil npm test"),
)


@pytest.mark.requirement("P21")
@table("command", BEYOND_A_GRANT)
def test_a_yes_to_a_program_with_any_arguments_does_not_cover_what_its_options_run(
    command, shared_scene
) -> None:
    """A key stands for `this program, any arguments`: no part may have one that a plainer command would have given."""
    found = understood(command, shared_scene)
    simple = found.shape == "simple" and len(found.parts) == 1
    assert not (simple and found.parts[0].key), found.parts[0].key
