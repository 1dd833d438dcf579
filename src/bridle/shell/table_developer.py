"""Tools of developers: package managers, compilers, containers. `programs` says how to read this."""

from __future__ import annotations

DEVELOPER_TABLE = r"""
&packages
    -agpl -g --all --json --long --depth: --global --parseable --prod --production --dev --only: --omit:
    --workspaces --link
&containers
    -afqnsl -a -q -n: -f: --all --quiet --filter: --format: --no-trunc --last: --latest --size --digests --tail:
    --since: --until: --timestamps -t --details --type:
npm ls, npm list, npm la, npm ll | text | lists packages
    &packages
npm root, npm prefix, npm bin, npm explain, npm why, npm pkg get, npm query | text | shows packages
    -g --json
npm config get, npm config list, npm config ls | text | shows settings
    -l --json --long
npm view, npm info, npm show, npm outdated, npm search, npm audit, npm ping, npm whoami, pnpm outdated,
pnpm view, pnpm audit, pip index, pip search, pip3 index, pip3 search, cargo search, cargo info, brew info,
brew search, brew outdated | text network lenient | asks the package registry
npm test, npm t, npm tst, npm run, npm run-script, npm start, npm stop, npm restart, pnpm test, pnpm t,
pnpm run, pnpm start, yarn test, yarn run, yarn start, yarn build,
turbo | text executes lenient | runs a script from package.json
npm install, npm i, npm add, npm ci, npm update, npm up, npm uninstall, npm remove, npm rm, npm un,
npm rebuild, npm link, npm dedupe, pnpm install, pnpm i, pnpm add, pnpm update, pnpm up, pnpm remove,
pnpm rm, yarn install, yarn add, yarn remove, yarn up,
yarn upgrade | text executes lenient | installs packages and may run their scripts
npm exec, npm x, npm init, npm create, pnpm dlx, pnpm exec, pnpm create, yarn dlx, yarn exec, yarn create,
npx, pnpx, bunx, uvx, pipx | text executes lenient | runs a package
npm publish, npm unpublish, npm deprecate, npm dist-tag,
npm login | text executes lenient | changes the package registry
npm help | text executes | opens a help page
go help, gem environment, gem env, gem which | text
pnpm ls, pnpm list, pnpm la, pnpm ll, pnpm why | text executes lenient | lists packages; the project may bring code
npm | read executes | runs npm
    --silent -s --prefix: --no-color
pnpm | read executes | runs pnpm
    -s --silent -r --recursive -C< --dir< --filter: -F:
yarn, bun, deno, nx, lerna, uv, poetry, cargo build, cargo b, cargo check, cargo c, cargo test, cargo t,
cargo run, cargo r, cargo bench, cargo clippy, cargo doc, cargo rustc, cargo fix, go, go build, go test,
go run, go generate, go install, go vet, go get, go tool, go work, bundle, rake, dotnet, mvn, gradle, ant,
sbt, mix, flutter, swift, ctest, pytest, tox, nox, jest, vitest, mocha, pre-commit,
java | text executes lenient | runs code from the workspace
corepack | text executes lenient | installs a package manager
pip list, pip show, pip freeze, pip check, pip inspect, pip debug, pip3 list, pip3 show, pip3 freeze,
pip3 check, pip3 inspect, pip3 debug | text | lists packages
    -qvlu -q -v --format: --local --user --not-required --exclude: --disable-pip-version-check --no-input --all
    --no-color --files --verbose --quiet --path< --editable -e
pip install, pip uninstall, pip download, pip wheel, pip3 install, pip3 uninstall, pip3 download,
pip3 wheel, uv sync, uv add, uv remove, uv lock, uv pip install, poetry install, poetry add, poetry remove,
poetry update, poetry lock, cargo install, cargo publish, cargo add, cargo update, cargo fetch,
gem | text executes lenient | installs packages
pip, pip3 | read executes
    -qv --disable-pip-version-check --no-color
uv pip list, uv pip show, uv pip freeze, uv pip tree,
uv pip check | text executes lenient | runs the interpreter of .venv
uv tree | text executes lenient | resolves packages
uv version | text executes lenient | shows the version
poetry show | text executes lenient | lists packages; project plugins may run
conda list, conda info | text | lists packages
    -n: -e --json --envs --export --name:
conda | text executes lenient | runs conda
cargo | read executes | runs code from the workspace
    -qv --quiet --verbose --offline --locked --frozen --color:
cargo metadata, cargo tree | text executes lenient | may run the compiler this project names
cargo fmt, terraform fmt, black, isort | text executes lenient | formats the code
cargo help, cargo version, cargo locate-project, cargo read-manifest | text | shows the project
    --manifest-path< --workspace --message-format:
rustup show, rustup toolchain list, rustup target list, rustup component list | text | lists toolchains
    --installed -v --toolchain:
rustup | text executes lenient | changes toolchains
go version | text | shows the version
    -m -v
go env | text single_dash | shows settings
    -json -changed -w^ -u^
go list, go doc, go mod graph, go mod why, go mod verify | text network lenient single_dash | may fetch modules
    -toolexec!: -exec!: -vettool!: -overlay< -modfile<
go mod tidy | text executes lenient | changes go.mod
gofmt | read single_dash
    -d -e -l -s -w^ -r: -cpuprofile>
docker | read executes | runs containers
    -D -l: --log-level:
docker ps, docker images, docker version, docker info, docker port, docker diff, docker container ls,
docker container list, docker image ls, docker image list, docker network ls, docker network inspect,
docker volume ls, docker volume inspect, docker context ls, docker context show, docker system df,
docker compose version, podman ps, podman images, podman version, podman info | text | looks at containers
    &containers
docker inspect, docker container inspect, docker image inspect, docker logs, docker container logs, docker top,
docker container top, docker history, docker image history, docker context inspect, podman inspect,
podman logs | text executes lenient | shows what containers were given and said
docker search | text network lenient | asks the registry
docker stats | text | looks at containers
    -a --no-stream --no-trunc --format:
docker exec, docker run, docker build, docker start, docker restart, docker cp, docker create,
docker compose, docker compose up, docker compose run, docker compose exec, docker compose build,
docker buildx | text executes lenient | runs a container
docker pull, docker push, docker login | text network lenient | talks to the registry
docker rm, docker rmi, docker kill, docker system prune, docker container prune, docker container rm,
docker image prune, docker image rm, docker volume rm, docker volume prune, docker network rm,
docker network prune, docker compose down,
docker builder prune | text destructive lenient | removes containers, images or data
docker stop | text executes lenient | stops a container
podman, docker-compose, nerdctl | text executes lenient | runs containers
kubectl | read executes | changes the cluster
    -n: --namespace: --context: --kubeconfig<
kubectl get, kubectl describe, kubectl logs, kubectl version, kubectl top, kubectl explain,
kubectl api-resources, kubectl api-versions, kubectl cluster-info, kubectl config, kubectl auth,
kubectl diff, kubectl events, helm list, helm ls, helm status, helm get, helm history, helm show,
helm search | text network lenient | asks the cluster
kubectl delete | text destructive lenient | deletes from the cluster
kubectl drain | text destructive lenient | empties a node
helm | text executes lenient | changes the cluster
gh, glab | text network lenient | talks to the forge
gh extension, gh alias | text executes lenient | changes gh itself
aws, gcloud, az | text network lenient | talks to the cloud
terraform | text executes lenient | runs terraform
terraform destroy | text destructive lenient | destroys infrastructure
terraform version | text | shows the version
    -json
apt, apt-get, brew, snap | text executes lenient | changes installed packages
apt list, apt show, apt search, apt policy, apt depends, apt rdepends | text | lists packages
    -a --installed --upgradable --all-versions
apt-cache policy, apt-cache show, apt-cache search, apt-cache depends, apt-cache rdepends,
apt-cache pkgnames, apt-cache stats, apt-cache madison, apt-cache showpkg | text | lists packages
    -n --names-only --installed -a
apt-cache | text executes lenient | asks the package lists
dpkg | text check=needs_option | lists packages
    -lLsSpW --list --listfiles --status --search --print-architecture --get-selections --version
dpkg-query | text | lists packages
    -lLsSpW -f: --list --listfiles --status --search --show
rpm | text check=rpm | lists packages
    -q -qa -ailcdR --query --all --info --list
brew list, brew ls, brew leaves, brew deps, brew uses, brew config, brew --prefix | text | lists packages
    --versions --formula --cask -1 --installed --tree
snap list | text
    --all
gem list | text | lists packages
    -l --local
composer show | text executes lenient | lists packages; plugins may run
composer | text executes lenient | runs composer
make, gmake | text executes lenient | runs a recipe from the Makefile
just | text executes lenient | runs a recipe from the justfile
task | text executes lenient | runs a task from the Taskfile
ninja, cmake, meson, bazel | text executes lenient | runs the build
tsc | text executes lenient | compiles the project
eslint | text executes lenient | runs the linter with the project's plugins
prettier | text executes lenient | runs the formatter with the project's plugins
ruff, mypy, pyright, basedpyright, flake8, pylint | text executes lenient | checks the code
gcc, g++, cc, clang, clang++, rustc, javac, kotlinc | text executes lenient | compiles
gdb | text executes lenient | runs a debugger
sqlite3, psql, mysql, redis-cli, mongosh, pg_dump | text executes lenient | uses a database
openssl | text executes lenient | runs openssl
openssl version | none | shows the version
    -abdeopvr
openssl x509 | none single_dash | shows a certificate
    -text -noout -in< -inform: -subject -issuer -dates -startdate -enddate -fingerprint -serial -sha256 -sha1
    -pubkey -ext: -purpose -nameopt: -checkend: -modulus -hash
gpg, ssh-add | text executes lenient | uses your keys
ssh-keygen | none check=ssh_keygen
    -lv -E: -f<
pass, op | text executes lenient | reads your passwords
code | text executes lenient | opens an editor
open, xdg-open | text executes lenient | opens a program
tmux | text executes lenient | runs tmux
screen | text executes lenient | runs screen
at, systemd-run | text executes lenient | runs something later
hg | text executes lenient | runs hg
svn | text executes lenient | runs svn
source, . | run executes | runs {}
docker compose ps, docker compose ls, docker compose images,
docker compose logs | text network lenient | looks at containers
"""
