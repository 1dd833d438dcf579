"""What a search may show of the files below a folder."""

import os

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridle.base.paths import session_folders
from bridle.base.private_places import PrivatePlaces
from bridle.base.secret_files import is_secret_like
from bridle.safety.guards import PathPolicy
from bridle.safety.sight import sight
from effort import examples


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


FOLDERS = st.sampled_from(["/w", "/W/src", "/w/own/deep", "/", "/home/me", "/home/me/w"])
NAMES = st.lists(
    st.sampled_from(["src", "a.py", ".env", ".mozilla", "x.pem", "Own"]),
    min_size=1,
    max_size=3,
).map("/".join)


@settings(max_examples=examples(500))
@given(
    FOLDERS,
    NAMES,
    st.lists(st.sampled_from(["/w/own", "/w/src/own/a.py", "/home/me/own"]), max_size=2).map(tuple),
    st.none() | st.sampled_from(["/w/src", "/home"]),
    st.none() | st.sampled_from(["/home/me", "/w"]),
    st.sampled_from(["/w", "/home/me/w"]),
)
@example("/home/me", ".mozilla/a.py", (), None, "/home/me", "/home/me/w")
@example("/w", ".mozilla/a.py", (), None, "/w", "/w")
def test_what_is_said_of_a_whole_folder_holds_for_each_file_in_it(
    folder: str,
    name: str,
    protected: tuple[str, ...],
    denied: str | None,
    home: str | None,
    workspace: str,
) -> None:
    folders = session_folders(workspace)
    policy = PathPolicy(
        folders=folders,
        protected=protected,
        private=PrivatePlaces(home, {}, folders) if home is not None else None,
    )
    seen = sight(policy, (lambda path: path.startswith(denied)) if denied is not None else None)
    path = f"{folder.rstrip('/')}/{name}"
    if not seen.hides_names(folder):
        assert seen.shows_name(path)
    search = seen.for_search(folder)
    assert search.shows(path) == seen.shows_content(path)
    if search.suspects is not None:
        assert search.shows(path) == (not is_secret_like(path))
