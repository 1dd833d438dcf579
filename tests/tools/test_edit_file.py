"""`edit_file`, through the layers a session puts around it."""

import os
import stat

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridle.protocol.display_values import EditedFile, ShownEdit
from bridle.tools.patches.edits import NoSuchEdit, edited
from secret_kit import private_key_lines


@pytest.mark.requirement("D9.5", "T2.12")
async def test_one_place_is_replaced_and_the_result_shows_the_change(bench) -> None:
    file = bench.workspace / "cart.py"
    file.write_text("def total():\n    return 0\n")
    file.chmod(0o750)
    output = await bench.run("edit_file", path="cart.py", old_string="return 0", new_string="return 1")
    assert file.read_text() == "def total():\n    return 1\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o750
    assert output.content == "Edited cart.py: 1 replacement (+1 -1)."
    assert [*output.metadata["seen"]] == [str(file)]
    diff = "--- a/cart.py\n+++ b/cart.py\n@@ -1,2 +1,2 @@\n def total():\n-    return 0\n+    return 1\n"
    assert output.shown == ShownEdit(files=(EditedFile(path="cart.py", diff=diff, added=1, removed=1),))
    assert os.listdir(bench.workspace) == ["cart.py"]


@pytest.mark.requirement("D9.5", "T2.12")
async def test_several_places_need_replace_all_and_are_named(bench) -> None:
    file = bench.workspace / "a.txt"
    file.write_text("x = 1\ny = 1\nz = 1\n")
    output = await bench.run("edit_file", path="a.txt", old_string="= 1", new_string="= 2")
    assert (output.outcome, output.reason) == ("error", "TextNotFound")
    assert "3 times, in lines 1, 2, 3" in output.content
    assert file.read_text() == "x = 1\ny = 1\nz = 1\n"
    output = await bench.run("edit_file", path="a.txt", oldString="= 1", newString="= 2", replaceAll=True)
    assert file.read_text() == "x = 2\ny = 2\nz = 2\n"
    assert output.content == "Edited a.txt: 3 replacements (+3 -3)."


@pytest.mark.requirement("D9.5")
@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [("", "x", "use write_file"), ("same", "same", "the same"), ("a", "\ud800", "cannot be stored")],
)
async def test_edits_that_mean_nothing_are_input_errors(bench, old: str, new: str, problem: str) -> None:
    (bench.workspace / "a.txt").write_text("a same\n")
    output = await bench.run("edit_file", path="a.txt", old_string=old, new_string=new)
    assert (output.outcome, output.reason) == ("error", "InvalidInput")
    assert problem in output.content


@pytest.mark.requirement("D9.5")
async def test_a_text_that_differs_in_whitespace_is_answered_with_the_place(bench) -> None:
    (bench.workspace / "a.py").write_text("import os\n\ndef f():\n\treturn os.getcwd()\n")
    output = await bench.run(
        "edit_file", path="a.py", old_string="def f():\n    return os.getcwd()\n", new_string="pass\n"
    )
    assert output.reason == "TextNotFound"
    assert "lines 3 to 4 fit except for whitespace" in output.content
    assert 'line 4, where the file has "\\treturn os.getcwd()"' in output.content
    assert 'old_string has "    return os.getcwd()"' in output.content
    assert output.content.endswith("\n3\tdef f():\n4\t\treturn os.getcwd()")


@pytest.mark.requirement("D9.5")
async def test_a_text_that_nearly_fits_is_answered_with_the_first_line_that_differs(bench) -> None:
    (bench.workspace / "a.py").write_text("".join(f"line_{n} = {n}\n" for n in range(100)))
    output = await bench.run(
        "edit_file",
        path="a.py",
        old_string="line_40 = 40\nline_41 = 14\nline_42 = 42\n",
        new_string="",
    )
    assert "lines 41 to 43 fit best; the first difference is in line 42" in output.content
    assert 'the file has "line_41 = 41" and old_string has "line_41 = 14"' in output.content
    output = await bench.run("edit_file", path="a.py", old_string="lime_77 == 77", new_string="")
    assert "line 78 fits best" in output.content
    output = await bench.run("edit_file", path="a.py", old_string="completely different", new_string="")
    assert "nothing in the file resembles it" in output.content


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb\n", "a\nx\ny\n", b"a\r\nx\r\ny\r\nc\r\n"),
        (b"a\r\nb\r\n", "b", "b\nc", b"a\r\nb\r\nc\r\n"),
        (b"a\nb\n", "a\r\nb", "a\r\nc", b"a\nc\n"),
        (b"a\r\nb\r\n", "a\r\nb", "a\nb", b"a\nb\r\n"),
        (b"a\nb\r\nc\n", "b\nc", "x\ny", b"a\nx\r\ny\n"),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        (b"a\nlast", "last\n", "first\n", b"a\nfirst"),
        (b"a\nlast", "a\n", "b\n", b"b\nlast"),
        (b"a\fb\n", "a\fb", "c", b"c\n"),
    ],
)
async def test_the_file_keeps_its_line_ends_its_mark_and_its_last_line(
    bench, before, old, new, after
) -> None:
    (bench.workspace / "a.txt").write_bytes(before)
    output = await bench.run("edit_file", path="a.txt", old_string=old, new_string=new)
    assert output.ok, output.content
    assert (bench.workspace / "a.txt").read_bytes() == after


