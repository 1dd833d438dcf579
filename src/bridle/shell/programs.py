"""What is known about programs, as data: which options are safe, what their arguments are, what they do at worst.

The tables are texts (`table_system`, `table_git`, `table_developer`), one entry after the other:

    name, other name | arguments class words | what it does, for people
        options

A name of two or three words (`npm ls`) is a subcommand; the options of `npm` may stand before it. The words are
fields of `Program`. An option that is not listed is not proven, and neither is a program. Options look like this:

    -abc            three flags                 --all           a long flag
    -n:  --max:     takes a value               --color?        may take a value after `=`
    -f<  --file<    the value is a file it reads
    -o>  --output>  the value is a file it writes
    --merged~       takes the next word, if there is one
    -i^  --exec!:   with `^` it then writes, with `!` it runs something, `@` connects, `%` destroys, `+` follows links
                    to anywhere; then `:` `?` and the like
    --arg::         takes two values            --slurpfile:<   two values, the second a file it reads
    -#              a bare number (`-20`)       *               any option at all
    &name           all options of the entry `&name`
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from bridle.base.command_class import CommandClass
from bridle.shell.shell_words import names
from bridle.shell.table_developer import DEVELOPER_TABLE
from bridle.shell.table_git import GIT_TABLE
from bridle.shell.table_system import SYSTEM_TABLE, WRAPPER_TABLE

# Read like the tables of `programs`. The name is the key of the grant; `*` and `list-*` stand for one word
# each that is kept too. Listed are options that run nothing, read and write nothing elsewhere, and change no
# account, machine or server: another one asks again, and so does a program that is not here. With `none` no
# argument may follow: it would name another package or another target. A `--` is passed over, so what stands
# behind it has to be listed as well.


GRANT_TABLE = r"""
&script
    -s -w: --silent --if-present --workspaces --workspace: --include-workspace-root -t: -u -i --run --ci --coverage
    --verbose
    --bail? --watch? --watchAll? --runInBand --testNamePattern: --updateSnapshot --passWithNoTests --grep: --color?
    --no-color
&cargo
    -qvr -p: -F: -j: --quiet --verbose --release --all --workspace --all-targets --all-features --features: --package:
    --exclude: --no-default-features --lib --bin: --bins --test: --tests --example: --examples --bench: --benches --doc
    --no-run --no-fail-fast --no-deps --jobs: --locked --offline --frozen --keep-going --message-format: --profile:
    --color:
    --nocapture --test-threads: --ignored --include-ignored --exact --show-output --skip: -D: -W: -A: --fix --check
&go
    -v -race -run: -count: -short -cover -covermode: -coverprofile> -timeout: -bench: -benchmem -benchtime: -failfast
    -json
    -parallel: -p: -tags: -skip: -list: -cpu: -shuffle: -trimpath -a -n -x -o>
&cloud
    --output: --query: --region: --max-items: --page-size: --no-paginate --filters: --filter: --limit: --format:
    --sort-by:
    --human-readable --summarize --no-cli-pager
&forge
    --json: --jq: --limit: --state: --title: --body: --draft --fill --base: --head: --assignee: --label: --reviewer:
    --milestone: --search: --author: --comments --squash --merge --rebase --log --log-failed -L:
&checker
    -qv --quiet --verbose --fix --check --diff --select: --ignore: --extend-select: --statistics --show-fixes --no-cache
    --exclude: --strict --no-color --color: --max-warnings: --ext: --cache --write --list-different -l -w --pretty
    --noEmit
    --incremental --line-length: --target-version: --ignore-missing-imports --show-error-codes
npm test, npm t, npm run *, npm run-script *, npm start, pnpm test, pnpm t, pnpm run *, pnpm start, yarn test,
yarn run *, yarn start, yarn build, bun test, bun run *, jest, vitest, vitest run, mocha | text
    &script
npm install, npm i, npm ci, pnpm install, pnpm i, yarn install, yarn, bun install, uv sync, uv lock, poetry install,
poetry lock, bundle install, composer install, go mod download, go mod tidy, terraform init | none
    -dqv --no-audit --no-fund --silent --quiet --verbose --frozen-lockfile --immutable --frozen --locked --offline
    --prefer-offline --no-interaction --all-extras --no-dev --dev
