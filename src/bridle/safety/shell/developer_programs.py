"""Tools of developers, as data: package managers, compilers, containers. See `programs` for how to read it."""

from __future__ import annotations

from bridle.safety.shell.programs import Program

_PACKAGE_SCRIPT = "runs a script from package.json"
_WORKSPACE_CODE = "runs code from the workspace"


def _shows(options: str = "", does: str = "", base: str = "read_only") -> Program:
    return (
        Program(options=options, arguments="text", does=does)
        if base == "read_only"
        else Program(options=options, arguments="text", does=does, base="network", lenient=True)
    )


def _runs(does: str) -> Program:
    return Program(base="executes", arguments="text", lenient=True, does=does)


def _connects(does: str) -> Program:
    return Program(base="network", arguments="text", lenient=True, does=does)


def _each(program: str, names: str, entry: Program) -> dict[str, Program]:
    return {f"{program} {name.replace('+', ' ')}": entry for name in names.split()}


_NPM_LIST = "-agpl -g --all --json --long --depth: --global --parseable --prod --production --dev --only: --omit: --workspaces --link"
_DOCKER = "-afqnsl -a -q -n: -f: --all --quiet --filter: --format: --no-trunc --last: --latest --size --digests --tail: --since: --until: --timestamps -t --details --type:"
_PIP = "-qvlu -q -v --format: --local --user --not-required --exclude: --disable-pip-version-check --no-input --all --no-color --files --verbose --quiet --path< --editable -e"

