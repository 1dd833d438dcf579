"""`apply_patch`, through the layers a session puts around it, and the parser alone."""

import os
import resource
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.text.line_diff import diff_of
from bridle.protocol.display_values import EditedFile
from bridle.tools.apply_patch import APPLY_PATCH, PatchArgs
from bridle.tools.patches.patch_plan import DoesNotApply, applied, new_text
from bridle.tools.patches.patches import BadPatch, Hunk, PatchedFile, PatchLine, parse_patch
from tables import table

GIT = """\
diff --git a/src/cart.py b/src/cart.py
index 83db48f..bf269f4 100644
--- a/src/cart.py
+++ b/src/cart.py
@@ -1,3 +1,3 @@ import os
 one
-two
+2
 three
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1,2 @@
+hello
+world
\\ No newline at end of file
diff --git a/empty.txt b/empty.txt
new file mode 100644
index 0000000..e69de29
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
diff --git a/old name.txt b/new name.txt
similarity index 100%
rename from old name.txt
rename to new name.txt
"""

ENVELOPE = """\
*** Begin Patch
*** Update File: src/cart.py
@@
 one
-two
+2
*** Add File: new.txt
+hello

+world
*** Delete File: gone.txt
*** Update File: old name.txt
*** Move to: deep/new name.txt
@@
-moved
+arrived
*** End Patch
"""


@pytest.fixture
def files(bench):
    (bench.workspace / "src").mkdir()
    (bench.workspace / "src/cart.py").write_text("one\ntwo\nthree\n")
    (bench.workspace / "gone.txt").write_text("bye\n")
    (bench.workspace / "old name.txt").write_text("moved\n")
    (bench.workspace / "old name.txt").chmod(0o640)
    return bench.workspace


async def test_a_git_diff_changes_creates_deletes_and_moves(bench, files) -> None:
    output = await bench.run("apply_patch", patch=GIT)
    assert output.content == (
        "Changed 5 files (+3 -2).\n"
        "  src/cart.py  +1 -1\n"
        "  new.txt  created, +2\n"
        "  empty.txt  created, +0\n"
        "  gone.txt  deleted, -1\n"
        "  old name.txt → new name.txt  moved, +0 -0\n"
    )
    assert (files / "src/cart.py").read_text() == "one\n2\nthree\n"
    assert (files / "new.txt").read_text() == "hello\nworld"
    assert (files / "empty.txt").read_text() == ""
    assert (files / "new name.txt").read_text() == "moved\n"
    assert stat.S_IMODE((files / "new name.txt").stat().st_mode) == 0o640
    assert sorted(os.listdir(files)) == ["empty.txt", "new name.txt", "new.txt", "src"]
    gone = "--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n"
    assert output.shown.files[2:] == (
        EditedFile(path="empty.txt", kind="create"),
        EditedFile(path="gone.txt", kind="delete", diff=gone, removed=1),
        EditedFile(path="new name.txt", kind="move", moved_from="old name.txt"),
    )


async def test_the_form_models_write_does_the_same(bench, files) -> None:
    output = await bench.run("apply_patch", patch=ENVELOPE)
    assert output.ok, output.content
    assert (files / "src/cart.py").read_text() == "one\n2\nthree\n"
    assert (files / "new.txt").read_text() == "hello\n\nworld\n"
    assert (files / "deep/new name.txt").read_text() == "arrived\n"
    assert sorted(os.listdir(files)) == ["deep", "new.txt", "src"]
    assert output.shown.files[-1].diff.startswith("--- a/old name.txt\n+++ b/deep/new name.txt\n")


