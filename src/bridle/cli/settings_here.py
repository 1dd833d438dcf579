"""Settings for verbs: read those of this folder, and report problems with them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.config.folders import folders
from bridle.config.problems import Problem
from bridle.config.tiers import Tiers, load
from bridle.protocol.errors import BridleError


def settings_here(parsed: argparse.Namespace, env: Mapping[str, str]) -> Tiers:
    """Return the settings of this folder with the options of the command line, unchecked."""
    return load(
        where=folders(env),
        cwd=os.getcwd(),
        env=env,
        config_file=getattr(parsed, "config", None),
        profile=getattr(parsed, "profile", None),
        sets=getattr(parsed, "set", ()),
    )


def problem_data(problem: Problem) -> dict[str, Any]:
    """Return a problem as JSON: its fields, and the sentence for users."""
    return {**msgspec.to_builtins(problem), "text": problem.text}


def unwritable(path: str, problem: OSError) -> BridleError:
    """Return the error for a settings file that could not be changed."""
    is_folder = not isinstance(problem, FileExistsError | NotADirectoryError)
    clause = problem.strerror if is_folder else f"{problem.filename} is not a folder"
    return BridleError("FileUnwritable", path=path, problem=clause)
