"""Git's subcommands: which of them only look, with which options, and what the others do.

Looking is only looking in a repository whose own settings run nothing (`git_config`). Pagers, external diffs,
converters, files written by options and everything that may start a program are left out, and so not proven.
"""

from __future__ import annotations

GLOBAL_OPTIONS = (
    "-C< -P -vh --version --help --html-path --man-path --info-path --no-pager --no-optional-locks "
    "--literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs --no-replace-objects "
    "--no-advice -c!: --exec-path!? --git-dir!: --work-tree!: --namespace!: --bare! -p! --paginate! "
    "--config-env!: --super-prefix!: "
)

GIT_TABLE = r"""
&diff
    -abpuszwRD -U: -S: -G: -M? -C? -B? -l: -X? -W -# --patch --no-patch --unified: --raw --patch-with-raw
    --indent-heuristic --no-indent-heuristic --minimal --patience --histogram --anchored: --diff-algorithm:
    --stat? --stat-width: --stat-count: --compact-summary --numstat --shortstat --dirstat? --cumulative
    --summary --patch-with-stat --name-only --name-status --submodule? --color? --no-color --color-moved?
    --no-color-moved --color-moved-ws: --word-diff? --word-diff-regex: --color-words? --no-renames
    --rename-empty --check --full-index --binary --abbrev? --break-rewrites? --find-renames? --find-copies?
    --find-copies-harder --irreversible-delete --diff-filter: --find-object: --pickaxe-all --pickaxe-regex
    --relative? --no-relative --text --ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change
    --ignore-all-space --ignore-blank-lines --ignore-matching-lines: -I: --inter-hunk-context:
    --function-context --exit-code --quiet -q --no-ext-diff --no-textconv --ignore-submodules? --src-prefix:
    --dst-prefix: --no-prefix --default-prefix --line-prefix: --ita-invisible-in-index --merge-base --cached
    --staged --no-index --ext-diff! --textconv! --output> -O< -o!
&commits
    -n: -i -E -F -P -g -m -c -t -r -L: --max-count: --skip: --since: --after: --until: --before:
    --since-as-filter: --author: --committer: --grep: --grep-reflog: --all-match --invert-grep
    --regexp-ignore-case --basic-regexp --extended-regexp --fixed-strings --perl-regexp --merges --no-merges
    --min-parents: --max-parents: --first-parent --not --all --branches? --tags? --remotes? --glob: --exclude:
    --exclude-hidden: --reflog --walk-reflogs --merge --boundary --cherry-mark --cherry-pick --cherry
    --left-only --right-only --left-right --simplify-by-decoration --full-history --dense --sparse
    --simplify-merges --ancestry-path? --date-order --author-date-order --topo-order --reverse --no-walk?
    --do-walk --pretty? --format: --abbrev-commit --no-abbrev-commit --oneline --encoding: --expand-tabs?
    --no-expand-tabs --notes? --no-notes --relative-date --date: --parents --children --graph
    --show-linear-break? --decorate? --no-decorate --decorate-refs: --decorate-refs-exclude: --source
    --use-mailmap --mailmap --no-mailmap --log-size --follow --full-diff --count --show-pulls
    --remove-empty --diff-merges: --cc --combined-all-paths --no-diff-merges --dd --remerge-diff
&refs
    --sort: --format: --contains~ --no-contains~ --merged~ --no-merged~ --points-at: --column? --no-column
    --color? --no-color -i --ignore-case
status | read check=git_paths | shows what changed
    -sbvuz -u? -M? -vv --short --branch --show-stash --porcelain? --long --verbose --untracked-files?
    --ignore-submodules? --ignored? --column? --no-column --ahead-behind --no-ahead-behind --renames
    --no-renames --find-renames?
log, whatchanged | read check=git_paths | shows the history
    &diff &commits
show | read check=git_paths | shows a commit
    &diff &commits
diff | read check=git_paths | shows what changed
    &diff
shortlog | read check=git_paths | shows the history
    &commits -nsec -w? --numbered --summary --email --group:
diff-tree | read check=git_paths | reads the repository
    &diff &commits
diff-index, diff-files, range-diff | read check=git_paths | reads the repository
    &diff
rev-list | read check=git_paths | reads the repository
    --objects --disk-usage? --header --timestamp --use-bitmap-index &diff &commits
rev-parse | read check=git_paths | reads the repository
    -q --abbrev-ref? --short? --show-toplevel --show-prefix --show-cdup --git-dir --git-common-dir
    --absolute-git-dir --is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository
    --verify --quiet --symbolic --symbolic-full-name --all --branches? --tags? --remotes? --sq --not --default:
    --git-path: --show-superproject-working-tree --path-format: --show-object-format? --revs-only --no-revs
    --flags --no-flags --local-env-vars --shared-index-path --since: --until: --end-of-options
describe | read check=git_paths | reads the repository
    --all --tags --contains --abbrev? --candidates: --exact-match --debug --long --match: --exclude: --always
    --first-parent --dirty? --broken?
blame | read check=git_paths | shows who wrote what
    -bcelnpstwf -L: -S< -C? -M? -h --root --show-stats --porcelain --line-porcelain --incremental --encoding:
    --contents< --date: --score-debug --show-name --show-number --show-email --abbrev? --since: --reverse
    --first-parent --ignore-rev: --ignore-revs-file< --color-lines --color-by-age --progress --no-progress
annotate | read check=git_paths | reads the repository
    -bcelnpstwf -L:
ls-files | read check=git_paths | lists files
    -cdmosikztuvfr -x: -X< --cached --deleted --modified --others --stage --ignored --killed --unmerged
    --exclude: --exclude-from< --exclude-per-directory< --exclude-standard --error-unmatch --full-name
    --recurse-submodules --abbrev? --debug --eol --deduplicate --sparse --format: --directory
    --no-empty-directory --resolve-undo
ls-tree | read check=git_paths | lists files
    -drtlz --name-only --name-status --long --full-name --full-tree --abbrev? --object-only --format:
cat-file | read check=git_paths | reads the repository
    -epts --batch+? --batch-check? --batch-all-objects --batch-command+? --unordered --follow-symlinks --buffer
    --allow-unknown-type -Z --filters! --textconv!
reflog | read check=git_reflog | shows the history
    &diff &commits
name-rev | read check=git_paths | reads the repository
    --tags --refs: --exclude: --all --name-only --no-undefined --always --annotate-stdin --stdin
merge-base | read check=git_paths | reads the repository
    -a --all --octopus --independent --is-ancestor --fork-point
cherry | read check=git_paths | reads the repository
    -v --abbrev?
show-ref | read check=git_paths | reads the repository
    -dqs --head --heads --tags --branches --dereference --hash? --verify --quiet --abbrev? --exists
for-each-ref | read check=git_paths | reads the repository
    &refs --count: --shell --perl --python --tcl --exclude: --omit-empty --stdin --include-root-refs
show-branch | read check=git_paths | reads the repository
    -arg --all --remotes --current --topo-order --date-order --sparse --more? --list --merge-base --independent
    --no-name --sha1-name --topics --color? --reflog?
check-ignore | read check=git_paths | reads the repository
    -qvzn --quiet --verbose --non-matching --no-index --stdin
check-attr | read check=git_paths | reads the repository
    -az --all --cached --stdin --source:
check-ref-format | read check=git_paths | reads the repository
    --branch --normalize --allow-onelevel --refspec-pattern
count-objects | read check=git_paths | reads the repository
    -vH --verbose --human-readable
var | read check=git_paths | reads the repository
    -l
version | read check=git_paths | reads the repository
    --build-options
grep | read check=git_paths | searches the repository
    -aIivwEFGPnlLcohHzqWpr -e: -f< -m: -A: -B: -C: -# --cached --untracked --no-index --recurse-submodules
    --text --ignore-case --max-depth: --word-regexp --invert-match --full-name --extended-regexp --basic-regexp
    --perl-regexp --fixed-strings --line-number --column --files-with-matches --name-only --files-without-match
    --null --only-matching --count --color? --no-color --break --heading --show-function --context:
    --after-context: --before-context: --function-context --threads: --and --or --not --all-match --quiet
    --exclude-standard --no-exclude-standard --recursive --no-recursive --max-count: --textconv! --no-textconv
    -O! --open-files-in-pager!?
branch | text check=git_listing | lists branches
    -alrvq -vv --all --list --remotes --verbose --show-current --abbrev? --no-abbrev --quiet &refs -d^ -m^ -c^
    -f^ -u^: -t^? --delete^ --move^ --copy^ --force^ --edit-description! --set-upstream-to^: --unset-upstream^
    --track^? --no-track^ --create-reflog^ -D% -M% -C%
tag | text check=git_listing | lists tags
    -l -n? --list --cleanup: &refs -d% --delete% -a^ -s! -u!: -f^ -m^: -F^< -v! --verify! --annotate^ --sign!
    --force^ --message^: --file^<
remote | text check=git_remote | lists remotes
    -v --verbose
stash | text writes lenient check=git_stash | sets changes aside
worktree | text check=git_worktree
config | text check=git_config | shows settings
    -lz -f< --list --get --get-all --get-regexp --get-urlmatch --local --global --system --worktree --file<
    --blob: --type: --bool --int --bool-or-int --path --expiry-date --null --name-only --show-origin
    --show-scope --includes+ --no-includes --default: --get-color: --get-colorbool: --all --regexp --value:
    --fixed-value -e! --edit!
symbolic-ref | text check=git_one
    -q --quiet --short --no-recurse
hash-object | read check=git_paths
    -t: --stdin --stdin-paths+ --no-filters --literally
help | none check=git_plain | shows help
    -ag --all --guides
verify-pack | read check=git_paths | reads the repository
    -vs
fsck | read executes | checks the repository
notes | read executes | changes the repository
add | text writes lenient check=git_changes | stages changes
rm | delete destructive lenient check=git_changes | deletes {}
mv | text writes lenient check=git_changes | moves files
commit | text executes lenient check=git_changes | makes a commit
checkout, switch | text executes lenient check=git_changes | changes the files here
restore | text destructive lenient check=git_changes | discards changes
reset, update-ref, update-index, sparse-checkout,
replace | text writes lenient check=git_changes | changes the repository
clean | text destructive lenient check=git_changes | deletes files git does not know
merge, cherry-pick, revert, am, gc, bisect,
maintenance | text executes lenient check=git_changes | changes the repository
rebase | text executes lenient check=git_changes | rewrites history
apply | text writes lenient check=git_changes | changes files
init | text writes lenient check=git_changes | makes a repository
prune | text destructive lenient check=git_changes | deletes old objects
submodule | text executes lenient check=git_changes | changes the submodules
filter-branch | text destructive lenient check=git_changes | rewrites history
difftool, mergetool | text executes lenient check=git_changes | runs a program
fetch | text network lenient check=git_changes | fetches from a remote
pull | text executes lenient check=git_changes | fetches from a remote and changes the files here
push | text network lenient check=git_changes | pushes to a remote
clone | text network lenient check=git_changes | fetches a repository
ls-remote | text network lenient check=git_changes | asks a remote
archive | text executes lenient check=git_changes | writes an archive
bundle | text writes lenient check=git_changes | writes an archive
format-patch | text writes lenient check=git_changes | writes patches
daemon | text executes lenient check=git_changes | offers the repository to others
send-email | text executes lenient check=git_changes | sends mail
"""

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
