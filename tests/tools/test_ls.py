"""`ls`, through the layers a session puts around it."""

import os

from bridle.protocol.display_values import ShownSearch


async def test_entries_come_by_name_with_sizes_and_slashes(bench) -> None:
    (bench.workspace / "src").mkdir()
    (bench.workspace / ".hidden").write_text("abc")
    (bench.workspace / "a.txt").write_text("12345")
    (bench.workspace / "link").symlink_to("a.txt")
    (bench.workspace / "new\nline").write_text("")
    os.mkfifo(bench.workspace / "pipe")
    output = await bench.run("ls")
    assert output.content == (
        ".hidden\t3 bytes\na.txt\t5 bytes\nlink -> a.txt\n'new\\nline'\t0 bytes\npipe\tnot a regular file\nsrc/\n"
    )
    assert output.shown == ShownSearch(found=6)
    assert (await bench.run("ls", path="src")).content == "[the folder is empty]\n"


async def test_what_has_no_room_is_counted(bench) -> None:
    for index in range(507):
        (bench.workspace / f"f{index:03}").touch()
    output = await bench.run("ls")
    lines = output.content.splitlines()
    assert (len(lines), lines[-2], lines[-1]) == (501, "f499\t0 bytes", "[7 more]")
    assert output.shown == ShownSearch(found=507, more=True)


async def test_what_is_no_folder_is_an_error(bench) -> None:
    (bench.workspace / "file").touch()
    for path, problem in (("file", "Not a directory"), ("missing", "No such file")):
        output = await bench.run("ls", path=path)
        assert (output.outcome, output.reason) == ("error", "FileUnreadable")
        assert problem in output.content
