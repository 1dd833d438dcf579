"""Every option that takes a file, of every program whose reading is quiet: reading is a use of that file, and no more.

One row an option, with what the manual says it does with the file: `reads` it (so one of the workspace is quiet, one
outside or one that holds secrets asks), `writes` or `runs` it (never quiet), or goes `anywhere` its content leads.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bridle.app.queries.explain import explain, standing
from tables import table

pytestmark = [
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
    pytest.mark.requirement("P9"),
]

GIT = [  # subcommand, option, what becomes of the file, the words behind it
    ("blame", "-S {}", "reads", "src/a.py"),
    ("blame", "-S{}", "reads", "src/a.py"),
    ("blame", "--contents {}", "reads", "src/a.py"),
    ("blame", "--contents={}", "reads", "src/a.py"),
    ("blame", "--ignore-revs-file {}", "reads", "src/a.py"),
    ("blame", "--abbrev {}", "reads", ""),
    ("annotate", "-S {}", "runs", "src/a.py"),
    ("log", "-O{}", "reads", ""),
    ("log", "-L1,2:{}", "reads", ""),
    ("log", "-L :main:{}", "reads", ""),
    ("log", "--output={}", "writes", ""),
    ("log", "--output {}", "writes", ""),
    ("log", "--ext-diff {}", "runs", ""),
    ("log", "--textconv {}", "runs", ""),
    ("log", "--stdin {}", "runs", ""),
    ("log", "--format=%G? {}", "runs", ""),
    ("log", "--pretty='format:%GG' {}", "runs", ""),
    ("shortlog", "-O{}", "runs", "HEAD"),
    ("show", "-O{}", "reads", ""),
    ("show", "--output={}", "writes", ""),
    ("diff", "-O{}", "reads", ""),
    ("diff", "-O {}", "reads", ""),
    ("diff", "--no-index {}", "reads", "README.md"),
    ("diff", "--output={}", "writes", ""),
    ("diff", "--ext-diff {}", "runs", ""),
    ("diff-tree", "--stdin {}", "runs", ""),
    ("diff-tree", "-O{}", "reads", "HEAD"),
    ("diff-index", "--output={}", "writes", "HEAD"),
    ("range-diff", "--output={}", "writes", "a...b"),
    ("rev-list", "--stdin {}", "runs", ""),
    ("rev-parse", "--resolve-git-dir {}", "runs", ""),
    ("rev-parse", "--git-path {}", "names", ""),
    ("grep", "-f {}", "reads", ""),
    ("grep", "-f{}", "reads", ""),
    ("grep", "-Oless {}", "runs", ""),
    ("grep", "--open-files-in-pager=less {}", "runs", ""),
    ("grep", "--no-index x {}", "reads", ""),
    ("grep", "--textconv {}", "runs", ""),
    ("ls-files", "-X {}", "reads", ""),
    ("ls-files", "-X{}", "reads", ""),
    ("ls-files", "--exclude-from={}", "reads", ""),
    ("ls-files", "--exclude-per-directory={}", "reads", ""),
    ("ls-files", "--pathspec-from-file={}", "runs", ""),
    ("cat-file", "--filters {}", "runs", ""),
    ("cat-file", "--textconv {}", "runs", ""),
    ("cat-file", "--batch < {}", "anywhere", ""),
    ("cat-file", "--batch='%(objectname)' < {}", "anywhere", ""),
    ("cat-file", "--batch-command < {}", "anywhere", ""),
    ("cat-file", "--batch-check < {}", "reads", ""),
    ("hash-object", "{}", "reads", ""),
    ("hash-object", "--stdin < {}", "reads", ""),
    ("hash-object", "--stdin-paths < {}", "anywhere", ""),
    ("hash-object", "-w {}", "runs", ""),
    ("check-ignore", "--stdin < {}", "reads", ""),
    ("check-attr", "--stdin -a < {}", "reads", ""),
    ("for-each-ref", "--stdin < {}", "reads", ""),
    ("for-each-ref", "--format='%(signature)' {}", "runs", ""),
    ("name-rev", "--annotate-stdin < {}", "reads", ""),
    ("show-ref", "--exclude-existing < {}", "runs", ""),
    ("config", "-f {} --list", "reads", ""),
    ("config", "-f{} --list", "reads", ""),
    ("config", "--file={} --list", "reads", ""),
    ("config", "--file={} --list --includes", "anywhere", ""),
    ("config", "--file={} a.b c", "writes", ""),
    ("config", "-f {} --edit", "runs", ""),
    ("verify-pack", "{}", "reads", ""),
    ("status", "{}", "reads", ""),
    ("status", "--pathspec-from-file={}", "runs", ""),
    ("tag", "-F {} v1", "writes", ""),
    ("tag", "--file={} v1", "writes", ""),
    ("branch", "--edit-description {}", "runs", ""),
    ("stash show", "-O{}", "reads", ""),
    ("stash push", "--pathspec-from-file={}", "writes", ""),
    ("reflog", "--output={}", "writes", ""),
    ("add", "--pathspec-from-file={}", "writes", ""),
    ("commit", "-F {}", "writes", ""),
    ("commit", "--template={}", "writes", ""),
    ("archive", "--add-file={} HEAD", "runs", ""),
    ("archive", "-o {} HEAD", "runs", ""),
    ("apply", "{}", "writes", ""),
    ("bundle create", "{} HEAD", "writes", ""),
    ("format-patch", "-o {} HEAD", "writes", ""),
]
OTHERS = [
    ("grep", "-f {} README.md", "reads"),
    ("grep", "--file={} README.md", "reads"),
    ("grep", "--exclude-from={} -r x src", "reads"),
    ("rg", "-f {} src", "reads"),
    ("rg", "--ignore-file {} x src", "reads"),
    ("rg", "--pre {} x src", "runs"),
    ("rg", "--hostname-bin {} x src", "runs"),
    ("rg", "-z x {}", "runs"),
    ("sort", "--files0-from={}", "anywhere"),
    ("sort", "-o {} README.md", "writes"),
    ("sort", "-T {} README.md", "writes"),
    ("sort", "--compress-program={} README.md", "runs"),
    ("sort", "--random-source={} README.md", "reads"),
    ("shuf", "--random-source={} README.md", "reads"),
    ("shuf", "-o {} README.md", "writes"),
    ("wc", "--files0-from={}", "anywhere"),
    ("du", "--files0-from={}", "anywhere"),
    ("du", "-X {} src", "reads"),
    ("find", "-files0-from {}", "runs"),
    ("find", "src -newer {}", "reads"),
    ("find", "src -fprint {}", "writes"),
    ("find", "src -fls {}", "writes"),
    ("find", "src -fprintf {} x", "writes"),
    ("find", "src -exec {} ;", "runs"),
    ("tar", "-tf {}", "reads"),
    ("tar", "-tf a.tar -T {}", "reads"),
    ("tar", "-tf a.tar -X {}", "reads"),
    ("tar", "-xf {}", "writes"),
    ("tar", "-cf {} src", "writes"),
    ("tar", "-tf a.tar --to-command={}", "runs"),
    ("tar", "-tf a.tar -I {}", "runs"),
    ("sed", "-f {} README.md", "runs"),
    ("sed", "-n 'w {}' README.md", "runs"),
    ("sed", "'r {}' README.md", "runs"),
    ("sed", "-i s/a/b/ {}", "writes"),
    ("awk", "-f {} README.md", "runs"),
    ("awk", "'{{print > \"{}\"}}' README.md", "runs"),
    ("awk", "'{{getline x < \"{}\"}}' README.md", "runs"),
    ("jq", "-f {} package.json", "runs"),
    ("jq", "--slurpfile x {} . package.json", "reads"),
    ("jq", "--rawfile x {} . package.json", "reads"),
    ("jq", "-L {} . package.json", "reads"),
    ("diff", "--from-file={} README.md", "reads"),
    ("diff", "--to-file={} README.md", "reads"),
    ("diff", "-X {} src docs", "reads"),
    ("diff", "-S {} src docs", "names"),
    ("sdiff", "-o {} README.md docs/x.md", "writes"),
    ("xxd", "{}", "reads"),
    ("xxd", "README.md {}", "writes"),
    ("xxd", "-r {}", "reads"),
    ("file", "{}", "reads"),
    ("file", "-f {}", "anywhere"),
    ("file", "-m {} README.md", "reads"),
    ("file", "-C -m {}", "runs"),
    ("date", "-r {}", "reads"),
    ("date", "-f {}", "runs"),
    ("date", "-s {}", "runs"),
    ("head", "{}", "reads"),
    ("tail", "{}", "reads"),
    ("less", "{}", "reads"),
    ("less", "-o {} README.md", "runs"),
    ("less", "-k {} README.md", "runs"),
    ("tree", "--fromfile {}", "reads"),
    ("tree", "-o {} src", "writes"),
    ("column", "-t {}", "reads"),
    ("uniq", "README.md {}", "writes"),
    ("hexdump", "-f {} README.md", "reads"),
    ("stat", "{}", "reads"),
    ("md5sum", "-c {}", "reads"),
    ("sha256sum", "--check {}", "reads"),
    ("shasum", "-c {}", "reads"),
    ("cksum", "--check {}", "reads"),
    ("xargs", "-a {} cat", "anywhere"),
    ("nm", "@{}", "runs"),
    ("iconv", "-f utf-8 -t ascii {}", "reads"),
    ("iconv", "-o {} README.md", "writes"),
    ("man", "-C {} ls", "runs"),
    ("man", "{}", "reads"),
    ("bc", "{}", "reads"),
    ("bc", "-q {}", "reads"),
    ("lsof", "{}", "reads"),
    ("openssl x509", "-in {} -noout -text", "reads"),
    ("openssl x509", "-in {} -out x.pem", "runs"),
    ("cmp", "{} README.md", "reads"),
    ("comm", "{} README.md", "reads"),
    ("zipinfo", "{}", "reads"),
    ("unzip", "-l {}", "reads"),
    ("unzip", "-p {}", "reads"),
    ("unzip", "{}", "writes"),
    ("gzip", "-c {}", "reads"),
    ("gzip", "{}", "writes"),
    ("yq", "-i . {}", "writes"),
    ("yq", ". {}", "reads"),
    ("split", "{}", "writes"),
    ("csplit", "{} 1", "writes"),
    ("curl", "-K {}", "runs"),
    ("python3", "-c 'print(1)' {}", "runs"),
    ("node", "-e 1 {}", "runs"),
    ("perl", "-ne print {}", "runs"),
]  # fmt: skip
INSIDE = {"reads": "allow", "names": "allow"}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with nothing unusual in it, and a file outside."""
    folder = tmp_path_factory.mktemp("files") / "work"
    for name in ("src/a.py", "docs/x.md", "README.md", "package.json", "keep"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x\n")
    git(folder, "init", "-q")
    git(folder, "add", "src")
    git(folder, "commit", "-q", "-m", "x")
    (folder.parent / "outside").write_text("x\n")
    return folder


def git(folder: Path, *words: str) -> None:
    env = {"PATH": os.defpath, "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, *words], cwd=folder, env=env, check=True, capture_output=True)


async def verdict(workspace: Path, command: str) -> str:
    home = workspace.parent / "person"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "BRIDLE_HOME": str(home / "bridle")}
    here = standing(env, cwd=str(workspace), mode="default")
    return (await explain(here, "bash", {"command": command})).verdict


ROWS = [(f"git {sub}", f"{option} {rest}".strip(), does) for sub, option, does, rest in GIT] + OTHERS


@table(("program", "words", "does"), ROWS)
async def test_a_file_in_an_option_is_judged_as_the_manual_says(
    workspace: Path, program: str, words: str, does: str
) -> None:
    found = [
        await verdict(workspace, f"{program} {words.format(name)}") for name in ("keep", "../outside", ".env")
    ]
    assert found[0] == INSIDE.get(does, "ask")
    assert (found[1] == "allow", found[2] == "allow") == (does == "names", does == "names")


@table("name", ["a..b", "q:z"])
@table("command", ["git diff --no-index {}/outside README.md", "git grep --no-index x {}/outside"])
async def test_a_path_that_looks_like_a_range_of_commits_is_still_a_path(
    workspace: Path, name: str, command: str
) -> None:
    link = workspace / name
    link.symlink_to("..")
    try:
        assert await verdict(workspace, command.format(name)) == "ask"
    finally:
        link.unlink()
    assert await verdict(workspace, "git log main..HEAD --oneline -- src") == "allow"
    assert await verdict(workspace, "git show HEAD:README.md") == "allow"


@table(
    ("program", "bounded", "endless"),
    [
        ("yes", None, "yes"),
        ("yes", None, "/usr/bin/yes no"),
        ("yes", None, "echo x | xargs yes"),
        ("head", "head -c 32 /dev/urandom", "head -c 100G /dev/zero"),
        ("head", "head -c 1M /dev/zero", "head -c 2M /dev/zero"),
        ("head", "head --bytes=16 /dev/urandom", "head /dev/zero"),
        ("head", "head -c 100K README.md", "head -c 10G README.md"),
        ("head", "head -c -5 README.md", "head -c -5 /dev/zero"),
        ("cat", "cat < README.md", "cat /dev/zero"),
        ("cat", "cat /dev/null", "cat < /dev/zero"),
        ("cat", "cat /dev/stdin", "cat /dev/urandom"),
        ("cat", "cat -n README.md", "cat /dev/full"),
        ("cat", "ls > /dev/null", "cat /dev/tty"),
        ("cat", "cat < /dev/null", "cat /dev/zer?"),
        ("dd", "dd if=README.md", "dd if=/dev/zero"),
        ("od", "od -N 16 /dev/urandom", "od /dev/urandom"),
        ("xxd", "xxd -l 16 /dev/urandom", "xxd /dev/random"),
        ("hexdump", "hexdump -n 16 /dev/urandom", "hexdump -n 1000000000 /dev/zero"),
        ("seq", "seq 1 5", "seq 1000000000000"),
        ("seq", "seq 5 -1 1", "seq 1e12"),
        ("seq", "seq 0 0.5 10", "seq 1 0.0000001 9"),
        ("seq", "seq -w 1 100000", "seq 1 inf"),
        ("seq", "seq -f '%03g' 1 3", "seq -f '%1000000000g' 1"),
        ("seq", "seq 10 | head -3", "seq 1 0 2"),
        ("printf", "printf '%10s|%-5d' a 1", "printf '%1000000000d' 1"),
        ("printf", "printf '%.3f' 1", "printf '%.1000000000f' 1"),
        ("printf", "printf '%s' x", "printf '%*d' 1000000000 1"),
        ("tail", "tail -20 README.md", "tail -f README.md"),
        ("tail", "tail -n 5 README.md", "tail -F README.md"),
        ("tail", "tail --lines=5 README.md", "tail --follow=name README.md"),
        ("tail", "tail -c 10 README.md", "tail --retry README.md"),
        ("echo", "echo {1..10}", "echo {1..100000000}"),
        ("echo", "echo {a..z}{0..9}", "echo {1..10000}{1..10000}"),
        ("echo", "echo '{1..100000000}'", "for i in {1..100000000}; do echo x; done"),
        ("journalctl", "journalctl -n 5", "journalctl -f"),
        ("dmesg", "dmesg -T", "dmesg -w"),
        ("top", "top -b -n 1", "top -b"),
        ("watch", None, "watch ls"),
    ],
)
async def test_what_has_no_end_or_far_too_much_of_it_is_not_quiet(
    workspace: Path, program: str, bounded: str | None, endless: str
) -> None:
    assert await verdict(workspace, endless) == "ask"
    if bounded is not None:
        assert await verdict(workspace, bounded) == "allow"
