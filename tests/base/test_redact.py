"""The secrets here are put together at run time: none stands whole in this file."""

import json
import random
import re
import time
import uuid
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridle.base.secrets.redact import (
    HOLD_BACK_LIMIT,
    StreamRedactor,
    error_marker,
    redact,
    redact_error,
    redact_values,
    stored_marker,
)
from bridle.base.secrets.secret_openings import might_hold_secret
from bridle.base.secrets.secret_shapes import SHAPES, kinds
from effort import examples
from secret_kit import (
    ALNUM,
    BASE64,
    HEX,
    Noise,
    Planted,
    embedded,
    in_json,
    near_misses,
    pem,
    placeholders,
    planted,
    tokens,
)
from tables import table

noise = Noise(1)
ORDINARY_LINES = Path(__file__).with_name("ordinary_lines.txt")
TOKENS = tokens()
SECRETS = {kind: [one.secret for one in TOKENS if one.kind == kind] for kind in kinds()}


def named(one: Planted) -> str:
    return f"{one.kind}-{one.text[:12]!a}"


@pytest.mark.requirement("G33.2", "P17", "C29")
@table("one", TOKENS)
@table("around", ["{}", "see {} here", '"{}"', "\n{}\n", "({})", "key {}, then", "It is {}. Then"])
def test_a_secret_is_replaced_by_its_kind_and_its_surroundings_stay(one, around):
    assert redact(around.format(one.secret)) == around.format(stored_marker(one.kind))


@pytest.mark.requirement("G33.2", "P17")
@table("one", embedded())
@table("around", ["{}", "\n{}\n", "before {}"])
def test_a_secret_that_is_told_by_its_surroundings_is_masked_and_they_stay(one, around):
    text = around.format(one.text)
    assert redact(text) == text.replace(one.secret, stored_marker(one.kind))


@pytest.mark.requirement("C29")
def test_every_kind_is_told_about_and_tested():
    assert {one.kind for one in planted()} == set(kinds())
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", kind) for kind in kinds())
    assert all(about and "\n" not in about for about in kinds().values())


@table("seed", range(2, 12))
def test_other_secrets_of_the_same_shapes_are_masked_too(seed):
    found = planted(seed)
    assert len({one.secret for one in found}) > 100
    assert [one.text for one in found if one.secret in redact(one.text)] == []
    assert [one.text for one in found if one.secret in json.loads(redact(in_json(one.text)))["text"]] == []


@table("text", near_misses())
def test_what_almost_looks_like_a_secret_stays(text):
    for around in ("{}", "see {} here", '"{}"', "{}\n"):
        assert redact(around.format(text)) == around.format(text)


@table("text", placeholders())
def test_what_stands_in_place_of_a_secret_stays(text):
    for around in ("{}", "see {} here", "{}\n", "({})"):
        assert redact(around.format(text)) == around.format(text)


@table("seed", range(3))
@table(
    "text",
    ["API_KEY=your-{}", "API_KEY=your_{}_key", "api_key: replace-me-{}", "TOKEN=<{}>", "API_KEY={}-your-key",
     "API_KEY=sk-your-{}", "SECRET_KEY={}-xxxx", "sk-example-{}", "glpat-your-{}", "--token your-{}"],
)  # fmt: skip
def test_words_in_front_make_no_stand_in_of_what_is_random(text: str, seed: int) -> None:
    value = Noise(seed)(24)
    assert value not in redact(text.format(value))


SEPARATORS = ["", *" \n\t,;:=/.-_()[]{}\"'|&@\\$#<>%+~", " -u me:", " password ", "  "]


@table("separator", SEPARATORS)
def test_one_look_finds_all_that_a_second_would_in_secrets_side_by_side(separator: str) -> None:
    """A second look sees the mask where the first saw a secret. Each shape before some others."""
    texts = [one.text for one in planted()]
    for step in (1, 7, 61, 97):
        pairs = zip(texts, texts[step:] + texts[:step], strict=True)
        lines = [f"{first}{separator}{second}" for first, second in pairs]
        for marker in (stored_marker, error_marker):
            once = [redact(line, marker) for line in lines]
            assert [redact(line, marker) for line in once] == once


