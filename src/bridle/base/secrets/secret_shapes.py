"""The table of secret formats.

A shape begins with an *opening*, a few literal characters, and is decided within a bounded distance, so that text can
be redacted as it streams (`bridle.base.secrets.redact`). No shape matches « or »: what is masked stays as it is.
"""

import re

import msgspec

BEFORE = 40
"""How many characters in front of an opening `Form.before` can see."""


class Form(msgspec.Struct, frozen=True):
    """One way a secret is written: `head` matches what is kept and looks ahead at the secret, `body` is masked.

    With `until`, everything is masked up to and including the next match of it, or to the end of the text.
    `before` is a regex that must be found at the end of what stands in front of the opening. Where `unless` matches the
    secret, it is none. `kind`: where it is another than that of its shape.
    """

    head: str
    body: str = ""
    until: str = ""
    before: str = ""
    unless: str = ""
    kind: str = ""


class SecretShape(msgspec.Struct, frozen=True):
    """`openings`: what every match begins with. `reach`: all that a head may look at, as a regex.

    `any_case`: the openings count in capitals too. `named`: an opening is the end of a name that is given a value.
    Behind an opening that ends with `_`, `-` or `.` stand at least ten letters, digits or `_-.+/`. `by_dot`: the
    openings are too short to be searched for; a dot follows after 22 to 28 characters, another seven behind it.
    `noticed_by`: what every match begins with, where that is more than the openings, of which none may hide in another.
    `hexadecimal`: at least ten such digits, with small letters, stand behind each opening.
    """

    kind: str
    about: str
    openings: tuple[str, ...]
    reach: str
    forms: tuple[Form, ...]
    any_case: bool = False
    named: bool = False
    by_dot: bool = False
    noticed_by: tuple[str, ...] = ()
    hexadecimal: bool = False


_ALNUM = "[A-Za-z0-9]"
_DASHED = r"[A-Za-z0-9_\-]"
_HEX = "[0-9a-f]"
_DOTTED_BODY = rf"(?:{_DASHED}|\.{_DASHED})*"  # a full stop behind a secret belongs to the sentence
_APART = r"(?<![A-Za-z0-9_])$"
_UNMASKED = r"(?!«redacted:|\[redacted\])"
_WORD = "(?:[a-z]{1,12}|[A-Z]{1,12}|[A-Z][a-z]{1,11})"
_MODEL = (
    r"(?:[xX]{6}|[xX]{4}-|\*{3}|0{8}|1234567|(?i:abcdefg)"
    rf"|(?i:your|insert|enter|replace|example|sample|fake|dummy)[_\-]{_WORD}(?![A-Za-z0-9]))"
)
"""How the models of secrets in documents go on behind an opening. Nothing random does, and it is soon told."""


def _prefixed(
    kind: str,
    about: str,
    *openings: str,
    least: int,
    of: str = _ALNUM,
    body: str = rf"{_DASHED}*",
    before: str = "",
    then: str = "",
) -> SecretShape:
    """An opening and at least `least` characters `of` a set behind it. `body` matches the opening too.

    The first of them may be `then`, behind which a model would show. Three words in a row are a name in code.
    """
    begins = "|".join(map(re.escape, openings))
    model = rf"(?:{begins})(?:{then})?(?:{_MODEL}|(?:[a-z]{{1,13}}[_\-]){{3}})"
    form = Form(rf"(?=(?:{begins}){of}{{{least}}})", body, before=before, unless=model)
    reach = rf"(?:{begins}){of}{{0,{max(least, 42)}}}"
    return SecretShape(kind, about, openings, reach, (form,), hexadecimal=of == _HEX and not then)


# Names that are given a value: NAME=value, "name": "value", name: value, --name value

