"""Verbs for models and the keys, accounts and tokens that open them."""

from __future__ import annotations

from bridle.cli.verbs.rows import JSON, SETTINGS, Action, Argument, Option, Verb

_PROVIDER = Argument("provider", "PROVIDER", "?")
_LOCKS = ("passphrase", "machine", "automatic")
_SESSION = Option("--session", "session that it is for", "ID", repeat=True)

LOGIN = Verb(
    name="login",
    module="accounts.login",
    purpose="connect a model: store a key or sign in to an account, encrypted on this machine",
    arguments=(_PROVIDER,),
    options=(
        Option("--key", "paste a key, also where an account is possible", one_of="way"),
        Option("--device", "sign in to an account by a code that you type on any device", one_of="way"),
        Option("--browser", "sign in to an account in a browser", one_of="way"),
        Option("--list", "list stored credentials and their lock; keys are never shown", one_of="way"),
        Option("--check", "ask each provider for its list of models, which costs nothing", one_of="way"),
        Option("--export", "write everything to a file locked by a passphrase", "FILE", one_of="way"),
        Option("--import", "read such a file", "FILE", dest="import_file", one_of="way"),
        Option("--lock", "change the lock of the store", "KIND", choices=_LOCKS, one_of="way"),
        Option("--stdin", "read the key from stdin, as a pipe is anyway"),
        Option("--no-check", "store a key without trying it"),
        Option("--no-open", "print the address and open no browser"),
        Option("--account", "name of the account", "NAME"),
        JSON,
        *SETTINGS,
    ),
    examples="""\
bridle login                       choose a provider, then paste its key; nothing of it is shown
bridle login openai < key.txt      the key comes from stdin; it is never a word of a command
bridle login work --device         an account instead of a key
bridle logout PROVIDER             forget it""",
    notes="""\
A key in the environment goes before a stored one. An account needs providers.NAME.oauth with client_id, token_url
and authorize_url or device_url. BRIDLE_PASSPHRASE or BRIDLE_MACHINE_KEY lock a new store; without them a key is
made for you alone (chmod 600). credentials.store = "keyring" uses the system keychain; if its package is missing,
Bridle says what installs it.""",
)
LOGOUT = Verb(
    name="logout",
    module="accounts.login:logout",
    purpose="forget a stored key or account",
    arguments=(_PROVIDER,),
    options=(Option("--all", "forget everything"), *SETTINGS),
)
MODELS = Verb(
    name="models",
    module="accounts.models",
    purpose="list models, their abilities and prices, and which can be used now",
    arguments=(Argument("filter", "PROVIDER", "?"),),
    options=(
        Option("--keys", "the environment variables a key may be in, and whether one is"),
        Option("--refresh", "ask the provider again; without a name, every provider with a key"),
        JSON,
        *SETTINGS,
    ),
    examples="""\
bridle models                  every provider and why it can or cannot be used; models on this machine
bridle models openai           what that provider lists; it is asked at most once a day, and only it
bridle models openai:mini      the same, only names that contain "mini"
bridle models sonnet           every model known without asking that contains "sonnet\"""",
    notes="""\
✓ can be used now, * is the default. Choose one: bridle config set model PROVIDER:MODEL. Without a name nothing outside
this machine is asked. A list costs nothing; no key is ever shown. Prices are dollars per million tokens, from the
provider's list or a snapshot that comes with Bridle. Your own value goes first:
bridle config set 'models."PROVIDER:MODEL".price_in' 3, also price_out, context_tokens, tools, images.
Your own provider: bridle config set providers.NAME.base_url URL, and providers.NAME.key_env VARIABLE.""",
)
TOKEN = Verb(
    name="token",
    module="accounts.token",
    purpose="let others into a session: with which permissions, for how long, under which name",
    default_action="list",
    actions=(
        Action(
            "mint",
            "make a token; bridle token OPTIONS does the same",
            options=(
                _SESSION,
                Option(
                    "--identity-class",
                    "whose it is; an agent never approves",
                    "CLASS",
                    choices=("human", "agent"),
                    default="human",
                ),
                Option("--watch", "it may only watch"),
                Option("--approve", "it may watch and answer questions, and no more"),
                Option(
                    "--for", "how long it is valid, such as 30m, 2h or 7d", "TIME", default="24h", dest="life"
                ),
                Option("--name", "name shown with every answer; without it the token is yours", "NAME"),
                Option("--out", "write it to a new file (mode 0400)", "FILE"),
                Option("--print", "print it even if stdout is no terminal"),
                Option("--ci", "a token for the engine of a job; names no session"),
            ),
        ),
        Action("list", "list tokens, their owners and until when they are valid", options=(JSON,)),
        Action("revoke", "refuse it from now on, also in running engines", (Argument("jti", "TOKEN_ID"),)),
        Action("audit", "what was minted, revoked, refused and answered", options=(_SESSION, JSON)),
    ),
    examples="""\
bridle token mint --session ID --approve --name Ana --for 2h   answers the questions of that session, and no more
bridle token mint --session ID --watch --out FILE              watches; the token goes into a new file
bridle token --session ID --identity-class agent               another program
bridle token mint --ci --out ci-token.json                     what the engine of a job is started with""",
    notes="""\
A user mints a token at a terminal. It is valid for 24 h by default and works with every bridle serve of the same
data folder. --name also tells users apart where a rule wants two of them. An engine takes a --ci token only from
the file it is started with, and where both have the same BRIDLE_MACHINE_KEY.""",
)

VERBS = (LOGIN, LOGOUT, MODELS, TOKEN)
