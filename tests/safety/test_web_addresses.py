"""Where `web_fetch` may be sent: every spelling with its verdict, against a server that hears of every contact."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.net.addresses import address_problem, url_problem
from bridle.base.net.http_dial import HttpFault
from bridle.base.net.web import MAX_HOPS, WebRefused, numeric, parse_web_url
from tables import table
from web_kit import OTHER, PUBLIC, Network, answer, saying

NAMES = {
    "example.com": [PUBLIC],
    "a-b.example.com": [PUBLIC],
    "xn--bcher-kva.example": [PUBLIC],
    "localhost.example.com": [PUBLIC],
    "10.example.com": [PUBLIC],
    "two.example": [PUBLIC, OTHER],
    "six.example": ["2606:4700::1111"],
    "dns64.example": ["64:ff9b::5db8:d70e"],
    # where a public name leads to somebody's own network
    "loop.example": ["127.0.0.1"],
    "loop6.example": ["::1"],
    "any.example": ["0.0.0.0"],
    "ten.example": ["10.0.0.8"],
    "lan.example": ["192.168.0.1"],
    "docker.example": ["172.17.0.1"],
    "nat.example": ["100.64.1.1"],
    "meta.example": ["169.254.169.254"],
    "wire.example": ["168.63.129.16"],
    "aws6.example": ["fd00:ec2::254"],
    "ula.example": ["fd12:3456::1"],
    "link6.example": ["fe80::1%eth0"],
    "mapped.example": ["::ffff:10.0.0.1"],
    "nat64.example": ["64:ff9b::7f00:1"],
    "six2four.example": ["2002:a9fe:a9fe::1"],
    "teredo.example": ["2001:0:808:808::80ff:fffe"],
    "multi.example": ["224.0.0.251"],
    "reserved.example": ["240.0.0.1"],
    "test-net.example": ["192.0.2.7"],
    "unassigned.example": ["4000::1"],
    "mixed.example": [PUBLIC, "10.0.0.8"],
    "mixed6.example": ["::1", PUBLIC],
    "empty.example": [],
    "odd.example": ["not an address"],
}
LOOPBACK, PRIVATE, LINK, METADATA = (
    "loopback address",
    "private address",
    "link-local address",
    "cloud metadata address",
)
RESERVED, MULTICAST, CREDENTIALS = "reserved address", "multicast address", "credentials in the address"
NO_URL = "not a web address"

BY_TEXT = [
    # this machine
    ("http://127.0.0.1/", LOOPBACK),
    ("http://127.1/", LOOPBACK),
    ("http://127.0.1/", LOOPBACK),
    ("http://127.255.255.254/", LOOPBACK),
    ("http://2130706433/", LOOPBACK),
    ("http://0x7f000001/", LOOPBACK),
    ("http://0X7F.1/", LOOPBACK),
    ("http://017700000001/", LOOPBACK),
    ("http://0177.0.0.1/", LOOPBACK),
    ("http://0127.0.0.1/", LOOPBACK),
    ("http://127.000.000.001/", LOOPBACK),
    ("http://0/", LOOPBACK),
    ("http://0.0.0.0:8080/", LOOPBACK),
    ("http://0x0/", LOOPBACK),
    ("http://127.0.0.1./", LOOPBACK),
    ("http://[::1]/", LOOPBACK),
    ("http://[::1]:8080/", LOOPBACK),
    ("http://[0:0:0:0:0:0:0:1]/", LOOPBACK),
    ("http://[::]/", LOOPBACK),
    ("http://[::ffff:127.0.0.1]/", LOOPBACK),
    ("http://[::ffff:7f00:1]/", LOOPBACK),
    ("http://[::127.0.0.1]/", LOOPBACK),
    ("http://[64:ff9b::127.0.0.1]/", LOOPBACK),
    ("http://[2002:7f00:1::]/", LOOPBACK),
    ("http://localhost/", LOOPBACK),
    ("http://LocalHost:3000/", LOOPBACK),
    ("http://localhost./", LOOPBACK),
    ("http://app.localhost/", LOOPBACK),
    ("http://localhost.localdomain/", LOOPBACK),
    ("http://ip6-loopback/", LOOPBACK),
    ("http://\uff11\uff12\uff17.0.0.1/", LOOPBACK),
    ("http://\u2460\u2461\u2466.0.0.1/", LOOPBACK),
    ("http://127\u30020\u30020\u30021/", LOOPBACK),
    ("http://127\uff0e0\uff0e0\uff0e1/", LOOPBACK),
    ("http://\uff4c\uff4f\uff43\uff41lhost/", LOOPBACK),
    ("http://loc\u00adalhost/", LOOPBACK),
    ("http://%31%32%37.0.0.1/", LOOPBACK),
    ("http://127%2e0%2e0%2e1/", LOOPBACK),
    # its network
    ("http://10.0.0.1/", PRIVATE),
    ("http://10.1/", PRIVATE),
    ("http://167772161/", PRIVATE),
    ("http://0xa.1/", PRIVATE),
    ("http://012.0.0.1/", PRIVATE),
    ("http://172.16.0.1/", PRIVATE),
    ("http://172.31.255.255/", PRIVATE),
    ("http://192.168.1.1:3000/x?y", PRIVATE),
    ("http://3232235777/", PRIVATE),
    ("http://100.64.0.1/", PRIVATE),
    ("http://198.18.0.1/", PRIVATE),
    ("http://[fc00::1]/", PRIVATE),
    ("http://[fd12:3456:789a::1]/", PRIVATE),
    ("http://[fec0::1]/", PRIVATE),
    ("http://[::ffff:10.0.0.1]/", PRIVATE),
    ("http://[::ffff:0:10.0.0.1]/", PRIVATE),
    ("http://[2606:4700::5efe:10.0.0.1]/", PRIVATE),
    # where clouds hand out credentials
    ("http://169.254.169.254/latest/meta-data/", LINK),
    ("http://169.254.170.2/v2/credentials", LINK),
    ("http://2852039166/", LINK),
    ("http://0xA9FEA9FE/", LINK),
    ("http://0251.0376.0251.0376/", LINK),
    ("http://169.254.43518/", LINK),
    ("http://[fe80::1]/", LINK),
    ("http://[::ffff:a9fe:a9fe]/", LINK),
    ("http://[64:ff9b::a9fe:a9fe]/", LINK),
    ("http://[fd00:ec2::254]/", PRIVATE),
    ("http://100.100.100.200/", PRIVATE),
    ("http://168.63.129.16/machine?comp=goalstate", METADATA),
    ("http://metadata.google.internal/computeMetadata/v1/", METADATA),
    ("http://METADATA.google.internal./", METADATA),
    ("http://metadata/", METADATA),
    ("http://instance-data/latest", METADATA),
    # nobody's
    ("http://224.0.0.1/", MULTICAST),
    ("http://[ff02::1]/", MULTICAST),
    ("http://255.255.255.255/", RESERVED),
    ("http://240.0.0.1/", RESERVED),
    ("http://[2002:808:808::]/", RESERVED),
    ("http://192.0.2.1/", RESERVED),
    ("http://192.88.99.1/", RESERVED),
    ("http://[2001:db8::1]/", RESERVED),
    ("http://[100::1]/", RESERVED),
    ("http://[2001:0:808:808::f5ff:fffe]/", RESERVED),
    ("http://[::ffff:93.184.215.14]/", RESERVED),
    ("http://[4000::1]/", RESERVED),
    ("http://[5f00::1]/", RESERVED),
    # who you are
    ("https://me:word@example.com/", CREDENTIALS),
    ("https://me@example.com/", CREDENTIALS),
    ("https://@example.com/", CREDENTIALS),
    ("http://example.com@127.0.0.1/", CREDENTIALS),
    ("http://example.com:80@127.0.0.1:80/", CREDENTIALS),
    ("http://example.com%40@127.0.0.1/", CREDENTIALS),
    # not the web
    ("file:///etc/hostname", NO_URL),
    ("ftp://example.com/", NO_URL),
    ("gopher://example.com/", NO_URL),
    ("data:text/html,hi", NO_URL),
    ("javascript:alert(1)", NO_URL),
    ("ws://example.com/", NO_URL),
    ("unix:///run/x.sock", NO_URL),
    ("//example.com/", NO_URL),
    ("example.com", NO_URL),
    ("", NO_URL),
    ("http:/example.com/", NO_URL),
    ("http:///example.com/", NO_URL),
    ("http://", NO_URL),
    ("http:example.com", NO_URL),
    ("http:\\\\example.com/", NO_URL),
    ("http://example.com\\@127.0.0.1/", NO_URL),
    ("http://exam\tple.com/", NO_URL),
    ("http://example.com/\r\nx-header: 1", NO_URL),
    (" http://example.com/", NO_URL),
    ("http://example.com /", NO_URL),
    ("http://exa\x00mple.com/", NO_URL),
    ("http://1.2.3.4.5/", NO_URL),
    ("http://256.256.256.256/", NO_URL),
    ("http://4294967296/", NO_URL),
    ("http://[::1/", NO_URL),
    ("http://[fe80::1%25eth0]/", NO_URL),
    ("http://[::1]x/", NO_URL),
    ("http://example.com:99999999/", NO_URL),
    ("http://example.com:80:80/", NO_URL),
    ("http://example.com:0x50/", NO_URL),
    ("http://a\u2100b.example/", NO_URL),
]
WHEN_FETCHED = [
    ("http://loop.example/", "loop.example leads to a loopback address"),
    ("http://loop6.example/", "loop6.example leads to a loopback address"),
    ("http://any.example/", "any.example leads to a loopback address"),
    ("http://ten.example/", "ten.example leads to a private address"),
    ("http://TEN.example./", "ten.example leads to a private address"),
    ("http://lan.example:8080/", "lan.example leads to a private address"),
    ("https://docker.example/", "docker.example leads to a private address"),
    ("http://nat.example/", "nat.example leads to a private address"),
    ("http://meta.example/", "meta.example leads to a link-local address"),
    ("http://wire.example/", "wire.example leads to a cloud metadata address"),
    ("http://aws6.example/", "aws6.example leads to a private address"),
    ("http://ula.example/", "ula.example leads to a private address"),
    ("http://link6.example/", "link6.example leads to a strange address"),
    ("http://mapped.example/", "mapped.example leads to a private address"),
    ("http://nat64.example/", "nat64.example leads to a loopback address"),
    ("http://six2four.example/", "six2four.example leads to a link-local address"),
    ("http://teredo.example/", "teredo.example leads to a reserved address"),
    ("http://multi.example/", "multi.example leads to a multicast address"),
    ("http://reserved.example/", "reserved.example leads to a reserved address"),
    ("http://test-net.example/", "test-net.example leads to a reserved address"),
    ("http://unassigned.example/", "unassigned.example leads to a reserved address"),
    ("http://mixed.example/", "mixed.example leads to a private address"),
    ("http://mixed6.example/", "mixed6.example leads to a loopback address"),
    ("http://odd.example/", "odd.example leads to a strange address"),
    ("http://example.com:0/", NO_URL),
    ("http://example.com:65536/", NO_URL),
    ("http://ex%61mple.com/", NO_URL),
    ("http://local\u1806host/", LOOPBACK),  # the letter is dropped where names are looked up
    ("http://fa\u00df.example/", NO_URL),
    (f"http://example.com/{'x' * 9000}", NO_URL),
]
PASSING = [
    ("http://example.com/", PUBLIC),
    ("http://example.com", PUBLIC),
    ("HTTP://EXAMPLE.com./", PUBLIC),
    ("http://example.com:8080/a?b=http://127.0.0.1/#@x", PUBLIC),
    ("http://example.com?user@host", PUBLIC),
    ("http://a-b.example.com/%31%32/\u00e4 b".replace(" ", "%20"), PUBLIC),
    ("http://b\u00fccher.example/", PUBLIC),
    ("http://B\u00dcCHER\u3002example/", PUBLIC),
    ("http://localhost.example.com/", PUBLIC),
    ("http://10.example.com/", PUBLIC),
    (f"http://{PUBLIC}/", PUBLIC),
    ("http://1572394766/", PUBLIC),
    ("http://0x5db8d70e/", PUBLIC),
    ("http://[2606:4700::1111]/", "2606:4700::1111"),
    ("http://six.example/", "2606:4700::1111"),
    ("http://dns64.example/", "64:ff9b::5db8:d70e"),
    ("http://two.example/", PUBLIC),
]


@pytest.fixture
async def server():
    async with saying(answer(b"a page")).listening() as listening:
        yield listening


@table(("url", "problem"), BY_TEXT)
async def test_an_address_that_shows_where_it_leads_is_refused_and_nobody_is_asked(
    server, url, problem
) -> None:
    network = Network(server.port, NAMES)
    with pytest.raises(WebRefused) as refused:
        await network.fetch(url)
    assert (url_problem(url), refused.value.problem) == (problem, problem)
    assert (network.asked, network.contacted, server.connections) == ([], [], 0)
    assert "word" not in str(refused.value)


@table(("url", "problem"), WHEN_FETCHED)
async def test_a_name_is_refused_for_any_of_its_addresses_and_nothing_is_contacted(
    server, url, problem
) -> None:
    network = Network(server.port, NAMES)
    assert url_problem(url) in (None, problem)
    with pytest.raises(WebRefused) as refused:
        await network.fetch(url)
    assert refused.value.problem == problem
    assert (network.contacted, server.connections) == ([], 0)


@table("url", ["http://unknown.example/", "http://empty.example/", "http://a..example/"])
async def test_a_name_nobody_knows_contacts_nobody(server, url) -> None:
    network = Network(server.port, NAMES)
    with pytest.raises(HttpFault) as fault:
        await network.fetch(url)
    assert (fault.value.kind, network.contacted) == ("dns", [])


@table(("url", "address"), PASSING)
async def test_a_public_address_is_fetched_from_the_address_that_was_judged(server, url, address) -> None:
    network = Network(server.port, NAMES)
    assert url_problem(url) is None
    assert (await network.fetch(url)).body == b"a page"
    assert network.contacted == [address]


def test_the_table_is_long_enough() -> None:
    assert len(BY_TEXT) + len(WHEN_FETCHED) + len(PASSING) >= 160


# Redirects: every hop is an address like the first

REDIRECTS = [
    ("http://127.0.0.1/", LOOPBACK),
    ("http://169.254.169.254/latest/", LINK),
    ("http://2852039166/", LINK),
    ("//10.0.0.1/", PRIVATE),
    ("http://[::1]/", LOOPBACK),
    ("http://localhost:3000/", LOOPBACK),
    ("http://ten.example/", "ten.example leads to a private address"),
    ("http://mixed.example/", "mixed.example leads to a private address"),
    ("file:///etc/hostname", NO_URL),
    ("ftp://example.com/", NO_URL),
    ("gopher://127.0.0.1:70/", NO_URL),
    ("javascript:alert(1)", NO_URL),
    ("https://me:word@example.com/", CREDENTIALS),
    ("//me@example.com/", CREDENTIALS),
    ("http://example.com\\@127.0.0.1/", NO_URL),
    ("http://a\tb/", NO_URL),
    ("http://[broken/", NO_URL),
]


@table(("location", "problem"), REDIRECTS)
@table("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_judged_like_the_address_itself(location, problem, status) -> None:
    answers = {"/": answer(status=302, location="/next"), "/next": answer(status=status, location=location)}
    async with saying(answers).listening() as server:
        network = Network(server.port, NAMES)
        with pytest.raises(WebRefused) as refused:
            await network.fetch("http://example.com/")
    assert refused.value.problem.removesuffix(", after a redirect") == problem
    assert (network.contacted, server.connections) == ([PUBLIC, PUBLIC], 2)
    assert "word" not in str(refused.value)


async def test_redirects_are_followed_over_hosts_and_looked_up_each_time() -> None:
    answers = {
        "/": answer(status=301, location="http://two.example/b"),
        "/b": answer(status=302, location="../c?d#e"),
        "/c?d": answer(b"here"),
    }
    async with saying(answers).listening() as server:
        network = Network(server.port, NAMES)
        found = await network.fetch("http://example.com/")
    assert (found.url, found.body) == ("http://two.example/c?d", b"here")
    assert network.asked == ["example.com", "two.example", "two.example"]


async def test_redirects_come_to_an_end() -> None:
    async with saying(answer(status=302, location="/again")).listening() as server:
        network = Network(server.port, NAMES)
        with pytest.raises(HttpFault) as fault:
            await network.fetch("http://example.com/")
    assert "redirects more than 5 times" in fault.value.problem
    assert server.connections == MAX_HOPS + 1


@pytest.mark.requirement("G2.11")
@table(
    "inside", ["10.0.0.8", "192.168.0.1", "127.0.0.1", "::1", "169.254.169.254", "fe80::1", "fd00:ec2::254"]
)
async def test_nothing_inside_is_contacted_by_address_by_name_or_at_any_hop(inside) -> None:
    host = f"[{inside}]" if ":" in inside else inside
    redirect = answer(status=302, location=f"http://{host}/")
    by_name = answer(status=302, location="http://inside.example/")
    answers = {
        "/a": redirect,
        "/n": by_name,
        "/2": answer(status=301, location="/n"),
        "/u": answer(b"public"),
    }
    names = {"example.com": [PUBLIC], "inside.example": [inside], "both.example": [PUBLIC, inside]}
    async with saying(answers).listening() as server:
        network = Network(server.port, names)
        for url in (f"http://{host}/", "http://inside.example/", "http://both.example/u"):
            with pytest.raises(WebRefused):
                await network.fetch(url)
        assert network.contacted == []
        for path in ("a", "n", "2"):
            with pytest.raises(WebRefused):
                await network.fetch(f"http://example.com/{path}")
        with pytest.raises(HttpFault):
            await network.fetch("http://nobody-knows.example/u")
        assert (await network.fetch("http://example.com/u")).body == b"public"
    assert {*network.contacted} == {PUBLIC}


# A name that changes its mind


async def test_the_answer_that_was_judged_is_the_one_that_is_used(server) -> None:
    network = Network(server.port, {"rebind.example": [[PUBLIC], ["127.0.0.1"]]})
    assert (await network.fetch("http://rebind.example/")).body == b"a page"
    assert (network.asked, network.contacted) == (["rebind.example"], [PUBLIC])


async def test_a_name_that_changed_is_refused_at_the_next_hop() -> None:
    async with saying(answer(status=302, location="/")).listening() as server:
        network = Network(server.port, {"rebind.example": [[PUBLIC], ["127.0.0.1"]]})
        with pytest.raises(WebRefused):
            await network.fetch("http://rebind.example/")
    assert (network.contacted, server.connections) == ([PUBLIC], 1)


# Laws


@given(
    st.text(alphabet="0123456789.xXaAfF", min_size=1, max_size=24),
    st.sampled_from(["", "127.", "0x7f.", "10.", "169.254.", "192.168."]),
)
def test_what_the_text_lets_pass_the_system_does_not_read_as_something_else(host: str, start: str) -> None:
    url = f"http://{start}{host}/"
    if url_problem(url) is None:
        assert [a for a in numeric(parse_web_url(url).host) if address_problem(a) is not None] == []


@given(st.text(max_size=60), st.sampled_from(["http://", "https://", "http://a", "http://1.", "http://a.b/"]))
def test_a_url_that_can_be_fetched_has_a_plain_host(text: str, start: str) -> None:
    try:
        url = parse_web_url(start + text)
    except ValueError:
        return
    assert url.host.isascii()
    assert not {*url.host} & {*"@/\\?#% \t\n"}
    assert url.target.isascii()
    assert url.target.isprintable()


@given(st.text(alphabet="abcxyz:%-_/ \u0661", max_size=20))
def test_an_address_that_cannot_be_read_is_refused(text: str) -> None:
    assert address_problem(text) is not None


@given(st.ip_addresses())
def test_what_is_not_global_is_refused(address) -> None:
    if not address.is_global:
        assert address_problem(str(address)) is not None
