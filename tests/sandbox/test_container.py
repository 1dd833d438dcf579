"""Which container we are in, on machines laid out in a folder."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from bridle.sandbox.adapters.container import container_around

ID = "3f4e" * 16
BARE = "0::/\n"
DOCKER_V1 = f"12:pids:/docker/{ID}\n11:cpu,cpuacct:/docker/{ID}\n0::/\n"
DOCKER_SYSTEMD = f"0::/system.slice/docker-{ID}.scope\n"
PODMAN = f"0::/machine.slice/libpod-{ID}.scope/container\n"
KUBE_V1 = f"4:memory:/kubepods/burstable/pod1234/{ID}\n"
KUBE_ON_DOCKER = f"4:memory:/kubepods.slice/kubepods-pod1.slice/docker-{ID}.scope\n"
HOST = "0::/init.scope\n"
DAEMON = "0::/system.slice/docker.service\n"
FAN = "1:name=systemd:/user.slice/docker-fans/session-2.scope\n"
KUBE = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}

CASES: list[tuple[str, str | None, tuple[str, ...], Mapping[str, str], str]] = [
    # what it is, /proc/1/cgroup, files, environment, answer
    ("docker with control groups v1", DOCKER_V1, (), {}, "docker"),
    ("docker under systemd", DOCKER_SYSTEMD, (), {}, "docker"),
    ("podman", PODMAN, (), {}, "podman"),
    ("kubernetes with control groups v1", KUBE_V1, (), {}, "k8s"),
    ("kubernetes whose runtime is docker", KUBE_ON_DOCKER, (".dockerenv",), KUBE, "k8s"),
    ("control groups v2 and docker's file", BARE, (".dockerenv",), {}, "docker"),
    ("control groups v2 and podman's file", BARE, ("run/.containerenv",), {}, "podman"),
    ("control groups v2 and podman's variable", BARE, (), {"container": "podman"}, "podman"),
    ("an older podman", BARE, (), {"container": "oci"}, "podman"),
    ("control groups v2 and docker's variable", BARE, (), {"container": "docker"}, "docker"),
    ("control groups v2 and kubernetes", BARE, (), KUBE, "k8s"),
    ("no /proc at all", None, (".dockerenv",), {}, "docker"),
    ("the groups before the files", PODMAN, (".dockerenv",), {}, "podman"),
    ("docker's file before podman's", BARE, (".dockerenv", "run/.containerenv"), {}, "docker"),
    ("a file before the variable", BARE, (".dockerenv",), {"container": "podman"}, "docker"),
    ("the variable before kubernetes", BARE, (), {"container": "podman", **KUBE}, "podman"),
    ("a plain machine", HOST, (), {}, "none"),
    ("the daemon is not a container", DAEMON, (), {}, "none"),
    ("a group that is only named so", FAN, (), {}, "none"),
    ("an empty variable", HOST, (), {"KUBERNETES_SERVICE_HOST": "", "container": ""}, "none"),
    ("a container of another kind", HOST, (), {"container": "systemd-nspawn"}, "none"),
    ("nothing to read", None, (), {}, "none"),
]


@pytest.mark.requirement("H10.2", "P24")
@pytest.mark.parametrize(
    ("groups", "files", "env", "wanted"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_container_is_known_by_its_first_sign(
    tmp_path: Path, groups: str | None, files: tuple[str, ...], env: Mapping[str, str], wanted: str
) -> None:
    if groups is not None:
        (tmp_path / "proc/1").mkdir(parents=True)
        (tmp_path / "proc/1/cgroup").write_text(groups)
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert container_around(env, root=str(tmp_path)) == wanted


def test_control_groups_that_are_no_text_are_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/cgroup").write_bytes(b"\xff\xfe\x00" * 50_000 + b"/docker/")
    assert container_around({}, root=str(tmp_path)) == "none"
