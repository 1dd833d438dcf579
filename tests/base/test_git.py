"""Our own git calls only look: no repository makes them run, write or read anything it should not."""

import contextlib
import os
import string
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.base.git.git_calls import (
    SUBCOMMANDS,
    GitRefused,
    branch_name_problem,
    clean_environment,
    compose,
    first_commit,
    own_environment,
    program_on,
)
from bridle.base.git.git_repository import GitDiff, GitFailed, Repository, run_git
from bridle.base.git.git_status import BadStatus, ChangedPath, GitStatus, parse_status
from bridle.base.process.processes import CannotStart, Processes
from effort import examples
from git_traps import FILTERS, TRAPS, Scene, Trap
from tables import table

ALL_CALLS = (
    compose("branch"),
    compose("config", names=("^core",)),
    compose("diff", names=("HEAD",)),
    compose("diff", options=("--cached", "--stat")),
    compose("diff", options=("--patch", "-z"), names=("HEAD",), paths=("notes.txt",)),
    compose("log", options=("--patch", "--max-count=5")),
    compose("log", options=("--format=tformat:%H %s", "--numstat")),
    compose("ls-files", options=("-z", "--others", "--exclude-standard")),
    compose("ls-files", filtered_by="evil"),
    compose("merge-base", names=("HEAD", "HEAD")),
    compose("rev-parse", options=("--show-toplevel",)),
    compose("rev-parse", options=("--verify", "--quiet"), names=("HEAD",)),
    compose("show", options=("--patch",), names=("HEAD",)),
    compose("show", options=("--format=medium",), names=("HEAD",)),
    compose("status", options=("--untracked-files=all",)),
)


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


class Starter:
    """Starts calls as the engine does. It only says that it encloses them, if told to."""

    def __init__(self, scene: Scene, processes: Processes) -> None:
        self._scene = scene
        self._processes = processes
        self.encloses = False

    async def __call__(self, git):
        if git.enclosed and not self.encloses:
            raise CannotStart(git.argv[0], "not executable")
        env = {**clean_environment({**self._scene.env(), **self._scene.environment}), **git.variables}
        return await self._processes.start(
            git.argv, cwd=git.cwd, env=env, on_output=git.on_output, on_error=git.on_error
        )


@pytest.fixture
async def start(scene):
    processes = Processes()
    yield Starter(scene, processes)
    await processes.close()


def repository(scene: Scene, start: Starter, **options) -> Repository:
    return Repository(start, cwd=str(scene.cwd), **options)


async def look_at_everything(scene: Scene, start: Starter) -> None:
    """Every question the helpers ask, whether it has an answer or not."""
    git = repository(scene, start)
    for ask in (git.root, git.head, git.branch, git.filters, git.status, git.diff):
        with contextlib.suppress(GitFailed):
            await ask()


@pytest.mark.parametrize("trap", [*TRAPS, *FILTERS], ids=lambda trap: trap.name)
def test_the_traps_are_alive(scene, trap: Trap):
    trap.lay(scene)
    scene.marker.unlink(missing_ok=True)
    scene.spring(*trap.spring, given=trap.given)
    assert scene.is_sprung()


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
async def test_no_call_springs_a_trap(scene, start, trap: Trap):
    trap.lay(scene)
    scene.marker.unlink(missing_ok=True)
    for call in ALL_CALLS:
        await run_git(call, start=start, cwd=str(scene.cwd), timeout_s=20, max_bytes=100_000)
        assert not scene.is_sprung(), call.argv
    await look_at_everything(scene, start)
    assert not scene.is_sprung()


@pytest.mark.parametrize("trap", FILTERS, ids=lambda trap: trap.name)
async def test_where_nothing_encloses_it_no_filter_runs(scene, start, trap: Trap):
    trap.lay(scene)
    scene.marker.unlink(missing_ok=True)
    for call in ALL_CALLS:
        if not call.content:
            await run_git(call, start=start, cwd=str(scene.cwd), timeout_s=20, max_bytes=100_000)
    await look_at_everything(scene, start)
    assert not scene.is_sprung()
    git = repository(scene, start)
    for ask in (git.status, git.diff):
        with pytest.raises(GitFailed, match="to a program") as failure:
            await ask()
        assert failure.value.reason == "FiltersConfigured"


async def test_a_filter_is_left_to_what_encloses_it(scene, start):
    FILTERS[0].lay(scene)
    start.encloses = True
    diff = await repository(scene, start).diff()
    assert "+two" in diff.text


async def test_a_filter_no_file_goes_through_stops_nothing(scene, start):
    scene.config("filter.lfs.clean", str(scene.program))
    assert await repository(scene, start).filters() == ()
    assert "+two" in (await repository(scene, start).diff()).text


