"""`write_file`, through the layers a session puts around it."""

import os
import stat

import pytest

from bridle.protocol.display_values import EditedFile, ShownEdit

pytestmark = pytest.mark.requirement("D9.4", "T2.11")


async def test_a_new_file_and_its_folders_are_made(bench) -> None:
    output = await bench.run("write_file", path="src/new/a.py", content="one\ntwo\n")
    assert (bench.workspace / "src/new/a.py").read_text() == "one\ntwo\n"
    assert output.content == "Created src/new/a.py: 2 lines, 8 bytes."
    assert [*output.metadata["seen"]] == [str(bench.workspace / "src/new/a.py")]
    diff = "--- /dev/null\n+++ b/src/new/a.py\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    made = EditedFile(path="src/new/a.py", kind="create", diff=diff, added=2)
    assert output.shown == ShownEdit(files=(made,))


async def test_a_replaced_file_keeps_its_mode_and_the_result_shows_the_change(bench) -> None:
    file = bench.workspace / "run.sh"
    file.write_text("one\ntwo\nthree\n")
    file.chmod(0o750)
    output = await bench.run("write_file", path=str(file), content="one\n2\nthree\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o750
    assert output.content == "Replaced run.sh: 3 lines, 12 bytes (+1 -1)."
    assert output.shown.files[0].diff == (
        "--- a/run.sh\n+++ b/run.sh\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    )
    assert sorted(os.listdir(bench.workspace)) == ["run.sh"]


async def test_a_new_file_gets_the_mode_the_umask_leaves(bench) -> None:
    before = os.umask(0o027)
    try:
        await bench.run("write_file", path="a.txt", content="x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((bench.workspace / "a.txt").stat().st_mode) == 0o640


async def test_a_folder_and_a_pipe_are_not_replaced(bench) -> None:
    (bench.workspace / "folder").mkdir()
    os.mkfifo(bench.workspace / "pipe")
    (bench.workspace / "file").write_text("x")
    for path, problem in (
        ("folder", "it is a folder"),
        ("pipe", "it is not a regular file"),
        ("file/below", "Not a directory"),
    ):
        output = await bench.run("write_file", path=path, content="x")
        assert (output.outcome, output.reason) == ("error", "FileUnwritable")
        assert problem in output.content


async def test_old_content_that_is_no_text_is_replaced_without_a_diff(bench) -> None:
    (bench.workspace / "a.bin").write_bytes(b"\xff\0\xfe")
    output = await bench.run("write_file", path="a.bin", content="text\n")
    assert (output.ok, output.shown.files[0].diff, output.shown.files[0].removed) == (True, "", None)


async def test_a_huge_change_has_exact_counts_and_a_bounded_diff(bench) -> None:
    (bench.workspace / "a.txt").write_text("".join(f"old {n}\n" for n in range(20_000)))
    output = await bench.run("write_file", path="a.txt", content="".join(f"new {n}\n" for n in range(20_000)))
    (file,) = output.shown.files
    assert (file.added, file.removed) == (20_000, 20_000)
    assert len(file.diff.encode()) < 33 * 1024
    assert file.diff.endswith(" more lines\n")


@pytest.mark.requirement("H10.6", "H10.8", "T3.6", "D9.4")
async def test_a_link_that_leads_outside_is_not_written_through(bench, tmp_path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (bench.workspace / "link").symlink_to(outside)
    output = await bench.run("write_file", path="link/a.txt", content="x")
    assert (output.outcome, output.reason) == ("blocked", "PathOutsideWorkspace")
    assert "link/a.txt" in output.content
    assert output.evidence.matched == str(outside / "a.txt")
    assert os.listdir(outside) == []


async def test_a_link_inside_the_workspace_stays_a_link(bench) -> None:
    (bench.workspace / "real.txt").write_text("old")
    (bench.workspace / "link.txt").symlink_to("real.txt")
    output = await bench.run("write_file", path="link.txt", content="new")
    assert output.shown.files[0].path == "real.txt"
    assert (bench.workspace / "real.txt").read_text() == "new"
    assert (bench.workspace / "link.txt").is_symlink()


async def test_the_mask_of_a_secret_is_not_written_over_the_secret(bench) -> None:
    secret = "TOKEN=ghp_" + "a1B2" * 9 + "\nDEBUG=1\n"
    (bench.workspace / "settings").write_text(secret)
    shown = (await bench.run("read_file", path="settings")).content
    assert "«redacted:" in shown
    masked = "".join(line.partition("\t")[2] for line in shown.splitlines(keepends=True))
    output = await bench.run("write_file", path="settings", content=masked.replace("DEBUG=1", "DEBUG=0"))
    assert (output.outcome, output.reason) == ("error", "FileUnwritable")
    assert (bench.workspace / "settings").read_text() == secret
