"""Paths of a user's private files that commands never need, and `.env` files of other projects.

The names of single files come from `secret_files.SECRET_FILES`, which knows where programs keep passwords and tokens.
It is the one list: the sandbox hides these places from commands, and no call that names one is quiet (`PrivatePlaces`).
"""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from bridle.base.fs.other_projects import OtherProjects, is_environment_file
from bridle.base.fs.paths import SessionFolders, is_beneath, is_beneath_any
from bridle.base.secrets.secret_files import SECRET_FILES, is_secret_like

# fmt: off
_SECRETS_IN_HOME = (
    # keys and password stores
    ".ssh", ".gnupg", ".password-store", ".local/share/password-store", ".local/share/keyrings",
    ".local/share/kwalletd",
    ".pki", ".secrets", ".vault-token", ".age", ".config/sops", ".config/age", ".Xauthority", ".ICEauthority",
    # clouds, clusters, forges
    ".aws", ".azure", ".kube", ".oci", ".config/gcloud", ".config/gh", ".config/glab-cli", ".config/hub",
    ".config/doctl",
    ".config/op", ".config/rclone", ".config/heroku", ".config/configstore", ".config/netlify", ".config/fly",
    ".fly", ".terraform.d/credentials.tfrc.json", ".docker/config.json", ".config/containers/auth.json", ".netrc",
    ".git-credentials", ".config/git/credentials", ".databrickscfg", ".snowflake", ".config/huggingface/token",
    ".cache/huggingface/token", ".huggingface/token",
    # package registries
    ".npmrc", ".pypirc", ".yarnrc.yml", ".config/pypoetry/auth.toml", ".cargo/credentials", ".cargo/credentials.toml",
    ".gem/credentials", ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties", ".nuget/NuGet",
    ".config/NuGet", ".pip/pip.conf", ".config/pip/pip.conf", "Library/Application Support/pip/pip.conf", ".wgetrc",
    # other agents
    ".codex/auth.json", ".claude/.credentials.json", ".claude.json", ".gemini/oauth_creds.json",
    ".local/share/opencode/auth.json", ".config/github-copilot", ".config/goose",
    # browsers and mail
    ".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware",
    ".config/vivaldi",
    ".config/microsoft-edge", ".config/opera", ".librewolf", "snap/firefox", "snap/chromium", ".var/app",
    ".config/Signal", ".config/Slack", ".config/discord", ".config/1Password", ".config/Bitwarden",
    ".config/keepassxc",
    "Library/Keychains", "Library/Cookies", "Library/Application Support/Google/Chrome",
    "Library/Application Support/Firefox", "Library/Application Support/BraveSoftware", "Library/Mail",
    "Library/Messages",
    # what was typed before
    ".bash_history", ".zsh_history", ".zhistory", ".python_history", ".node_repl_history", ".psql_history",
    ".mysql_history", ".sqlite_history", ".rediscli_history", ".dbshell", ".mongodb", ".lesshst", ".viminfo",
    ".local/share/fish/fish_history", ".local/state/bash_history", ".local/state/less/history",
    ".local/state/psql_history", ".local/state/vim/viminfo", ".local/state/nvim/shada", ".local/share/nvim/shada",
    ".irb_history", ".ksh_history", ".sh_history",
)
_PLACES_BY_VARIABLE = {
    "XDG_CONFIG_HOME": ".config/", "XDG_DATA_HOME": ".local/share/", "XDG_CACHE_HOME": ".cache/",
    "XDG_STATE_HOME": ".local/state/", "CARGO_HOME": ".cargo/", "PIP_CONFIG_FILE": ".config/pip/pip.conf",
    "WGETRC": ".wgetrc", "PYTHON_HISTORY": ".python_history", "LESSHISTFILE": ".lesshst",
    "GNUPGHOME": ".gnupg", "AWS_SHARED_CREDENTIALS_FILE": ".aws/credentials", "KUBECONFIG": ".kube/config",
    "DOCKER_CONFIG": ".docker/", "NETRC": ".netrc", "CLOUDSDK_CONFIG": ".config/gcloud",
    "GH_CONFIG_DIR": ".config/gh",
    "NPM_CONFIG_USERCONFIG": ".npmrc", "HISTFILE": ".bash_history", "XAUTHORITY": ".Xauthority",
}
"""What these name stands for a place in the home; one that ends with a slash, for everything of the list below it."""