_NAME = r"(?:TOKEN|SECRET(?:[_-]?KEY)?|PASSW(?:OR)?D)"
_OF_KEY = r"(?i:api|access|account|private|signing|encryption|master|deploy)"
_GIVES = r"""(?:\\{0,3}["'])?[ ]{0,4}(?::=|=>|[:=](?![:=]))[ ]{0,4}"""
_BARE = r"""[^\s"'`,;&|<>(){}\[\]«»$\\]"""
_NOT_ANOTHER = r"(?!\$[A-Z_{(])"  # what is taken from somewhere else is no secret
_FLAG = r"(?<![\w-])--(?:[A-Za-z0-9]+[_-])*"
_ARGUMENT = r"""[^\s"'`«»$<>{(\[\\]"""
_PLACEHOLDER = r"""(?![A-Z][A-Z0-9_]{0,40}(?:[\s"'`\])]|\Z))"""
_ENDS = r"""(?=[\s"'`,;&|<>()\[\]{}\\]|\Z)"""
_CAMEL = rf"(?:{_WORD}|[a-z]{{2,12}}(?:[A-Z][a-z]{{2,11}}){{1,4}})"
_TELLS = (
    r"(?i:keys?|tokens?|secrets?|passw(?:or)?d|pass|pwd|api|here|values?|name|id|auth|access|account|client|user|"
    r"app|bot|org|project|string|credentials?|me|this)"
)
_BEFORE_STAND_IN = r"(?:[a-z]{1,6}[0-9]{0,2}[_\-]){0,3}"
_STAND_IN = (
    rf"<{_CAMEL}(?:[ _.\-](?:{_CAMEL}|[0-9]{{1,2}})){{0,6}}>|\{{{{1,2}}[ ]?[A-Za-z_][A-Za-z0-9_. ]{{0,40}}\}}|(?:"
    r"(?i:change[_\-]?(?:me|it)|replace[_\-]?me|placeholder|example|dummy|todo|tbd|none|null|undefined|true|false)"
    rf"|{_BEFORE_STAND_IN}(?i:your|insert|enter|replace|paste)(?=(?:[_\-]{_WORD}){{0,5}}[_\-]{_TELLS}(?![A-Za-z]))"
    rf"(?:[_\-]{_WORD}){{1,6}}(?:[_\-]?[0-9]{{1,2}})?"
    rf"|{_BEFORE_STAND_IN}(?:[xX]{{3,40}}|\*{{3,40}}|\.{{3}}|…)[xX*.…\-]{{0,40}}"
    rf"|[A-Za-z0-9/+]{{9,50}}EXAMPLE(?:KEY)?){_ENDS}"
)
"""What people write in place of a value: words, and nothing that could be random."""
_NOT_A_WORD = rf"(?=(?:(?![0-9!@#%^&*+~]){_ARGUMENT}){{0,64}}[0-9!@#%^&*+~])"


def _no_stand_ins(*forms: Form) -> tuple[Form, ...]:
    return tuple(msgspec.structs.replace(form, unless=_STAND_IN) for form in forms)


def _quoted(name: str, quote: str, inside: str, body: str, before: str) -> tuple[Form, Form]:
    """Any value for a NAME in capitals, but not "$OTHER"; for other names only one that has a digit."""
    plausible = rf"(?={inside}{{6}})(?=(?:(?![0-9]|\[redacted\]){inside}){{0,64}}[0-9])"
    return (
        Form(rf"{name}{_GIVES}{quote}{_UNMASKED}{_NOT_ANOTHER}(?={inside}|\\[^\r\n«»])", body, before=before),
        Form(rf"(?i:{name}){_GIVES}{quote}{_UNMASKED}{plausible}", body, before=before),
    )


def _given(name: str, of: str = "") -> tuple[Form, ...]:
    """The ways a value is given to a name whose beginning is `of`."""
    before, flag = (f"{of}[_-]?$", f"{_FLAG}{of}[_-]$") if of else ("", f"{_FLAG}$")
    bare = rf"(?={_BARE}{{6}})(?=(?:(?![0-9]|\[redacted\]){_BARE}){{0,64}}[0-9])"
    return _no_stand_ins(
        # NAME=value, but not NAME=$OTHER, which is no secret.
        Form(
            rf"""{name}={_UNMASKED}{_NOT_ANOTHER}(?=[^\s"'«»\\])""",
            r"""[^\s"'«»]*""",
            before=before,
        ),
        *_quoted(name, '"', r'[^"\\\r\n«»]', r'(?:[^"\\\r\n«»]|\\[^\r\n«»])*', before),
        *_quoted(name, "'", r"[^'\\\r\n«»]", r"(?:[^'\\\r\n«»]|\\[^\r\n«»])*", before),
        *_quoted(name, r"\\{1,3}[\"']", r"""[^"'\\\r\n«»]""", r"""[^"'\\\r\n«»]*""", before),
        Form(rf"(?i:{name}){_GIVES}{_UNMASKED}{bare}", rf"{_BARE}*", before=before),
        Form(rf"(?i:{name})={_UNMASKED}{_PLACEHOLDER}(?={_ARGUMENT})", rf"{_ARGUMENT}*", before=flag),
        Form(
            rf"""(?i:{name})(?:\\{{0,3}}["'],?)?[ ]{{1,2}}(?:\\{{0,3}}["'])?"""
            rf"{_UNMASKED}{_PLACEHOLDER}(?={_ARGUMENT}{{4}}){_NOT_A_WORD}",
            rf"{_ARGUMENT}*",
            before=flag,
        ),
    )


