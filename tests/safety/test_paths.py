"""Where paths really lead. The workspace must not be left by any spelling."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridle.base.fs.paths import (
    PathRefused,
    SessionFolders,
    find,
    find_entry,
    is_beneath,
    is_inside_same_folder,
    is_process_state,
    resolve,
    session_folders,
)
from tables import table

pytestmark = pytest.mark.requirement("T3.2", "H10.6")


@table(
    ("spelled", "place", "shown"),
    [
        ("src/a.py", "workspace", "src/a.py"),
        ("./src//a.py", "workspace", "src/a.py"),
        ("src/", "workspace", "src"),
        (".", "workspace", "."),
        ("in/a.py", "workspace", "src/a.py"),
        ("in/new", "workspace", "src/new"),
        ("./in/../in//new", "workspace", "src/new"),
        ("src/a.py/new", "workspace", "src/a.py/new"),
        ("new/deep/file", "workspace", "new/deep/file"),
        ("new/../src/a.py", "workspace", "src/a.py"),
        ("src/../../shop/src/a.py", "workspace", "src/a.py"),
        ("up/shop/src/a.py", "workspace", "src/a.py"),
        ("~/x", "workspace", "~/x"),
        ("..", "outside", None),
        ("../shop-old/secret", "outside", None),
        ("out/secret", "outside", None),
        ("out/new", "outside", None),
        ("out/new/deeper", "outside", None),
        ("dangling", "outside", None),
        ("dangling/x", "outside", None),
        ("in/../../shop-old", "outside", None),
        ("up", "outside", None),
        ("../../../../../../../../etc/passwd", "outside", "/etc/passwd"),
        ("/etc/passwd", "outside", "/etc/passwd"),
        ("//etc/passwd", "outside", "/etc/passwd"),
        ("//not-there", "outside", "/not-there"),
    ],
)
def test_a_path_is_where_its_links_lead(workspace, spelled: str, place: str, shown: str | None) -> None:
    folders = session_folders(str(workspace))
    resolved = resolve(spelled, folders.workspace)
    assert folders.place(resolved) == place
    if shown is not None:
        assert folders.shown(resolved) == shown


def test_an_absolute_path_and_an_added_folder_are_placed_alike(workspace, tmp_path) -> None:
    folders = session_folders(str(workspace), ["../shop-old"])
    assert folders.place(resolve(str(workspace / "src"), folders.workspace)) == "workspace"
    assert folders.place(resolve("out/secret", folders.workspace)) == "added"
    assert folders.shown(str(tmp_path / "shop-old" / "x")) == str(tmp_path / "shop-old" / "x")


@table("spelled", ["", " ", "\t", "a\0b", "x" * 256, "x/" * 2100, "\ud800", "circle", "circle/below"])
def test_text_that_names_nothing_is_refused(workspace, spelled: str) -> None:
    with pytest.raises(PathRefused):
        resolve(spelled, str(workspace))


def test_a_workspace_turned_into_a_link_does_not_take_the_border_along(workspace, tmp_path) -> None:
    folders = session_folders(str(workspace))
    workspace.rename(tmp_path / "moved")
    workspace.symlink_to("/etc")
    assert folders.place(resolve("passwd", folders.workspace)) == "outside"


def test_a_folder_is_recognised_under_another_name(workspace, tmp_path) -> None:
    assert is_inside_same_folder(str(tmp_path / "shop-old" / "new"), [str(workspace / "out")])
    assert is_inside_same_folder(str(tmp_path / "shop-old"), [str(tmp_path / "shop-old")])
    assert not is_inside_same_folder(str(tmp_path / "shop"), [str(tmp_path / "shop-old")])
    assert not is_inside_same_folder(str(tmp_path / "shop"), [str(tmp_path / "missing")])


@table(
    ("path", "expected"),
    [("/proc/self/environ", True), ("/proc/12/mem", True), ("/proc/1", True), ("/proc/cpuinfo", False)],
)
def test_the_inside_of_processes_is_recognised(path: str, expected: bool) -> None:
    assert is_process_state(path) == expected


def test_the_root_may_be_a_workspace() -> None:
    folders = SessionFolders(workspace="/")
    assert folders.place("/etc/passwd") == "workspace"
    assert folders.shown("/etc/passwd") == "etc/passwd"


def test_a_name_to_be_removed_is_a_link_itself(workspace, tmp_path) -> None:
    root = str(workspace)
    assert find("out", root).path == str(tmp_path / "shop-old")
    for spelled, path in {"out": "out", "in/../out": "out", "circle": "circle", "in/x": "src/x"}.items():
        assert find_entry(spelled, root).path == f"{root}/{path}"
    for spelled in ("out/", "out/.", "in/../out/."):
        assert find_entry(spelled, root).path == str(tmp_path / "shop-old")
    with pytest.raises(PathRefused):
        find_entry("circle/x", root)


def test_what_stands_there_is_told_with_the_path(workspace) -> None:
    assert os.path.samestat(find("in/a.py", str(workspace)).status, os.stat(workspace / "src/a.py"))
    assert find("new", str(workspace)).status is None


def test_a_circle_of_links_hides_no_link_behind_it(workspace) -> None:
    (workspace / "hidden").symlink_to("circle/../out/secret")
    for spelled in ("circle/../out/secret", "hidden", "in/../circle/../out/secret", "circle/../up"):
        with pytest.raises(PathRefused):
            resolve(spelled, str(workspace))


def test_a_folder_that_does_not_exist_yet_is_found_in_any_case_and_through_any_name(
    workspace, tmp_path
) -> None:
    (tmp_path / "alias").symlink_to(workspace)
    missing = [str(tmp_path / "alias" / "Config" / "bridle")]
    for path in ("Config/bridle", "config/BRIDLE/x/y", "Config/bridle/x"):
        assert is_inside_same_folder(str(workspace / path), missing)
    for path in ("Config", "Config/other", "bridle", "x/Config/bridle"):
        assert not is_inside_same_folder(str(workspace / path), missing)
    dangling = [str(workspace / "dangling")]
    assert is_inside_same_folder(str(tmp_path / "not-there" / "x"), dangling)


PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            ["..", ".", "", "src", "out", "up", "in", "dangling", "shop", "shop-old", "a.py", "circle"]
        ),
        st.sampled_from(["\u2024\u2024", "..\u200b", "%2e%2e", "\\..", "..\\", "~", "\uff0e\uff0e"]),
        st.text(max_size=4),
    ),
    max_size=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=PIECES, absolute=st.booleans(), trailing=st.sampled_from(["", "/", "//", "/."]))
def test_no_spelling_leaves_the_workspace_unseen(workspace, pieces, absolute, trailing) -> None:
    spelled = (str(workspace) + "/" if absolute else "") + "/".join(pieces) + trailing
    try:
        resolved = resolve(spelled, str(workspace))
    except PathRefused:
        return
    assert os.path.normpath(resolved) == resolved
    assert not os.path.islink(resolved)
    # Whoever is asked, it is what a walk from name to name comes to.
    named = os.path.join(str(workspace), spelled)
    assert resolved == "/" + os.path.realpath(named).lstrip("/")
    # What the kernel would open is what was resolved, wherever that exists.
    if os.path.exists(named):
        assert os.path.samefile(named, resolved)
    if session_folders(str(workspace)).place(resolved) == "workspace":
        assert os.path.commonpath([resolved, str(workspace)]) == str(workspace)
        existing = resolved
        while not os.path.exists(existing):
            existing = os.path.dirname(existing)
        assert is_beneath(os.path.realpath(existing), str(workspace))
