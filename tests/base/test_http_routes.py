"""URLs, proxies and certificates by the environment that is given."""

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.net.http_routes import Proxy, ProxyRules, Url, parse_proxy, parse_url, tls_context
from tables import table


@table(
    ("text", "url", "origin"),
    [
        (
            "http://127.0.0.1:11434/v1/chat",
            Url(False, "127.0.0.1", 11434, "/v1/chat"),
            "http://127.0.0.1:11434",
        ),
        ("https://Api.Example.test", Url(True, "api.example.test", 443, "/"), "https://api.example.test"),
        ("HTTPS://h:443/a?b=c@d", Url(True, "h", 443, "/a?b=c@d"), "https://h"),
        ("http://h?x=1", Url(False, "h", 80, "/?x=1"), "http://h"),
        ("http://[::1]:8080/", Url(False, "::1", 8080, "/"), "http://[::1]:8080"),
    ],
)
def test_a_url_is_taken_apart(text, url, origin):
    assert (parse_url(text), parse_url(text).origin) == (url, origin)


@table(
    "text",
    [
        "ftp://hidden/",
        "hidden",
        "http://",
        "http:///hidden",
        "http://user:hidden@h/",
        "http://hidden@h",
        "http://h:0/hidden",
        "http://h:65536/hidden",
        "http://h:1x/hidden",
        "http://h/hidden#part",
        "http://h/hidden\r\nx: y",
        "http://h/hidden part",
        "http://h\r\n/hidden",
        "http://h/hidd\N{LATIN SMALL LETTER E WITH ACUTE}n",
        "http://[::1/hidden",
    ],
)
def test_any_other_url_is_refused_without_being_repeated(text):
    with pytest.raises(ValueError, match=r"URL|port") as caught:
        parse_url(text)
    assert "hid" not in str(caught.value)


@given(st.text(max_size=30))
def test_a_url_that_passes_can_stand_in_the_head_of_a_request(text):
    try:
        url = parse_url("http://" + text)
    except ValueError:
        return
    assert all("!" <= character <= "~" for character in url.target + url.host)
    assert url.target.startswith("/")
    assert not {"/", "@", "#", "?"} & set(url.host)


def test_neither_a_url_nor_a_proxy_shows_what_may_be_secret():
    shown = repr([parse_url("http://h/?key=hidden"), parse_proxy("http://user:hidden@p:1")])
    assert shown == "[<Url http://h>, <Proxy http://p:1>]"


@table(
    ("text", "proxy"),
    [
        ("http://p:3128", Proxy("http", "p", 3128, None)),
        ("p:3128/", Proxy("http", "p", 3128, None)),
        ("http://u:p%40ss@p", Proxy("http", "p", 80, ("u", "p@ss"))),
        ("socks5h://[::1]", Proxy("socks5h", "::1", 1080, None)),
    ],
)
def test_a_proxy_is_read_from_its_address(text, proxy):
    assert parse_proxy(text) == proxy


@table("text", ["ftp://hidden", "http://hidden:x", "http://a:hidden@b@c:1", "a b", "http://p:99999"])
def test_what_is_no_proxy_is_refused_without_being_repeated(text):
    with pytest.raises(ValueError, match=r"proxy|port") as caught:
        parse_proxy(text)
    assert "hidden" not in str(caught.value)


PLAIN, SECURE = parse_url("http://model.test/"), parse_url("https://model.test/")
HERE, THERE = Proxy("http", "here", 1, None), Proxy("http", "there", 2, None)


@table(
    ("env", "plain", "secure"),
    [
        ({}, None, None),
        ({"HTTP_PROXY": "here:1"}, HERE, None),
        ({"HTTPS_PROXY": "here:1"}, None, HERE),
        ({"https_proxy": "here:1", "HTTPS_PROXY": "there:2"}, None, HERE),
        ({"https_proxy": "", "HTTPS_PROXY": "there:2"}, None, None),
        ({"ALL_PROXY": "here:1"}, HERE, HERE),
        ({"all_proxy": "here:1", "HTTPS_PROXY": "there:2"}, HERE, THERE),
        ({"all_proxy": "here:1", "HTTPS_PROXY": ""}, HERE, None),
    ],
)
def test_the_environment_names_the_proxy_of_each_scheme(env, plain, secure):
    rules = ProxyRules(env)
    assert (rules.proxy_for(PLAIN), rules.proxy_for(SECURE)) == (plain, secure)


@table("host", ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]"])
def test_this_machine_is_never_reached_through_a_proxy(host):
    assert ProxyRules({"ALL_PROXY": "here:1"}).proxy_for(parse_url(f"http://{host}:8080/")) is None


@table(
    ("no_proxy", "direct"),
    [
        ("*", True),
        ("model.test", True),
        (" other , Model.Test ", True),
        (".test", True),
        ("*.test", True),
        ("test", True),
        ("model.test:8080", True),
        ("model.test:81", False),
        ("el.test", False),
        ("sub.model.test", False),
        (",, ,", False),
        ("10.0.0.0/8", False),
        ("nonsense/8", False),
    ],
)
def test_no_proxy_exempts_names_and_what_is_below_them(no_proxy, direct):
    rules = ProxyRules({"ALL_PROXY": "here:1", "NO_PROXY": no_proxy})
    assert (rules.proxy_for(parse_url("http://model.test:8080/")) is None) == direct


@table(
    ("no_proxy", "url", "direct"),
    [
        ("10.0.0.0/8", "http://10.1.2.3/", True),
        ("10.1.2.3", "http://10.1.2.3/", True),
        ("10.1.2.3", "http://110.1.2.3/", False),
        ("fd00::/8", "http://[fd00::1]/", True),
        ("[fd00::1]:80", "http://[fd00::1]/", True),
        ("fd00::1", "http://[fd00::1]/", True),
        ("fd00::2", "http://[fd00::1]/", False),
    ],
)
def test_no_proxy_exempts_addresses_and_networks(no_proxy, url, direct):
    rules = ProxyRules({"ALL_PROXY": "here:1", "NO_PROXY": no_proxy})
    assert (rules.proxy_for(parse_url(url)) is None) == direct


@table("env", [{}, {"SSL_CERT_DIR": "/nowhere"}])
def test_certificates_and_names_are_always_verified(env):
    context = tls_context(env)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_certificate_file_that_is_not_there_is_an_error_not_an_empty_trust(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        tls_context({"SSL_CERT_FILE": str(tmp_path / "missing.pem")})