@table("before", ["curl -H {} -u me:", "machine h login {} password "])
def test_a_secret_does_not_hide_what_stands_in_front_of_it_from_the_next(before: str) -> None:
    text = before.format(SECRETS["github-token"][0])
    assert "geheim" not in redact(f"{text}geheim")


COLOUR = "\x1b[01;31m"
PLAIN = "\x1b[m\x1b[K"


@table("one", planted())
def test_a_secret_with_colours_inside_is_masked_and_the_colours_stay(one):
    start, middle = one.text.index(one.secret), len(one.secret) // 2
    for cut in (1, 3, middle):
        inside = one.secret[:cut] + COLOUR + one.secret[cut : middle + 2] + PLAIN + one.secret[middle + 2 :]
        text = one.text[:start] + inside + one.text[start + len(one.secret) :]
        masked = redact(f"see {text} here")
        assert one.secret not in masked.replace(COLOUR, "").replace(PLAIN, "")
        assert masked.replace(COLOUR, "").replace(PLAIN, "") == redact(f"see {one.text} here")
        assert masked.count("\x1b") == 3


def test_colours_around_a_secret_and_in_ordinary_text_stay_where_they_are():
    token = SECRETS["github-token"][0]
    assert redact(f"{COLOUR}{token}{PLAIN} x") == f"{COLOUR}«redacted:github-token»{PLAIN} x"
    text = f"{COLOUR}+ the tok{PLAIN}en: a {COLOUR}secre{PLAIN}t\n\x1b[2K\x1b(B\x1b]0;title\x07 \x1b"
    assert redact(text) == text


@settings(max_examples=examples(300), deadline=None)
@given(
    text=st.lists(
        st.one_of(
            st.sampled_from([COLOUR, PLAIN, "\x1b", "\x1b[", "\x1b[0;", "m", "\x1b(B", "\x1b[999999m"]),
            st.sampled_from([one.secret[:30] for one in TOKENS]),
            st.sampled_from([one.secret[30:] for one in TOKENS if one.kind != "private-key"]),
            st.sampled_from(["token: ", "a1b2c3d4", " ", "\n", "PASSWORD=", "x", "://u:", "@h"]),
        ),
        max_size=14,
    ).map("".join),
    cuts=st.lists(st.integers(0, 2000), max_size=12),
)
def test_however_a_coloured_text_is_cut_the_stream_gives_what_the_whole_gives(text, cuts):
    stream, whole = StreamRedactor(), redact(text)
    assert "".join(map(stream.feed, in_chunks(text, cuts))) + stream.flush() == whole
    assert redact(whole) == whole
    if whole != text:
        assert might_hold_secret(json.dumps(text).encode())
        assert might_hold_secret(text.encode())


def test_a_flood_of_colours_is_passed_on_without_being_kept():
    stream = StreamRedactor()
    stream.feed("PASSW")
    passed = sum(len(stream.feed(COLOUR * 1000)) for _ in range(100))
    assert passed + sum(len(escape) for _, escape in stream._escapes) <= 100_000 * len(COLOUR)
    assert sum(len(escape) for _, escape in stream._escapes) < 100_000


def ordinary_lines() -> list[str]:
    """Code, logs, output of tools, prose about tokens. Hashes and ids stand in for what is in ⟨⟩."""
    chosen = random.Random(7)

    def made(match: re.Match[str]) -> str:
        alphabet, count = match[1].rstrip("0123456789"), int(re.sub(r"\D", "", match[1]) or 0)
        if alphabet == "esc":
            return "\x1b"
        if alphabet == "uuid":
            return str(uuid.UUID(int=chosen.getrandbits(128)))
        return "".join(chosen.choices(HEX if alphabet == "hex" else BASE64, k=count))

    return [re.sub(r"⟨(\w+)⟩", made, line) for line in ORDINARY_LINES.read_text("utf-8").splitlines()]


def test_no_ordinary_line_is_harmed():
    lines = ordinary_lines()
    assert len(lines) >= 550
    assert [line for line in lines if redact(line) != line] == []
    assert redact("\n".join(lines)) == "\n".join(lines)