async def test_no_call_changes_the_repository(scene, start):
    os.utime(scene.repository / "notes.txt", (1, 1))
    before = contents(scene.repository)
    for call in ALL_CALLS:
        await run_git(call, start=start, cwd=str(scene.cwd), timeout_s=20, max_bytes=100_000)
    await look_at_everything(scene, start)
    assert contents(scene.repository) == before


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.lstat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


async def test_a_repository_cannot_pass_off_another_folder_as_its_own(scene, start):
    """The index names a file of the folder it points at; what differs would be that file's content."""
    elsewhere = scene.scratch / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "notes.txt").write_text("a secret\n")
    scene.config("core.worktree", str(elsewhere))
    git = repository(scene, start)
    for ask in (git.root, git.status, git.diff):
        with pytest.raises(GitFailed, match="another folder"):
            await ask()
    scene.config("core.worktree", str(scene.scratch))
    with pytest.raises(GitFailed, match="another folder"):
        await git.diff()


# What the helpers answer


async def test_a_repository_says_where_it_is(scene, start):
    below = scene.repository / "a folder"
    below.mkdir()
    scene.cwd = below
    git = repository(scene, start)
    assert os.path.samefile(await git.root(), scene.repository)
    assert await git.branch() == "main"
    assert await git.head() == scene.git("rev-parse", "HEAD")
    scene.git("checkout", "--quiet", "--detach")
    assert await git.branch() is None


async def test_a_diff_holds_what_is_staged_and_what_is_not(scene, start):
    (scene.repository / "neü.txt").write_text("new\n")
    scene.git("add", "neü.txt")
    diff = await repository(scene, start).diff()
    assert "diff --git a/notes.txt b/notes.txt" in diff.text
    assert "-one\n+two\n" in diff.text
    assert "+++ b/neü.txt\n" in diff.text
    only = await repository(scene, start).diff(paths=("notes.txt",))
    assert "neü" not in only.text


async def test_the_looks_of_a_diff_are_not_up_to_the_settings(scene, start):
    plain = await repository(scene, start).diff()
    for name, value in (
        ("color.diff", "always"),
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("diff.relative", "true"),
        ("diff.suppressBlankEmpty", "true"),
    ):
        scene.config(name, value)
    assert await repository(scene, start).diff() == plain


async def test_a_file_that_was_only_touched_is_no_change(scene, start):
    (scene.repository / "notes.txt").write_text("one\n")
    os.utime(scene.repository / "notes.txt", (1, 1))
    assert await repository(scene, start).diff() == GitDiff("")


async def test_before_the_first_commit_everything_is_new(scene, start):
    young = scene.scratch / "young"
    young.mkdir()
    scene.git("init", "--quiet", "--initial-branch=first", cwd=young)
    (young / "a.txt").write_text("words\n")
    scene.git("add", ".", cwd=young)
    scene.cwd = young
    git = repository(scene, start)
    assert await git.head() is None
    assert await git.branch() == "first"
    assert "+words" in (await git.diff()).text
    assert await git.status() == GitStatus(branch="first", changes=(ChangedPath("a.txt", "A", "."),))


async def test_a_status_names_every_kind_of_change(scene, start):
    (scene.repository / "moved.txt").write_text("a file of some length\n")
    scene.git("add", "moved.txt")
    scene.commit()
    scene.git("mv", "moved.txt", "new name.txt")
    (scene.repository / "unknown\n.txt").write_text("")
    assert await repository(scene, start).status() == GitStatus(
        head=scene.git("rev-parse", "HEAD"),
        branch="main",
        changes=(
            ChangedPath("new name.txt", "R", ".", before="moved.txt"),
            ChangedPath("notes.txt", ".", "M"),
            ChangedPath("unknown\n.txt", "?", "?"),
        ),
    )


async def test_a_long_diff_ends_with_a_whole_line(scene, start):
    (scene.repository / "notes.txt").write_text("a line of words\n" * 10_000)
    diff = await repository(scene, start, max_bytes=5_000).diff()
    assert diff.truncated
    assert len(diff.text) <= 5_000
    assert diff.text.endswith("+a line of words\n")


async def test_a_folder_outside_any_repository_is_said_so(scene, start):
    scene.cwd = scene.home
    git = repository(scene, start)
    assert await git.branch() is None
    for ask in (git.root, git.status, git.diff):
        with pytest.raises(GitFailed) as failure:
            await ask()
        assert failure.value.reason == "NotARepository"


async def test_a_missing_git_is_said_so(scene, start):
    with pytest.raises(GitFailed) as failure:
        await repository(scene, start, program=str(scene.scratch / "no-git")).root()
    assert failure.value.reason == "NoGit"


