"""Private writable caches for package managers."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping

# fmt: off
_FOLDERS = {
    # everything that follows the XDG rules
    "XDG_CACHE_HOME": "xdg",
    # JavaScript
    "npm_config_cache": "npm", "pnpm_config_store_dir": "pnpm-store", "YARN_CACHE_FOLDER": "yarn",
    "YARN_GLOBAL_FOLDER": "yarn-berry", "COREPACK_HOME": "corepack", "BUN_INSTALL_CACHE_DIR": "bun", "DENO_DIR": "deno",
    # Python
    "PIP_CACHE_DIR": "pip", "UV_CACHE_DIR": "uv", "POETRY_CACHE_DIR": "poetry", "PIPENV_CACHE_DIR": "pipenv",
    "PRE_COMMIT_HOME": "pre-commit",
    # Rust: the installed programs are found on PATH and in RUSTUP_HOME; only what cargo downloads goes here
    "CARGO_HOME": "cargo", "SCCACHE_DIR": "sccache",
    # Go
    "GOPATH": "go", "GOMODCACHE": "go/pkg/mod", "GOCACHE": "go-build",
    # Java, .NET, PHP, Ruby, C
    "GRADLE_USER_HOME": "gradle", "NUGET_PACKAGES": "nuget", "DOTNET_CLI_HOME": "dotnet",
    "COMPOSER_CACHE_DIR": "composer", "BUNDLE_USER_CACHE": "bundler", "CCACHE_DIR": "ccache",
}
_FILES = {
    "npm_config_userconfig": "npmrc",  # the person's own may hold a token, and npm gives up if it cannot read it
}
# fmt: on


@functools.lru_cache(maxsize=8)
def cache_variables(folder: str) -> Mapping[str, str]:
    """What a command is told so that its downloads land in `folder`; nothing if that is empty. Nothing needs to exist
    in there."""
    if not folder:
        return {}
    named = {variable: os.path.join(folder, name) for variable, name in (_FOLDERS | _FILES).items()}
    named["UV_LINK_MODE"] = "copy"  # the cache and the project are two mounts, which no hard link joins
    if not any(character.isspace() for character in folder):
        named["MAVEN_ARGS"] = f"-Dmaven.repo.local={folder}/maven"
    return named