@pytest.mark.requirement("G33.2", "P17")
@table("word", ["Bearer", "bearer"])
def test_the_value_after_bearer_is_masked(word):
    text = f"Authorization: {word} {noise(24, ALNUM + '-_.')}\nHost: x"
    assert redact(text) == f"Authorization: {word} «redacted:bearer»\nHost: x"


@pytest.mark.requirement("G33.2")
@table("password", ["hunter2", "p@ss", "a:b", "x" * 300, "[1]", "%20$!"])
@table("user", ["me", "", "a.b+c"])
def test_the_password_in_an_address_is_masked(user, password):
    text = f"use postgres://{user}:{password}@db.example:5432/main now"
    assert redact(text) == f"use postgres://{user}:«redacted:password»@db.example:5432/main now"


def test_a_token_in_place_of_the_user_of_an_address_is_masked_with_the_password():
    user = SECRETS["github-token"][0]
    assert (
        redact(f"https://{user}:x@example.org/")
        == "https://«redacted:github-token»:«redacted:password»@example.org/"
    )
    assert redact(f"https://{user}@example.org/") == "https://«redacted:github-token»@example.org/"


VALUE = "correct-horse-" + "7battery"
ASSIGNMENTS = [
    ("OPENAI_API_KEY={}", VALUE),
    ("export AWS_SECRET_ACCESS_KEY={}\n", VALUE),
    ("PGPASSWORD={} psql", "x"),
    ("DB_PASSWORD='{}'", "it is; a & b"),
    ('DB_PASSWORD="{}"', 'say \\"hi\\" there'),
    ('"GITHUB_TOKEN": "{}",', "abc"),
    ("MY_SECRET: '{}'", "abc"),
    ("MY_SECRET: {}", VALUE),
    ('CLIENT_SECRET = "{}"', "abc"),
    ("?access_token={}&user=me", VALUE),
    ("x-api-key: {}\r\n", VALUE),
    ('{{"password": "{}"}}', VALUE),
    ("password = '{}'", VALUE),
    ('{{\\"password\\": \\"{}\\"}}', VALUE),
    ('{{\\"API_TOKEN\\": \\"{}\\"}}', "abc"),
    ("DJANGO_SECRET_KEY={}", "$weird[1]%"),
]


@pytest.mark.requirement("G33.2", "P17")
@table(("text", "value"), ASSIGNMENTS)
def test_a_value_given_to_a_secret_name_is_masked_and_the_name_kept(text, value):
    assert redact(text.format(value)) == text.format("«redacted:secret»")


