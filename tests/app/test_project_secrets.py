"""The secrets file of a project: what is read of it, and everything that keeps it from being read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.app.project_trust import project_items
from bridle.app.user.secrets_file import is_agreed_secret
from bridle.app.user.stored_keys import StoredKeys
from bridle.base.clock import SystemClock
from bridle.base.fs.paths import PROJECT_SECRETS_FILE
from bridle.base.secrets.secret_files import is_secret_like
from bridle.config.folders import folders
from bridle.credentials.project_secrets import (
    MAX_BYTES,
    ProjectKeys,
    Unusable,
    parse,
    project_keys,
    without_values,
)
from bridle.credentials.records import ApiKey
from bridle.providers.model_directory import Models
from bridle.safety.trust.approvals import Approvals, content_digest
from credentials.credential_kit import a_secret

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True)
values = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=40).filter(
    lambda value: value[0] not in "\"'"
)


@given(
    st.dictionaries(names, values, max_size=6),
    st.sampled_from(["{}={}", "export {}={}", '{} = "{}"', "{}='{}'"]),
)
def test_what_is_written_is_what_is_read(wanted: dict[str, str], form: str) -> None:
    lines = [form.format(name, value) for name, value in wanted.items()]
    assert parse("\n".join(["# keys", "", *lines, "  "]).encode()) == wanted


@given(st.binary(max_size=200))
def test_anything_else_is_refused_in_one_clause_that_repeats_nothing(data: bytes) -> None:
    try:
        parse(data)
    except Unusable as problem:
        assert str(problem) == "it is not UTF-8 text" or str(problem).endswith("of it is not NAME=value")


def test_nothing_is_expanded_and_the_later_line_counts() -> None:
    assert parse(b"A=$HOME `id` ${B}\nB=1\nB=2\nC=\nD='x\n") == {"A": "$HOME `id` ${B}", "B": "2", "D": "'x"}
    for text in ("A", "=x", "1A=x", "A B=x", "A=x\0y", "- A=x"):
        with pytest.raises(Unusable, match="line 2 of it"):
            parse(f"# first\n{text}\n".encode())


def test_values_are_shown_nowhere() -> None:
    secret = a_secret()
    data = f"WORK_KEY={secret}\n".encode()
    assert without_values(data) == f"WORK_KEY=… ({len(secret)} characters)\n"
    found = ProjectKeys(parse(data))
    assert secret not in repr(found) + found.notice().message


class Project:
    """A project with such a file, everything in order."""

    def __init__(self, root: Path) -> None:
        self.root = root / "project"
        self.file = self.root / PROJECT_SECRETS_FILE
        self.file.parent.mkdir(parents=True)
        (self.root / ".git").mkdir()
        self.secret = a_secret()
        self.file.write_text(f"WORK_KEY={self.secret}\n")
        self.file.chmod(0o600)
        self.where = folders({"BRIDLE_HOME": str(root / "bridle")})
        self.approvals = Approvals(self.where.config, copies=os.path.join(self.where.state, "approved"))
        self.ignored = True

    def approve(self) -> None:
        (item,) = project_items(self.approvals, where=self.where, cwd=str(self.root), env={})
        item.approve(self.approvals)

    async def keys(self) -> ProjectKeys:
        async def is_ignored(path: str) -> bool:
            assert path == PROJECT_SECRETS_FILE
            return self.ignored

        is_agreed = is_agreed_secret(self.approvals, str(self.root))
        return await project_keys(str(self.root), is_agreed=is_agreed, is_ignored=is_ignored)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path.resolve())


async def test_a_private_file_that_was_agreed_to_and_is_ignored_counts(project: Project) -> None:
    project.approve()
    assert await project.keys() == ProjectKeys({"WORK_KEY": project.secret})
    assert (
        await project.keys()
    ).notice().message == "Keys of this project are in .bridle-secrets/env: WORK_KEY."
    kept = [path.read_text() for path in Path(project.where.config).parent.rglob("*") if path.is_file()]
    assert kept
    assert project.secret not in "".join(kept), "no copy of it is kept"
    assert content_digest(project.file.read_bytes()) in "".join(kept)


def moved(project: Project) -> None:
    elsewhere = project.root.parent / "elsewhere"
    project.file.parent.rename(elsewhere)
    project.file.parent.symlink_to(elsewhere)


def linked(project: Project) -> None:
    elsewhere = project.root.parent / "elsewhere"
    project.file.rename(elsewhere)
    project.file.symlink_to(elsewhere)


def piped(project: Project) -> None:
    project.file.unlink()
    os.mkfifo(project.file, 0o600)


@pytest.mark.requirement("C21")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda p: p.file.chmod(0o640), "others can read it (chmod 600 .bridle-secrets/env)"),
        (lambda p: p.file.chmod(0o602), "others can read it (chmod 600 .bridle-secrets/env)"),
        (
            lambda p: p.file.write_text("WORK_KEY=another\n"),
            "you have not agreed to what is in it (bridle trust ack .bridle-secrets/env)",
        ),
        (
            lambda p: setattr(p, "ignored", False),
            "git does not ignore it (add .bridle-secrets/ to .gitignore)",
        ),
        (lambda p: p.file.write_text("x" * (MAX_BYTES + 1)), "it is too large"),
        (lambda p: p.file.write_text("not a line\n"), "line 1 of it is not NAME=value"),
        (moved, "it is behind a link"),
        (linked, "it is behind a link"),
        (piped, "it is not a file"),
    ],
)
async def test_otherwise_it_is_named_with_the_reason_and_nothing_of_it_counts(
    project: Project, change: Callable[[Project], object], problem: str
) -> None:
    project.approve()
    change(project)
    found = await project.keys()
    assert found == ProjectKeys(problem=problem)
    assert found.notice().message == f".bridle-secrets/env is not used: {problem}."


async def test_what_was_agreed_to_elsewhere_counts_only_there(project: Project, tmp_path: Path) -> None:
    project.approve()
    (tmp_path / "other").mkdir()
    other = Project((tmp_path / "other").resolve())
    other.approvals = project.approvals
    other.file.write_bytes(project.file.read_bytes())
    assert "agreed" in (await other.keys()).problem


def test_a_key_comes_from_the_first_place_that_has_one(project: Project) -> None:
    section = {"base_url": "https://models.example/v1", "key_env": "WORK_KEY"}
    env = {"WORK_KEY": a_secret(), "BRIDLE_API_KEY": a_secret()}
    stored = StoredKeys(where=project.where, env={}, clock=SystemClock())
    stored.store.put(ApiKey(provider="work", secret=a_secret()))
    nothing = Models(env=env, clock=SystemClock(), stored=stored)
    here: Models

    def settle(**said: str) -> None:
        nonlocal here
        here = nothing.with_settings({"work": {**section, **said}})
        here = here.of_project(str(project.root), {"WORK_KEY": a_secret()})
        here.choose("work:any")

    def source() -> str | None:
        return here.key_source(here.endpoint("work"))

    settle(api_key=a_secret())

    found = [source()]
    env["WORK_KEY"] = " "
    found.append(source())
    settle()
    found.append(source())
    env["BRIDLE_API_KEY"] = ""
    found.append(source())
    here = nothing.with_settings({"work": section})
    found.append(source())
    stored.store.delete("work")
    found.append(source())
    order = [
        "WORK_KEY",
        "providers.work.api_key",
        "BRIDLE_API_KEY",
        PROJECT_SECRETS_FILE,
        "bridle login",
        None,
    ]
    assert found == order


def test_file_tools_take_it_for_what_it_is() -> None:
    assert is_secret_like(PROJECT_SECRETS_FILE)


def test_one_projects_keys_are_not_anothers(tmp_path: Path) -> None:
    sections = {"work": {"base_url": "https://models.example/v1", "key_env": "WORK_KEY"}}
    models = Models(env={}, clock=SystemClock()).with_settings(sections)
    first, second = (models.of_project(name, {"WORK_KEY": a_secret()}) for name in ("/one", "/two"))
    work = models.endpoint("work")
    assert [one.key_source(work) for one in (models, first, second)] == [
        None,
        PROJECT_SECRETS_FILE,
        PROJECT_SECRETS_FILE,
    ]
    assert first.chat("work") is first.chat("work")
    assert first.chat("work") is not second.chat("work")
    assert first.connections is models.connections
    assert models.keys_in_use() == {first.project_keys["WORK_KEY"], second.project_keys["WORK_KEY"]}
    first.choose("work:any")
    shell = Models(env={"BRIDLE_API_KEY": a_secret()}, clock=SystemClock())
    shell = shell.with_settings(sections).of_project("/one", {})
    assert shell.key_source(work) is None
    shell.choose("work:any")
    assert shell.key_source(work) == "BRIDLE_API_KEY"