async def test_diffs_that_have_no_room_are_left_out_and_counted_all_the_same(bench) -> None:
    long = "".join(f"+{'x' * 60}{number}\n" for number in range(300))
    patch = "".join(f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,300 @@\n{long}" for name in "abc")
    files = (await bench.run("apply_patch", patch=patch)).shown.files
    assert [(file.path, bool(file.diff), file.cut, file.added) for file in files] == [
        ("a", True, False, 300),
        ("b", True, False, 300),
        ("c", False, True, 300),
    ]


async def test_one_change_that_does_not_fit_leaves_every_file_alone(bench, files) -> None:
    patch = GIT + "--- a/gone2.txt\n+++ b/gone2.txt\n@@ -1 +1 @@\n-a\n+b\n"
    output = await bench.run("apply_patch", patch=patch)
    assert (output.outcome, output.reason) == ("error", "FileUnreadable")
    assert "gone2.txt cannot be read: No such file or directory; nothing was written." in output.content
    wrong = ENVELOPE.replace("-moved", "-remove")
    output = await bench.run("apply_patch", patch=wrong)
    assert (output.outcome, output.reason) == ("error", "PatchDoesNotApply")
    assert "old name.txt: change 1 of 1: its lines are not in the file: line 1 fits best" in output.content
    assert sorted(os.listdir(files)) == ["gone.txt", "old name.txt", "src"]
    assert (files / "src/cart.py").read_text() == "one\ntwo\nthree\n"


async def test_a_write_that_fails_puts_the_files_before_it_back(bench, files) -> None:
    (files / "src/cart.py").chmod(0o755)
    big = "".join(f"+{'x' * 99}\n" for _ in range(1000))
    patch = (
        "*** Begin Patch\n*** Update File: src/cart.py\n one\n-two\n*** Add File: a/b/small.txt\n+s\n"
        f"*** Add File: big/big.txt\n{big}*** Delete File: gone.txt\n*** End Patch\n"
    )
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, limits[1]))
    try:
        output = await bench.run("apply_patch", patch=patch)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (output.outcome, output.reason) == ("error", "FileUnwritable")
    assert output.content == "big/big.txt cannot be written: File too large; nothing was changed."
    assert (files / "src/cart.py").read_text() == "one\ntwo\nthree\n"
    assert stat.S_IMODE((files / "src/cart.py").stat().st_mode) == 0o755
    assert sorted(os.listdir(files)) == ["gone.txt", "old name.txt", "src"]


async def test_every_path_is_guarded(bench, files, tmp_path) -> None:
    (tmp_path / "outside.txt").write_text("a\n")
    for last in (
        "*** Delete File: ../outside.txt\n",
        f"*** Add File: {tmp_path}/new.txt\n+x\n",
        "*** Update File: gone.txt\n*** Move to: ../gone.txt\n",
    ):
        patch = f"*** Begin Patch\n*** Update File: src/cart.py\n-two\n+2\n{last}*** End Patch"
        output = await bench.run("apply_patch", patch=patch)
        assert (output.outcome, output.reason) == ("blocked", "PathOutsideWorkspace")
    assert (files / "src/cart.py").read_text() == "one\ntwo\nthree\n"
    assert sorted(os.listdir(tmp_path)) == ["outside.txt", "workspace"]


def test_all_paths_of_a_patch_are_subjects_once() -> None:
    subjects = APPLY_PATCH.subjects(PatchArgs(patch=GIT + "\nand:\n\n" + GIT))
    assert [subject.value for subject in subjects] == [
        "src/cart.py",
        "new.txt",
        "empty.txt",
        "gone.txt",
        "old name.txt",
        "new name.txt",
    ]
    assert {subject.access for subject in subjects} == {"write"}


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        ("", "it changes no file"),
        ("just words\n", "it changes no file"),
        ("*** Begin Patch\n*** Add File: a\n+x\n", "it ends without *** End Patch"),
        ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", "line 3 of the patch"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "no change follows"),
        ("*** Begin Patch\n*** Update File: \n-a\n*** End Patch", "the name of a file is missing"),
        ("*** Begin Patch\n*** Update File: a\n context only\n*** End Patch", "neither a line with -"),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\nwhat\n", "line 6 of the patch"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n\nwords\n+lost\n", "a line that belongs to no change"),
        ("@@ -1 +1 @@\n-a\n+b\n", "without the --- and +++ lines"),
        ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "only its mode would change"),
        (ENVELOPE + "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "it goes on after *** End Patch"),
        ("diff --git a/x b/x\nindex 1..2\nGIT binary patch\n", "binary files cannot be patched"),
        ("--- /dev/null\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "lines that were there before"),
    ],
)
async def test_what_is_no_patch_is_an_input_error_that_says_where(bench, patch: str, problem: str) -> None:
    output = await bench.run("apply_patch", patch=patch)
    assert (output.outcome, output.reason) == ("error", "InvalidInput")
    assert problem in output.content


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("*** Add File: gone.txt\n+x\n", "it is there already"),
        ("*** Update File: gone.txt\n*** Move to: src/cart.py\n", "it is there already"),
        ("*** Delete File: src\n", "it is a folder"),
        ("*** Delete File: link\n", "it is a link to gone.txt"),
        ("*** Update File: gone.txt\n-bye\n+bye\n", "would change nothing"),
        ("*** Update File: gone.txt\n@@ nowhere\n-bye\n+hi\n", 'the line "@@ nowhere" names'),
        ("*** Update File: twice.txt\n-a\n+b\n", "more than once (at lines 1, 3)"),
    ],
)
async def test_what_cannot_be_meant_is_refused(bench, files, change: str, problem: str) -> None:
    (files / "link").symlink_to("gone.txt")
    (files / "twice.txt").write_text("a\nx\na\n")
    output = await bench.run("apply_patch", patch=f"*** Begin Patch\n{change}*** End Patch\n")
    assert output.outcome == "error"
    assert problem in output.content
    assert (files / "gone.txt").read_text() == "bye\n"


