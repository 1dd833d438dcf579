"""Plugins as people have them: a package with its metadata in a folder that Python looks into. Nothing is installed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

_BLOCK = re.compile(r"^```\w+\n# (\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def page_files(page: Path) -> dict[str, str]:
    """The files a page shows: the blocks whose first line names one, those of one name put together."""
    files: dict[str, str] = {}
    for name, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
        files[name] = "\n\n".join(filter(None, (files.get(name), text)))
    return files


def put_package(folder: Path, module: str, source: str, *, offers: Mapping[str, str], name: str = "") -> None:
    """A package of one module as an installer leaves it; `offers` are its plugins by name."""
    folder.mkdir(exist_ok=True)
    name = name or module
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "".join(f"{plugin} = {value}\n" for plugin, value in offers.items())
    (metadata / "entry_points.txt").write_text(f"[bridle.plugins]\n{lines}")


def put_page_package(folder: Path, page: Path) -> dict[str, str]:
    """The package a page shows, with the metadata of its own pyproject.toml; all files of the page come back."""
    files = page_files(page)
    project = tomllib.loads(files["pyproject.toml"])["project"]
    offers = project["entry-points"]["bridle.plugins"]
    (value,) = set(offers.values())
    module = value.partition(":")[0]
    put_package(folder, module, files[f"{module}.py"], offers=offers, name=project["name"])
    return files
