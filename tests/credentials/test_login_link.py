"""A link to sign in at, for programs that fetch the tokens themselves."""

from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bridle
from bridle.credentials.login_link import LoginLink, code_from, login_link
from bridle.credentials.oauth import OAuthClient, challenge_of
from bridle.protocol.errors import CredentialError
from tables import table

CLIENT = OAuthClient(
    client_id="hub",
    token_url="https://id.example/token",
    authorize_url="https://id.example/authorize?tenant=a",
)
BACK = "http://127.0.0.1:7000/back"


def link() -> LoginLink:
    return login_link(CLIENT, redirect_uri=BACK)


def returned(made: LoginLink, to: str = BACK, **fields: str) -> str:
    return f"{to}?{urlencode({'state': made.state, **fields})}"


@pytest.mark.requirement("T18.8")
def test_a_link_has_a_proof_a_state_and_a_nonce_of_its_own_and_brings_the_code_back() -> None:
    made = bridle.login_link(CLIENT, redirect_uri=BACK)
    sent = {name: values[0] for name, values in parse_qs(urlsplit(made.url).query).items()}
    assert sent == {
        "tenant": "a",
        "client_id": "hub",
        "response_type": "code",
        "redirect_uri": BACK,
        "state": made.state,
        "nonce": made.nonce,
        "code_challenge": challenge_of(made.verifier),
        "code_challenge_method": "S256",
    }
    assert made.verifier not in made.url
    assert made.verifier not in repr(made)
    other = link()
    assert {other.state, other.nonce, other.verifier}.isdisjoint({made.state, made.nonce, made.verifier})
    assert code_from(made, returned(made, code="good")) == "good"


@pytest.mark.requirement("T18.8")
@table(
    "address",
    [
        f"{BACK}?code=good",
        f"{BACK}?code=good&state=other",
        f"{BACK}?state=%00",
        "",
    ],
)
def test_what_belongs_to_another_sign_in_brings_no_code(address: str) -> None:
    with pytest.raises(CredentialError, match="belongs to no sign-in"):
        code_from(link(), address)


@table("to", ["http://127.0.0.1:7000/other", "https://127.0.0.1:7000/back", "http://evil.example/back"])
def test_the_right_state_at_another_address_brings_no_code(to: str) -> None:
    made = link()
    with pytest.raises(CredentialError, match="belongs to no sign-in"):
        code_from(made, returned(made, to=to, code="good"))


def test_a_no_in_the_browser_is_said() -> None:
    made = link()
    with pytest.raises(CredentialError, match="access_denied"):
        code_from(made, returned(made, error="access_denied"))


def test_a_client_without_a_page_to_sign_in_at_has_no_link() -> None:
    with pytest.raises(ValueError, match="authorize_url"):
        login_link(OAuthClient(client_id="x", token_url="https://id.example/token"), redirect_uri=BACK)


@given(st.text())
def test_no_address_without_the_state_brings_a_code(address: str) -> None:
    with pytest.raises(CredentialError):
        code_from(link(), address)