_SECRETS_OF_SYSTEM = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssl/private", "/etc/krb5.keytab",
    "/etc/wireguard",
    "/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key",
    "/etc/NetworkManager/system-connections",
)
"""Only root can read these; they are hidden from its commands too."""

SOCKET_FOLDERS = ("/run", "/var/run", "/var/lib/docker", "/var/lib/containerd", "/var/snap/lxd/common/lxd")
SOCKETS_IN_HOME = (
    ".docker/run", ".docker/desktop", ".colima", ".lima", ".rd", ".orbstack/run",
    ".local/share/containers/podman/machine",
    ".1password", ".bitwarden-ssh-agent.sock.d",
)
SHOWN_IN_EMPTIED = (
    "/etc/resolv.conf", "/etc/hosts", "/etc/localtime",
    # where some systems keep the programs themselves
    "/run/current-system", "/run/wrappers", "/run/opengl-driver", "/run/booted-system",
)
"""What programs need although it may lie in one of the folders above, itself or where it leads."""

HOME_START_UP_FILES = (
    ".profile", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".zshenv", ".zshrc", ".zprofile",
    ".zlogin",
    ".xprofile", ".xsessionrc", ".gitconfig", ".ssh", ".npmrc", ".config/autostart", ".config/systemd", ".config/git",
    ".config/fish", ".config/environment.d", ".local/bin", "bin",
)
"""Protected, there or not, where the writable folder is the home itself."""
# fmt: on


def secret_places(home: str, env: Mapping[str, str]) -> list[str]:
    """Where secrets may be; of the home itself, what does not exist is mostly left out."""
    by_first_name = _by_first_name()
    try:
        names = [name for name in os.listdir(home) if name in by_first_name]
    except OSError:
        names = [*by_first_name]
    found = [os.path.join(home, place) for name in names for place in by_first_name[name]]
    found += [place for place in _SECRETS_OF_SYSTEM if os.access(place, os.R_OK)]
    found += _by_variable(env)
    return found


def _by_variable(env: Mapping[str, str]) -> tuple[str, ...]:
    return _by_value(tuple([env.get(variable, "") for variable in _PLACES_BY_VARIABLE]))


@functools.lru_cache(maxsize=8)
def _by_value(values: tuple[str, ...]) -> tuple[str, ...]:
    """Where the variables lead, which are mostly the same from one command to the next."""
    found: list[str] = []
    for value, stands_for in zip(values, _PLACES_BY_VARIABLE.values(), strict=True):
        if not value.startswith("/"):
            continue
        if stands_for.endswith("/"):
            below = (place.removeprefix(stands_for) for place in _in_home() if place.startswith(stands_for))
            found += [os.path.join(value, place) for place in below]
        else:
            found.append(value)
    return tuple(found)


@functools.cache
def _in_home() -> tuple[str, ...]:
    """The list above, and those of `SECRET_FILES` that can only be meant in a home: hidden names without wildcards."""
    named = (
        pattern
        for pattern in SECRET_FILES
        if pattern.startswith(".") and not set(pattern) & set("*?!") and not pattern.startswith(".env")
    )
    return tuple(dict.fromkeys((*_SECRETS_IN_HOME, *named)))


@functools.cache
def _by_first_name() -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for place in _in_home():
        found.setdefault(place.partition("/")[0], []).append(place)
    return found


MAX_LOOKED_AT = 5_000
"""How many files of private places are compared with one that has several names."""


