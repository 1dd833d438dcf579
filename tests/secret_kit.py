"""Secrets put together at run time, of every kind and vendor: none stands whole in a file of this repository.

A `Planted` is a text with a secret in it. `near_misses` look like secrets and are none.
"""

import base64
import json
import random
import string
from typing import NamedTuple

ALNUM = string.ascii_letters + string.digits
WORD = ALNUM + "_-"
HEX = "0123456789abcdef"
CAPITALS = string.ascii_uppercase + "234567"
BASE64 = ALNUM + "+/"


class Planted(NamedTuple):
    """`secret` stands in `text` exactly once, with what is visible of it after redaction around it."""

    kind: str
    secret: str
    text: str


class Noise:
    """Random characters, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __call__(self, count: int, alphabet: str = ALNUM) -> str:
        """Begins and ends with a letter or digit, and has a digit near the beginning."""
        middle = "".join(self._random.choices(alphabet, k=count - 3))
        letter = "a" if alphabet == HEX else "A" if alphabet == CAPITALS else "q"
        return f"{letter}{self._random.choice('234567')}{middle}{letter}"


def tokens(seed: int = 1) -> list[Planted]:
    """Secrets that are told by themselves, wherever they stand."""
    noise = Noise(seed)
    lone = [
        ("aws-access-key", "AK" + "IA" + noise(16, CAPITALS)),
        ("aws-access-key", "AS" + "IA" + noise(16, CAPITALS)),
        ("aws-session-token", "IQoJb3Jp" + "Z2luX2Vj" + noise(180, BASE64)),
        *(("github-token", f"gh{letter}" + "_" + noise(36)) for letter in "pousr"),
        ("github-token", "github" + "_pat_" + noise(22) + "_" + noise(59)),
        *(
            ("gitlab-token", f"gl{name}" + "-" + noise(20, WORD))
            for name in (
                *("pat", "dt", "rt", "cbt", "ptt", "ft", "soat", "imt", "agent", "oas", "ffct"),
            )
        ),
        ("gitlab-token", "gl" + "pat-" + noise(27, WORD) + ".01." + noise(9)),
        ("atlassian-token", "ATATT" + "3xFfGF0" + noise(120, WORD + "=")),
        ("atlassian-token", "ATCTT" + "3xFfGN0" + noise(120, WORD + "=")),
        ("atlassian-token", "AT" + "BB" + noise(32)),
        ("atlassian-token", "BBDC" + "-" + noise(40, BASE64)),
        *(("slack-token", f"xox{letter}" + "-" + noise(12, "0123456789") + "-" + noise(24)) for letter in "abepsr"),
        ("slack-token", "xa" + "pp-1-A" + noise(10) + "-" + noise(13) + "-" + noise(64, HEX)),
        *(
            ("stripe-key", f"{name}k_{mode}" + "_" + noise(24))
            for name in "sr"
            for mode in ("live", "test")
        ),
        ("stripe-key", "wh" + "sec_" + noise(32)),
        ("google-key", "AI" + "za" + noise(35, WORD)),
        ("google-oauth", "GOC" + "SPX-" + noise(28, WORD)),
        ("google-oauth", "ya" + "29.a0" + noise(140, WORD)),
        *(("api-key", "s" + "k-" + middle + noise(40)) for middle in ("", "or-v1-", "ant-api03-", "proj-", "svcacct-")),
        ("api-key", "g" + "sk_" + noise(52)),
        ("api-key", "xa" + "i-" + noise(80)),
        ("api-key", "h" + "f_" + noise(34)),
        ("api-key", "r" + "8_" + noise(37)),
        ("api-key", "pp" + "lx-" + noise(48)),
        ("api-key", "nv" + "api-" + noise(64, WORD)),
        ("api-key", "tv" + "ly-" + noise(32)),
        ("api-key", "pc" + "sk_" + noise(40)),
        ("api-key", "f" + "w_" + noise(24)),
        ("api-key", "ls" + "v2_pt_" + noise(32, HEX) + "_" + noise(10, HEX)),
        ("api-key", "tg" + "p_v1_" + noise(43, WORD)),
        ("package-token", "np" + "m_" + noise(36)),
        ("package-token", "py" + "pi-AgEIcHlwaS5vcmc" + noise(120, WORD)),
        ("package-token", "ruby" + "gems_" + noise(48, HEX)),
        ("docker-token", "dckr" + "_pat_" + noise(27, WORD)),
        ("docker-token", "dckr" + "_oat_" + noise(32, WORD)),
        *(("digitalocean-token", f"do{letter}_v1" + "_" + noise(64, HEX)) for letter in "opr"),
        ("sendgrid-key", "S" + "G." + noise(22, WORD) + "." + noise(43, WORD)),
        ("twilio-key", "S" + "K" + noise(32, HEX)),
        ("databricks-token", "da" + "pi" + noise(32, HEX)),
        *(("vault-token", f"hv{letter}" + "." + noise(90, WORD)) for letter in "sbr"),
        ("age-key", "AGE-SECRET" + "-KEY-1" + noise(58, CAPITALS)),
        *(("service-token", f"sh{name}" + "_" + noise(32, HEX)) for name in ("pat", "pss", "pca", "ppa")),
        ("service-token", "gl" + "sa_" + noise(32) + "_" + noise(8, HEX)),
        ("service-token", "pscale" + "_tkn_" + noise(43, WORD)),
        *(("service-token", f"{name}" + "-" + noise(40)) for name in ("NRAK", "PMAK", "HRKU")),
        ("discord-token", _discord(noise)),
        ("jwt", _jwt(noise)),
        *(("private-key", pem(label, noise=noise)) for label in ("RSA ", "", "OPENSSH ", "EC ", "ENCRYPTED ")),
        ("private-key", pem("PGP ", " BLOCK", noise=noise)),
        ("private-key", _ssh2(noise)),
        ("private-key", _putty(noise)),
    ]  # fmt: skip
    return [Planted(kind, secret, secret) for kind, secret in lone]


def embedded(seed: int = 1) -> list[Planted]:
    """Secrets that are told by what stands around them."""
    noise = Noise(seed + 1000)
    found = [
        ("bearer", noise(40, WORD), "Authorization: Bearer {}"),
        ("bearer", noise(24, WORD), "curl -H 'authorization: bearer {}' x"),
        ("authorization", base64.b64encode(f"me:{noise(9)}".encode()).decode(), "Authorization: Basic {}"),
        ("authorization", noise(12), '{{"Authorization": "Token {}"}}'),
        ("authorization", noise(12), "authorization: bearer {}"),
        ("telegram-token", "AA" + noise(33, WORD), "bot 123456789:{} runs"),
        ("terraform-token", "atlas" + "v1." + noise(67, WORD), f"token is {noise(14)}.{{}}"),
        ("webhook", f"T{noise(8, CAPITALS)}/B{noise(8, CAPITALS)}/{noise(24)}", "https://hooks.slack.com/services/{}"),
        ("webhook", noise(68, WORD), "https://discord.com/api/webhooks/123456789012345678/{}"),
        ("signature", noise(43) + "%3D", "https://a.blob.example/c?sv=2022&se=x&sig={}&sp=r"),
        ("signature", noise(64, HEX), "https://b.example/o?X-Amz-Date=1&X-Amz-Signature={}"),
        ("cookie", noise(32), "Cookie: theme=dark; sessionid={}"),
        ("cookie", f"{noise(32)}; Path=/; HttpOnly", "Set-Cookie: connect.sid={}"),
        *(("password", noise(12), scheme + "://user:{}@db.example/x") for scheme in SCHEMES),
        *(("secret", noise(20), text) for text in ASSIGNMENTS),
        ("secret", base64.b64encode(noise(64).encode()).decode(), "AccountName=a;AccountKey={};EndpointSuffix=x"),
        ("secret", noise(10), "Server=db;User Id=sa;Password={};Encrypt=true"),
    ]  # fmt: skip
    return [Planted(kind, secret, text.format(secret)) for kind, secret, text in found]


SCHEMES = ("postgres", "mysql", "mongodb+srv", "redis", "amqp", "https")
ASSIGNMENTS = (
    *("OPENAI_API_KEY={}", "export AWS_SECRET_ACCESS_KEY={}", "PGPASSWORD={} psql", "MY_SECRET: '{}'"),
    *("aws_secret_access_key = {}", "MISTRAL_API_KEY: {}", '"GITHUB_TOKEN": "{}",', '{{"password": "{}"}}'),
    *("password = '{}'", "?access_token={}&user=me", "x-api-key: {}", 'client_secret = "{}"', "TWILIO_AUTH_TOKEN={}"),
    *("mysqldump --password {} db", "tool --api-key={} run", "login --token {}", '["--db-password", "{}"]'),
    *("//registry.example/:_authToken={}", 'token := "{}"', "'secret' => '{}'", '{{\\"api_key\\": \\"{}\\"}}'),
    *("SECRET_KEY={}", "signing_key: {}", "encryption-key = {}", "passwd: {}"),
)  # fmt: skip


def planted(seed: int = 1) -> list[Planted]:
    """All of them: more than a hundred, each different."""
    return tokens(seed) + embedded(seed)


def in_json(text: str) -> str:
    return json.dumps({"text": text})


def pem(label: str = "RSA ", block: str = "", *, body: str | None = None, noise: Noise | None = None) -> str:
    noise = noise or Noise(1)
    lines = body if body is not None else "\n".join(noise(64) for _ in range(4))
    name = f"{label}PRIVATE" + f" KEY{block}"
    return f"-----BEGIN {name}-----\n{lines}\n-----END {name}-----"


def _ssh2(noise: Noise) -> str:
    name = "SSH2 ENCRYPTED PRIVATE" + " KEY"
    return f"---- BEGIN {name} ----\n{noise(64)}\n---- END {name} ----"


def _putty(noise: Noise) -> str:
    lines = (
        *("PuTTY-User-Key-File-3: ssh-ed25519", "Encryption: none", noise(64, BASE64)),
        *("Private-Lines: 1", noise(48, BASE64), "Private" + "-MAC:"),
    )
    return "\n".join(lines)


def _jwt(noise: Noise) -> str:
    header = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    return f"{header}.{noise(60, WORD)}.{noise(43, WORD)}"


def _discord(noise: Noise) -> str:
    number = base64.b64encode(b"1098765432109876543").decode().rstrip("=")
    return f"{number}.{noise(6)}.{noise(38, WORD)}"


def near_misses(seed: int = 1) -> list[str]:
    """Too short, too long a name, the wrong letters: what a secret of each kind almost looks like."""
    noise = Noise(seed)
    return [
        "AKIA" + noise(10, CAPITALS),
        "ASIA and AKIA in one line",
        "IQoJb3JpZ2luX2Vj",
        "ghp_" + noise(20),
        "github_pat_" + noise(30),
        "glpat-short",
        "glimt-a.b",
        "ATATT3x" + noise(20),
        "ATBB" + noise(10),
        "BBDC-" + noise(12),
        "xoxb-1234",
        "xoxz-" + noise(20),
        "xapp-1",
        "sk_live_" + noise(6),
        "whsec_" + noise(6),
        "pk_live_" + noise(24),
        "AIza" + noise(12),
        "GOCSPX-" + noise(8),
        "ya29." + noise(12),
        "sk-" + noise(8),
        "gsk_" + noise(12),
        "hf_hub_download_and_upload_of_files",
        "r8_" + noise(10),
        "npm_config_registry_and_other_names",
        "pypi-publish",
        "dckr_pat_" + noise(8),
        "dop_v1_" + noise(20, HEX),
        "SG." + noise(10) + "." + noise(10),
        "SK" + noise(16, HEX),
        "TASK" + noise(32, HEX),
        "dapi" + noise(16, HEX),
        "hvs." + noise(10),
        "x.atlasv1.short",
        "AGE-SECRET-KEY-1" + noise(10, CAPITALS),
        "PAGE-SECRET-KEYS",
        "shpat_" + noise(8, HEX),
        "at 12:AA" + noise(33),
        "MTEx" + noise(20) + "." + noise(5) + "." + noise(38),
        "eyJ" + noise(30),
        "Bearer " + noise(12),
        "Authorization: Basic authentication",
        "Authorization: Bearer $TOKEN",
        "Cookie: theme=dark; lang=en",
        "Set-Cookie: theme=dark; Path=/",
        "hooks.slack.com/services/T0/B0",
        "/api/webhooks/12/" + noise(60),
        "?sig=" + noise(12),
        "design=" + noise(40),
        "X-Amz-Signature=" + noise(20, HEX),
        "-----BEGIN PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE-----",
        "PuTTY-User-Key-File is a format",
        "postgres://db.example/x",
        "https://user@db.example/x",
        "the --token flag is deprecated",
        "run it with --token TOKEN",
        "run it with --password=PASSWORD",
        "use --api-key $API_KEY",
        "Server=db;Password=$PW;",
        "API_KEY=$OTHER",
        "public_key: " + noise(20),
        "primary-key: " + noise(20),
        "key=" + noise(20),
        "PWD=/home/someone/project7",
    ]