cargo build, cargo b, cargo check, cargo c, cargo test, cargo t, cargo bench, cargo clippy, cargo doc, cargo fmt | text
    &cargo
cargo run, cargo r | none
    &cargo
go build, go test, go vet, go list, go fmt | text single_dash
    &go
pytest | text
    -qvxslh -k: -m: -n: -r: --quiet --verbose --exitfirst --lf --ff --last-failed --failed-first --sw --stepwise --nf
    --maxfail: --tb: --durations: --durations-min: --no-header --no-summary --co --collect-only --cov? --cov-report:
    --no-cov --timeout: --color: --disable-warnings --cache-clear --showlocals --setup-show
dotnet build, dotnet test, swift build, swift test, mix test, mix format | text
    -c: -v: --no-restore --no-build --configuration: --verbosity: --filter: --nologo --trace --stale --failed
ruff check, ruff format, mypy, pyright, basedpyright, flake8, black, isort, eslint, prettier | text
    &checker
tsc | text
    -b --build --pretty --noEmit --incremental --strict --listFiles --watch?
gh pr *, gh issue *, gh run *, gh release list, gh release view, gh repo view, gh label list, glab mr *, glab issue *,
glab ci * | text
    &forge
aws * ls, aws * list-*, aws * describe-*, gcloud * list, gcloud * describe, gcloud * * list, gcloud * * describe,
gcloud * * * list, az * list, az * show, az * * list, az * * show, az * * * list | text
    &cloud
kubectl get *, kubectl describe *, kubectl logs, kubectl top *, kubectl explain *, kubectl rollout status,
kubectl rollout history, helm list, helm ls, helm status, helm history | text
    -n: -A -o: -l: -c: -p --namespace: --all-namespaces --output: --selector: --container: --previous --tail: --since:
    --timestamps --show-labels --no-headers --sort-by:
docker compose ps, docker compose logs, docker compose ls, docker compose images | text
    -aqt -n: --all --quiet --services --status: --format: --tail: --since: --until: --timestamps --no-color
    --no-log-prefix
docker compose up, docker compose start, docker compose stop, docker compose build | text
    -d --detach --build --no-build --quiet-pull --wait --no-cache --no-color --no-log-prefix --timeout: -t:
terraform plan, terraform validate | none single_dash
    -no-color -compact-warnings -json -input: -lock: -refresh: -target:
git add | text
    -AuvnN --all --update --verbose --dry-run --intent-to-add
git commit | text
    -aqsv -m: --all --message: --quiet --signoff --verbose --author: --date: --allow-empty --fixup: --dry-run
git fetch | text
    -apqvt --all --prune --tags --no-tags --quiet --verbose --depth: --unshallow --dry-run --progress --prune-tags
git pull | text
    -qvr --rebase? --no-rebase --ff-only --quiet --verbose --prune --tags --autostash
git switch | text
    -qtd -c: --create: --track --detach --quiet
git merge | text
    -q -m: --no-ff --ff-only --squash --no-commit --quiet --message:
git ls-remote | text
    -qht --quiet --heads --tags --refs