class PrivatePlaces:
    """Whether a file is in one of the places, for calls that name it. Looked up with the first file that could be.

    Of the session's own folders only what is a private place itself counts: where the workspace is the home, its
    `.ssh` does. A folder in which the person opened the session is none for that session.
    """

    def __init__(self, home: str, env: Mapping[str, str], folders: SessionFolders) -> None:
        self._home = os.path.realpath(home)
        self._env = env
        self._folders = folders
        self._others = OtherProjects(home)

    def hold(self, path: str) -> bool:
        """Whether an absolute path without `..` is or lies in a private place, under this name."""
        if self.are_never_in(path):
            return False
        return f"{path}/".startswith(self._places) or (
            is_environment_file(path.rpartition("/")[2]) and path in self._of_others()
        )

    def are_never_in(self, folder: str) -> bool:
        """Whether a path and all that is below it is inside the session, where no private place is."""
        return self.inside_is_clear and self._folders.place(folder) != "outside"

    def hold_second_name(self, status: os.stat_result | None) -> bool:
        """Whether a file that has several names has one of them there. One with a single name is not looked for."""
        if status is None or status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
            return False
        return (status.st_dev, status.st_ino) in self._files_with_names

    def lie_below(self, roots: Iterable[str]) -> bool:
        """Whether a search through these resolved folders would come by one that is there."""
        below = tuple(f"{root.rstrip('/')}/" for root in roots if not self.are_never_in(root))
        if below and any(path.startswith(below) for path in self._of_others()):
            return True
        if self._above.isdisjoint(below):
            return False
        return any(place.startswith(below) and os.path.lexists(place.rstrip("/")) for place in self._places)

    def may_be_found(self, root: str, names: Sequence[str]) -> bool:
        """Whether a search below a resolved folder for files of these names, or of any, would come by one."""
        if not self.lie_below((root,)):
            return False
        last = [place.rstrip("/").rpartition("/")[2] for place in self._places] if names else []
        return not names or any(
            fnmatchcase(place, name) or is_secret_like(name, SECRET_FILES) for name in names for place in last
        )

    def _of_others(self) -> tuple[str, ...]:
        """The environment files of other projects, as a sandbox hides them too."""
        return self._others.secrets((self._folders.workspace, *self._folders.added))

    @functools.cached_property
    def inside_is_clear(self) -> bool:
        """Whether no private place is inside the session's folders, as in any that is not a home."""
        roots = (self._folders.workspace, *self._folders.added)
        if is_beneath_any(self._home, roots):
            return False
        return not any(is_beneath_any(os.path.realpath(place), roots) for place in _by_variable(self._env))

    @functools.cached_property
    def _places(self) -> tuple[str, ...]:
        """Under the names they have, there or not, and where those lead; each with a slash at its end."""
        named = [
            *(os.path.join(self._home, place) for place in _in_home()),
            *_SECRETS_OF_SYSTEM,
            *map(os.path.normpath, _by_variable(self._env)),
        ]
        leading = (os.path.realpath(place) for place in secret_places(self._home, self._env))
        opened = (self._folders.workspace, *self._folders.added)
        return tuple(
            f"{place}/"
            for place in dict.fromkeys((*named, *leading))
            if not any(is_beneath(folder, place) for folder in opened)
        )

    @functools.cached_property
    def _above(self) -> frozenset[str]:
        """The places and every folder above one of them, each with a slash at its end."""
        found: set[str] = set()
        for place in self._places:
            above = place
            while above and above not in found:
                found.add(above)
                above = above[: above.rstrip("/").rfind("/") + 1]
        return frozenset(found)

    @functools.cached_property
    def _files_with_names(self) -> frozenset[tuple[int, int]]:
        """The files there that have several names, as far as a look goes; what matters most stands first."""
        found: set[tuple[int, int]] = set()
        left = MAX_LOOKED_AT
        waiting = [*dict.fromkeys((*secret_places(self._home, self._env), *self._of_others()))][::-1]
        while waiting and left > 0:
            path, left = waiting.pop(), left - 1
            try:
                status = os.lstat(path)
                if stat.S_ISDIR(status.st_mode):
                    waiting += (entry.path for entry in os.scandir(path))
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                found.add((status.st_dev, status.st_ino))
        return frozenset(found)