# fmt: off
DEVELOPER_PROGRAMS: dict[str, Program] = {
    **_each("npm", "ls list la ll", _shows(_NPM_LIST, "lists packages")), **_each("npm", "root prefix bin explain why pkg+get query", _shows("-g --json", "shows packages")),
    **_each("npm", "config+get config+list config+ls", _shows("-l --json --long", "shows settings")), **_each("npm", "view info show outdated search audit ping whoami", _connects("asks the package registry")),
    **_each("npm", "test t tst run run-script start stop restart", _runs(_PACKAGE_SCRIPT)), **_each("npm", "install i add ci update up uninstall remove rm un rebuild link dedupe", _runs("installs packages and may run their scripts")),
    **_each("npm", "exec x init create", _runs("runs a package")), **_each("npm", "publish unpublish deprecate dist-tag login", _runs("changes the package registry")), "npm help": _shows(),
    **_each("pnpm", "ls list la ll why", _shows(_NPM_LIST + " -r --recursive", "lists packages")), **_each("pnpm", "test t run start", _runs(_PACKAGE_SCRIPT)), **_each("pnpm", "outdated view audit", _connects("asks the package registry")),
    **_each("pnpm", "install i add update up remove rm", _runs("installs packages and may run their scripts")), **_each("pnpm", "dlx exec create", _runs("runs a package")),
    **_each("yarn", "test run start build", _runs(_PACKAGE_SCRIPT)), **_each("yarn", "install add remove up upgrade", _runs("installs packages and may run their scripts")), **_each("yarn", "dlx exec create", _runs("runs a package")),
    "npm": Program(options="--silent -s --prefix: --no-color", base="executes", does="runs npm"), "pnpm": Program(options="-s --silent -r --recursive -C< --dir< --filter: -F:", base="executes", does="runs pnpm"), "yarn": _runs(_WORKSPACE_CODE),
    "npx": _runs("runs a package"), "pnpx": _runs("runs a package"), "bunx": _runs("runs a package"), "bun": _runs(_WORKSPACE_CODE), "deno": _runs(_WORKSPACE_CODE), "uvx": _runs("runs a package"), "pipx": _runs("runs a package"),
    "corepack": _runs("installs a package manager"), "turbo": _runs(_PACKAGE_SCRIPT), "nx": _runs(_WORKSPACE_CODE), "lerna": _runs(_WORKSPACE_CODE),

    **{f"{pip} {name}": _shows(_PIP, "lists packages") for pip in ("pip", "pip3") for name in ("list", "show", "freeze", "check", "inspect", "debug")},
    **{f"{pip} {name}": _runs("installs packages") for pip in ("pip", "pip3") for name in ("install", "uninstall", "download", "wheel")}, **{f"{pip} {name}": _connects("asks the package registry") for pip in ("pip", "pip3") for name in ("index", "search")},
    "pip": Program(options="-qv --disable-pip-version-check --no-color", base="executes"), "pip3": Program(options="-qv --disable-pip-version-check --no-color", base="executes"),
    "uv": _runs(_WORKSPACE_CODE), **_each("uv", "pip+list pip+show pip+freeze pip+tree pip+check", _runs("runs the interpreter of .venv")), **_each("uv", "tree", _runs("resolves packages")), **_each("uv", "sync add remove lock pip+install", _runs("installs packages")),
    "uv version": _runs("shows the version"), "poetry": _runs(_WORKSPACE_CODE), **_each("poetry", "install add remove update lock", _runs("installs packages")), "poetry show": _runs("lists packages; project plugins may run"),
    **_each("conda", "list info", _shows("-n: -e --json --envs --export --name:", "lists packages")), "conda": _runs("runs conda"),

    "cargo": Program(options="-qv --quiet --verbose --offline --locked --frozen --color:", base="executes", does=_WORKSPACE_CODE), **_each("cargo", "build b check c test t run r bench clippy doc rustc fix", _runs(_WORKSPACE_CODE)),
    **_each("cargo", "metadata tree", _runs("may run the compiler this project names")), **_each("cargo", "fmt", _runs("formats the code")), **_each("cargo", "search info", _connects("asks the package registry")),
    **_each("cargo", "install publish add update fetch", _runs("installs packages")), **_each("cargo", "help version locate-project read-manifest", _shows("--manifest-path< --workspace --message-format:", "shows the project")),
    **_each("rustup", "show toolchain+list target+list component+list", _shows("--installed -v --toolchain:", "lists toolchains")), "rustup": _runs("changes toolchains"),

    "go": _runs(_WORKSPACE_CODE), "go version": _shows("-m -v", "shows the version"), "go env": Program(options="-json -changed -w^ -u^", arguments="text", does="shows settings", single_dash=True), **_each("go", "list doc mod+graph mod+why mod+verify", _connects("may fetch modules")),
    **_each("go", "build test run generate install vet get tool work", _runs(_WORKSPACE_CODE)), "go mod tidy": _runs("changes go.mod"), "go help": _shows(), "gofmt": Program(options="-d -e -l -s -w^ -r: -cpuprofile>", single_dash=True),

    "docker": Program(options="-D -l: --log-level:", base="executes", does="runs containers"), **_each("docker", "ps images inspect logs version info port top diff history search", _shows(_DOCKER, "looks at containers")),
    **_each("docker", "container+ls container+list container+inspect container+logs container+top image+ls image+list image+inspect image+history network+ls network+inspect volume+ls volume+inspect context+ls context+show system+df "
                      "compose+ps compose+ls compose+images compose+version", _shows(_DOCKER, "looks at containers")), "docker search": _connects("asks the registry"), "docker stats": _shows("-a --no-stream --no-trunc --format:", "looks at containers"),
    **_each("docker", "exec run build start restart cp create compose compose+up compose+run compose+exec compose+build buildx", _runs("runs a container")), **_each("docker", "pull push login", _connects("talks to the registry")),
    **{f"docker {name.replace('+', ' ')}": Program(base="destructive", arguments="text", lenient=True, does="removes containers, images or data") for name in ["rm", "rmi", "kill", "system+prune", "container+prune", "container+rm", "image+prune", "image+rm", "volume+rm", "volume+prune", "network+rm", "network+prune", "compose+down", "builder+prune"]},
    "docker stop": _runs("stops a container"), "podman": _runs("runs containers"), **_each("podman", "ps images inspect logs version info", _shows(_DOCKER, "looks at containers")), "docker-compose": _runs("runs containers"), "nerdctl": _runs("runs containers"),

    "kubectl": Program(options="-n: --namespace: --context: --kubeconfig<", base="executes", does="changes the cluster"), **_each("kubectl", "get describe logs version top explain api-resources api-versions cluster-info config auth diff events", _connects("asks the cluster")),
    "kubectl delete": Program(base="destructive", arguments="text", lenient=True, does="deletes from the cluster"), "kubectl drain": Program(base="destructive", arguments="text", lenient=True, does="empties a node"), "helm": _runs("changes the cluster"), **_each("helm", "list ls status get history show search", _connects("asks the cluster")),
    "gh": _connects("talks to the forge"), **_each("gh", "extension alias", _runs("changes gh itself")), "glab": _connects("talks to the forge"), "aws": _connects("talks to the cloud"), "gcloud": _connects("talks to the cloud"), "az": _connects("talks to the cloud"),
    "terraform": _runs("runs terraform"), "terraform destroy": Program(base="destructive", arguments="text", lenient=True, does="destroys infrastructure"), "terraform version": _shows("-json", "shows the version"), "terraform fmt": _runs("formats the code"),

    "apt": _runs("changes installed packages"), "apt-get": _runs("changes installed packages"), **_each("apt", "list show search policy depends rdepends", _shows("-a --installed --upgradable --all-versions", "lists packages")), **_each("apt-cache", "policy show search depends rdepends pkgnames stats madison showpkg", _shows("-n --names-only --installed -a", "lists packages")),
    "apt-cache": _runs("asks the package lists"), "dpkg": Program(options="-lLsSpW --list --listfiles --status --search --print-architecture --get-selections --version", arguments="text", check="needs_option", does="lists packages"), "dpkg-query": Program(options="-lLsSpWf: --list --listfiles --status --search --show".replace("-lLsSpWf:", "-lLsSpW -f:"), arguments="text", does="lists packages"),
    "rpm": Program(options="-q -qa -ailcdR --query --all --info --list", arguments="text", check="rpm", does="lists packages"), **_each("brew", "list ls leaves deps uses config --prefix", _shows("--versions --formula --cask -1 --installed --tree", "lists packages")), **_each("brew", "info search outdated", _connects("asks the package registry")), "brew": _runs("changes installed packages"),
    **_each("snap", "list", _shows("--all")), "snap": _runs("changes installed packages"), **_each("gem", "list", _shows("-l --local", "lists packages")), **_each("gem", "environment env which", _shows()), "gem": _runs("installs packages"), **_each("composer", "show", _runs("lists packages; plugins may run")), "composer": _runs("runs composer"),
    "bundle": _runs(_WORKSPACE_CODE), "rake": _runs(_WORKSPACE_CODE), "dotnet": _runs(_WORKSPACE_CODE), "mvn": _runs(_WORKSPACE_CODE), "gradle": _runs(_WORKSPACE_CODE), "ant": _runs(_WORKSPACE_CODE), "sbt": _runs(_WORKSPACE_CODE), "mix": _runs(_WORKSPACE_CODE), "flutter": _runs(_WORKSPACE_CODE), "swift": _runs(_WORKSPACE_CODE),
    "make": _runs("runs a recipe from the Makefile"), "gmake": _runs("runs a recipe from the Makefile"), "just": _runs("runs a recipe from the justfile"), "task": _runs("runs a task from the Taskfile"), "ninja": _runs("runs the build"), "cmake": _runs("runs the build"), "ctest": _runs(_WORKSPACE_CODE), "meson": _runs("runs the build"), "bazel": _runs("runs the build"),
    "pytest": _runs(_WORKSPACE_CODE), "tox": _runs(_WORKSPACE_CODE), "nox": _runs(_WORKSPACE_CODE), "jest": _runs(_WORKSPACE_CODE), "vitest": _runs(_WORKSPACE_CODE), "mocha": _runs(_WORKSPACE_CODE), "tsc": _runs("compiles the project"), "eslint": _runs("runs the linter with the project's plugins"), "prettier": _runs("runs the formatter with the project's plugins"),
    "ruff": _runs("checks the code"), "mypy": _runs("checks the code"), "pyright": _runs("checks the code"), "basedpyright": _runs("checks the code"), "flake8": _runs("checks the code"), "pylint": _runs("checks the code"), "black": _runs("formats the code"), "isort": _runs("formats the code"), "pre-commit": _runs(_WORKSPACE_CODE),
    "gcc": _runs("compiles"), "g++": _runs("compiles"), "cc": _runs("compiles"), "clang": _runs("compiles"), "clang++": _runs("compiles"), "rustc": _runs("compiles"), "javac": _runs("compiles"), "java": _runs(_WORKSPACE_CODE), "kotlinc": _runs("compiles"), "gdb": _runs("runs a debugger"),
    "sqlite3": _runs("uses a database"), "psql": _runs("uses a database"), "mysql": _runs("uses a database"), "redis-cli": _runs("uses a database"), "mongosh": _runs("uses a database"), "pg_dump": _runs("uses a database"),
    "openssl": _runs("runs openssl"), "openssl version": Program(options="-abdeopvr", arguments="none", does="shows the version"), "openssl x509": Program(options="-text -noout -in< -inform: -subject -issuer -dates -startdate -enddate -fingerprint -serial -sha256 -sha1 -pubkey -ext: -purpose -nameopt: -checkend: -modulus -hash", arguments="none", single_dash=True, does="shows a certificate"),
    "gpg": _runs("uses your keys"), "ssh-add": _runs("uses your keys"), "ssh-keygen": Program(options="-lvE: -f<".replace("-lvE:", "-lv -E:"), arguments="none", check="ssh_keygen"), "pass": _runs("reads your passwords"), "op": _runs("reads your passwords"),
    "code": _runs("opens an editor"), "open": _runs("opens a program"), "xdg-open": _runs("opens a program"), "tmux": _runs("runs tmux"), "screen": _runs("runs screen"), "at": _runs("runs something later"), "systemd-run": _runs("runs something later"), "hg": _runs("runs hg"), "svn": _runs("runs svn"),
    "source": Program(base="executes", arguments="run", does="runs {}"), ".": Program(base="executes", arguments="run", does="runs {}"),
}
# fmt: on

