"""Rules that name hosts: how they are written, what they cover, and which is narrower."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.net.hosts import WEB_PORTS, HostRule, all_covered, host_rule, is_host_name, rule_for
from tables import table

LABELS = st.text("abcz019-", min_size=1, max_size=5)
NAMES = st.lists(LABELS, min_size=1, max_size=3).map(".".join)
PORTS = st.sampled_from((80, 443, 8443, 22))
RULES = st.tuples(st.sampled_from(("", "*.")), NAMES, st.sampled_from(("", ":80", ":443", ":8443"))).map(
    "".join
)


@table(
    ("rule", "covered", "not_covered"),
    [
        ("example.org", [("example.org", 80), ("example.org", 443)], [("example.org", 22), ("a.example.org", 443)]),
        ("Example.org.", [("example.org", 443)], []),
        (
            "*.example.com",
            [("a.example.com", 443), ("a.b.example.com", 80)],
            [("example.com", 443), ("evilexample.com", 443), ("example.com.evil.org", 443)],
        ),
        ("example.com:8443", [("example.com", 8443)], [("example.com", 443), ("example.com", 80)]),
        ("*", [("any.example", 443)], [("any.example", 22), ("1.1.1.1", 443), ("0x7f.1", 80), ("", 80), ("::1", 80)]),
    ],
)  # fmt: skip
def test_a_rule_covers_what_it_says_and_no_more(rule: str, covered: list, not_covered: list) -> None:
    parsed = host_rule(rule)
    assert all(parsed.covers(*one) for one in covered)
    assert not any(parsed.covers(*one) for one in not_covered)


@table(
    "text",
    ["", "*.", "*.*", "**", "a*b.org", "a.*", "*.*.org", "1.2.3.4", "*.5", "0x7f.1", "[::1]", "::1", "a..b", "-a.org",
     "http://x", "x/y", "a b", "x@y", "x:0", "x:65536", "x:", "x:80:80", "bücher.de", "a\n"],
)  # fmt: skip
def test_what_is_no_host_is_no_rule(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(it is not a host|a port|names with|hosts are allowed)"):
        host_rule(text if text != "a\n" else "a\nb")


@table(
    "text",
    [
        "localhost",
        "LOCALHOST.",
        "*.localhost",
        "a.localhost:3000",
        "ip6-loopback",
        "metadata.google.internal",
    ],
)
def test_what_is_never_reached_is_no_rule(text: str) -> None:
    with pytest.raises(ValueError, match=r"is never reached"):
        host_rule(text)


def test_the_rule_that_would_allow_a_host_does() -> None:
    for port in (80, 443, 8443):
        assert host_rule(rule_for("example.org", port)).covers("example.org", port)


@given(st.lists(RULES, max_size=3), st.lists(RULES, max_size=3), NAMES, PORTS)
def test_what_is_covered_by_rules_allows_nothing_they_do_not(
    mine: list, theirs: list, host: str, port: int
) -> None:
    def parsed(texts: list) -> list[HostRule]:
        found = []
        for text in texts:
            try:
                found.append(host_rule(text))
            except ValueError:
                continue
        return found

    own, wanted = parsed(mine), parsed(theirs)
    if all_covered(wanted, own) and any(rule.covers(host, port) for rule in wanted):
        assert any(rule.covers(host, port) for rule in own)


@given(st.text(max_size=40), PORTS)
def test_no_text_is_covered_by_the_star_that_is_an_address_in_numbers(host: str, port: int) -> None:
    if host_rule("*").covers(host, port):
        assert is_host_name(host)
        assert port in WEB_PORTS
        assert not host.rpartition(".")[2].isdigit()
