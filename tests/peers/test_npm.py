"""npm inside the sandbox: a package from the disk is installed with a cache that is not the person's."""

import json
import os
import shutil
from pathlib import Path

import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.protocol.events import ToolResult
from bridle.providers.script import call, say

pytestmark = pytest.mark.peers


@pytest.mark.skipif(shutil.which("npm", path=os.defpath) is None, reason="npm is not installed")
async def test_npm_installs_from_a_folder_and_its_script_runs(tmp_path: Path) -> None:
    work, package = tmp_path / "work", tmp_path / "work/tiny"
    package.mkdir(parents=True)
    (package / "package.json").write_text(
        json.dumps({"name": "tiny", "version": "1.0.0", "main": "index.js"})
    )
    (package / "index.js").write_text("module.exports = 'installed'\n")
    scripts = {"test": "node -e \"console.log(require('tiny'))\""}
    (work / "package.json").write_text(json.dumps({"name": "shop", "private": True, "scripts": scripts}))
    model = scripted(
        call("bash", command="npm install --no-audit --no-fund --install-links ./tiny"),
        call("bash", command="npm test --silent; npm config get cache"),
        say("Done."),
    )
    home = tmp_path / "home"
    async with harness(model, folder=str(work), home=str(home), mode="yolo") as session:
        installed, tested = of_kind(await session.ask("go"), ToolResult)
    assert installed.shown.exit_code == 0, installed.content
    word, cache = tested.content.split()
    assert word == "installed"
    assert cache.startswith(f"{home}/cache/")
    assert installed.shown.sandbox != "env-only"
