"""Repositories that are traps: each makes some git call run a program, which leaves a marker and does nothing else.

Every trap comes with a plain call that springs it, so that a test can see it is alive.
"""

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

LEAVES_MARKER = "#!/bin/sh\n: > '{marker}'\nif [ \"$1\" = through ]; then cat; fi\nexit {code}\n"
SIGNED = """tree {tree}
author A <a@example.org> 1700000000 +0000
committer A <a@example.org> 1700000000 +0000
gpgsig -----BEGIN {kind} SIGNATURE-----
 Version: 1
 AAAA
 -----END {kind} SIGNATURE-----

signed
"""


class Scene:
    """A repository in a scratch folder: one commit, one changed file, and a program that leaves a marker."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.repository = self.cwd = scratch / "repository"
        self.home = scratch / "home"
        self.marker = scratch / "marker"
        self.program = scratch / "program"
        self.environment: dict[str, str] = {}
        self.home.mkdir()
        self.program.write_text(LEAVES_MARKER.format(marker=self.marker, code=0))
        self.program.chmod(0o755)
        self.init(self.repository)

    def init(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main", cwd=folder)
        (folder / "notes.txt").write_text("one\n")
        self.git("add", ".", cwd=folder)
        self.commit(cwd=folder)
        (folder / "notes.txt").write_text("two\n")

    def commit(self, *options: str, cwd: Path | None = None) -> None:
        self.git("commit", "--quiet", "--allow-empty", "-m", "a commit", *options, cwd=cwd)

    def env(self) -> dict[str, str]:
        identity = {
            f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), **identity}

    def git(self, *arguments: str, cwd: Path | None = None, given: str = "") -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd or self.repository,
            env=self.env(),
            input=given,
            text=True,
            capture_output=True,
            timeout=30,
            check=True,
        )
        return done.stdout.strip()

    def config(self, name: str, value: str, *where: str) -> None:
        self.git("config", *where, name, value)

    def attributes(self, line: str) -> None:
        (self.repository / ".gitattributes").write_text(f"{line}\n")

    def spring(self, *arguments: str, given: str = "") -> None:
        """A plain call, as somebody at a terminal makes it; how it ends does not matter."""
        ours, theirs = pty.openpty()
        try:
            subprocess.run(
                ["git", *arguments],
                cwd=self.cwd,
                env={**self.env(), "PAGER": "cat", **self.environment},
                input=given.encode(),
                stdout=theirs,
                stderr=subprocess.DEVNULL,
                timeout=30,
                check=False,
            )
        finally:
            os.close(theirs)
            os.close(ours)

    def is_sprung(self) -> bool:
        return self.marker.exists()


class Trap(NamedTuple):
    name: str
    lay: Callable[[Scene], None]
    spring: tuple[str, ...]
    given: str = ""


def setting(name: str, value: str = "{program}", attributes: str = "") -> Callable[[Scene], None]:
    def lay(scene: Scene) -> None:
        scene.config(name, value.format(program=scene.program))
        if attributes:
            scene.attributes(attributes)

    return lay


def _hook(scene: Scene) -> None:
    hook = scene.repository / ".git/hooks/post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.symlink_to(scene.program)
    os.utime(scene.repository / "notes.txt", (1, 1))


def _hooks_path(scene: Scene) -> None:
    folder = scene.scratch / "hooks"
    folder.mkdir()
    (folder / "post-index-change").symlink_to(scene.program)
    scene.config("core.hooksPath", str(folder))
    os.utime(scene.repository / "notes.txt", (1, 1))


def _configured_hook(scene: Scene) -> None:
    """Hooks of newer versions, named in the settings; an older git does not know them and the other one fires."""
    _hook(scene)
    scene.config("hook.evil.event", "post-index-change")
    scene.config("hook.evil.command", str(scene.program))


def _signed(scene: Scene, kind: str) -> None:
    tree = scene.git("write-tree")
    commit = scene.git(
        "hash-object", "-w", "-t", "commit", "--stdin", given=SIGNED.format(tree=tree, kind=kind)
    )
    scene.git("update-ref", "HEAD", commit)


def _signature_format(scene: Scene) -> None:
    _signed(scene, "PGP")
    scene.config("gpg.program", str(scene.program))
    scene.config("format.pretty", "%G?")


def _signature_shown(scene: Scene) -> None:
    _signed(scene, "PGP")
    scene.config("gpg.program", str(scene.program))
    scene.config("log.showSignature", "true")


def _ssh_signature(scene: Scene) -> None:
    _signed(scene, "SSH")
    scene.config("gpg.ssh.program", str(scene.program))
    scene.config("gpg.ssh.allowedSignersFile", "/dev/null")
    scene.config("log.showSignature", "true")


def _named_format(scene: Scene) -> None:
    _signed(scene, "PGP")
    scene.config("gpg.program", str(scene.program))
    scene.config("pretty.medium", "%G?")
    scene.config("pretty.mine", "%G?")


def _included(scene: Scene) -> None:
    more = scene.scratch / "more"
    more.write_text(f"[core]\n\tfsmonitor = {scene.program}\n[diff]\n\texternal = {scene.program}\n")
    scene.config("include.path", str(more))


def _included_if(scene: Scene) -> None:
    more = scene.scratch / "more"
    more.write_text(f"[core]\n\tfsmonitor = {scene.program}\n")
    scene.config(f"includeIf.gitdir:{scene.scratch}/**.path", str(more))


def _worktree_settings(scene: Scene) -> None:
    scene.config("extensions.worktreeConfig", "true")
    scene.config("core.fsmonitor", str(scene.program), "--worktree")


def _linked_worktree(scene: Scene) -> None:
    other = scene.scratch / "other"
    scene.git("worktree", "add", "--quiet", str(other))
    scene.cwd = other
    scene.config("core.fsmonitor", str(scene.program))


def _missing_object(scene: Scene, url: str) -> None:
    blob = scene.git("rev-parse", "HEAD:notes.txt")
    scene.config("remote.origin.url", url)
    scene.config("remote.origin.promisor", "true")
    scene.config("remote.origin.uploadpack", str(scene.program))
    scene.config("core.repositoryFormatVersion", "1")
    scene.config("extensions.partialClone", "origin")
    scene.config("protocol.allow", "always")
    scene.config("protocol.file.allow", "always")
    scene.config("protocol.ext.allow", "always")
    (scene.repository / ".git/objects" / blob[:2] / blob[2:]).unlink()


def _alternates(scene: Scene) -> None:
    other = scene.scratch / "other"
    scene.init(other)
    (scene.repository / ".git/objects/info/alternates").write_text(f"{other}/.git/objects\n")
    scene.config("core.alternateRefsCommand", str(scene.program))


def _submodule(scene: Scene, name: str, value: str, attributes: str = "") -> Path:
    inner = scene.repository / "inner"
    scene.init(inner)
    scene.git("add", "inner")
    (scene.repository / ".gitmodules").write_text('[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n')
    scene.git("add", ".gitmodules")
    scene.commit()
    scene.commit(cwd=inner)
    if attributes:
        (inner / ".gitattributes").write_text(f"{attributes}\n")
    scene.git("config", name, value, cwd=inner)
    return inner


def submodule(name: str, value: str = "{program}", attributes: str = "") -> Callable[[Scene], None]:
    return lambda scene: void(_submodule(scene, name, value.format(program=scene.program), attributes))


def void(_value: object) -> None:
    return None


def _submodule_log(scene: Scene) -> None:
    _submodule(scene, "core.fsmonitor", str(scene.program))
    scene.config("diff.submodule", "diff")


def _submodule_summary(scene: Scene) -> None:
    _submodule(scene, "core.fsmonitor", str(scene.program))
    scene.config("status.submoduleSummary", "true")


def _conflict(scene: Scene) -> None:
    """A merge commit whose merging ran a program, and would again where it is shown as a merge done anew."""
    scene.git("checkout", "--quiet", "notes.txt")
    for branch in ("left", "right"):
        scene.git("checkout", "--quiet", "-b", branch, "main")
        (scene.repository / "notes.txt").write_text(f"{branch}\n")
        scene.commit("-a")
    scene.git("merge", "--quiet", "-s", "ours", "-m", "merged", "left")
    scene.attributes("*.txt merge=evil")
    scene.git("add", ".gitattributes")
    scene.commit()
    scene.git("reset", "--quiet", "--soft", "HEAD~1")
    scene.config("merge.evil.driver", f"{scene.program} %A")
    scene.config("log.diffMerges", "remerge")


def _bare_inside(scene: Scene) -> None:
    """A folder of files that git takes for a repository of its own."""
    bare = scene.repository / "looks-harmless"
    scene.git("init", "--quiet", "--bare", str(bare))
    scene.git("config", "core.bare", "false", cwd=bare)
    scene.git("config", "core.worktree", "..", cwd=bare)
    scene.git("config", "core.fsmonitor", str(scene.program), cwd=bare)
    scene.cwd = bare


def _environment(**variables: str) -> Callable[[Scene], None]:
    def lay(scene: Scene) -> None:
        scene.environment = {name: value.format(program=scene.program) for name, value in variables.items()}

    return lay


def _own_subcommands(scene: Scene) -> None:
    folder = scene.scratch / "exec"
    folder.mkdir()
    (folder / "git-anything").symlink_to(scene.program)
    scene.environment = {"GIT_EXEC_PATH": str(folder)}


def _filter(where: str, kind: str = "clean") -> Callable[[Scene], None]:
    def lay(scene: Scene) -> None:
        rest = " through" if kind != "process" else ""
        scene.config(f"filter.evil.{kind}", f"{scene.program}{rest}")
        line = "*.txt filter=evil"
        match where:
            case "info":
                (scene.repository / ".git/info").mkdir(exist_ok=True)
                (scene.repository / ".git/info/attributes").write_text(f"{line}\n")
            case "file":
                (scene.scratch / "attributes").write_text(f"{line}\n")
                scene.config("core.attributesFile", str(scene.scratch / "attributes"))
            case "home":
                (scene.home / ".config/git").mkdir(parents=True)
                (scene.home / ".config/git/attributes").write_text(f"{line}\n")
            case "macro":
                scene.attributes("[attr]sly filter=evil\n*.txt sly")
            case "index":
                scene.attributes(line)
                scene.git("add", ".gitattributes")
                (scene.repository / ".gitattributes").unlink()
            case "below":
                below = scene.repository / "below"
                below.mkdir()
                (below / "more.txt").write_text("one\n")
                scene.git("-c", "filter.evil.clean=", "-c", "filter.evil.process=", "add", "below")
                (below / "more.txt").write_text("two\n")
                (below / ".gitattributes").write_text(f"{line}\n")
            case _:
                scene.attributes(line)

    return lay


def _filter_of_person(scene: Scene) -> None:
    (scene.home / ".gitconfig").write_text(f'[filter "evil"]\n\tclean = {scene.program} through\n')
    scene.attributes("*.txt filter=evil")


def _filter_with_odd_name(scene: Scene) -> None:
    settings = scene.repository / ".git/config"
    settings.write_text(f'{settings.read_text()}[filter "e.v\'il"]\n\tclean = {scene.program} through\n')
    scene.attributes("*.txt filter=e.v'il")


FILTERS = (
    Trap("a clean filter", _filter("here"), ("diff",)),
    Trap("a filter process", _filter("here", "process"), ("diff",)),
    Trap("a smudge filter", _filter("here", "smudge"), ("checkout", "notes.txt")),
    Trap("a filter by .git/info/attributes", _filter("info"), ("diff",)),
    Trap("a filter by core.attributesFile", _filter("file"), ("diff",)),
    Trap("a filter by the person's attributes", _filter("home"), ("diff",)),
    Trap("a filter by a macro", _filter("macro"), ("diff",)),
    Trap("a filter by attributes in the index only", _filter("index"), ("diff",)),
    Trap("a filter for a folder below", _filter("below"), ("diff",)),
    Trap("a filter of the person", _filter_of_person, ("diff",)),
    Trap("a filter with an odd name", _filter_with_odd_name, ("diff",)),
)

TRAPS = (
    Trap("fsmonitor", setting("core.fsmonitor"), ("status",)),
    Trap("a hook", _hook, ("status",)),
    Trap("hooks elsewhere", _hooks_path, ("status",)),
    Trap("a hook in the settings", _configured_hook, ("status",)),
    Trap("an external diff", setting("diff.external"), ("diff",)),
    Trap("a diff driver", setting("diff.evil.command", attributes="*.txt diff=evil"), ("diff",)),
    Trap(
        "a converter",
        setting("diff.evil.textconv", attributes="*.txt diff=evil"),
        ("--no-pager", "log", "-p"),
    ),
    Trap("a pager", setting("core.pager"), ("log",)),
    Trap("a pager of one command", setting("pager.diff"), ("diff",)),
    Trap("an alias", setting("alias.st", "!{program}"), ("st",)),
    Trap("an editor", setting("core.editor"), ("config", "--edit")),
    Trap("ssh", setting("core.sshCommand"), ("ls-remote", "ssh://host.invalid/a")),
    Trap("a proxy", setting("core.gitProxy"), ("ls-remote", "git://host.invalid/a")),
    Trap(
        "a credential helper",
        setting("credential.helper", "!{program}"),
        ("-c", "core.askPass=true", "credential", "fill"),
        given="protocol=https\nhost=host.invalid\n\n",
    ),
    Trap(
        "a program that asks for a password",
        setting("core.askPass"),
        ("credential", "fill"),
        given="protocol=https\nhost=host.invalid\n\n",
    ),
    Trap("included settings", _included, ("diff",)),
    Trap("settings included by condition", _included_if, ("status",)),
    Trap("settings of a worktree", _worktree_settings, ("status",)),
    Trap("a linked worktree", _linked_worktree, ("status",)),
    Trap("a format that checks signatures", _signature_format, ("log",)),
    Trap("a named format that checks signatures", _named_format, ("log", "--format=mine")),
    Trap("signatures shown", _signature_shown, ("log",)),
    Trap("ssh signatures shown", _ssh_signature, ("log",)),
    Trap(
        "a missing object, fetched from a path",
        lambda scene: _missing_object(scene, str(scene.scratch)),
        ("diff",),
    ),
    Trap(
        "a missing object, fetched by a program",
        lambda scene: _missing_object(scene, f"ext::{scene.program}"),
        ("diff",),
    ),
    Trap("a command for alternates", _alternates, ("log", "--alternate-refs")),
    Trap("fsmonitor of a submodule", submodule("core.fsmonitor"), ("status",)),
    Trap(
        "a filter of a submodule",
        submodule("filter.evil.clean", "{program} through", "*.txt filter=evil"),
        ("status",),
    ),
    Trap("submodules shown as diffs", _submodule_log, ("diff", "--ignore-submodules=none")),
    Trap("a summary of submodules", _submodule_summary, ("status",)),
    Trap("a merge done anew", _conflict, ("--no-pager", "log", "-p", "-m")),
    Trap("a repository inside", _bare_inside, ("status",)),
    Trap("GIT_EXTERNAL_DIFF", _environment(GIT_EXTERNAL_DIFF="{program}"), ("diff",)),
    Trap("GIT_PAGER", _environment(GIT_PAGER="{program}"), ("log",)),
    Trap(
        "settings in the environment",
        _environment(GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="diff.external", GIT_CONFIG_VALUE_0="{program}"),
        ("diff",),
    ),
    Trap("GIT_EXEC_PATH", _own_subcommands, ("anything",)),
    Trap("PAGER", _environment(PAGER="{program}"), ("log",)),
)
