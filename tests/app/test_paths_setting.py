"""`paths` says where file tools may go; a container around Bridle changes nothing about that, nor about the sandbox."""

from pathlib import Path

import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.protocol.events import SessionCreated, ToolResult
from bridle.providers.script import call, say
from bridle.sandbox.adapters.adapter_choice import ORDER


async def outcomes(work: Path, home: Path, *paths: Path) -> list[tuple[str, str]]:
    """What comes of reading and of writing each path, in a session that asks nobody."""
    calls = [
        each
        for path in paths
        for each in (
            call("read_file", path=str(path)),
            call("write_file", path=str(path.with_name("new")), content="x"),
        )
    ]
    async with harness(
        scripted(*calls, say("Done.")), folder=str(work), home=str(home), mode="yolo"
    ) as session:
        results = of_kind(await session.ask("go"), ToolResult)
    found = [result.outcome for result in results]
    return list(zip(found[::2], found[1::2], strict=True))


@pytest.mark.requirement("H10.1")
async def test_file_tools_are_limited_to_the_workspace_an_allow_list_or_nothing(tmp_path: Path) -> None:
    work, shared, other = (tmp_path / name for name in ("work", "shared", "other"))
    for folder in (work, shared, other):
        folder.mkdir()
        (folder / "file").write_text("x")
    home = tmp_path / "home"
    (home / "config").mkdir(parents=True)
    settings = home / "config/config.toml"
    files = (work / "file", shared / "file", other / "file")

    assert await outcomes(work, home, *files) == [("ok", "ok"), ("ok", "blocked"), ("ok", "blocked")]
    settings.write_text(f'paths = "allowlist"\nallowed_paths = [".", "{shared}"]\n')
    assert await outcomes(work, home, *files) == [("ok", "ok"), ("ok", "ok"), ("blocked", "blocked")]
    settings.write_text('paths = "off"\n')
    assert await outcomes(work, home, *files) == [("ok", "ok"), ("ok", "ok"), ("ok", "ok")]


async def test_a_project_cannot_loosen_the_limit(tmp_path: Path) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    (work / ".bridle").mkdir(parents=True)
    other.mkdir()
    (work / ".bridle/config.toml").write_text(f'paths = "off"\nallowed_paths = ["{other}"]\n')
    (other / "file").write_text("x")
    assert await outcomes(work, tmp_path / "home", other / "file") == [("ok", "blocked")]


@pytest.mark.requirement("H10.3", "C9", "T16.1")
async def test_inside_a_container_nothing_is_weaker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("container", "podman")
    work = tmp_path / "work"
    work.mkdir()
    (work / ".env").write_text("x")
    (work / "obey.sh").write_text("touch made AGENTS.md")
    model = scripted(
        call("bash", command="sh obey.sh"),
        call("write_file", path="../out", content="x"),
        call("write_file", path=".env", content="x"),
        call("bash", command="secret-tool lookup a b"),
        say("Done."),
    )
    async with harness(model, folder=str(work), mode="yolo") as session:
        created = await session.until(SessionCreated)
        results = of_kind(await session.ask("go"), ToolResult)
    assert (created.sandbox in ORDER, created.confined) == (True, "workspace-write")
    assert [result.outcome for result in results] == ["ok", "blocked", "blocked", "blocked"]
    assert results[0].shown.sandbox == created.sandbox
    assert not (work / "AGENTS.md").exists()
