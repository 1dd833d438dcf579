"""A home folder is never deleted, however it is named and whatever HOME says. Nothing here is run."""

import os
import pwd

import pytest

from bridle.shell.command_facts import ScriptContext
from bridle.shell.understanding import understand
from tables import table

ACCOUNT = pwd.getpwuid(os.getuid()).pw_dir
HOMES = ["", ACCOUNT, "/somewhere/else"]
DELETIONS = [
    "rm -rf ~",
    "rm -rf ~/",
    "rm -rf ~/*",
    "rm -fr -- ~",
    'rm -rf "$HOME"',
    "rm -rf $HOME/",
    "rm -rf ${HOME}/*",
    "cd; rm -rf ../*/",
    "rm -rf ~root",
    "rm -rf ~somebody/",
    f"rm -rf {ACCOUNT}",
    f"rm -rf {ACCOUNT}/*",
    f"rm -rf {ACCOUNT}/x/..",
    "bash -c 'rm -rf ~'",
    "sudo rm -rf ~",
    "env -u HOME rm -rf ~",
    "HOME= rm -rf ~",
    "unset HOME; rm -rf ~",
    "find ~ -delete",
    "chmod -R 777 ~",
]


@pytest.mark.requirement("D10.2", "D11.3")
@table("home", HOMES)
@table("command", DELETIONS)
def test_a_home_folder_is_never_deleted(command: str, home: str) -> None:
    where = ScriptContext(cwd="/code/shop", home=home, search_path="/usr/bin:/bin")
    assert understand(command, where).refused is not None


@table("home", HOMES)
@table("command", ["ls ~", "rm -rf build", "rm -rf ./~x", "echo '~'"])
def test_what_only_looks_like_it_is_not_refused(command: str, home: str) -> None:
    where = ScriptContext(cwd="/code/shop", home=home, search_path="/usr/bin:/bin")
    assert understand(command, where).refused is None
