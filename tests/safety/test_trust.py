"""What a person agreed to: kept by content, outside the workspace, in lines that approve nothing once harmed."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.conformance.fake_clock import FakeClock
from bridle.protocol.errors import BridleError
from bridle.safety.trust.approvals import (
    KEPT_PER_PLACE,
    KINDS,
    MAX_COPY_BYTES,
    Approval,
    Approvals,
    content_digest,
    decode,
    encode,
    encode_line,
    read_lockfile,
)
from bridle.safety.trust.trust_questions import change_of
from effort import examples
from tables import table

DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)
NAMES = st.one_of(
    st.text(min_size=1, max_size=12), st.binary(min_size=1, max_size=8).map(os.fsdecode)
).filter(lambda name: _is_encodable(name))
ENTRIES = st.builds(
    Approval,
    kind=st.sampled_from(KINDS),
    digest=DIGESTS,
    path=NAMES,
    root=st.one_of(st.just(""), NAMES.map(lambda name: f"/{name}")),
    approved_ms=st.integers(0, 253_402_300_799).map(lambda seconds: seconds * 1000),
)


def _is_encodable(name: str) -> bool:
    try:
        return os.fsdecode(os.fsencode(name)) == name
    except UnicodeEncodeError:  # a surrogate that stands for no byte is no file name
        return False


@pytest.fixture
def store(tmp_path: Path) -> Approvals:
    return Approvals(str(tmp_path / "config"), copies=str(tmp_path / "state"), clock=FakeClock())


# The text of the file


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(ENTRIES, max_size=5))
def test_every_path_survives_the_file_and_stays_on_one_line(entries: list[Approval]):
    data = encode(entries)
    assert set(decode(data).entries) == set(entries)
    assert decode(data).unread == ()
    assert data.count(b"\n") == len(set(entries)) + 2
    assert data.isascii()


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(ENTRIES, min_size=1, max_size=3), st.data())
def test_a_file_cut_off_anywhere_approves_nothing_that_was_not_there(
    entries: list[Approval], draw: st.DataObject
):
    data = encode(entries)
    cut = draw.draw(st.integers(0, len(data)))
    assert set(decode(data[:cut]).entries) <= set(entries)


def test_a_file_cut_off_at_each_byte_approves_whole_lines_only():
    entries = [Approval(kind="config", digest=f"{n}" * 64, path=f"a/b{n}/c", root="/x") for n in range(3)]
    data = encode(entries)
    for cut in range(len(data) + 1):
        assert len(decode(data[:cut]).entries) == max(0, data[:cut].count(b"\n") - 2)


@settings(max_examples=examples(80), deadline=None)
@given(ENTRIES, st.integers(0, 400), st.integers(0, 255))
def test_a_harmed_line_counts_for_nothing_but_what_it_says_to_the_letter(entry: Approval, at: int, byte: int):
    line = bytearray(encode_line(entry))
    line[at % len(line)] = byte
    found = decode(encode([]) + bytes(line)).entries
    assert {encode_line(one) for one in found} <= set(bytes(line).splitlines(keepends=True))


@settings(max_examples=examples(100), deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_can_stand_there_and_trust_nothing(data: bytes):
    assert decode(data).entries == ()
    assert decode(encode([]) + data).entries == ()


@table(
    "line",
    [
        b"instructions sha256:%s 2026-10-12T08:15:00Z . AGENTS.md" % (b"a" * 64),
        b"instructions sha256:%s 2026-10-12T08:15:00Z . AGENTS.md \n" % (b"a" * 64),
        b"instructions  sha256:%s 2026-10-12T08:15:00Z . AGENTS.md\n" % (b"a" * 64),
        b"instructions sha256:%s 2026-10-12T08:15:00Z . AGENTS.md\r\n" % (b"a" * 64),
        b"instructions sha256:%s 2026-10-12T08:15:00Z . %%41GENTS.md\n" % (b"a" * 64),
        b"instructions sha256:%s 2026-10-12T08:15:00Z . AGENTS%%.md\n" % (b"a" * 64),
        b"instructions sha256:%s 2026-10-12T08:15:00Z . AGENTS.md\n" % (b"A" * 64),
        b"instructions sha256:%s 2026-10-12T08:15:00Z . AGENTS.md\n" % (b"a" * 63),
        b"instructions %s 2026-10-12T08:15:00Z . AGENTS.md\n" % (b"a" * 64),
        b"instructions sha256:%s 2026-10-12 . AGENTS.md\n" % (b"a" * 64),
        b"everything sha256:%s 2026-10-12T08:15:00Z . AGENTS.md\n" % (b"a" * 64),
        b"* * * * *\n",
    ],
)
def test_a_line_counts_only_as_it_would_be_written(line: bytes):
    whole = b"instructions sha256:%s 2026-10-12T08:15:00Z . AGENTS.md\n" % (b"a" * 64)
    assert len(decode(encode([]) + whole).entries) == 1
    assert decode(encode([]) + line).entries == ()
    assert [number for number, _ in decode(encode([]) + line).unread] == [3]


# The store


@pytest.mark.requirement("C12")
def test_approvals_are_kept_by_content_in_a_private_file(store: Approvals):
    assert not store.holds("a" * 64)
    store.add("AGENTS.md", "a" * 64, root="/x")
    store.add("AGENTS.md", "b" * 64, root="/y")
    store.add("AGENTS.md", "b" * 64, root="/y")
    assert store.holds("a" * 64)
    assert store.holds("b" * 64)
    assert not store.holds("")
    assert not store.holds("c" * 64)
    assert len(store.read().entries) == 2
    assert os.stat(store.path).st_mode & 0o777 == 0o600


def test_settings_and_programs_count_only_where_they_were_approved(store: Approvals):
    place = {"kind": "config", "root": "/x", "path": ".bridle/config.toml"}
    store.add(place["path"], "a" * 64, kind="config", root="/x")
    assert store.holds("a" * 64, **place)
    for other in (
        {"root": "/y"},
        {"path": "sub/.bridle/config.toml"},
        {"kind": "hook"},
        {"kind": "instructions"},
    ):
        assert not store.holds("a" * 64, **{**place, **other})


def test_approving_one_kind_is_not_approving_another(store: Approvals):
    store.add("AGENTS.md", "a" * 64)
    assert not store.holds("a" * 64, kind="skill")


def test_the_approved_text_is_kept_for_a_later_comparison_and_only_if_it_is_still_that_text(
    store: Approvals, tmp_path: Path
):
    text = b"Run make test.\n"
    approval = store.add("AGENTS.md", content_digest(text), root="/x", text=text)
    assert store.last(kind="instructions", root="/x", path="AGENTS.md") == approval
    assert store.text_of(approval) == "Run make test.\n"
    copy = tmp_path / "state" / approval.digest
    assert copy.stat().st_mode & 0o777 == 0o600
    copy.write_text("Run something else.")
    assert store.text_of(approval) is None


def test_a_huge_text_is_approved_without_a_copy(store: Approvals):
    text = b"x" * (MAX_COPY_BYTES + 1)
    approval = store.add("AGENTS.md", content_digest(text), text=text)
    assert store.holds(approval.digest)
    assert store.text_of(approval) is None


def test_two_at_once_lose_nothing(tmp_path: Path):
    def add(number: int) -> None:
        Approvals(str(tmp_path)).add(f"{number}.md", content_digest(bytes((number,))))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(24)))
    assert len(Approvals(str(tmp_path)).read().entries) == 24


async def test_going_back_to_an_older_content_asks_nobody_and_the_oldest_go(store: Approvals):
    digests = [content_digest(bytes((number,))) for number in range(KEPT_PER_PLACE + 2)]
    clock = FakeClock()
    growing = Approvals(os.path.dirname(store.path), clock=clock)
    for digest in digests:
        growing.add("A.md", digest, root="/x")
        await clock.advance(1)
    assert [store.holds(digest) for digest in digests] == [False] * 2 + [True] * KEPT_PER_PLACE


def test_a_file_of_another_version_approves_nothing_and_is_not_thrown_away(store: Approvals):
    os.makedirs(os.path.dirname(store.path))
    old = b"# bridle approved.lock 2\n" + encode_line(Approval(kind="config", digest="a" * 64, path="x"))
    Path(store.path).write_bytes(old)
    assert store.read().entries == ()
    assert store.read().foreign
    store.add("AGENTS.md", "b" * 64)
    assert store.holds("b" * 64)
    assert Path(store.path + ".unread").read_bytes() == old


def test_lines_nobody_understands_stay_and_count_for_nothing(store: Approvals):
    store.add("AGENTS.md", "a" * 64)
    with open(store.path, "ab") as file:
        file.write(b"spell sha256:of-the-future 2 . x\ntorn")
    store.add("B.md", "b" * 64)
    assert [entry.path for entry in store.read().entries] == ["AGENTS.md", "B.md"]
    assert b"spell sha256:of-the-future" in Path(store.path).read_bytes()
    assert b"torn" not in Path(store.path).read_bytes()


def test_what_is_revoked_is_asked_about_again(store: Approvals):
    text = b"Run make test.\n"
    gone = store.add("AGENTS.md", content_digest(text), root="/x", text=text)
    store.add("B.md", "b" * 64, root="/x")
    assert store.revoke(lambda entry: entry.path == "AGENTS.md") == (gone,)
    assert not store.holds(gone.digest)
    assert store.text_of(gone) is None
    assert store.holds("b" * 64)
    assert store.revoke(lambda _entry: False) == ()


def test_a_store_that_cannot_be_written_says_so_and_trusts_nothing(tmp_path: Path):
    (tmp_path / "file").write_text("")
    store = Approvals(str(tmp_path / "file"))
    with pytest.raises(BridleError) as refused:
        store.add("AGENTS.md", "a" * 64)
    assert refused.value.reason == "TrustUnwritable"
    assert not store.holds("a" * 64)


# A lock file that somebody names


def test_a_named_lock_file_counts_for_its_own_paths_only(store: Approvals):
    entry = Approval(kind="instructions", digest="a" * 64, path="docs/AGENTS.md")
    named = store.with_named([entry])
    assert named.holds("a" * 64, path="docs/AGENTS.md", root="/anywhere")
    assert not named.holds("a" * 64, path="AGENTS.md", root="/anywhere")
    assert not store.holds("a" * 64, path="docs/AGENTS.md")


@pytest.mark.parametrize(
    "content", [None, b"", b"nonsense\n", encode([]) + b"torn", encode([]) + b"a b c d e\n"]
)
def test_a_named_lock_file_that_is_not_whole_is_refused(tmp_path: Path, content: bytes | None):
    path = tmp_path / "approved.lock"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BridleError) as refused:
        read_lockfile(str(path))
    assert (refused.value.reason, refused.value.exit_code) == ("BadLockfile", 2)


# What changed


@pytest.mark.requirement("G1.24")
@table(
    ("before", "after", "change"),
    [
        ("---\na: 1\n---\nHello there.", "---\na: 2\n---\nHello  there.\n", "metadata"),
        ("Be kind.", "Be kind and brief.", "prose"),
        ("Run `make`.", "Run `make test`.", "code"),
        ("Be kind.", "Be kind. See https://example.invalid/x", "code"),
        ("Do.\n\n    make\n", "Do.\n\n    rm -rf /\n", "code"),
        ("```\nls\n```\n", "```\nls -l\n```\n", "code"),
        ("x", "#!/bin/sh\nx", "executable"),
    ],
)
def test_a_change_is_classed_by_the_heaviest_thing_it_touches(before: str, after: str, change: str):
    assert change_of("instructions", before, after) == change


def test_whatever_changes_in_settings_or_a_hook_may_run_something():
    assert {change_of(kind, "a", "a ") for kind in ("config", "hook", "mcp_server", "plugin")} == {
        "executable"
    }
