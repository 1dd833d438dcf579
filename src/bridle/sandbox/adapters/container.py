"""Detect whether Bridle runs in a container.

Nothing is decided by it: commands are confined in a container as anywhere else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

Container: TypeAlias = Literal["docker", "podman", "k8s", "none"]

_MOST_BYTES = 64 * 1024
_CGROUPS: tuple[tuple[Container, re.Pattern[str]], ...] = (
    # Kubernetes first: below its folder stands the runtime's, which may be Docker's
    ("k8s", re.compile(r"/kubepods(?:[-./]|$)", re.MULTILINE)),
    ("docker", re.compile(r"/docker(?:/|-[0-9a-f]{12,}\.scope|$)", re.MULTILINE)),
    ("podman", re.compile(r"/libpod(?:[-_/]|$)", re.MULTILINE)),
)
_MARKS: tuple[tuple[Container, str], ...] = (("docker", ".dockerenv"), ("podman", "run/.containerenv"))
_NAMES: Mapping[str, Container] = {"docker": "docker", "podman": "podman", "oci": "podman"}
"""What runtimes put into the variable `container`."""


def container_around(env: Mapping[str, str], *, root: str = "/") -> Container:
    """Which container this is, by the first sign of it; "none" where there is no sign.

    The control groups of the first process come first. On most machines of today they say nothing (`0::/`), so the
    files that runtimes leave behind, their variable and that of Kubernetes follow.
    """
    groups = _beginning(os.path.join(root, "proc/1/cgroup"))
    for container, pattern in _CGROUPS:
        if pattern.search(groups):
            return container
    for container, mark in _MARKS:
        if os.path.exists(os.path.join(root, mark)):
            return container
    if named := _NAMES.get(env.get("container", "")):
        return named
    return "k8s" if env.get("KUBERNETES_SERVICE_HOST") else "none"


def _beginning(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