async def test_a_git_that_hangs_is_stopped(scene, start):
    hanging = scene.scratch / "hanging"
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    with pytest.raises(GitFailed) as failure:
        await repository(scene, start, program=str(hanging), timeout_s=0.05).root()
    assert failure.value.reason == "TooSlow"


def test_the_git_of_the_workspace_is_not_ours(tmp_path):
    for folder in ("workspace/bin", "usr"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "git").write_text("#!/bin/sh\n")
        (tmp_path / folder / "git").chmod(0o755)
    (tmp_path / "link").mkdir()
    (tmp_path / "link/git").symlink_to(tmp_path / "workspace/bin/git")
    workspace, ours = tmp_path / "workspace", str(tmp_path / "usr/git")
    path = f":.:bin:{workspace}/bin:{tmp_path}/link:{tmp_path}/usr"
    assert program_on(path, "git", outside=str(workspace)) == ours
    assert program_on(f".:{workspace}/bin", "git", outside=str(workspace)) is None


# What is composed


@table(
    ("subcommand", "given"),
    [
        ("commit", {}),
        ("st", {}),
        ("-c", {"names": ("alias.x=!true",)}),
        ("fetch", {}),
        ("grep", {"names": ("x",)}),
        ("cat-file", {"options": ("--filters",)}),
        ("diff", {"options": ("--output=x",)}),
        ("diff", {"options": ("--ext-diff",)}),
        ("diff", {"options": ("--textconv",)}),
        ("diff", {"options": ("--no-index",)}),
        ("diff", {"options": ("--submodule=log",)}),
        ("diff", {"options": ("-Oorder",)}),
        ("diff", {"options": ("--cached\n--output=x",)}),
        ("diff", {"names": ("--output=x",)}),
        ("diff", {"names": ("a", "b", "c")}),
        ("diff", {"names": ("",)}),
        ("diff", {"paths": ("",)}),
        ("log", {"options": ("--show-signature",)}),
        ("log", {"options": ("--alternate-refs",)}),
        ("log", {"options": ("--remerge-diff",)}),
        ("log", {"options": ("--format=mine",)}),
        ("log", {"options": ("--format=tformat:%G?",)}),
        ("log", {"options": ("--format=tformat:%h%+G?",)}),
        ("log", {"options": ("--format=tformat:%(trailers)",)}),
        ("ls-files", {"options": ("--modified",)}),
        ("ls-files", {"options": ("--recurse-submodules",)}),
        ("ls-files", {"filtered_by": "a)b"}),
        ("diff", {"filtered_by": "evil"}),
        ("branch", {"names": ("new",)}),
        ("config", {"names": ("a.b", "value")}),
        ("config", {"options": ("--unset",)}),
        ("rev-parse", {"options": ("--parseopt",)}),
        ("rev-parse", {"paths": ("a",)}),
        ("status", {"options": ("-v",)}),
    ],
)
def test_what_would_execute_or_write_is_refused(subcommand, given):
    with pytest.raises(GitRefused):
        compose(subcommand, **given)


WORDS = st.one_of(
    st.text(alphabet=string.printable, max_size=20),
    st.sampled_from(
        ["--output=x", "--ext-diff", "-c", "--exec=x", "--upload-pack=x", "--", "--cached", "HEAD"]
    ),
)


@given(
    st.sampled_from(sorted(SUBCOMMANDS)),
    st.lists(WORDS, max_size=3),
    st.lists(WORDS, max_size=3),
    st.lists(WORDS, max_size=3),
)
def test_whatever_is_asked_for_stays_where_it_belongs(subcommand, options, names, paths):
    """Options are on the list, names do not begin with a hyphen, paths stand behind `--` and are literal."""
    try:
        call = compose(subcommand, options=options, names=names, paths=paths)
    except GitRefused:
        return
    known = SUBCOMMANDS[subcommand]
    at = call.argv.index(subcommand)
    behind = ["--", *paths] if known.paths else []
    assert list(call.argv[at:]) == [subcommand, *known.always, *options, *names, *behind]
    assert ("--literal-pathspecs" in call.argv[:at]) == known.literal
    assert known.literal or not any(path.startswith(":") for path in paths)
    assert not any(name.startswith("-") for name in names)
    assert not any("output" in option or "ext-diff" in option for option in options)


@given(
    st.dictionaries(st.sampled_from(["GIT_DIR", "git_dir", "GIT_TRACE", "PATH", "HOME", "GITHUB"]), st.text())
)
def test_nothing_in_the_environment_speaks_to_git(env):
    assert clean_environment(env) == {n: v for n, v in env.items() if n in ("PATH", "HOME", "GITHUB")}


# What a status says

