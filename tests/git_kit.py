"""A repository with a past, for tests that destroy it, and what git says of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


class Repository:
    """A repository with a history in packs and loose objects, packed and loose branches, and something staged."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        home.mkdir(exist_ok=True)
        self._env = {
            "PATH": os.defpath,
            "HOME": str(home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "protocol.file.allow",
            "GIT_CONFIG_VALUE_0": "always",
        } | {
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "x"), ("EMAIL", "x@example.org"), ("DATE", "2026-01-01T00:00:00Z"))
        }

    def git(self, *words: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *words], cwd=cwd or self.folder, env=self._env, check=True, capture_output=True, text=True
        )
        return done.stdout

    def commit(self, name: str) -> str:
        (self.folder / name).write_text(f"{name}\n" * 20)
        self.git("add", name)
        self.git("commit", "-q", "-m", name)
        return self.git("rev-parse", "HEAD").strip()

    def fill(self) -> Repository:
        self.git("init", "-q", "-b", "main")
        self.commit("one")
        self.git("branch", "old")
        self.git("branch", "feature/deep")
        self.git("tag", "-a", "v1", "-m", "v1")
        self.commit("two")
        self.git("gc", "-q")
        self.commit("three")
        self.git("branch", "fresh")
        (self.folder / "three").write_text("stashed\n")
        self.git("stash")
        (self.folder / "staged").write_text("staged\n")
        self.git("add", "staged")
        return self

    def told(self) -> tuple[str, ...]:
        """What git says of it."""
        fsck = subprocess.run(
            ["git", "fsck", "--full", "--strict"],
            cwd=self.folder,
            env=self._env,
            capture_output=True,
            text=True,
        )
        return (
            self.git("status", "--porcelain=v2", "--branch"),
            self.git("log", "--all", "--format=%H %D %s"),
            self.git("for-each-ref"),
            self.git("stash", "list"),
            self.git("reflog", "--format=%H %gs"),
            self.git("rev-list", "--objects", "--all"),
            f"{fsck.returncode} {fsck.stderr}",
        )
