"""A placeholder is known by its mark, and is removed only while it says nothing."""

import stat

from bridle.base.fs.placeholders import is_stand_in, take_away


def test_a_stand_in_is_an_empty_folder_with_the_mark(tmp_path) -> None:
    folder = tmp_path / "x"
    for make, expected in (
        (lambda: None, False),
        (lambda: folder.mkdir(), False),
        (lambda: folder.chmod(0o1755), True),
        (lambda: (folder / "inside").touch(), False),
        (lambda: (folder / "inside").unlink(), True),
        (lambda: folder.chmod(0o755), False),
    ):
        make()
        assert is_stand_in(str(folder)) == expected
    folder.chmod(stat.S_ISVTX | 0o755)
    assert take_away(str(folder))
    assert not folder.exists()
    folder.symlink_to(tmp_path)
    assert not take_away(str(folder))
