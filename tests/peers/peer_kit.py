"""What the tests against foreign programs share: one of them running, and the answer of a person with a browser."""

import html
import http.cookiejar
import os
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"


@contextmanager
def running(program: str, *options: str, package: str) -> Iterator[str]:
    """A program of the npm package `package` while entered: the address it prints. Skips where it is not installed."""
    node = shutil.which("node")
    if node is None or not (MODULES / package).is_dir():
        pytest.skip("needs node and the npm packages: run make test-peers")
    with serving(node, program, *options, NODE_NO_WARNINGS="1") as address:
        yield address


@contextmanager
def serving(*command: str, **env: str) -> Iterator[str]:
    """A server while entered: the address on this machine that it prints first."""
    server = subprocess.Popen(
        command,
        cwd=HERE,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    said: list[str] = []
    try:
        for line in server.stdout:
            said.append(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                break
        else:
            pytest.fail(f"{command} did not start: {''.join(said)}")
        yield found[0]
    finally:
        server.kill()
        server.wait()
        server.stdin.close()
        server.stdout.close()


def agrees(address: str, fields: dict[str, str]) -> str:
    """A person with a browser who fills in every form and agrees; the last page they see."""
    cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    browser = urllib.request.build_opener(cookies, urllib.request.ProxyHandler({}))
    page = browser.open(address)
    for _ in range(8):
        text = page.read().decode()
        form = re.search(r"<form[^>]*>.*?</form>", text, re.DOTALL)
        if form is None:
            return text
        given = {name: html.unescape(value) for name, value in _hidden(form[0])}
        given |= {name: value for name, value in fields.items() if f'name="{name}"' in form[0]}
        action = re.search(r'action="([^"]*)"', form[0])
        target = urllib.parse.urljoin(page.url, html.unescape(action[1]) if action else "")
        page = browser.open(target, urllib.parse.urlencode(given).encode())
    raise AssertionError("the forms do not end")


def _hidden(form: str) -> list[tuple[str, str]]:
    inputs = re.findall(r"<input[^>]*type=\"hidden\"[^>]*>", form)
    pairs = [(re.search(r'name="([^"]*)"', one), re.search(r'value="([^"]*)"', one)) for one in inputs]
    return [(name[1], value[1]) for name, value in pairs if name and value]