async def test_line_ends_alone_are_not_changed_by_accident(bench) -> None:
    (bench.workspace / "a.txt").write_bytes(b"a\r\nb\r\n")
    output = await bench.run("edit_file", path="a.txt", old_string="a\nb", new_string="a\r\nb")
    assert (output.outcome, output.reason) == ("error", "TextNotFound")
    assert "nothing would change" in output.content


async def test_what_is_no_text_of_a_fair_size_is_refused(bench) -> None:
    (bench.workspace / "folder").mkdir()
    os.mkfifo(bench.workspace / "pipe")
    (bench.workspace / "a.bin").write_bytes(b"x\0x")
    (bench.workspace / "latin").write_bytes(b"x \xe9\n")
    (bench.workspace / "big").write_bytes(b"x\n" * (1 << 20))
    for path, problem in (
        ("folder", "it is a folder"),
        ("pipe", "it is not a regular file"),
        ("a.bin", "it is a binary file"),
        ("latin", "it is not valid UTF-8"),
        ("big", "more than 1 MB"),
        ("missing", "No such file"),
    ):
        output = await bench.run("edit_file", path=path, old_string="x", new_string="y")
        assert (output.outcome, output.reason) == ("error", "FileUnreadable")
        assert problem in output.content


async def test_a_file_outside_the_workspace_is_not_edited(bench, tmp_path) -> None:
    (tmp_path / "outside.txt").write_text("a")
    (bench.workspace / "link").symlink_to(tmp_path / "outside.txt")
    for path in ("link", "../outside.txt"):
        output = await bench.run("edit_file", path=path, old_string="a", new_string="b")
        assert (output.outcome, output.reason) == ("blocked", "PathOutsideWorkspace")
    assert (tmp_path / "outside.txt").read_text() == "a"


async def test_the_mask_of_a_secret_is_neither_searched_for_nor_written_over_it(bench) -> None:
    secret = "TOKEN=ghp_" + "a1B2" * 9 + "\nDEBUG=1\n"
    (bench.workspace / "settings").write_text(secret)
    mask = "«redacted:github_token»"
    output = await bench.run("edit_file", path="settings", old_string=f"TOKEN={mask}", new_string="TOKEN=")
    assert "the file has the secret itself" in output.content
    output = await bench.run("edit_file", path="settings", old_string="DEBUG=1", new_string=f"OTHER={mask}")
    assert (output.outcome, output.reason) == ("error", "FileUnwritable")
    assert (bench.workspace / "settings").read_text() == secret


@pytest.mark.requirement("G7.8")
@pytest.mark.parametrize("known", [0, -1])
async def test_an_edit_that_does_not_fit_tells_no_line_of_a_secret(bench, known: int) -> None:
    """What would have it masked is a line that the answer does not have."""
    key = private_key_lines()
    (bench.workspace / "notes").write_text("\n".join(["before", *key, "after", ""]))
    wrong = [f"other {number}" for number in range(11)]
    old = "\n".join([key[0], *wrong] if known == 0 else [*wrong, key[-1]])
    edit = await bench.run("edit_file", path="notes", old_string=old, new_string="x")
    hunk = "".join(f"-{line}\n" for line in old.split("\n"))
    patch = f"--- a/notes\n+++ b/notes\n@@ -2,12 +2,0 @@\n{hunk}"
    for output in (edit, await bench.run("apply_patch", patch=patch)):
        assert output.outcome == "error"
        assert not [line for line in key[1:-1] if line in output.content]


texts = st.text(alphabet="ab \t\r\n", max_size=30)


@given(texts, texts.filter(bool), texts)
@example("a\n", "a\n\n", "")
@example("\r\n", "\n", "\n")
@example("a\r\nb\r\n", "\nb", "\nc")
def test_an_edit_replaces_exactly_what_was_asked_or_says_why_not(text: str, old: str, new: str) -> None:
    try:
        edit = edited(text, old, new, replace_all=True)
    except NoSuchEdit as refused:
        assert refused.problem
        assert old not in text or plain(old) == plain(new)
        return
    assert edit.text != text
    if not edit.adapted:
        assert (edit.text, edit.replacements) == (text.replace(old, new), text.count(old))
    elif text.endswith("\n"):
        assert plain(edit.text) == plain(text).replace(plain(old), plain(new))


def plain(text: str) -> str:
    return text.replace("\r\n", "\n")
