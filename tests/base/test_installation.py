"""What is missing is installed in the way this program was."""

from pathlib import Path

from bridle.base.process.installation import install_command


def test_in_a_clone_make_installs_and_elsewhere_pip(tmp_path: Path) -> None:
    assert install_command("web", root=tmp_path) == "pip install 'bridle[web]'"
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/setup").touch()
    assert install_command("web", root=tmp_path) == f"make setup, in {tmp_path}"
    other = "make setup && .venv/bin/python -m pip install -e '.[keyring]'"
    assert install_command("keyring", root=tmp_path) == f"{other}, in {tmp_path}"


def test_here_is_a_clone() -> None:
    assert install_command("web").startswith("make setup, in ")
