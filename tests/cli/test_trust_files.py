"""Files that grant authority count only where nobody else could have written them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bridle.protocol.events import GrantAdded
from bridle.safety.grants import SavedGrants
from bridle.safety.trust.approvals import Approvals, content_digest
from cli_kit import Place

SOMEBODY = 54_321


def writable_by_all(path: Path) -> None:
    path.chmod(0o666)


def writable_by_the_group(path: Path) -> None:
    path.chmod(0o620)


def a_link(path: Path) -> None:
    path.rename(path.with_suffix(".real"))
    path.symlink_to(path.with_suffix(".real"))


def somebody_elses(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path, SOMEBODY, -1)


SPOILED = [writable_by_all, writable_by_the_group, a_link, somebody_elses]
spoiled = pytest.mark.parametrize("spoil", SPOILED, ids=lambda spoil: spoil.__name__)
FIXES = {
    writable_by_all: "chmod go-w",
    writable_by_the_group: "chmod go-w",
    a_link: "put the file itself there",
    somebody_elses: f"chown {os.geteuid()}",
}
Spoil = Callable[[Path], None]


def approved(place: Place) -> Path:
    """A project whose instruction file the person agreed to."""
    text = b"Be kind.\n"
    (place.work / "AGENTS.md").write_bytes(text)
    approvals = Approvals(str(place.home / ".config/bridle"))
    approvals.add("AGENTS.md", content_digest(text), root=str(place.work.resolve()))
    return Path(approvals.path)


@spoiled
@pytest.mark.requirement("G1.26")
def test_approvals_that_others_could_write_approve_nothing_and_that_is_said(
    place: Place, spoil: Spoil
) -> None:
    lock = approved(place)
    words = ("run", "--json", "-m", place.script("say hello\n"), "hi")
    assert place.bridle(*words).result["not_used"] == []
    before = lock.read_bytes()
    spoil(lock)
    ran = place.bridle(*words)
    assert ran.result["not_used"] == ["AGENTS.md"]
    (said,) = [line for line in ran.story if "not obeyed" in line]
    assert said.startswith(f"{lock} is not obeyed: ")
    assert FIXES[spoil] in said
    assert place.bridle("run", "--require-trust", *words[1:]).code == 3
    verified = place.bridle("trust", "verify")
    assert verified.code == 3
    assert FIXES[spoil] in verified.err
    assert "not obeyed" in place.bridle("trust").err
    assert place.bridle("trust", "revoke", "all").code == 3
    assert lock.read_bytes() == before


@spoiled
@pytest.mark.requirement("G22.20")
def test_a_lock_file_named_from_outside_is_refused_where_others_could_write_it(
    place: Place, spoil: Spoil
) -> None:
    lock = place.home / "ci.lock"
    lock.write_bytes(approved(place).read_bytes())
    words = ("run", "--lockfile", str(lock), "-m", place.script("say hello\n"), "hi")
    assert place.bridle(*words).code == 0
    spoil(lock)
    ran = place.bridle(*words)
    assert (ran.code, ran.out) == (3, "")
    assert FIXES[spoil] in ran.err
    variable = place.bridle("run", *words[3:], env={"BRIDLE_APPROVED_LOCK": str(lock)})
    assert (variable.code, FIXES[spoil] in variable.err) == (3, True)
    assert place.bridle("trust", "verify", "--lockfile", str(lock)).code == 3


@spoiled
@pytest.mark.requirement("D17.1")
def test_saved_grants_that_others_could_write_grant_nothing_and_that_is_said(
    place: Place, spoil: Spoil
) -> None:
    saved = SavedGrants(
        str(place.home / ".local/state/bridle"), lambda: os.stat(place.work).st_mtime_ns // 1_000_000
    )
    saved.add(
        str(place.work.resolve()),
        GrantAdded(grant_id="grant_1", tool="bash", pattern="touch made", life="saved"),
    )
    call = ("permissions", "explain", "--json", "bash", '{"command": "touch made"}')
    assert place.bridle(*call).result["verdict"] == "allow"
    spoil(Path(saved.path))
    assert place.bridle(*call).result["verdict"] == "ask"
    listed = place.bridle("permissions")
    assert FIXES[spoil] in listed.err
    assert str(saved.path) in listed.err


@pytest.mark.parametrize("spoil", [writable_by_all, somebody_elses], ids=lambda spoil: spoil.__name__)
def test_settings_that_others_could_write_are_refused(place: Place, spoil: Spoil) -> None:
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True)
    settings = folder / "config.toml"
    settings.write_text('mode = "yolo"\n')
    settings.chmod(0o644)
    assert "yolo" in place.bridle("permissions").out
    spoil(settings)
    ran = place.bridle("run", "-m", place.script("say hello\n"), "hi")
    assert ran.code == 2
    assert FIXES[spoil] in ran.err


def test_settings_that_are_kept_elsewhere_and_linked_to_still_count(place: Place) -> None:
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('mode = "plan"\n')
    a_link(folder / "config.toml")
    assert "plan" in place.bridle("permissions").out
