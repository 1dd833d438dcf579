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
        *(("doppler-token", f"dp.{name}" + "." + noise(43)) for name in ("pt", "ct", "sa", "scim", "audit")),
        ("doppler-token", "dp" + ".st.prd_eu." + noise(43)),
        ("linear-token", "lin" + "_api_" + noise(40)),
        ("linear-token", "lin" + "_oauth_" + noise(64, HEX)),
        ("notion-token", "nt" + "n_" + noise(11, "0123456789")[1:-1] + noise(35)),
        ("onepassword-token", "A" + "3-" + "-".join(noise(size, CAPITALS) for size in (6, 6, 5, 5, 5, 5))),
        ("atlassian-token", "ATATT" + "3" + noise(186, WORD + "=")),
        ("atlassian-token", "ATCTT" + "3" + noise(186, WORD + "=")),
        ("sentry-token", "sntry" + "u_" + noise(64, HEX)),
        ("sentry-token", "sntry" + "s_ey" + "J" + noise(150, BASE64) + "_" + noise(43, BASE64)),
        *(("hosting-token", f"nf{letter}" + "_" + noise(36)) for letter in "pcobu"),
        *(("hosting-token", f"fm{name}" + "_" + noise(120, BASE64)) for name in ("2", "1r", "1a")),
        ("hosting-token", "fo" + "1_" + noise(43, WORD)),
        ("hosting-token", "rn" + "d_" + noise(32)),
        ("hosting-token", "vercel" + "_blob_rw_" + noise(16) + "_" + noise(30)),
        *(("hosting-token", f"vc{letter}" + "_" + noise(56)) for letter in "piark"),
        ("hosting-token", "pu" + "l-" + noise(40, HEX)),
        ("cloudflare-token", "v1" + ".0-" + noise(24, HEX) + "-" + noise(146, HEX)),
        ("database-token", "sb" + "p_" + noise(40, HEX)),
        ("database-token", "sb" + "_sec" + "ret_" + noise(31, WORD)),
        ("database-token", "na" + "pi_" + noise(64)),
        *(("database-token", f"pscale_{name}" + "_" + noise(43, WORD)) for name in ("pw", "oauth")),
        ("database-token", "CCDB" + "1_" + noise(22) + "_" + noise(40)),
        *(("build-token", f"CCIP{name}" + "_" + noise(22) + "_" + noise(40, HEX)) for name in ("AT", "RJ")),
        ("build-token", "bk" + "ua_" + noise(40, HEX)),
        *(("build-token", f"sq{letter}" + "_" + noise(40, HEX)) for letter in "pua"),
        ("build-token", "AK" + "Cp" + noise(69)),
        ("build-token", "CLO" + "JARS_" + noise(60, HEX)),
        ("build-token", "sg" + "p_" + noise(40, HEX)),
        ("mail-token", "xk" + "eysib-" + noise(64, HEX) + "-" + noise(16)),
        ("mail-token", "xsmtp" + "sib-" + noise(64, HEX) + "-" + noise(16)),
        ("mail-token", "r" + "e_" + noise(8) + "_" + noise(24)),
        *(("payment-token", f"sq0{name}" + "-" + noise(43, WORD)) for name in ("atp", "csp")),
        *(
            ("payment-token", f"access-{name}" + "-" + uuid(noise)) for name in ("production", "sandbox")
        ),
        ("payment-token", "shippo" + "_live_" + noise(40, HEX)),
        ("service-token", "fig" + "d_" + noise(40, WORD)),
        ("service-token", "CFP" + "AT-" + noise(43, WORD)),
        ("service-token", "p8" + "e-" + noise(32)),
        *(("service-token", f"pat-{where}" + "-" + uuid(noise)) for where in ("na1", "eu1")),
        ("service-token", "ph" + "x_" + noise(43)),
        ("service-token", "tf" + "p_" + noise(44, WORD) + "_" + noise(14)),
        ("service-token", "hca" + "ik_" + noise(58)),
        ("service-token", "es" + "su_" + noise(60, BASE64)),
        ("service-token", "gl" + "c_" + noise(100, BASE64)),
        ("service-token", "dt0" + "c01." + noise(24, CAPITALS) + "." + noise(64, CAPITALS)),
        *(("service-token", "tsk" + f"ey-{name}-" + noise(17) + "-" + noise(32)) for name in ("auth", "api")),
        *(("service-token", f"NR{name}" + "-" + noise(32)) for name in ("II", "RA")),
        ("service-token", "s" + "l." + noise(130, WORD)),
        ("service-token", "sd" + "k-" + uuid(noise)),
        ("service-token", "AK" + "ID" + noise(32)),
        ("api-key", "e2" + "b_" + noise(40, HEX)),
        ("api-key", "f" + "c-" + noise(32, HEX)),
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
        ("password", noise(12), "curl -u me:{} https://api.example/"),
        ("password", noise(12), "curl -sS --user 'deploy:{}' https://api.example/"),
        ("password", "correct" + "-horse", "curl -s -X POST -u me:{} https://api.example/"),
        ("password", noise(14, ALNUM + "!%"), "xh --user=me:{} https://api.example/"),
        ("secret", "correct" + "horse", "machine api.example.org login me password {}"),
        ("secret", noise(14), "machine localhost login me password {}"),
        ("secret", noise(14), "machine api.example.org\n  login me\n  password {}\n"),
        ("docker-token", base64.b64encode(f"me:{noise(20)}".encode()).decode(), '{{"x": {{"auth": "{}"}}}}'),
        ("docker-token", base64.b64encode(f"robot:{noise(22)}".encode()).decode(), '"auth":"{}"'),
        ("docker-token", base64.b64encode(f"robot:{noise(21)}".encode()).decode(), "//npm.example/:_auth={}"),
        ("notion-token", "cret" + "_" + noise(43), "NOTE se{}"),
        ("onepassword-token", "ey" + "J" + noise(300, BASE64), "use op" + "s_{} here"),
        ("azure-secret", "Q" + "~" + noise(34), "client 9xY8{} of the app"),
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