"""


Arguments: TypeAlias = Literal[
    "read", "text", "none", "pattern", "write", "delete", "copy", "url", "run", "command"
]
"""What stands after the options: files it reads, plain text, nothing at all, a pattern and then files, files it
writes or deletes, files and where they go, addresses, a file it runs, or a whole command."""


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """One program, or one of its subcommands.

    `base` is what it does at least. `at_most` positional arguments are fine. `harmless` when no option whatever makes
    it more than a reader: words nobody knows may then stand anywhere. `lenient` when an unlisted option cannot make it
    worse than `base`. `check` names a closer look. In `does`, `{}` stands for what it is done to. `before` counts the
    arguments in front of the ones that matter. With `single_dash`, `-text` is one long option.
    """

    options: str = ""
    arguments: Arguments = "read"
    base: CommandClass = "read_only"
    does: str = ""
    at_most: int = 10_000
    harmless: bool = False
    lenient: bool = False
    check: str = ""
    before: int = 0
    single_dash: bool = False


@functools.cache
def programs() -> Mapping[str, Program]:
    """Programs of the system and tools of developers."""
    return {**_read_table(SYSTEM_TABLE), **_read_table(DEVELOPER_TABLE)}


@functools.cache
def wrappers() -> Mapping[str, Program]:
    """Programs that run the command they are given: what matters is that command."""
    return _read_table(WRAPPER_TABLE)


@functools.cache
def git_subcommands() -> Mapping[str, Program]:
    return _read_table(GIT_TABLE)


@functools.cache
def grant_table() -> Mapping[str, Program]:
    """What a yes to a program covers, by the name that is kept."""
    return _read_table(GRANT_TABLE)


@functools.cache
def have_subcommands() -> frozenset[str]:
    """Programs of which single subcommands are known."""
    return frozenset(name.partition(" ")[0] for name in programs() if " " in name)


def _read_table(text: str) -> dict[str, Program]:
    entries: list[tuple[str, list[str]]] = []
    shared: dict[str, list[str]] = {}
    head = ""
    for line in text.strip("\n").split("\n"):
        if line.startswith("    "):
            for token in line.split():
                entries[-1][1].extend(shared.get(token, [token]))
        elif line.startswith("&"):
            entries.append((line, shared.setdefault(line, [])))
        else:  # a long list of names goes on in the next line
            head = f"{head} {line}".strip()
            if " | " in line:
                entries.append((head, []))
                head = ""
    found: dict[str, Program] = {}
    for head, options in entries:
        if not head.startswith("&"):
            program = _read_entry(head, " ".join(options))
            found.update(dict.fromkeys(head.partition(" | ")[0].split(", "), program))
    return found


def _read_entry(line: str, options: str) -> Program:
    _, facts, *does = line.split(" | ")
    fields: dict[str, Any] = {"options": options, "does": does[0] if does else ""}
    for word in facts.split():
        name, equals, value = word.partition("=")
        if equals:
            fields[name] = int(value) if value.isdigit() else value
        elif word in get_args(CommandClass):
            fields["base"] = word
        elif word in get_args(Arguments):
            fields["arguments"] = word
        else:
            fields[word] = True
    return msgspec.convert(fields, Program)


SHELLS = names("sh bash dash zsh ksh mksh ash rbash fish")
INTERPRETERS = names(
    "python python2 python3 pypy pypy3 perl ruby node nodejs deno bun php lua luajit Rscript tclsh osascript"
)
POWERSHELLS = names("powershell powershell.exe pwsh pwsh.exe cmd cmd.exe")
CREDENTIAL_TOOLS = names("security secret-tool keyctl kwalletcli kwallet-query gpg-connect-agent")
FETCHERS = names("curl wget fetch aria2c http https xh lynx w3m links nc ncat")

BUILTINS = names(
    "echo printf true false : pwd cd pushd popd dirs wait test [ [[ read break continue exit return shift type jobs "
    "times ulimit umask export local set"
)
"""Part of the shell itself: no file of that name can stand in for them."""

HARMLESS_VARIABLES = names(
    "LC_ALL LC_CTYPE LC_COLLATE LC_NUMERIC LC_TIME LC_MESSAGES LANG LANGUAGE TZ NO_COLOR CLICOLOR "
    "CLICOLOR_FORCE FORCE_COLOR CI COLUMNS LINES TERM COLORTERM GIT_OPTIONAL_LOCKS GIT_TERMINAL_PROMPT "
    "GREP_COLOR GREP_COLORS BLOCKSIZE HOMEBREW_NO_AUTO_UPDATE NPM_CONFIG_COLOR "
    "PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED RUST_BACKTRACE"
)
HARMLESS_VALUES = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "BAT_PAGER": "cat",
}
"""Variables that change how things look, not what runs."""

NO_KEY = names(
    "rm rmdir unlink shred dd sudo doas su env xargs eval exec ssh find sed awk gawk mawk tee chmod chown "
    "cp mv ln curl wget nc ncat socat kill pkill crontab docker make source . watch parallel time nohup "
    "nice timeout command builtin npx pnpx bunx uvx pipx systemd-run scp rsync install tar fd patch"
)
"""Programs for which a yes to more than one command would be a blank cheque, but for subcommands in `table_grants`."""

KEYED_BY_SUBCOMMAND = names(
    "git npm pnpm yarn cargo go docker kubectl gh pip pip3 uv poetry brew apt systemctl terraform bundle "
    "rake gradle mvn dotnet composer helm hg svn just task nx turbo lerna pre-commit tox nox hatch pdm "
    "rye bun deno rustup mix flutter dart swift bazel conda mamba ip"
)
