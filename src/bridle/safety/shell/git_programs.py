"""Git's subcommands as data: which of them only look, with which options, and what the others do.

Looking is only looking in a repository whose own settings run nothing (`git_config`). Pagers, external diffs,
converters, files written by options and everything that may start a program are left out, and so not proven.
"""

from __future__ import annotations

from bridle.safety.shell.programs import Program

GLOBAL_OPTIONS = (
    "-C< -P --no-pager --no-optional-locks --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs "
    "--no-replace-objects --no-advice -c!: --exec-path!? --git-dir!: --work-tree!: --namespace!: --bare! -p! --paginate! "
    "--config-env!: --super-prefix!:"
)

_DIFF = (
    "-abpuszwRDMCB? -U: -S: -G: -M? -C? -B? -l: -X? -W -# --patch --no-patch --unified: --raw --patch-with-raw --indent-heuristic "
    "--no-indent-heuristic --minimal --patience --histogram --anchored: --diff-algorithm: --stat? --stat-width: "
    "--stat-count: --compact-summary --numstat --shortstat --dirstat? --cumulative --summary --patch-with-stat "
    "--name-only --name-status --submodule? --color? --no-color --color-moved? --no-color-moved --color-moved-ws: "
    "--word-diff? --word-diff-regex: --color-words? --no-renames --rename-empty --check --full-index --binary "
    "--abbrev? --break-rewrites? --find-renames? --find-copies? --find-copies-harder --irreversible-delete "
    "--diff-filter: --find-object: --pickaxe-all --pickaxe-regex --relative? --no-relative --text "
    "--ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines "
    "--ignore-matching-lines: -I: --inter-hunk-context: --function-context --exit-code --quiet -q --no-ext-diff --no-textconv "
    "--ignore-submodules? --src-prefix: --dst-prefix: --no-prefix --default-prefix --line-prefix: --ita-invisible-in-index "
    "--merge-base --cached --staged --no-index --ext-diff! --textconv! --output> -O! -o!"
).replace("-abpuszwRDMCB? ", "-abpuszwRD ")
_COMMITS = (
    "-n: -i -E -F -P -g -m -c -t -r -L: --max-count: --skip: --since: --after: --until: --before: --since-as-filter: --author: "
    "--committer: --grep: --grep-reflog: --all-match --invert-grep --regexp-ignore-case --basic-regexp --extended-regexp "
    "--fixed-strings --perl-regexp --merges --no-merges --min-parents: --max-parents: --first-parent --not --all "
    "--branches? --tags? --remotes? --glob: --exclude: --exclude-hidden: --reflog --walk-reflogs --merge --boundary "
    "--cherry-mark --cherry-pick --cherry --left-only --right-only --left-right --simplify-by-decoration --full-history "
    "--dense --sparse --simplify-merges --ancestry-path? --date-order --author-date-order --topo-order --reverse "
    "--no-walk? --do-walk --pretty? --format: --abbrev-commit --no-abbrev-commit --oneline --encoding: --expand-tabs? "
    "--no-expand-tabs --notes? --no-notes --relative-date --date: --parents --children --graph --show-linear-break? "
    "--decorate? --no-decorate --decorate-refs: --decorate-refs-exclude: --source --use-mailmap --mailmap --no-mailmap "
    "--log-size --follow --full-diff --count --stdin --show-pulls --remove-empty --diff-merges: --cc --combined-all-paths "
    "--no-diff-merges --dd --remerge-diff"
)
_LOG = f"{_DIFF} {_COMMITS}"
_REFS = "--sort: --format: --contains: --no-contains: --merged: --no-merged: --points-at: --column? --no-column --color? --no-color -i --ignore-case"
_STATUS = (
    "-sbvuz -u? -M? -vv --short --branch --show-stash --porcelain? --long --verbose --untracked-files? --ignore-submodules? "
    "--ignored? --column? --no-column --ahead-behind --no-ahead-behind --renames --no-renames --find-renames?"
)
_CHANGES = "changes the repository"


def _looks(options: str, does: str = "reads the repository", check: str = "") -> Program:
    return Program(options=options, check=check or "git_paths", does=does)


def _changes(does: str = _CHANGES, *, runs: bool = False) -> Program:
    return Program(
        base="executes" if runs else "writes", arguments="text", lenient=True, does=does, check="git_changes"
    )


def _connects(does: str) -> Program:
    return Program(base="network", arguments="text", lenient=True, does=does, check="git_changes")