def placeholders() -> list[str]:
    """What stands in documents and examples in place of a secret."""
    return [
        "OPENAI_API_KEY=your-api-key-here",
        "OPENAI_API_KEY=YOUR_API_KEY",
        'api_key = "your_api_key_1"',
        "OPENAI_API_KEY=sk-" + "x" * 32,
        "OPENAI_API_KEY=sk-...",
        "OPENAI_API_KEY=sk-your-key-here",
        'client = Client(api_key="sk-' + "x" * 20 + '")',
        "export ANTHROPIC_API_KEY=sk-ant-api03-" + "x" * 40,
        "key sk-proj-" + "X" * 24,
        "sk-your-openai-api-key-goes-here-1",
        "GITHUB_TOKEN=<token>",
        "GITHUB_TOKEN=<your-github-token-1>",
        "GITHUB_TOKEN=ghp_" + "x" * 36,
        "ghp_" + "X" * 36,
        "ghp_" + "1234567890" + "abcdefghijklmnopqrstuvwxyz",
        "glpat-" + "x" * 20,
        "glpat-your-token-goes-here",
        "SLACK_TOKEN=xoxb-your-bot-token-1",
        "xoxb-" + "x" * 12 + "-" + "x" * 24,
        "AIza" + "Sy" + "X" * 33,
        "AKIA" + "IOSFODNN7" + "EXAMPLE",
        "AKIA" + "X" * 16,
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY",
        "DB_PASSWORD=changeme",
        'POSTGRES_PASSWORD: "changeme"',
        "DB_PASSWORD=change-me",
        "SECRET_KEY=REPLACE_ME",
        "SECRET_KEY=" + "x" * 12,
        "API_TOKEN=" + "*" * 8,
        "API_TOKEN=null",
        "API_TOKEN={{ vault_token }}",
        "API_TOKEN={token}",
        "login --token <token>",
        "login --token your-token-here",
        "Authorization: Bearer YOUR_ACCESS_TOKEN_HERE",
        "Authorization: Bearer " + "x" * 24,
        "npm_" + "x" * 36,
        "hf_" + "x" * 34,
        "sntryu_your_token_here_and_more",
        "lin_api_" + "x" * 40,
        "curl -u <user>:<password> https://api.example/",
        "curl -u $NAME:$PASS https://api.example/",
        "docker run -u 1000:1000 image",
        "docker run -u node:node image",
        "machine api.example.org login me password <password>",
    ]


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


def uuid(noise: Noise) -> str:
    return "-".join(noise(size, HEX) for size in (8, 4, 4, 4, 12))


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
        "dp.pt." + noise(12),
        "dp.example.org",
        "lin_api_" + noise(12),
        "lin_alg_norm_of_a_matrix_and_more_words",
        "ntn_" + noise(12),
        "ops_per_second_of_the_whole_machine_in_total",
        "ops_" + noise(30),
        "A3-paper-and-A4-paper-are-different",
        "sntryu_" + noise(12, HEX),
        "nfp_" + noise(10),
        "sbp_" + noise(12, HEX),
        "v1.0-beta-" + noise(30, HEX),
        "re_compile_and_match_all_of_the_words_here",
        "re_" + noise(8) + "-" + noise(24),
        "pat-na1-" + noise(10),
        "access-production-server",
        "sdk-for-python-and-others",
        "xsl.transform_of_a_document_with_a_very_long_name_that_goes_on_and_on_and_never_ends_at_all",
        '"auth": "required"',
        '"auth": "basicAuthentication"',
        "sudo -u postgres:postgres ls",
        "sort -u a:b",
        "the login password is kept elsewhere",
        "the login form password field is empty",
        "a login form\npassword field",
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


def private_key_lines() -> list[str]:
    """A private key as it stands in a file: a secret that only its first line tells."""
    lines = [base64.b64encode(bytes([number, *range(47)])).decode() for number in range(20)]
    return ["-----BEGIN RSA " + "PRIVATE KEY-----", *lines, "-----END RSA " + "PRIVATE KEY-----"]
