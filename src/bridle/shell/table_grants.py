"""What one yes to a program covers later: how much of its name is kept, and which options are known to be harmless.

Read like the tables of `programs`. The name is the key of the grant; `*` and `list-*` stand for one word each that is
kept too. Listed are options that run nothing, read and write nothing elsewhere, and change no account, machine or
server: another one asks again, and so does a program that is not here. With `none` no argument may follow: it would
name another package or another target. A `--` is passed over, so what stands behind it has to be listed as well.
"""

from __future__ import annotations

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