async def test_a_change_that_is_not_where_it_says_is_made_and_said_aloud(bench) -> None:
    file = bench.workspace / "a.py"
    file.write_text("# new\n# lines\ndef f():\n\treturn 1  \n")
    patch = "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+\treturn 2\n"
    output = await bench.run("apply_patch", patch=patch)
    assert file.read_text() == "# new\n# lines\ndef f():\n\treturn 2\n"
    assert "[a.py, change 1: matched without counting whitespace" in output.content
    assert "found 2 lines below where it says]" in output.content


async def test_lines_that_stay_are_the_files_own_to_the_byte(bench) -> None:
    file = bench.workspace / "a.txt"
    file.write_bytes(b"one  \r\n\ttwo\nthree\r\n")
    patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n two\n-three\n+3\n"
    assert (await bench.run("apply_patch", patch=patch)).ok
    assert file.read_bytes() == b"one  \r\n\ttwo\n3\r\n"


@table(("start", "after"), [(3, "a\nx\nb\nx\na\n"), (2, None), (4, None), (40, None)])
def test_of_several_places_the_one_near_by_is_taken_and_a_guess_is_refused(
    start: int, after: str | None
) -> None:
    (change,) = parse_patch(f"--- f\n+++ f\n@@ -{start} +{start} @@\n-a\n+b\n")
    try:
        assert applied("a\nx\na\nx\na\n", change.hunks).text == after
    except DoesNotApply as refused:
        assert after is None
        assert "more than once (at lines 1, 3, 5)" in refused.help.problem


async def test_the_file_keeps_its_line_ends_and_its_mark(bench) -> None:
    file = bench.workspace / "a.txt"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nlast")
    patch = (
        "*** Begin Patch\n*** Update File: a.txt\n one\n-two\n+2\n+3\n last\n*** End of File\n*** End Patch"
    )
    assert (await bench.run("apply_patch", patch=patch)).ok
    assert file.read_bytes() == b"\xef\xbb\xbfone\r\n2\r\n3\r\nlast"


async def test_an_anchor_chooses_among_equal_places(bench) -> None:
    file = bench.workspace / "a.py"
    file.write_text("class A:\n    def f():\n        pass\n\nclass B:\n    def f():\n        pass\n")
    patch = (
        "*** Begin Patch\n*** Update File: a.py\n@@ class B:\n@@     def f():\n"
        "-        pass\n+        return\n*** End Patch"
    )
    assert (await bench.run("apply_patch", patch=patch)).ok
    assert file.read_text().endswith("class B:\n    def f():\n        return\n")
    assert "class A:\n    def f():\n        pass\n" in file.read_text()


async def test_a_secret_is_not_replaced_by_its_mask(bench) -> None:
    secret = "TOKEN=ghp_" + "a1B2" * 9 + "\nDEBUG=1\n"
    (bench.workspace / "settings").write_text(secret)
    patch = "--- a/settings\n+++ b/settings\n@@ -2 +2 @@\n-DEBUG=1\n+DEBUG=«redacted:github_token»\n"
    output = await bench.run("apply_patch", patch=patch)
    assert (output.outcome, output.reason) == ("error", "FileUnwritable")
    assert (bench.workspace / "settings").read_text() == secret


def test_quoted_names_times_and_removed_lines_that_look_like_headers_are_read() -> None:
    patch = (
        '--- "a/caf\\303\\251 \\"x\\".txt"\t2024-01-01\n+++ "b/caf\\303\\251 \\"x\\".txt"\n'
        "@@ -1,2 +1,2 @@\n a\n--- x\n+++ y\n@@ -5 +5 @@\n-b\n+c\n"
    )
    (change,) = parse_patch(f"Here it is:\n```diff\n{patch}```\n")
    assert parse_patch(f"```diff\n{patch}```\n") == (change,)
    assert change.path == 'café "x".txt'
    assert change.hunks[0].lines == (PatchLine(" ", "a"), PatchLine("-", "-- x"), PatchLine("+", "++ y"))
    assert change.hunks[1].start == 5