@table(
    "text",
    [
        "",
        "plain prose, nothing else",
        "max_tokens=4096 and tokens: 12345678",
        "def login(user: str, password: str, token: Token | None = None) -> None:",
        "connect(password=password, token=self.token)",
        "API_KEY = os.environ['KEY']",
        "API_KEY=$OTHER_KEY TOKEN=${TOKEN} SECRET=$(pass show x)",
        'if "API_KEY" in env:',
        "interface Keys { API_KEY: string; secret: string }",
        "risk-management-strategies-of-the-task-force",
        "see https://example.org:8080/a@b and http://[::1]:80/x",
        '{"a":"http://x","b":"y@z"}',
        "the bearer of bad news, a bearer token",
        "Asia and AKIA, ghp_short, sk-short, eyJ, xoxb-1, AIzaX",
        "a secretary, a password, a token",
        "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    ],
)
def test_ordinary_text_and_code_stay_as_they_are(text):
    assert redact(text) == text


def test_a_private_key_without_an_end_is_masked_to_the_end_of_the_text():
    start = pem().split("-----END")[0]
    assert redact("before\n" + start + "tail") == "before\n«redacted:private-key»"


def test_what_follows_a_private_key_stays():
    assert redact(pem() + "\nafter " + pem("")) == "«redacted:private-key»\nafter «redacted:private-key»"


@pytest.mark.requirement("C29", "T7.1")
def test_the_marker_for_errors_names_no_kind():
    assert redact(f"bad key {SECRETS['api-key'][0]}", error_marker) == "bad key [redacted]"


@pytest.mark.requirement("T7.1")
@table(
    ("text", "expected"),
    [
        ("Incorrect key: s" + "k-abc1", "Incorrect key: [redacted]"),
        ("Incorrect key: td-" + "abc", "Incorrect key: [redacted]"),
        ("no such org " + noise(32), "no such org [redacted]"),
        ("GET /v1?token=xxx&a=b failed", "GET /v1?token=[redacted]&a=b failed"),
        ("rate limit of 20 reached", "rate limit of 20 reached"),
    ],
)
def test_provider_errors_also_lose_long_tokens_and_token_values(text, expected):
    assert redact_error(text) == expected
    assert redact_error(expected) == expected


CLEAN = b"Nothing to find in here; it is only long. " * 40

PIECES = st.one_of(
    st.sampled_from([100, 300, 1500]).map(lambda count: CLEAN.decode()[:count]),
    st.sampled_from([one.secret for one in TOKENS if one.kind != "private-key"]),
    st.sampled_from([one.text for one in embedded()]),
    st.sampled_from([pem(body="AAAA\nBBBB"), pem().split("\n-----END")[0], "-----END RSA PRIVATE KEY-----"]),
    st.sampled_from([opening for shape in SHAPES for opening in shape.openings]).map(str.upper),
    st.sampled_from([opening for shape in SHAPES for opening in shape.openings]),
    st.sampled_from(
        [
            "Bearer ",
            "://",
            "user:",
            "@host/",
            "@",
            ":",
            "/",
            "=",
            ": ",
            " = ",
            '"',
            "'",
            '\\"',
            "\\",
            "_",
            "-",
            ".",
        ]
    ),
    st.sampled_from(
        [
            " ",
            "\n",
            "\t",
            "    ",
            "$",
            "[",
            "]",
            "«",
            "»",
            "«redacted:jwt»",
            "[redacted]",
            "[redac",
            "«redacted:",
        ]
    ),
    st.sampled_from(
        ["1", "abc", "ABCDEF0123456789", "abcdefgh", "word", "İ", "\u212a", "\u017fk-", "é", "-----"]
    ),
    st.integers(1, 90).map(lambda count: noise(count, ALNUM + "_-")),
    st.integers(1, 90).map(lambda count: "A" * count),
    st.text(max_size=4),
)
TEXTS = st.lists(PIECES, max_size=14).map("".join)


def in_chunks(text, cuts):
    bounds = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(bounds)]


EXAMPLES = [
    *(one.text for one in planted()),
    *(text.format(value) for text, value in ASSIGNMENTS),
    f"Bearer {noise(24)} x",
    "postgres://me:hunt@er2@db/main",
    SECRETS["aws-access-key"][0] + SECRETS["api-key"][0],
    "'TOKEN' : 'a'",
    'DB_PASSWORD="' + "x" * 150 + '\\"hi\\" there"',
]


@pytest.mark.requirement("P17")
@table("text", EXAMPLES)
def test_wherever_a_secret_is_cut_in_two_the_stream_gives_what_the_whole_gives(text):
    for before in ("", CLEAN.decode()):
        whole = before + text + " end"
        assert redact(whole) != whole
        for cut in range(len(before), len(whole)):
            stream = StreamRedactor()
            assert stream.feed(whole[:cut]) + stream.feed(whole[cut:]) + stream.flush() == redact(whole)


@table("text", EXAMPLES)
def test_the_prefilter_notices_every_kind_of_secret_in_small_and_large_pieces(text):
    for data in (text, json.dumps(text)):
        assert might_hold_secret(data.encode())
        assert might_hold_secret(CLEAN + data.encode() + CLEAN)
    assert not might_hold_secret(CLEAN)


def test_an_id_of_ours_with_the_opening_of_a_key_in_it_is_not_noticed():
    assert not might_hold_secret(b'{"call_id":"call_01M7SKYQ8XSXYAHNT00HEAH1Q2","tool":"bash"}')
    assert might_hold_secret(b'{"call_id":"call_01M7SKYQ8X","key":"SK' + b"0a1b2c3d" * 4 + b'"}')


def test_how_many_tokens_an_answer_took_is_not_noticed():
    for usage in (
        b'{"input_tokens":1200,"output_tokens":31}',
        rb"{\"max_tokens\" : 4096}",
        b"--max-tokens 12",
    ):
        assert not might_hold_secret(usage), usage
    for secret in (b'{"input_token":"abc123def"}', rb"{\"token\" : \"abc123def\"}", b"--token abc123def"):
        assert might_hold_secret(secret), secret


