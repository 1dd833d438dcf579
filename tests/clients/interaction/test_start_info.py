"""What is said at the start about the border around commands."""

from bridle.clients.interaction.render.start_info import sandbox_line
from bridle.protocol.events import SessionCreated
from tables import table

WRITES = "commands can write in this folder and a private /tmp"


@table(
    ("network", "hosts", "more"),
    [
        ("inherit", (), ""),
        ("deny", (), ", and reach no network"),
        ("filtered", (), ", and reach no host (sandbox.hosts is empty)"),
        ("filtered", ("example.org",), ", and reach only example.org"),
        ("filtered", ("a.b", "c.d", "e.f", "g.h", "i.j"), ", and reach only a.b, c.d, e.f and 2 more"),
    ],
)
def test_what_commands_reach_is_said_where_it_is_limited(network, hosts, more) -> None:
    created = SessionCreated(
        log="l", cwd="/w", sandbox="bubblewrap", confined="workspace-write", network=network, hosts=hosts
    )
    fact = sandbox_line(created)
    assert fact is not None
    assert (fact.value, fact.detail) == ("bubblewrap", WRITES + more)