_EVERY = frozenset({"--version", "--help"})
_TELL_VERSION = (
    "gcc g++ cc clang clang++ ld as rustc cargo rustup go javac kotlinc node nodejs npm npx pnpm deno bun python python2 python3 pypy3 "
    "pip pip3 pipx uv uvx conda ruby gem perl php lua luajit R Rscript ghc ocaml opam elixir swiftc zig nim make gmake cmake ctest ninja "
    "meson docker podman docker-compose kubectl helm terraform gh glab svn hg curl wget tar gzip zip unzip bash sh zsh fish "
    "ksh tmux vim nvim emacs code openssl gpg sqlite3 psql mysql redis-cli mongosh ruff mypy black isort pyright tsc eslint prettier "
    "fzf ffmpeg pandoc gdb lldb strace valgrind brew apt apt-get dpkg rpm snap flatpak rsync protoc buf sed awk gawk find aws gcloud az java"
)
_MORE_WORDS = {
    "-V": "python python2 python3 pip pip3 ssh cargo rustc uv ruff mypy deno sqlite3 psql mysql curl wget tmux openssl",
    "-v": "node nodejs npm pnpm ruby perl php docker make lua bun rustup gem tsc eslint",
    "-version": "java javac kotlinc ffmpeg",
    "version": "go docker podman kubectl helm terraform cargo buf gh zig openssl git",
    "help": "go docker kubectl cargo helm",
    "-h": "python python3 node npm pip pip3 cargo docker kubectl gh uv ruff make gcc",
}
"""Asking these for their version or their help runs nothing of the workspace. Not here: yarn, mvn, gradle, bundle, dotnet, sbt,
bazel, tox, pytest, flake8, pylint and poetry, which read a file of the workspace first that may name code to run."""


def tells_version(program: str, word: str) -> bool:
    """Whether `program word`, alone, only prints what the program is."""
    if word in _EVERY:
        return program in _TELL_VERSION.split()
    return program in _MORE_WORDS.get(word, "").split()
