"""The client scenarios of the official conformance suite of MCP, through `bridle mcp test` and `bridle mcp login`."""

import re
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from peers.peer_kit import HERE
from peers.test_mcp_peers import SUITE, node

pytestmark = pytest.mark.peers

LEFT_OUT = {
    "auth/client-credentials-jwt": "an extension: a program signs in, and no person",
    "auth/client-credentials-basic": "an extension: a program signs in, and no person",
    "auth/enterprise-managed-authorization": "an extension: a company's identity server speaks for the person",
    "auth/dpop": "an extension: tokens bound to a key, which the SDK does not have",
    "auth/dpop-nonce": "an extension: tokens bound to a key, which the SDK does not have",
    "auth/wif-jwt-bearer": "an extension: a machine signs in, and no person",
    "sep-2640-client-no-prefetch": "an extension: skills over MCP",
    "sep-2640-client-verify-digest": "an extension: skills over MCP",
    "sep-2640-client-verify-size": "an extension: skills over MCP",
    "sep-2640-client-verify-frontmatter": "an extension: skills over MCP",
}
"""What is not run, and why. Everything else that the suite has for clients is."""
PARTS = 4
AT_ONCE = 2
"""Of each part, which another process may run beside this one."""


def scenarios() -> list[str]:
    listed = node(SUITE, "list").stdout
    of_clients = listed.partition("Client scenarios")[2].partition("Authorization server scenarios")[0]
    return re.findall(r"^  - (\S+) \[", of_clients, re.MULTILINE)


def played(scenario: str) -> str:
    """What went wrong in a scenario; empty where nothing did."""
    command = f"{sys.executable} -W ignore {HERE / 'mcp_client_driver.py'}"
    done = node(
        SUITE, "client", "--command", command, "--scenario", scenario, "--timeout", "90000", "--verbose"
    )
    good = done.returncode == 0 and "0 failed, 0 warnings" in done.stdout + done.stderr
    return "" if good else f"{scenario}:\n{done.stdout[-3000:]}\n{done.stderr[-1000:]}"


def wanted() -> list[str]:
    known = scenarios()
    assert LEFT_OUT.keys() <= set(known), "the suite has no longer what is left out here"
    return [one for one in known if one not in LEFT_OUT]


@pytest.mark.timeout(400)
@pytest.mark.requirement("H1.1", "G13.1")
@pytest.mark.parametrize("part", range(PARTS))
def test_every_core_client_scenario_of_the_suite_passes_through_our_commands(part: int) -> None:
    everything = wanted()
    assert len(everything) >= 38
    with ThreadPoolExecutor(AT_ONCE) as pool:
        problems = list(filter(None, pool.map(played, everything[part::PARTS])))
    assert not problems, "\n\n".join(problems)
