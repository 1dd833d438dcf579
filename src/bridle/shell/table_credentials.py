"""Commands that print passwords, keys and tokens, as data: those that never run, and those that ask a person each time.

One command an entry: the program, then the words that must stand behind it in this order, wherever options come
between; a word with a dash is an option that must be there. `*` stands for anything. A command prints to the model and
to the log, and nobody needs a secret there: whoever wants to use one lets the program that needs it fetch it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from bridle.shell.shell_words import names

STORED = "it reaches for stored passwords and keys"
TOKEN = "it prints a token that acts for you"  # noqa: S105 - words for people

_STORES = """
op read, op item get, op get item, op document get, op get document, op inject, op run, bw get, bw list, bw export,
rbw get, rbw code, lpass show, lpass export, keepassxc-cli show, keepassxc-cli clip, keepassxc-cli export,
keyring get, gpg --export-se*, gpg2 --export-se*, gpgsm --export-se*, git credential fill, git credential-* get,
git-credential-* get, docker-credential-* get
"""
"""Where a person keeps what is theirs: password managers, key rings, what git and docker were told to remember."""

_TOKENS = """
op signin, op connect token create, op service-account create, bw unlock, bw login --raw, gh auth token,
gh auth status --show-token, gh auth status -t, gh config get oauth_token, glab auth status --show-token,
glab auth status -t, glab config get token, gcloud auth print-*-token, gcloud config config-helper,
gcloud sql generate-login-token, az account get-access-token, az acr login --expose-token,
aws configure export-credentials,
aws sts get-session-token, aws sts get-federation-token, aws sso get-role-credentials, heroku auth:token,
npm token create, npm config get *_authToken, pnpm config get *_authToken, vault print token,
doppler configure get token, fly auth token, flyctl auth token, databricks auth token
"""
"""Whoever reads one of these is that person, to a cloud or a forge."""

_SECRETS = """
aws configure get, aws secretsmanager get-secret-value, aws secretsmanager batch-get-secret-value,
aws ssm get-parameter* --with-decryption, aws ecr get-login*, aws eks get-token,
aws codeartifact get-authorization-token,
aws rds generate-db-auth-token, aws sts assume-role*, aws iam create-access-key, aws kms decrypt,
vault kv get, vault read, vault login, vault token create, vault unwrap, gcloud secrets versions access,
gcloud iam service-accounts keys create, gcloud kms decrypt, az keyvault secret show, az keyvault secret download,
az keyvault key download, az storage account keys list, az acr credential show, az cosmosdb keys list,
az redis list-keys,
az ad sp create-for-rbac, az ad sp credential reset, helm get values, helm get manifest, helm get all,
doppler secrets, doppler run, infisical secrets, infisical export, chamber read, chamber export, heroku config*,
railway variables, vercel env pull, netlify env:*, terraform output -json, terraform output -raw, terraform show -json,
terraform state pull, terraform state show, tofu output -json, tofu output -raw, tofu state pull,
sops -d, sops --decrypt, sops decrypt, ansible-vault view, ansible-vault decrypt, ansible-vault edit, age -d,
age --decrypt
"""
"""Secrets of a project: there are reasons to read one, and each time it is a person who knows them."""

_CLUSTERS = ("kubectl", "oc", "k3s", "k0s", "microk8s", "microk8s.kubectl", "minikube", "kubecolor")
_CLUSTER_SECRETS = (
    "get secret*", "get *,secret*", "get --raw", "edit secret*", "extract secret*", "create token", "config view --raw",
    "whoami -t", "whoami --show-token",
)  # fmt: skip

_PASSWORD_STORES = frozenset({"pass", "gopass", "passage"})
_KEEPS = names(
    "init insert add git version help find search mv rename rm remove delete cp copy sync config audit"
)
"""What a password store does without printing a password. Any other first word is the name of one."""


def is_known(program: str) -> bool:
    """Whether there is anything to say about a program at all: about most there is not."""
    return program in _programs() or "-credential-" in program


def refused_credentials(program: str, words: Sequence[str]) -> str | None:
    """Why a command that prints what is a person's own never runs. `words` are those behind the program's name."""
    if program in _PASSWORD_STORES and _shows_password(words):
        return STORED
    if "-credential-" in program:
        program = f"{program.partition('-')[0]}-credential-*"
    for pattern, why in _never().get(program, ()):
        if _fits(pattern, words):
            return why
    return None


def discloses(program: str, words: Sequence[str]) -> bool:
    """Whether a command prints a secret of a project."""
    return any(_fits(pattern, words) for pattern in _each_time().get(program, ()))


def _fits(pattern: Sequence[str], words: Sequence[str]) -> bool:
    at = 0
    for wanted in pattern:
        if wanted.startswith("-"):
            if not any(_is_option(wanted, word) for word in words):
                return False
            continue
        while (
            at < len(words) and words[at] != wanted and not ("*" in wanted and fnmatchcase(words[at], wanted))
        ):
            at += 1
        if at == len(words):
            return False
        at += 1
    return True


def _is_option(wanted: str, word: str) -> bool:
    if wanted.startswith("--"):
        return fnmatchcase(word.partition("=")[0], wanted)
    if len(wanted) == 2 and word.startswith("-") and not word.startswith("--"):
        return wanted[1] in word
    return word.removeprefix("-").partition("=")[0] == wanted.removeprefix("-")


def _shows_password(words: Sequence[str]) -> bool:
    named = [word for word in words if not word.startswith("-")]
    return bool(named) and named[0] not in _KEEPS and named not in (["ls"], ["list"])


@functools.cache
def _programs() -> frozenset[str]:
    return _PASSWORD_STORES.union(_never(), _each_time())


@functools.cache
def _never() -> Mapping[str, Sequence[tuple[tuple[str, ...], str]]]:
    found: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for text, why in ((_STORES, STORED), (_TOKENS, TOKEN)):
        for program, patterns in _read(text).items():
            found.setdefault(program, []).extend((pattern, why) for pattern in patterns)
    return found


@functools.cache
def _each_time() -> Mapping[str, Sequence[tuple[str, ...]]]:
    clusters = [tuple(words.split()) for words in _CLUSTER_SECRETS]
    return {**_read(_SECRETS), **dict.fromkeys(_CLUSTERS, clusters)}


def _read(text: str) -> dict[str, list[tuple[str, ...]]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    for entry in text.split(","):
        program, *words = entry.split()
        found.setdefault(program, []).append(tuple(words))
    return found