# fmt: off
GIT: dict[str, Program] = {
    "status": _looks(_STATUS, "shows what changed"), "log": _looks(_LOG, "shows the history"), "show": _looks(_LOG, "shows a commit"),
    "diff": _looks(_DIFF, "shows what changed"), "whatchanged": _looks(_LOG, "shows the history"), "shortlog": _looks(f"-nsecw? --numbered --summary --email --group: {_COMMITS}", "shows the history"),
    "diff-tree": _looks(_LOG), "diff-index": _looks(_DIFF), "diff-files": _looks(_DIFF), "range-diff": _looks(_DIFF), "rev-list": _looks(f"--objects --disk-usage? --header --timestamp --use-bitmap-index {_LOG}"),
    "rev-parse": _looks("-q --abbrev-ref? --short? --show-toplevel --show-prefix --show-cdup --git-dir --git-common-dir --absolute-git-dir --is-inside-work-tree --is-inside-git-dir "
                        "--is-bare-repository --is-shallow-repository --verify --quiet --symbolic --symbolic-full-name --all --branches? --tags? --remotes? --sq --not --default: --git-path: --show-superproject-working-tree --path-format: "
                        "--show-object-format? --revs-only --no-revs --flags --no-flags --local-env-vars --shared-index-path --since: --until: --end-of-options"),
    "describe": _looks("--all --tags --contains --abbrev: --candidates: --exact-match --debug --long --match: --exclude: --always --first-parent --dirty? --broken?"),
    "blame": _looks("-bcelnpstwfMC? -L: -S: -C? -M? -h --root --show-stats --porcelain --line-porcelain --incremental --encoding: --contents< --date: --score-debug --show-name --show-number --show-email --abbrev: "
                    "--since: --reverse --first-parent --ignore-rev: --ignore-revs-file< --color-lines --color-by-age --progress --no-progress".replace("-bcelnpstwfMC? ", "-bcelnpstwf "), "shows who wrote what"),
    "annotate": _looks("-bcelnpstwf -L:"),
    "ls-files": _looks("-cdmosikztuvfr -x: -X< --cached --deleted --modified --others --stage --ignored --killed --unmerged --exclude: --exclude-from< --exclude-per-directory: --exclude-standard --error-unmatch "
                       "--full-name --recurse-submodules --abbrev? --debug --eol --deduplicate --sparse --format: --directory --no-empty-directory --resolve-undo", "lists files"),
    "ls-tree": _looks("-drtlz --name-only --name-status --long --full-name --full-tree --abbrev? --object-only --format:", "lists files"),
    "cat-file": _looks("-epts --batch? --batch-check? --batch-all-objects --batch-command? --unordered --follow-symlinks --buffer --allow-unknown-type -Z --filters! --textconv!"),
    "reflog": _looks(_LOG, "shows the history", "git_reflog"), "name-rev": _looks("--tags --refs: --exclude: --all --name-only --no-undefined --always --annotate-stdin --stdin"),
    "merge-base": _looks("-a --all --octopus --independent --is-ancestor --fork-point"), "cherry": _looks("-v --abbrev?"), "show-ref": _looks("-dqs --head --heads --tags --branches --dereference --hash? --verify --quiet --abbrev? --exists"),
    "for-each-ref": _looks(f"{_REFS} --count: --shell --perl --python --tcl --exclude: --omit-empty --stdin --include-root-refs"), "show-branch": _looks("-arg --all --remotes --current --topo-order --date-order --sparse --more? --list --merge-base --independent --no-name --sha1-name --topics --color? --reflog?"),
    "check-ignore": _looks("-qvzn --quiet --verbose --non-matching --no-index --stdin"), "check-attr": _looks("-az --all --cached --stdin --source:"), "check-ref-format": _looks("--branch --normalize --allow-onelevel --refspec-pattern"),
    "count-objects": _looks("-vH --verbose --human-readable"), "var": _looks("-l"), "version": _looks("--build-options"), "grep": _looks(
        "-aIivwEFGPnlLcohHzqWpr -e: -f< -m: -A: -B: -C: -# --cached --untracked --no-index --recurse-submodules --text --ignore-case --max-depth: --word-regexp --invert-match --full-name --extended-regexp --basic-regexp --perl-regexp "
        "--fixed-strings --line-number --column --files-with-matches --name-only --files-without-match --null --only-matching --count --color? --no-color --break --heading --show-function --context: --after-context: --before-context: "
        "--function-context --threads: --and --or --not --all-match --quiet --exclude-standard --no-exclude-standard --recursive --no-recursive --max-count: --textconv! --no-textconv -O! --open-files-in-pager!?", "searches the repository"),
    "branch": Program(options=f"-alrvq -vv --all --list --remotes --verbose --show-current --abbrev? --no-abbrev --quiet {_REFS} -d^ -m^ -c^ -f^ -u^: -t^? --delete^ --move^ --copy^ --force^ --edit-description! --set-upstream-to^: --unset-upstream^ --track^? --no-track^ --create-reflog^ -D% -M% -C%",
                      arguments="text", check="git_listing", does="lists branches"),
    "tag": Program(options=f"-l -n? --list --cleanup: {_REFS} -d% --delete% -a^ -s! -u!: -f^ -m^: -F^: -v! --verify! --annotate^ --sign! --force^ --message^: --file^:", arguments="text", check="git_listing", does="lists tags"),
    "remote": Program(options="-v --verbose", arguments="text", check="git_remote", does="lists remotes"), "stash": Program(arguments="text", check="git_stash", base="writes", lenient=True, does="sets changes aside"),
    "worktree": Program(arguments="text", check="git_worktree"), "config": Program(options="-lz -f< --list --get --get-all --get-regexp --get-urlmatch --local --global --system --worktree --file< --blob: --type: --bool --int --bool-or-int --path --expiry-date "
                      "--null --name-only --show-origin --show-scope --includes --no-includes --default: --get-color: --get-colorbool: --all --regexp --value: --fixed-value -e! --edit!", arguments="text", check="git_config", does="shows settings"),
    "symbolic-ref": Program(options="-q --quiet --short --no-recurse", arguments="text", check="one_argument"), "hash-object": Program(options="-t: --stdin --stdin-paths --no-filters --literally", check="git_paths"), "help": Program(options="-ag --all --guides", arguments="none", does="shows help"),
    "verify-pack": _looks("-vs"), "fsck": Program(base="executes", does="checks the repository"), "notes": Program(base="executes", does=_CHANGES),

    "add": _changes("stages changes"), "rm": Program(base="destructive", arguments="delete", lenient=True, does="deletes {}", check="git_changes"), "mv": _changes("moves files"), "commit": _changes("makes a commit", runs=True),
    "checkout": _changes("changes the files here", runs=True), "switch": _changes("changes the files here", runs=True), "restore": Program(base="destructive", arguments="text", lenient=True, does="discards changes", check="git_changes"),
    "reset": _changes(), "clean": Program(base="destructive", arguments="text", lenient=True, does="deletes files git does not know", check="git_changes"), "merge": _changes(runs=True), "rebase": _changes("rewrites history", runs=True), "cherry-pick": _changes(runs=True), "revert": _changes(runs=True),
    "apply": _changes("changes files"), "am": _changes(runs=True), "init": _changes("makes a repository"), "gc": _changes(runs=True), "prune": Program(base="destructive", arguments="text", lenient=True, does="deletes old objects", check="git_changes"), "update-ref": _changes(), "update-index": _changes(),
    "sparse-checkout": _changes(), "submodule": _changes("changes the submodules", runs=True), "bisect": _changes(runs=True), "filter-branch": Program(base="destructive", arguments="text", lenient=True, does="rewrites history", check="git_changes"), "replace": _changes(), "difftool": _changes("runs a program", runs=True), "mergetool": _changes("runs a program", runs=True),
    "fetch": _connects("fetches from a remote"), "pull": Program(base="executes", arguments="text", lenient=True, does="fetches from a remote and changes the files here", check="git_changes"), "push": _connects("pushes to a remote"), "clone": _connects("fetches a repository"), "ls-remote": _connects("asks a remote"),
    "archive": _changes("writes an archive", runs=True), "bundle": _changes("writes an archive"), "format-patch": _changes("writes patches"), "maintenance": _changes(runs=True), "daemon": _changes("offers the repository to others", runs=True), "send-email": _changes("sends mail", runs=True),
}
# fmt: on

DESTRUCTIVE_OPTIONS = {
    "reset": ("--hard", "--merge", "--keep"),
    "checkout": ("-f", "--force", "--", "-B", "--ours", "--theirs", "."),
    "switch": ("-f", "--force", "--discard-changes", "-C"),
    "push": ("-f", "--force", "--force-with-lease", "--mirror", "--delete", "-d", "--prune"),
    "stash": ("drop", "clear"),
    "reflog": ("expire", "delete"),
    "update-ref": ("-d", "--delete"),
    "worktree": ("remove",),
    "gc": ("--prune=now",),
    "commit": (),
}
"""What makes a subcommand lose work; `push` also with `+branch`."""
