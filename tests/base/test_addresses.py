"""Which addresses nobody may be sent to, in every spelling."""

from ipaddress import IPv4Address, IPv6Address, ip_network

from hypothesis import given
from hypothesis import strategies as st

from bridle.base.net.addresses import metadata_problem, url_problem
from tables import table


@table(
    ("url", "problem"),
    [
        ("http://169.254.169.254/latest/meta-data", "link-local address"),
        ("http://[fe80::1]/", "link-local address"),
        ("http://127.1/", "loopback address"),
        ("http://0/", "loopback address"),
        ("http://[::1]:8080/", "loopback address"),
        ("http://[::]/", "loopback address"),
        ("http://localhost/", "loopback address"),
        ("http://LOCALHOST.:80/", "loopback address"),
        ("http://a.b.localhost/", "loopback address"),
        ("http://\u2460\u2461\u2466.0.0.1/", "loopback address"),
        ("http://127\u30020\u30020\u30021/", "loopback address"),
        ("http://%31%32%37.0.0.1/", "loopback address"),
        ("http://127.0.0.\u00ad1/", "loopback address"),
        ("http://10.1.2.3", "private address"),
        (
            "http://0127.0.0.1/",
            "loopback address",
        ),  # 87.0.0.1 for programs that know octal, loopback for others
        ("http://192.168.1.1:3000/x", "private address"),
        ("http://172.31.0.1", "private address"),
        ("http://100.64.0.1", "private address"),
        ("http://[fd00::1]/", "private address"),
        ("http://224.0.0.1", "multicast address"),
        ("http://255.255.255.255", "reserved address"),
        ("http://metadata.google.internal/", "cloud metadata address"),
        ("http://[2002:7f00:1::]/", "loopback address"),
        ("http://[64:ff9b::a9fe:a9fe]/", "link-local address"),
        ("https://user:word@example.com/", "credentials in the address"),
        ("https://user@example.com/", "credentials in the address"),
        ("http://1.2.3.4.5/", "not a web address"),
        ("http://example.0x7f/", "not a web address"),
        ("http://256.1.1.1/", "not a web address"),
        ("http://[fe80::1%25eth0]/", "not a web address"),
        ("http://[::1/", "not a web address"),
        ("http://example.com\\@10.0.0.1/", "not a web address"),
        ("http://example.com:99999999/", "not a web address"),
        ("http://exa mple.com/", "not a web address"),
        ("http:///etc/passwd", "not a web address"),
        ("http:/example.com", "not a web address"),
        ("file:///etc/passwd", "not a web address"),
        ("ftp://example.com/", "not a web address"),
        ("javascript:alert(1)", "not a web address"),
        ("example.com", "not a web address"),
        ("", "not a web address"),
        ("https://example.com/a?b=http://127.0.0.1#@x", None),
        ("HTTPS://Example.com:443", None),
        ("http://8.8.8.8/", None),
        ("http://134744072/", None),
        ("https://[2606:4700::1111]/", None),
        ("https://b\u00fccher.example/", None),
        ("https://10.example.com/", None),
        ("https://localhost.example.com/", None),
    ],
)
def test_a_url_is_refused_with_what_is_wrong_with_it(url: str, problem: str | None) -> None:
    assert url_problem(url) == problem


FORBIDDEN = [
    "169.254.0.0/16", "127.0.0.0/8", "0.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10",
    "224.0.0.0/4", "240.0.0.0/4",
]  # fmt: skip
addresses = st.sampled_from(FORBIDDEN).flatmap(
    lambda text: st.integers(
        int(ip_network(text).network_address), int(ip_network(text).broadcast_address)
    ).map(IPv4Address)
)


def _number(value: int, how: str) -> str:
    return {"d": str(value), "o": f"0{value:o}", "x": hex(value), "X": f"0X{value:X}", "0": f"00{value:o}"}[
        how
    ]