@pytest.mark.requirement("P17")
@settings(max_examples=examples(300), deadline=None)
@given(
    text=TEXTS,
    cuts=st.lists(st.integers(0, 5000), max_size=12),
    marker=st.sampled_from([stored_marker, error_marker]),
)
def test_however_a_text_is_cut_the_stream_gives_what_the_whole_gives(text, cuts, marker):
    stream = StreamRedactor(marker)
    assert "".join(map(stream.feed, in_chunks(text, cuts))) + stream.flush() == redact(text, marker)


@pytest.mark.requirement("P17")
@settings(max_examples=examples(150), deadline=None)
@given(text=TEXTS)
def test_one_character_at_a_time_gives_the_same_and_little_is_held_back(text):
    stream, given_back = StreamRedactor(str), ""
    for character in text:
        given_back += stream.feed(character)
        assert len(stream._held) <= HOLD_BACK_LIMIT
    assert given_back + stream.flush() == redact(text, str)


@settings(max_examples=examples(40), deadline=None)
@given(
    text=TEXTS,
    filling=st.sampled_from(["a word and ", "x-", "eyJ", "sk-", "-", "a.b_", "password", "\x1b[0m", "\n"]),
    size=st.integers(7_000, 9_000) | st.integers(15_000, 17_000),
)
def test_a_long_text_is_looked_at_in_pieces_and_gives_what_one_look_gives(text, filling, size):
    begin = (filling * size)[:size]
    for long in (begin + " " + text + " " + begin, begin + text + begin):
        stream = StreamRedactor()
        assert redact(long) == stream.feed(long) + stream.flush()
        if redact(long) != long:
            assert might_hold_secret(long.encode("utf-8", "surrogatepass"))
    if filling == "a word and ":
        assert redact_values(f"{begin} {text}") == f"{begin} {redact_values(text)}"


@settings(max_examples=examples(300), deadline=None)
@given(text=TEXTS, marker=st.sampled_from([stored_marker, error_marker]))
@example(SECRETS["aws-access-key"][0] + SECRETS["api-key"][0], stored_marker)
@example("https://" + SECRETS["github-token"][0] + "@h", stored_marker)
def test_redacting_twice_changes_nothing(text, marker):
    once = redact(text, marker)
    assert redact(once, marker) == once


