"""What would be published: built here, looked into, installed and started. Nothing is published by a script."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridle.base.secrets.redact import redact
from cli_kit import Place

LOCAL = re.compile(r"(?<![A-Za-z0-9_.~/-])/(?:root|work)/")
SITE = ".venv/lib/python3.11/site-packages"


@pytest.fixture(scope="module")
def built(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)],
        cwd=repository,
        check=True,
        capture_output=True,
        timeout=120,
    )
    return folder


def contents(archive: Path) -> Iterator[tuple[str, bytes]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                yield name, wheel.read(name)
    else:
        with tarfile.open(archive) as source:
            for member in source.getmembers():
                if (file := source.extractfile(member)) is not None:
                    yield member.name.partition("/")[2], file.read()


def tokens_in(text: str) -> set[str]:
    """The kinds of tokens that stand in a text. Code about passwords names some; a vendor's token is one."""
    marks = re.compile("«redacted:([^»]*)»")
    return {*marks.findall(redact(text))} - {*marks.findall(text)} - {"secret", "password"}


@pytest.mark.requirement("T19.3")
def test_a_wheel_holds_the_program_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    folders = {name.partition("/")[0] for name, _ in contents(wheel)}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {"bridle"}
    names = {name for name, _ in contents(wheel)}
    assert not [
        name for name in names if "/__pycache__/" in name or name.endswith((".pyc", ".db", ".key", ".env"))
    ]


@pytest.mark.requirement("T19.3")
@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_no_package_names_a_folder_of_a_machine_or_holds_what_looks_like_a_secret(
    repository: Path, built: Path, kind: str
) -> None:
    (archive,) = built.glob(kind)
    for name, data in contents(archive):
        if name.startswith("tests/"):
            continue
        text = data.decode("utf-8", "replace")
        if name.endswith("/RECORD"):  # a digest may look like anything
            text = "\n".join(line.split(",")[0] for line in text.splitlines())
        assert LOCAL.search(text) is None, name
        assert str(repository) not in text, name
        assert tokens_in(text) == set(), name
    assert tokens_in("token " + "gh" + "p_" + "A1b2C3d4" * 4 + "E5f6"), "the look finds what it looks for"


@pytest.mark.requirement("T19.1", "D3.1")
def test_a_wheel_installs_into_an_empty_environment_of_this_python_and_starts(
    built: Path, tmp_path: Path
) -> None:
    """Without what it needs, which stands beside it: the versions pinned for this checkout."""
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    packages = next((tmp_path / "venv/lib").glob("python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    ours = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    (packages / "needs.pth").write_text(f"{ours}\n")
    (tmp_path / "place").mkdir()
    place = Place(tmp_path / "place")
    for words in (("--version",), ("doctor", "--offline", "--json")):
        ran = subprocess.run(
            [tmp_path / "venv/bin/python", "-m", "bridle", *words],
            cwd=place.work,
            env=place.environment(),
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert ran.stdout, ran.stderr
        assert ran.returncode in (0, 1), ran.stderr


@pytest.mark.requirement("D3.1")
def test_the_oldest_python_that_is_promised_is_one_it_is_checked_for(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())
    assert project["project"]["requires-python"] == ">=3.11"
    assert sys.version_info >= (3, 11)


@pytest.mark.requirement("T19.4")
def test_nothing_here_publishes(repository: Path) -> None:
    scripts = [repository / "Makefile", *(repository / "scripts").iterdir(), *(repository / ".ci").iterdir()]
    words = re.compile(r"twine|(hatch|flit|poetry|uv|npm|cargo|gh)\s+(release|publish|upload)|pypi-publish")
    for path in scripts:
        if path.is_file():
            assert words.search(path.read_text()) is None, path


def test_the_demo_installs_what_a_run_needs_and_tests_what_they_need(
    repository: Path, tmp_path: Path
) -> None:
    """A fresh clone: what make would do, without doing it."""
    for name in ("Makefile", "pyproject.toml", "requirements", "scripts"):
        (tmp_path / name).symlink_to(repository / name)

    def would_run(goal: str) -> list[str]:
        made = subprocess.run(
            ["make", "-n", "--no-print-directory", goal],
            cwd=tmp_path,
            capture_output=True,
            timeout=30,
            check=True,
            text=True,
        )
        return made.stdout.splitlines()

    assert would_run("demo") == ["scripts/setup user", ".venv/bin/bridle demo"]
    assert would_run("test")[0] == "scripts/setup dev"
    (tmp_path / ".venv").mkdir()
    for stamp in (".usable", ".ready"):
        (tmp_path / ".venv" / stamp).touch()
    assert would_run("demo") == [".venv/bin/bridle demo"]


def set_up(repository: Path, tmp_path: Path, pip: str) -> subprocess.CompletedProcess[str]:
    """`scripts/setup dev` in a folder of its own, with this in place of pip."""
    for name in ("pyproject.toml", "requirements"):
        (tmp_path / name).symlink_to(repository / name)
    (tmp_path / "scripts").mkdir()
    shutil.copy(repository / "scripts/setup", tmp_path / "scripts")
    site = tmp_path / SITE
    (site / "pip").mkdir(parents=True)
    (site / "bridle-source.pth").write_text(str(repository / "src"))
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\n{pip}\n")
    python.chmod(0o755)
    return subprocess.run(
        [str(tmp_path / "scripts/setup"), "dev"],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "PYTHON": sys.executable},
        check=False,
    )


def test_a_setup_that_fails_leaves_a_program_that_works(repository: Path, tmp_path: Path) -> None:
    failed = set_up(repository, tmp_path, "exit 1")  # a pip that reaches nobody
    assert failed.returncode == 1
    source = tmp_path / SITE / "bridle-source.pth"
    assert source.exists(), "it is how what make demo installed finds itself"


def test_a_setup_in_a_log_says_each_stage_when_it_begins(repository: Path, tmp_path: Path) -> None:
    pip = 'case "$*" in *requirements*) echo Collecting a; echo Installing collected packages: a;; esac'
    done = set_up(repository, tmp_path, pip)
    assert done.returncode == 0, done.stderr
    told = [re.sub(r"\d+", "N", line) for line in done.stdout.splitlines()]
    assert told == [
        "setup: everything that tests and checks need, in .venv: this takes a while",
        "setup: fetching at most N packages",
        "setup: installing them",
        "setup: Bridle itself",
        "setup: ready after N s. Try .venv/bin/bridle --help",
    ]