@st.composite
def spellings(draw, addresses=addresses) -> str:
    """One of the many ways to write an IPv4 address."""
    packed = draw(addresses).packed
    count = draw(st.integers(1, 4))
    values = [*packed[: count - 1], int.from_bytes(packed[count - 1 :], "big")]
    host = ".".join(_number(value, draw(st.sampled_from("doxX0"))) for value in values)
    if draw(st.booleans()):
        host = host.translate({ord(digit): 0xFF10 + int(digit) for digit in "0123456789"})
    if draw(st.booleans()):
        host = host.replace(".", draw(st.sampled_from(["\u3002", "\uff0e", "\uff61", "%2e"])))
    return host + draw(st.sampled_from(["", "."]))


@given(spellings(), st.sampled_from(["", ":80", ":8080"]), st.sampled_from(["", "/", "/x", "?y", "#z"]))
def test_no_spelling_of_a_forbidden_address_passes(host: str, port: str, rest: str) -> None:
    assert url_problem(f"http://{host}{port}{rest}") is not None


@given(addresses)
def test_no_forbidden_address_passes_inside_an_ipv6_one(address: IPv4Address) -> None:
    number = int(address)
    inside = [
        f"::ffff:{address}", f"::ffff:0:{address}", f"64:ff9b::{address}",
        str(IPv6Address((0x2002 << 112) + (number << 80))),
        str(IPv6Address((0x20010000 << 96) + (0x08080808 << 64) + (number ^ 0xFFFFFFFF))),
        str(IPv6Address((0x2606 << 112) + (0x5EFE << 32) + number)),
    ]  # fmt: skip
    assert [text for text in inside if url_problem(f"http://[{text}]/") is None] == []


public = st.integers(0, (1 << 32) - 1).map(IPv4Address).filter(lambda address: address.is_global)


@given(public)
def test_a_public_address_passes_as_people_write_it(address: IPv4Address) -> None:
    if not any(address in ip_network(text) for text in [*FORBIDDEN, "192.0.0.0/24", "198.18.0.0/15"]):
        assert url_problem(f"https://{address}/") is None


@given(st.text(max_size=40), st.sampled_from(["", "http://", "https://[", "http://0x", "http://1."]))
def test_any_text_gets_an_answer(text: str, start: str) -> None:
    for problem in (url_problem(start + text), metadata_problem(start + text)):
        assert problem is None or problem


@table(
    ("address", "problem"),
    [
        ("http://169.254.169.254/", "link-local address"),
        ("169.254.169.254/latest", "link-local address"),
        ("http://x:y@169.254.170.2:80/v2", "link-local address"),
        ("http://0xa9fea9fe/", "link-local address"),
        ("http://[::ffff:a9fe:a9fe]/", "link-local address"),
        ("me@169.254.169.254:/file", "link-local address"),
        ("fd00:ec2::254", "cloud metadata address"),
        ("[fd00:ec2::254]:80/x", "cloud metadata address"),
        ("metadata.google.internal/computeMetadata", "cloud metadata address"),
        ("http://100.100.100.200/", "cloud metadata address"),
        ("localhost:3000", None),
        ("http://127.0.0.1:8000/", None),
        ("192.168.1.5", None),
        ("git@github.com:a/b.git", None),
        ("https://example.com/169.254.169.254", None),
        ("$URL", None),
        ("", None),
    ],
)
def test_a_command_may_talk_to_this_machine_but_not_to_where_credentials_are_given_out(
    address: str, problem: str | None
) -> None:
    assert metadata_problem(address) == problem


@given(spellings(st.integers(0xA9FE0000, 0xA9FEFFFF).map(IPv4Address)))
def test_no_spelling_of_a_metadata_address_passes_in_a_command(host: str) -> None:
    assert metadata_problem(f"http://{host}/") is not None


def test_a_long_word_is_looked_at_once() -> None:
    """It took minutes when the scheme was looked for from every letter on."""
    assert metadata_problem("a" * 1_000_000) is None
    assert metadata_problem("a" * 1_000_000 + "://169.254.169.254/") is not None