PATHS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
LETTERS = st.sampled_from("MADRCTU.")
OID = "0" * 40


@st.composite
def changes(draw) -> tuple[ChangedPath, str]:
    path, xy = draw(PATHS), draw(LETTERS) + draw(LETTERS)
    sub = draw(st.sampled_from(["N...", "SCMU", "S..."]))
    is_sub = sub.startswith("S")
    match draw(st.sampled_from("12u?!")):
        case "1":
            line = f"1 {xy} {sub} 100644 100644 100644 {OID} {OID} {path}\0"
            return ChangedPath(path, *xy, submodule=is_sub), line
        case "2":
            before = draw(PATHS)
            line = f"2 {xy} {sub} 100644 100644 100644 {OID} {OID} R100 {path}\0{before}\0"
            return ChangedPath(path, *xy, before=before, submodule=is_sub), line
        case "u":
            line = f"u {xy} {sub} 100644 100644 100644 100644 {OID} {OID} {OID} {path}\0"
            return ChangedPath(path, *xy, conflict=True, submodule=is_sub), line
        case mark:
            return ChangedPath(path, mark, mark), f"{mark} {path}\0"


@given(st.lists(changes(), max_size=6), st.none() | st.tuples(st.integers(0, 99), st.integers(0, 99)))
def test_a_status_is_read_as_it_was_written(listed, ab):
    text = "# branch.oid (initial)\0# branch.head (detached)\0# stash 3\0"
    if ab:
        text += f"# branch.upstream origin/main\0# branch.ab +{ab[0]} -{ab[1]}\0"
    text += "".join(line for _, line in listed)
    ahead, behind = ab or (None, None)
    assert parse_status(text.encode()) == GitStatus(
        upstream="origin/main" if ab else None,
        ahead=ahead,
        behind=behind,
        changes=tuple(change for change, _ in listed),
    )


@given(st.binary(max_size=200) | st.text(alphabet="12u?!# MA.NS0\0ab", max_size=60).map(str.encode))
def test_no_bytes_break_the_reader_of_a_status(output):
    with contextlib.suppress(BadStatus):
        parse_status(output)


async def test_a_repository_of_our_own_is_made_without_anything_of_the_persons(scene, start):
    template = scene.scratch / "template/hooks"
    template.mkdir(parents=True)
    for hook in (
        "pre-commit",
        "post-commit",
        "prepare-commit-msg",
        "reference-transaction",
        "post-index-change",
    ):
        (template / hook).symlink_to(scene.program)
    for name, value in (
        ("init.templateDir", str(template.parent)),
        ("core.hooksPath", str(template)),
        ("core.fsmonitor", str(scene.program)),
        ("commit.gpgSign", "true"),
        ("gpg.program", str(scene.program)),
        ("core.editor", str(scene.program)),
    ):
        scene.config(name, value, "--global")
    scene.marker.unlink(missing_ok=True)
    ours = scene.scratch / "ours"
    ours.mkdir()
    (ours / "a.txt").write_text("words")
    for call in first_commit("A first commit"):
        answer = await run_git(call, start=start, cwd=str(ours), timeout_s=20, max_bytes=10_000)
        assert answer.returncode == 0, answer.error
    assert not scene.is_sprung()
    assert not (ours / ".git/hooks").exists()
    scene.cwd = ours
    assert await repository(scene, start).diff() == GitDiff("")
    assert scene.git("log", "--format=%an: %s", cwd=ours) == "Bridle: A first commit"


@given(st.text(st.sampled_from("ab-./@{~^:?*[\\ \n\x7fé\u202e") | st.characters(), max_size=12))
@settings(max_examples=examples(60))
def test_a_name_that_passes_is_one_for_git_too(name: str) -> None:
    if branch_name_problem(name):
        return
    assert not name.startswith("-")
    assert name.isprintable()
    done = subprocess.run(["git", "check-ref-format", "--branch", name], capture_output=True, check=False)
    assert (done.returncode, done.stdout.decode().strip()) == (0, name)


@table("name", ["fix", "fix/total", "v1.2", "größe", "a@b", "x" * 200])
def test_a_plain_name_passes(name: str) -> None:
    assert branch_name_problem(name) == ""


def test_a_persons_git_has_their_environment_but_for_other_repositories() -> None:
    theirs = {
        "GIT_AUTHOR_NAME": "A",
        "SSH_AUTH_SOCK": "/s",
        "GIT_DIR": "/x",
        "GIT_INDEX_FILE": "/y",
        "KEY": "1",
    }
    env = own_environment(theirs)
    assert {name: env.get(name) for name in theirs} == {**theirs, "GIT_DIR": None, "GIT_INDEX_FILE": None}
    assert env["GIT_TERMINAL_PROMPT"] == "0"
