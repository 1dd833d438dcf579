"""Where the folders of an installation are, by the environment alone. Also asked by who is too much in a hurry to
import what settings are made of."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # the real one would import typing
    from collections.abc import Mapping


def folder_paths(env: "Mapping[str, str]") -> dict[str, str] | None:
    """By the names that `Folders` has for them; None where neither HOME nor BRIDLE_HOME says."""
    if home := env.get("BRIDLE_HOME"):
        root = os.path.abspath(home)
        names = {name: name for name in ("config", "data", "state", "cache", "worktrees")} | {
            "runtime": "run"
        }
        return {name: os.path.join(root, folder) for name, folder in names.items()}
    home = env.get("HOME", "")
    if not os.path.isabs(home):
        return None
    data = _under(env, "XDG_DATA_HOME", home, ".local/share")
    state = _under(env, "XDG_STATE_HOME", home, ".local/state")
    return {
        "config": _under(env, "XDG_CONFIG_HOME", home, ".config"),
        "data": data,
        "state": state,
        "cache": _under(env, "XDG_CACHE_HOME", home, ".cache"),
        "runtime": _runtime(env, data) or os.path.join(state, "run"),
        "worktrees": f"{data}-worktrees",
    }


def _runtime(env: "Mapping[str, str]", data: str) -> str | None:
    """The folder of a login session, if there is one. Homes that share it have places of their own in it."""
    base = env.get("XDG_RUNTIME_DIR", "")
    if not os.path.isabs(base):
        return None
    import binascii

    return os.path.join(base, "bridle", f"{binascii.crc32(os.fsencode(data)):08x}")


def _under(env: "Mapping[str, str]", variable: str, home: str, default: str) -> str:
    """XDG says a relative value is to be ignored."""
    base = env.get(variable, "")
    if not os.path.isabs(base):
        base = os.path.join(home, default)
    return os.path.join(base, "bridle")
