"""What a search may show of the files below a folder."""

import os

from bridle.base.fs.paths import session_folders
from bridle.base.fs.private_places import PrivatePlaces
from bridle.safety.guards import PathPolicy
from bridle.safety.path_guard import sight


def test_secrets_keep_their_content_and_what_is_ours_or_denied_its_name_too(workspace, tmp_path) -> None:
    own = workspace / "Home"
    own.mkdir()
    (tmp_path / "alias").symlink_to(own)
    root = str(workspace)
    policy = PathPolicy(
        folders=session_folders(root),
        protected=(str(tmp_path / "alias"), str(workspace / "later")),
        named_by_user=lambda path, access: (path, access) == (f"{root}/src/.env", "read"),
    )
    seen = sight(policy, lambda path: path.startswith(f"{root}/private"))
    shown = {
        path: (seen.shows_name(os.path.join(root, path)), seen.shows_content(os.path.join(root, path)))
        for path in (
            "a.py",
            ".env",
            "src/.env",
            "private/a",
            "Home/key",
            "Home",
            "home/key",
            "later/x",
            "Homely",
        )
    }
    assert shown == {
        "a.py": (True, True),
        ".env": (True, False),
        "src/.env": (True, True),
        "private/a": (False, False),
        "Home/key": (False, False),
        "Home": (False, False),
        "home/key": (False, False),
        "later/x": (False, False),
        "Homely": (True, True),
    }


def test_what_lies_in_a_private_place_keeps_its_content_and_shows_its_name() -> None:
    folders = session_folders("/home/me/w")
    policy = PathPolicy(folders=folders, private=PrivatePlaces("/home/me", {}, folders))
    seen = sight(policy, None)
    assert seen.shows_name("/home/me/.mozilla/a.py")
    assert not seen.shows_content("/home/me/.mozilla/a.py")
    assert seen.shows_content("/home/me/w/.mozilla/a.py")
    assert seen.shows_content("/home/me/src/a.py")