@settings(max_examples=300, deadline=None)
@given(text=TEXTS)
def test_the_prefilter_never_misses_what_would_be_redacted_in_plain_text_or_in_json(text):
    if redact(text) != text:
        encodable = text.encode("utf-8", "surrogatepass")
        as_json = json.dumps(text)
        assert might_hold_secret(encodable)
        assert might_hold_secret(CLEAN + encodable + CLEAN)
        assert might_hold_secret(CLEAN + as_json.encode() + CLEAN)
        assert might_hold_secret(as_json.encode())
        assert might_hold_secret(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        assert might_hold_secret(as_json.replace("/", "\\/").encode())


@pytest.mark.requirement("P17")
@settings(max_examples=examples(100), deadline=None)
@given(secret=st.sampled_from(TOKENS), before=st.text("abc \n", max_size=20), cut=st.integers(0, 400))
def test_no_part_of_a_secret_leaves_before_it_is_known_to_be_one(secret, before, cut):
    kind, value = secret.kind, secret.secret
    stream = StreamRedactor()
    text = before + " " + value
    early = stream.feed(text[:cut])
    assert early == (before + " ")[: len(early)] or early == before + " " + stored_marker(kind)


KNOWN = ("plain-words", "words-of", "aab")


@settings(max_examples=examples(200), deadline=None)
@given(
    text=st.lists(
        st.sampled_from([*KNOWN, "plain-", "words", "a", "b", "-", " and more ", "of"]), max_size=12
    ).map("".join),
    cuts=st.lists(st.integers(0, 200), max_size=8),
)
def test_however_a_text_is_cut_no_known_value_is_in_it(text, cuts):
    stream = StreamRedactor(known=KNOWN)
    given_back = "".join(map(stream.feed, in_chunks(text, cuts))) + stream.flush()
    assert not any(value in given_back for value in KNOWN)
    whole = StreamRedactor(known=KNOWN)
    assert (given_back == text) == (whole.feed(text) + whole.flush() == text)


def test_what_a_person_is_asked_about_shows_everything_that_could_run():
    token = SECRETS["github-token"][0]
    assert redact_values(f"login {token} && echo $HOME") == "login «redacted:github-token» && echo $HOME"
    for shown in (f"TOKEN=$(cat {'x' * 9}1)", "PASSWORD=a;reboot2", f"MY_TOKEN='{'x1' * 4} && ls'"):
        assert redact_values(shown) == shown


def test_prose_passes_through_a_stream_almost_at_once():
    stream, behind = StreamRedactor(), []
    text = (
        "The quick brown fox asks: is it done? See https://example.org/a for more, or the token section. " * 3
    )
    passed = 0
    for count, character in enumerate(text, 1):
        passed += len(stream.feed(character))
        behind.append(count - passed)
    assert sum(behind) / len(behind) < 5
    assert max(behind) < 30


def test_a_secret_of_any_length_is_masked_without_being_kept():
    stream = StreamRedactor()
    assert stream.feed("TOK" + "EN=" + "x" * 200) == "TOKEN=«redacted:secret»"
    for _ in range(100):
        assert stream.feed("y" * 10_000) == ""
        assert len(stream._held) <= HOLD_BACK_LIMIT
    assert stream.feed(" done") + stream.flush() == " done"


def test_a_private_key_that_never_ends_is_masked_without_being_kept():
    stream = StreamRedactor()
    assert stream.feed(pem().split("-----END")[0]) == "«redacted:private-key»"
    for _ in range(100):
        assert stream.feed(noise(10_000)) == ""
        assert len(stream._held) <= HOLD_BACK_LIMIT
    assert stream.flush() == ""


def test_a_stream_can_be_used_again_after_its_flush():
    stream = StreamRedactor()
    stream.feed(pem().split("-----END")[0])
    stream.flush()
    assert stream.feed("new text ") == "new text "


def test_no_opening_hides_inside_another():
    openings = [(opening, shape.any_case) for shape in SHAPES for opening in shape.openings]

    def hides(one: tuple[str, bool], other: tuple[str, bool]) -> bool:
        return one[0].lower() in other[0].lower() if one[1] or other[1] else one[0] in other[0]

    assert [(a, b) for a in openings for b in openings if a != b and hides(a, b)] == []


@table(
    "unit",
    [
        "eyJ",
        "://a:",
        "TOKEN=",
        "token: ",
        "-----BEGIN ",
        "bearer ",
        "sk-",
        "AKIA",
        "github_pat_",
        "cookie: a=b; ",
        "--token ",
        "MTAw",
        "xox",
        "key=",
        "SG.",
        "-----",
        "authorization: ",
        "password=x1",
    ],
)
@table("mask", [redact, redact_values])
def test_hostile_text_costs_time_in_proportion_to_its_length(unit, mask):
    def cost(length):
        text = (unit * (length // len(unit) + 1))[:length] + "!"
        began = time.process_time()
        mask(text)
        return time.process_time() - began

    cost(1000)
    assert cost(200_000) < 60 * max(cost(10_000), 0.0005)


@table(
    "line",
    [
        'export TOKEN="$TOKEN"',
        'AUTH_TOKEN="${GITHUB_TOKEN:-}"',
        'API_KEY="$(cat key.txt)"',
        'docker run -e DB_PASSWORD="$DB_PASSWORD" app',
    ],
)
def test_a_value_taken_from_elsewhere_is_left_readable_in_quotes_too(line: str) -> None:
    assert redact(line) == line


def test_a_value_that_only_looks_like_it_is_taken_from_elsewhere_is_masked() -> None:
    assert "Ecret" not in redact('PASSWORD="$Ecret' + '9"')


def test_values_for_a_prompt_are_looked_for_once() -> None:
    """It took minutes when the end of every key block was looked for from its beginning on."""
    text = ("-----BEGIN RSA " + "PRIVATE KEY-----\n") * 30_000
    assert redact_values(text) == text