_GIVEN_REACH = r"""\\{0,3}["']?,?[ ]{0,4}(?:[:=][^\r\n]{0,110}|[^\s]{0,110})?"""

_BEARER = r"[A-Za-z0-9\-_.~+/=]"
_USER = r"""[^\s/:@"'<>(){},;«»]{0,256}"""
_BEFORE_HOST = r"""[^\s/"'<>«»]{1,512}"""  # up to the last @ before the host
_SCHEME = r"(?i:basic|bearer|token|digest|bot|apikey|negotiate)"
_CREDENTIALS = r"[A-Za-z0-9\-_.~+/=:]"
_COOKIE = r"""[^;=\s"'«»]{1,64}=(?!\[redacted\])[^;\r\n"'«»]{0,120};[ ]{0,2}"""
_COOKIE_HEADER = r"""(?i:cookie)(?:\\?["'])?[ ]{0,4}[:=][ ]{0,4}(?:\\?["'])?"""
_COOKIES = r"""[^\r\n"'«»\\]*"""
_SESSION = (
    r"[A-Za-z0-9_.\-]{0,32}?(?i:sess|sid|auth|token|jwt|csrf|xsrf|remember|login|secret)[A-Za-z0-9_.\-]{0,32}"
)

_AUTH = r"""auth\\?":[ ]?\\?\""""
_ENCODED = (
    r"(?=[A-Za-z0-9+/]{0,512}[A-Z])(?=[A-Za-z0-9+/]{0,512}[0-9=])"
    r"(?=(?:[A-Za-z0-9+/]{4}){3,127}(?:[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{4}"
    r"(?![A-Za-z0-9+/=«]|\[redacted\])))"
)
"""A name and a password, in Base64."""
_NAME_OF_USER = r"""[^\s:"'`/@$<>«»{}()\\]{1,64}"""
_CHARACTER = r"""[^\s"'`$<>«»\\]"""
_NETRC = r"(?:\.[^\s]*|machine[ \t]+[^\s]+)[ \t]+(?:login|account)[ \t]+[^\s]+[ \t]+$"
_NETRC_LINES = (
    r"\b(?:login|account)[ \t]+[^\s]+[ \t]*\r?\n(?:[^\s]{0,20}[0-9][:→|\-])?[ \t]*(?:[0-9]+[→\t])?[ \t]*$"
)
_CLIENT = r"(?<![\w-])(?:curl|wget|https?|xh)(?![\w-])[^\n|;&]{0,36}$"


def _user(option: str) -> tuple[Form, ...]:
    """`-u name:password`: any of them behind a program that fetches, elsewhere only what is no name of a group."""
    begins = rf"""{option}["']?{_NAME_OF_USER}:{_UNMASKED}"""
    return _no_stand_ins(
        Form(rf"{begins}(?={_CHARACTER}{{3}})(?![0-9]{{1,10}}(?:\s|\Z))", rf"{_CHARACTER}*", before=_CLIENT),
        Form(
            rf"{begins}(?={_CHARACTER}{{8}})(?=[^\s]{{0,32}}[0-9])(?=[^\s]{{0,32}}[A-Za-z])",
            rf"{_CHARACTER}*",
            before=r"(?<![\w-])$",
        ),
    )