line = st.text(alphabet="ab-+@ *\\", max_size=5)
body = st.lists(line, max_size=12)


@given(body, body, st.booleans(), st.booleans())
def test_a_diff_made_by_us_turns_the_old_text_into_the_new(old, new, old_ends: bool, new_ends: bool) -> None:
    before, after = joined(old, old_ends), joined(new, new_ends)
    diff = diff_of("a file.txt", before, after).text
    if not diff:
        return
    (change,) = parse_patch(diff)
    assert (change.kind, change.path) == ("update", "a file.txt")
    text, notes = applied(before, change.hunks)
    assert text == after
    assert notes == ()


def joined(lines: list[str], ends: bool) -> str:
    text = "\n".join(lines)
    return text + "\n" if ends and text else text


marks = st.sampled_from([" ", "-", "+"])
hunk_lines = st.lists(st.builds(PatchLine, marks, line), min_size=1, max_size=6).filter(
    lambda lines: any(item.mark != " " for item in lines)
)
paths = st.text(alphabet="abc/.é", min_size=1, max_size=8)
anchor = st.text(alphabet="abc(", min_size=1, max_size=6)
updates = st.builds(
    lambda path, moved_to, hunks: PatchedFile(
        kind="update", path=path, moved_to=moved_to, hunks=tuple(hunks)
    ),
    paths,
    st.none() | paths,
    st.lists(
        st.builds(
            lambda lines, anchors, at_end: Hunk(lines=tuple(lines), anchors=tuple(anchors), at_end=at_end),
            hunk_lines,
            st.lists(anchor, max_size=2),
            st.booleans(),
        ),
        min_size=1,
        max_size=3,
    ),
)
adds = st.builds(
    lambda path, lines: PatchedFile(
        kind="add", path=path, hunks=(Hunk(lines=tuple(PatchLine("+", item) for item in lines), start=0),)
    ),
    paths,
    st.lists(line, min_size=1, max_size=4),
)
deletes = st.builds(lambda path: PatchedFile(kind="delete", path=path), paths)


@given(st.lists(updates | adds | deletes, min_size=1, max_size=4))
def test_what_is_written_as_a_patch_is_read_back_the_same(changes: list[PatchedFile]) -> None:
    assert parse_patch(written(changes)) == tuple(changes)


def written(changes: list[PatchedFile]) -> str:
    lines = ["*** Begin Patch"]
    for change in changes:
        lines.append(f"*** {change.kind.capitalize()} File: {change.path}")
        if change.moved_to is not None:
            lines.append(f"*** Move to: {change.moved_to}")
        for hunk in change.hunks:
            if change.kind == "update":
                lines += [f"@@ {anchor}" for anchor in hunk.anchors] or ["@@"]
            lines += [item.mark + item.text for item in hunk.lines]
            lines += ["*** End of File"] * hunk.at_end
    return "\n".join([*lines, "*** End Patch", ""])


NOISE = """\
*** Begin Patch
*** End Patch
*** Update File: a
*** Add File: b
*** Delete File: c
*** Move to: d
*** End of File
@@
@@ x
@@ -1,2 +1,3 @@
--- a/a
+++ b/a
---
diff --git a/a b/a
rename from a
rename to b
new file mode 100644
--- /dev/null
 a
-a
+b

\\ No newline at end of file
--
x
--- "a/\\
```
\r"""
noise = st.lists(st.sampled_from(NOISE.split("\n")), max_size=14).map("\n".join)


@given(noise | st.text(max_size=40), st.text(alphabet="ab\n", max_size=12))
def test_any_text_is_a_patch_or_is_refused_with_a_reason(patch: str, text: str) -> None:
    try:
        changes = parse_patch(patch)
    except BadPatch as refused:
        assert refused.problem
        return
    assert changes
    for change in changes:
        assert all(change.paths)
        try:
            applied(text, change.hunks)
        except DoesNotApply as refused:
            assert refused.help.problem


@given(st.lists(line, min_size=1, max_size=8), st.booleans())
def test_a_new_file_has_exactly_the_lines_of_the_patch(lines: list[str], ends: bool) -> None:
    text = joined(lines, ends) or "x"
    (change,) = parse_patch(diff_of("x", None, text).text)
    assert (change.kind, new_text(change.hunks)) == ("add", text)
