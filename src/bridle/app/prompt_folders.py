"""Where prompts of people are looked for, in a session and for `bridle trust`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from bridle.base.files import repository_root
from bridle.config.folders import Folders, project_folder


def prompt_folders(where: Folders, cwd: str, listed: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The folders with prompts that are there: the person's, empty where there is none, and those of the project."""
    own, user = project_folder(cwd), os.path.join(where.config, "commands")
    root = repository_root(os.path.realpath(cwd)) if listed else ""
    theirs = (
        *((os.path.join(own, "commands"),) if own else ()),
        *(os.path.join(root, one) for one in listed),
    )
    return user if os.path.isdir(user) else "", tuple(one for one in theirs if os.path.isdir(one))