SHAPES: tuple[SecretShape, ...] = (
    SecretShape(
        "private-key",
        "private keys: PEM, OpenSSH, PGP, SSH2 and PuTTY blocks",
        ("-----BEGIN",),
        r"-----BEGIN[A-Z0-9 ]{0,64}-{0,5}",
        (
            Form(
                r"(?=-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)",
                until=r"-----END [A-Z0-9 ]{1,60}-----",
            ),
        ),
    ),
    SecretShape(
        "private-key",
        "",
        ("---- BEGIN",),
        r"---- BEGIN[A-Z0-9 ]{0,64}-{0,4}",
        (
            Form(
                r"(?=---- BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY ----)",
                until=r"---- END [A-Z0-9 ]{1,60}----",
            ),
        ),
    ),
    SecretShape(
        "private-key",
        "",
        ("PuTTY-",),
        r"[A-Za-z\-]{0,20}[0-9]?:?",
        (Form(r"(?=PuTTY-User-Key-File-[0-9]:)", until="Private-MAC:"),),
    ),
    SecretShape(
        "age-key",
        "age secret keys (AGE-SECRET-KEY-1…)",
        ("AGE-",),
        r"[A-Z0-9\-]{0,48}",
        (Form(r"(?=AGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]{28})", r"[A-Z0-9\-]*"),),
    ),
    SecretShape(
        "aws-access-key",
        "AWS access key ids (AKIA…, ASIA…)",
        ("AKIA", "ASIA"),
        "A[KS]IA[A-Z0-9]{0,16}",
        (Form(r"(?=....[A-Z0-9]{16})", "[A-Z0-9]*", unless=rf"....(?:{_MODEL}|[A-Z0-9]{{9}}EXAMPLE)"),),
    ),
    _prefixed(
        "aws-session-token",
        "AWS session tokens",
        "IQoJb3JpZ2luX2Vj",
        least=60,
        of="[A-Za-z0-9+/%=]",
        body="[A-Za-z0-9+/%=]*",
    ),
    _prefixed(
        "github-token",
        "GitHub tokens (ghp_…, gho_…, ghu_…, ghs_…, ghr_…, github_pat_…)",
        *("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
        least=30,
        body="[A-Za-z0-9_]*",
    ),
    _prefixed("github-token", "", "github_pat_", least=60, of="[A-Za-z0-9_]", body="[A-Za-z0-9_]*"),
    _prefixed(
        "gitlab-token",
        "GitLab tokens (glpat-…, gldt-…, glrt-… and others)",
        *("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-"),
        *("glsoat-", "glimt-", "glagent-", "gloas-", "glffct-"),
        least=15,
        of=_DASHED,
        body=_DOTTED_BODY,
    ),
    _prefixed(
        "atlassian-token",
        "Atlassian and Bitbucket tokens (ATATT3…, ATCTT3…, ATBB…, BBDC-…)",
        *("ATATT3", "ATCTT3"),
        least=40,
        of=r"[A-Za-z0-9_\-=]",
        body=r"[A-Za-z0-9_\-=]*",
    ),
    _prefixed("atlassian-token", "", "ATBB", least=28, before=_APART),
    _prefixed("atlassian-token", "", "BBDC-", least=30, of="[A-Za-z0-9+/]", body=r"[A-Za-z0-9+/=\-]*"),
    SecretShape(
        "slack-token",
        "Slack tokens (xoxb-…, xoxp-…, xapp-… and others)",
        ("xox",),
        rf"{_DASHED}{{0,32}}",
        (Form(r"(?=xox[abcdeoprs]-[A-Za-z0-9\-]{10})", rf"{_DASHED}*", unless=f"xox.-{_MODEL}"),),
    ),
    _prefixed("slack-token", "", "xapp-", least=10, of=r"[A-Za-z0-9\-]"),
    SecretShape(
        "webhook",
        "webhook addresses of Slack and Discord",
        ("hooks.slack.com/",),
        r"hooks\.slack\.com/[A-Za-z0-9/]{0,40}",
        (
            Form(
                r"hooks\.slack\.com/(?:services|workflows|triggers)/(?=[A-Za-z0-9/]{20})",
                r"[A-Za-z0-9/]*",
            ),
        ),
    ),
    SecretShape(
        "webhook",
        "",
        ("api/webhooks/",),
        rf"api/webhooks/[0-9]{{0,20}}/?{_DASHED}{{0,40}}",
        (Form(rf"api/webhooks/[0-9]{{16,20}}/(?={_DASHED}{{40}})", rf"{_DASHED}*"),),
    ),
    _prefixed(
        "stripe-key",
        "Stripe keys (sk_live_…, rk_live_…, whsec_… and those for tests)",
        *("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"),
        least=16,
    ),
    _prefixed("google-key", "Google API keys (AIza…)", "AIza", least=30, of=_DASHED, then="Sy"),
    _prefixed(
        "google-oauth", "Google OAuth secrets and tokens (GOCSPX-…, ya29.…)", "GOCSPX-", least=20, of=_DASHED
    ),
    _prefixed("google-oauth", "", "ya29.", least=30, of=_DASHED, body=_DOTTED_BODY),
    SecretShape(
        "signature",
        "signatures in signed addresses (Azure SAS, X-Amz-Signature, X-Goog-Signature)",
        ("sig=",),
        r"(?i:sig=)[A-Za-z0-9%+/=_\-]{0,30}",
        (
            Form(
                r"(?i:sig=)(?=[A-Za-z0-9%+/=_\-]{30})",
                r"[A-Za-z0-9%+/=_\-]*",
                before=r"(?:[?&]|u0026|amp;)$",
            ),
        ),
        any_case=True,
    ),
    SecretShape(
        "signature",
        "",
        ("-signature=",),
        rf"(?i:-signature=){_HEX}{{0,40}}",
        (Form(rf"(?i:-signature=)(?={_HEX}{{40}})", f"{_HEX}*"),),
        any_case=True,
    ),
    SecretShape(
        "api-key",
        "keys of model vendors (sk-…, gsk_…, xai-…, hf_…, r8_…, pplx-…, nvapi-… and others)",
        ("sk-",),
        rf"{_DASHED}{{0,40}}",
        (
            Form(
                rf"(?=sk-(?:or-|ant-|proj-)?{_DASHED}{{16}})",
                rf"{_DASHED}*",
                before=r"(?<![A-Za-z0-9_])c?$",
                unless=rf"sk-(?:or-(?:v1-)?|ant-(?:api03-)?|proj-)?{_MODEL}",
            ),
        ),
    ),
    _prefixed("api-key", "", "gsk_", "hf_", "r8_", "pcsk_", "fw_", "e2b_", least=20, before=_APART),
    _prefixed("api-key", "", "fc-", least=32, of=_HEX, before=_APART),
    _prefixed("api-key", "", "xai-", "pplx-", "nvapi-", "tvly-", least=20, of=_DASHED, before=_APART),
    _prefixed("api-key", "", "lsv2_pt_", "lsv2_sk_", "tgp_v1_", least=20, of=_DASHED),
    _prefixed(
        "package-token",
        "tokens of package registries (npm_…, pypi-…, rubygems_…)",
        "npm_",
        "rubygems_",
        least=30,
        before=_APART,
    ),
    _prefixed("package-token", "", "pypi-Ag", least=40, of=_DASHED),
    _prefixed(
        "docker-token",
        "Docker tokens (dckr_pat_…, dckr_oat_…), and `auth` of registries",
        "dckr_pat_",
        "dckr_oat_",
        least=20,
        of=_DASHED,
    ),
    SecretShape(
        "docker-token",
        "",
        ('auth": "', 'auth":"', 'auth\\": \\"', 'auth\\":\\"'),
        rf"{_AUTH}[A-Za-z0-9+/]{{0,512}}={{0,2}}",
        (Form(rf"{_AUTH}{_ENCODED}", "[A-Za-z0-9+/=]*", before=r"""["']$"""),),
    ),
    SecretShape(
        "docker-token",
        "",
        ("auth=", "auth ="),
        r"auth[ ]?=[ ]{0,2}[A-Za-z0-9+/]{0,512}={0,2}",
        (Form(rf"auth[ ]?=[ ]{{0,2}}{_ENCODED}", "[A-Za-z0-9+/=]*", before="_$"),),
    ),
    _prefixed(
        "digitalocean-token",
        "DigitalOcean tokens (dop_v1_… and others)",
        *("dop_v1_", "doo_v1_", "dor_v1_"),
        least=40,
        of=_HEX,
    ),
    SecretShape(
        "sendgrid-key",
        "SendGrid keys (SG.…)",
        ("SG.",),
        rf"SG\.{_DASHED}{{0,32}}\.?{_DASHED}{{0,16}}",
        (Form(rf"(?=SG\.{_DASHED}{{16,32}}\.{_DASHED}{{16}})", _DOTTED_BODY, before=_APART),),
    ),
    _prefixed(
        "twilio-key", "Twilio keys (SK and 32 hexadecimal digits)", "SK", least=32, of=_HEX, before=_APART
    ),
    SecretShape(
        "telegram-token",
        "Telegram bot tokens",
        (":AA",),
        rf":{_DASHED}{{0,35}}",
        (Form(rf":(?=AA{_DASHED}{{33}})", rf"{_DASHED}*", before=r"(?<![A-Za-z0-9])[0-9]{8,10}$"),),
    ),
    SecretShape(
        "discord-token",
        "Discord bot tokens",
        ("MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"),
        rf"{_DASHED}{{0,28}}\.?{_DASHED}{{0,6}}\.?{_DASHED}{{0,27}}",
        (
            Form(
                rf"(?=[MNO][DTjz][AEIMQUYcgk][w-z0-5]{_DASHED}{{18,24}}\.{_DASHED}{{6}}\.{_DASHED}{{27}})",
                _DOTTED_BODY,
                before=_APART,
            ),
        ),
        by_dot=True,
    ),
    _prefixed("databricks-token", "Databricks tokens (dapi…)", "dapi", least=32, of=_HEX, before=_APART),
    _prefixed(
        "vault-token",
        "HashiCorp Vault tokens (hvs.…, hvb.…, hvr.…)",
        "hvs.",
        "hvb.",
        "hvr.",
        least=24,
        of=_DASHED,
        body=_DOTTED_BODY,
        before=_APART,
    ),
    _prefixed(
        "terraform-token",
        "Terraform Cloud tokens (….atlasv1.…)",
        "atlasv1.",
        least=40,
        of=_DASHED,
        body=_DOTTED_BODY,
        before=r"\.$",
    ),
    _prefixed(
        "doppler-token",
        "Doppler tokens (dp.pt.…, dp.st.… and others)",
        *("dp.pt.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."),
        least=30,
        body=_DOTTED_BODY,
        before=_APART,
    ),
    SecretShape(
        "doppler-token",
        "",
        ("dp.st",),
        rf"dp\.st\.?{_DASHED}{{0,40}}\.?{_ALNUM}{{0,30}}",
        (Form(rf"(?=dp\.st\.(?:{_DASHED}{{1,40}}\.)?{_ALNUM}{{30}})", _DOTTED_BODY, before=_APART),),
    ),
    _prefixed("linear-token", "Linear keys (lin_api_…, lin_oauth_…)", "lin_api_", "lin_oauth_", least=30),
    _prefixed("notion-token", "Notion tokens (ntn_…, secret_…)", "ntn_", least=40, before=_APART),
    SecretShape(
        "notion-token",
        "",
        ("cret_",),
        rf"cret_{_ALNUM}{{0,44}}",
        (
            Form(
                rf"(?=cret_{_ALNUM}{{43}})",
                r"[A-Za-z0-9_]*",
                before=r"(?<![A-Za-z0-9_])se$",
                unless=f"cret_{_MODEL}",
            ),
        ),
    ),
    SecretShape(
        "onepassword-token",
        "1Password service accounts (ops_…) and secret keys (A3-…)",
        ("A3-",),
        r"A3-[A-Z0-9\-]{0,38}",
        (
            Form(
                r"(?=A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3})",
                r"[A-Z0-9\-]*",
                before=_APART,
            ),
        ),
    ),
    _prefixed("sentry-token", "Sentry tokens (sntryu_…, sntrys_…)", "sntryu_", least=40, of=_HEX),
    _prefixed("sentry-token", "", "sntrys_", least=40, of="[A-Za-z0-9+/_=]", body="[A-Za-z0-9+/_=]*"),
    _prefixed(
        "hosting-token",
        "tokens of Netlify, Fly, Render, Vercel and Pulumi (nfp_…, fo1_…, fm2_…, rnd_…, vcp_…, pul-… and others)",
        *("nfp_", "nfc_", "nfo_", "nfb_", "nfu_", "rnd_", "vcp_", "vci_", "vca_", "vcr_", "vck_"),
        least=30,
        before=_APART,
    ),
    _prefixed(
        "hosting-token",
        "",
        *("fo1_", "fm1r_", "fm1a_", "fm2_", "vercel_blob_rw_"),
        least=40,
        of=r"[A-Za-z0-9+/_\-]",
        body=r"[A-Za-z0-9+/_=\-]*",
        before=_APART,
    ),
    _prefixed("hosting-token", "", "pul-", least=40, of=_HEX, before=_APART),
    SecretShape(
        "cloudflare-token",
        "Cloudflare origin keys (v1.0-…)",
        ("v1.0-",),
        rf"v1\.0-{_HEX}{{0,24}}-?{_HEX}{{0,40}}",
        (Form(rf"(?=v1\.0-{_HEX}{{24}}-{_HEX}{{40}})", _DOTTED_BODY, before=_APART),),
    ),
    _prefixed(
        "database-token",
        "tokens of Supabase, Neon, PlanetScale and CockroachDB (sbp_…, napi_…, pscale_pw_… and others)",
        *("sbp_", "napi_", "pscale_pw_", "pscale_oauth_", "CCDB1_"),
        least=30,
        of=_DASHED,
        before=_APART,
    ),
    SecretShape(
        "database-token",
        "",
        ("sb_secre",),
        rf"sb_secre{_DASHED}{{0,24}}",
        (
            Form(
                rf"(?=sb_secret_{_DASHED}{{20}})", rf"{_DASHED}*", before=_APART, unless=f"sb_secret_{_MODEL}"
            ),
        ),
        noticed_by=("sb_secret_",),
    ),
    _prefixed(
        "build-token",
        "tokens of CircleCI, Buildkite, SonarQube, JFrog, Sourcegraph and Clojars (CCIPAT_…, sqp_…, AKCp… …)",
        *("CCIPAT_", "CCIPRJ_"),
        least=30,
        of=r"[A-Za-z0-9_]",
    ),
    _prefixed(
        "build-token",
        "",
        "bkua_",
        "sqp_",
        "squ_",
        "sqa_",
        "sgp_",
        "CLOJARS_",
        least=40,
        of=_HEX,
        before=_APART,
    ),
    _prefixed("build-token", "", "AKCp", least=60, before=_APART),
    SecretShape(
        "mail-token",
        "keys of Brevo and Resend (xkeysib-…, re_…)",
        ("xke",),
        rf"[a-z]{{0,7}}-?{_HEX}{{0,40}}",
        (Form(rf"(?=xkeysib-{_HEX}{{40}})", rf"{_DASHED}*"),),
        noticed_by=("xkeysib-",),
    ),
    _prefixed("mail-token", "", "xsmtpsib-", least=40, of=_HEX),
    SecretShape(
        "mail-token",
        "",
        ("re_",),
        rf"re_{_ALNUM}{{0,8}}_?{_ALNUM}{{0,25}}",
        (
            Form(
                rf"(?=re_{_ALNUM}{{8}}_{_ALNUM}{{24}})(?=[A-Za-z0-9_]{{0,35}}[0-9])",
                r"[A-Za-z0-9_]*",
                before=_APART,
                unless=f"re_{_MODEL}",
            ),
        ),
    ),
    _prefixed(
        "payment-token",
        "tokens of Square, Plaid and Shippo (sq0atp-…, access-production-…, shippo_live_…)",
        *("sq0atp-", "sq0csp-", "shippo_live_"),
        least=22,
        of=_DASHED,
    ),
    _prefixed("payment-token", "", "access-production-", "access-sandbox-", least=36, of=r"[0-9a-f\-]"),
    _prefixed(
        "service-token",
        "tokens of Shopify, Grafana, New Relic, Postman, Heroku, Figma, HubSpot, PostHog, Tailscale and others",
        *("shpat_", "shpss_", "shpca_", "shppa_", "glsa_", "pscale_tkn_", "NRAK-", "PMAK-", "HRKU-"),
        least=20,
        of=_DASHED,
        before=_APART,
    ),
    _prefixed(
        "service-token",
        "",
        *("figd_", "CFPAT-", "p8e-", "phx_", "tfp_", "hcaik_", "NRII-", "NRRA-"),
        least=30,
        of=_DASHED,
        before=_APART,
    ),
    _prefixed(
        "service-token",
        "",
        *("essu_", "glc_"),
        least=40,
        of="[A-Za-z0-9+/_]",
        body=r"[A-Za-z0-9+/_=]*",
        before=_APART,
    ),
    _prefixed(
        "service-token",
        "",
        "pat-na1-",
        "pat-eu1-",
        "pat-na2-",
        "sdk-",
        least=36,
        of=r"[0-9a-f\-]",
        before=_APART,
    ),
    _prefixed("service-token", "", "dt0c01.", "dt0s01.", least=24, body=_DOTTED_BODY, before=_APART),
    _prefixed("service-token", "", "sl.", least=100, of=_DASHED, body=_DOTTED_BODY, before=_APART),
    _prefixed("service-token", "", "AKID", least=32, before=_APART),
    SecretShape(
        "service-token",
        "",
        ("tske",),
        rf"tske{_DASHED}{{0,40}}",
        (Form(rf"(?=tskey-(?:auth|api|client|scim|webhook)-{_ALNUM}{{10}})", rf"{_DASHED}*", before=_APART),),
        noticed_by=("tskey-",),
    ),
    SecretShape(
        "azure-secret",
        "client secrets of Azure (…8Q~…)",
        ("Q~",),
        r"Q~[A-Za-z0-9_~.\-]{0,31}",
        (Form(r"(?=Q~[A-Za-z0-9_~.\-]{31})", r"[A-Za-z0-9_~.\-]*", before=r"[A-Za-z0-9_~.]{3}[0-9]$"),),
    ),
    SecretShape(
        "jwt",
        "JSON web tokens (eyJ….….…)",
        ("eyJ",),
        rf"[A-Za-z0-9+/_\-]{{0,515}}\.?{_DASHED}{{0,8}}",
        (
            Form(
                r"(?=eyJ[A-Za-z0-9+/_\-]{50})",
                r"[A-Za-z0-9+/_=\-]*",
                before=r"(?<![A-Za-z0-9_])ops_$",
                kind="onepassword-token",
            ),
            Form(rf"(?=eyJ{_DASHED}{{5,512}}\.{_DASHED}{{8}})", _DOTTED_BODY),
        ),
    ),
    SecretShape(
        "bearer",
        "what follows the word Bearer",
        ("bearer", "Bearer"),
        rf"[Bb]earer[ \t]{{0,4}}{_BEARER}{{0,20}}",
        (Form(rf"[Bb]earer[ \t]{{1,4}}(?={_BEARER}{{20}})", rf"{_BEARER}*", unless=_MODEL),),
    ),
    SecretShape(
        "authorization",
        "what an Authorization header says",
        ("authorization",),
        r"""(?i:authorization)\\{0,3}["']?[ ]{0,4}[:=>]{0,2}[ ]{0,4}\\{0,3}["']?"""
        rf"[A-Za-z]{{0,9}}[ ]{{0,4}}{_CREDENTIALS}{{0,64}}",
        (
            Form(
                rf"""(?i:authorization){_GIVES}(?:\\{{0,3}}["'])?(?![Bb]earer[ ]{{1,4}}{_BEARER}{{20}})"""
                rf"{_SCHEME}[ ]{{1,4}}(?={_CREDENTIALS}{{8}})"
                rf"(?=(?:(?![0-9]){_CREDENTIALS}){{0,56}}[0-9]|{_CREDENTIALS}{{8,56}}=)",
                rf"{_CREDENTIALS}*",
            ),
        ),
        any_case=True,
    ),
    SecretShape(
        "cookie",
        "cookies of sessions, in Cookie and Set-Cookie headers",
        ("cookie",),
        r"""[Cc][A-Za-z]{0,5}\\?["']?[ ]{0,4}(?:[:=][^\r\n]{0,640})?""",
        (
            Form(
                rf"""{_COOKIE_HEADER}(?:{_COOKIE}){{0,2}}?{_SESSION}={_UNMASKED}(?=[^;\s"'«»]{{8}})""",
                _COOKIES,
            ),
            Form(rf"{_COOKIE_HEADER}{_UNMASKED}(?=(?:{_COOKIE}){{3}})", _COOKIES),
        ),
        any_case=True,
        named=True,
    ),
    SecretShape(
        "password",
        "passwords in addresses (postgres://user:…@host and others), and of curl -u user:…",
        ("://",),
        r"://[^\s/]{0,780}",
        (Form(rf"://{_USER}:{_UNMASKED}(?={_BEFORE_HOST}@)", rf"{_BEFORE_HOST}(?=@)"),),
    ),
    SecretShape(
        "password",
        "",
        ("-u ",),
        r"""-u[ ]{1,4}["']?[^\s:"']{0,64}:?[^\s]{0,64}""",
        _user("-u[ ]{1,4}"),
    ),
    SecretShape(
        "password",
        "",
        ("--user ", "--user="),
        r"""--user[ =]{1,4}["']?[^\s:"']{0,64}:?[^\s]{0,64}""",
        _user("--user[ =]{1,4}"),
    ),
    SecretShape(
        "secret",
        "values given to names: …_TOKEN=, …_API_KEY=, password:, --token …, AccountKey=; passwords in .netrc lines",
        ("token", "secret", "passw"),
        r"[A-Za-z_\-]{0,12}" + _GIVEN_REACH,
        (
            *_given(_NAME),
            Form(
                rf"""(?i:PASSW(?:OR)?D)={_UNMASKED}(?=[^;\s"'«»$<{{])""",
                r"""[^;"'\r\n«»]*""",
                before=r";[ ]?$",
            ),
            *_no_stand_ins(
                Form(
                    rf"(?i:password)[ ]{{1,4}}{_UNMASKED}(?={_ARGUMENT}{{3}})",
                    rf"{_ARGUMENT}*",
                    before=_NETRC,
                ),
                Form(
                    rf"(?i:password)[ ]{{1,4}}{_UNMASKED}(?={_ARGUMENT}{{3}}){_NOT_A_WORD}",
                    rf"{_ARGUMENT}*",
                    before=_NETRC_LINES,
                ),
            ),
        ),
        any_case=True,
        named=True,
    ),
    SecretShape(
        "secret",
        "",
        ("key",),
        r"[A-Za-z]{0,3}" + _GIVEN_REACH,
        _given("KEY", of=_OF_KEY),
        any_case=True,
        named=True,
    ),
)


def kinds() -> dict[str, str]:
    """Every kind of secret, with one line about it."""
    return {shape.kind: shape.about for shape in SHAPES if shape.about}
