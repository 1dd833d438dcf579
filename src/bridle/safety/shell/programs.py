"""What is known about programs, as data: which options are safe, what their arguments are, what they do at worst.

An option that is not listed is not proven, and neither is a program. Options are written like this:

    -abc            three flags                 --all           a long flag
    -n:  --max:     takes a value               --color?        may take a value after `=`
    -f<  --file<    the value is a file it reads
    -o>  --output>  the value is a file it writes
    -i^  --exec!:   with `^` it then writes, with `!` it runs something, `@` connects, `%` destroys; then `:` `?`
    --arg::         takes two values            --slurpfile:<   two values, the second a file it reads
    -#              a bare number (`-20`)       *               any option at all

A name of two or three words (`npm ls`) is a subcommand; the options of `npm` may stand before it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from bridle.protocol.events import CommandClass

Arguments: TypeAlias = Literal[
    "read", "text", "none", "pattern", "write", "delete", "copy", "url", "run", "command"
]
"""What stands after the options: files it reads, plain text, nothing at all, a pattern and then files, files it
writes or deletes, files and where they go, addresses, a file it runs, or a whole command."""


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """One program, or one of its subcommands.

    `at_most` positional arguments are fine. `harmless` when no option whatever makes it more than a reader: words
    nobody knows may then stand anywhere. `lenient` when an unlisted option cannot make it worse than `base`. `check`
    names a closer look. `does` is for people, `{}` stands for what it is done to. `before` counts the arguments in
    front of the ones that matter. With `single_dash`, `-text` is one long option.
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


def _reads(options: str, **more: object) -> Program:
    """Reads files, and no option of it does anything else."""
    return msgspec.convert({"options": options, "harmless": True, **more}, Program)


def _text(options: str = "", **more: object) -> Program:
    """Takes text, and no option of it does anything but print."""
    return msgspec.convert({"options": options, "arguments": "text", "harmless": True, **more}, Program)


def _binary(options: str) -> Program:
    """Looks into a program file. `@file` would hand it options nobody sees."""
    return Program(options=options, check="no_directives")


_GREP = (
    "-EFGPivwxcLloqshHnTUZabrRyzu -e: -f< -m: -A: -B: -C: -d: -D: -# --extended-regexp --fixed-strings "
    "--basic-regexp --perl-regexp --regexp: --file< --ignore-case --no-ignore-case --invert-match --word-regexp "
    "--line-regexp --count --color? --colour? --files-without-match --files-with-matches --max-count: "
    "--only-matching --quiet --silent --no-messages --byte-offset --with-filename --no-filename --label: "
    "--line-number --initial-tab --null --after-context: --before-context: --context: --text --binary-files: "
    "--devices: --directories: --exclude: --exclude-from< --exclude-dir: --include: --recursive "
    "--dereference-recursive --line-buffered --null-data --binary"
)
_SUM = "-bctwz --binary --check --tag --text --zero --ignore-missing --quiet --status --strict --warn"
_RG = (
    "-abchilnopqsuvwxFHILNPSUV0. -# -A: -B: -C: -E: -M: -T: -d: -e: -f< -g: -j: -m: -r: -t: --after-context: "
    "--auto-hybrid-regex --before-context: --binary --block-buffered --byte-offset --case-sensitive --color: "
    "--colors: --column --context: --context-separator: --count --count-matches --crlf --debug --dfa-size-limit: "
    "--encoding: --engine: --field-context-separator: --field-match-separator: --file< --files --files-with-matches "
    "--files-without-match --fixed-strings --follow --glob: --glob-case-insensitive --heading --hidden --iglob: "
    "--ignore-case --ignore-file< --include-zero --invert-match --json --line-buffered --line-number --line-regexp "
    "--max-columns: --max-columns-preview --max-count: --max-depth: --maxdepth: --max-filesize: --mmap --multiline "
    "--multiline-dotall --no-column --no-config --no-context-separator --no-filename --no-heading --no-hidden "
    "--no-ignore --no-ignore-dot --no-ignore-exclude --no-ignore-files --no-ignore-global --no-ignore-messages "
    "--no-ignore-parent --no-ignore-vcs --no-line-number --no-messages --no-mmap --no-pcre2-unicode --no-require-git "
    "--no-unicode --null --null-data --one-file-system --only-matching --passthru --path-separator: --pcre2 --pretty "
    "--quiet --regex-size-limit: --regexp: --replace: --smart-case --sort: --sortr: --stats --stop-on-nonmatch --text "
    "--threads: --trim --type: --type-add: --type-clear: --type-list --type-not: --unrestricted --vimgrep "
    "--with-filename --word-regexp --pre!: --pre-glob: --hostname-bin!: --search-zip! -z!"
)
_LS = (
    "-aAbBcCdDfFgGhHikKlLmnNopqQrRsStuUvxXZ1 -I: -T: -w: --all --almost-all --author --escape --block-size: "
    "--ignore-backups --color? --directory --dired --classify? --file-type --format: --full-time "
    "--group-directories-first --no-group --human-readable --si --dereference-command-line --hide: --hyperlink? "
    "--indicator-style: --inode --ignore: --kibibytes --dereference --numeric-uid-gid --literal --hide-control-chars "
    "--show-control-chars --quote-name --quoting-style: --reverse --recursive --size --sort: --time: --time-style: "
    "--tabsize: --width: --context --zero"
)
_STAT_ONLY = "-L --dereference -f --file-system -t --terse -c: --format: --printf: --cached: -x -s -r -n"
_DIFF = (
    "-abBcdeEiNnpqrstTuwyZ -C: -F: -I: -L: -S: -U: -W: -x: -X< -# --normal --brief --report-identical-files --context? "
    "--unified? --ed --rcs --side-by-side --width: --left-column --suppress-common-lines --show-c-function "
    "--show-function-line: --label: --expand-tabs --initial-tab --tabsize: --suppress-blank-empty --recursive "
    "--no-dereference --new-file --unidirectional-new-file --ignore-file-name-case --exclude: --exclude-from< "
    "--starting-file: --from-file< --to-file< --ignore-case --ignore-tab-expansion --ignore-trailing-space "
    "--ignore-space-change --ignore-all-space --ignore-blank-lines --ignore-matching-lines: --text "
    "--strip-trailing-cr --minimal --horizon-lines: --speed-large-files --color? --paginate! -l!"
)
_COPY = (
    "-abdfilLnPprRsuvxHT -t> --archive --backup? --force --interactive --link --dereference --no-clobber "
    "--no-dereference --preserve? --parents --recursive --reflink? --remove-destination --sparse: "
    "--strip-trailing-slashes --symbolic-link --suffix: -S: --target-directory> --no-target-directory --update? "
    "--verbose --one-file-system"
)
_GZIP = (
    "-cdfklnqrtvzN123456789 --stdout --to-stdout --decompress --list --test --verbose --quiet --fast --best"
)

# fmt: off
PROGRAMS: dict[str, Program] = {
    # looking at files
    "ls": _reads(_LS, does="lists files"),
    "dir": _reads(_LS, does="lists files"),
    "vdir": _reads(_LS, does="lists files"),
    "tree": Program(options="-adfilpqrstuxACDFJNQSUXvchn -L: -P: -I: -H: -T: -o> --dirsfirst --filesfirst --noreport "
                            "--charset: --filelimit: --gitignore --prune --matchdirs --ignore-case --si --du --inodes "
                            "--device --sort? --timefmt: --metafirst --fromfile", does="lists files"),
    "cat": _reads("-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs --show-nonprinting"),
    "bat": Program(options="-pnAu -l: -r: -H: --plain --number --show-all --language: --line-range: --style: --color: "
                           "--paging: --theme: --decorations: --wrap: --tabs: --list-themes --list-languages --no-config"),
    "head": _reads("-qvz -n: -c: -# --lines: --bytes: --quiet --silent --verbose --zero-terminated"),
    "tail": _reads("-qvzfFr -n: -c: -s: -# --lines: --bytes: --quiet --silent --verbose --follow? --retry --pid: --sleep-interval: --zero-terminated --max-unchanged-stats:"),
    "less": Program(options="-NSRFXeEMmniIqQs", check="no_directives"),
    "more": Program(options="-dflpcsu -n: -#", check="no_directives"),
    "wc": _reads("-clmwL --bytes --chars --lines --max-line-length --words --total: --files0-from<", does="counts in {}"),
    "nl": _reads("-p -b: -d: -f: -h: -i: -l: -n: -s: -v: -w: --body-numbering: --number-format: --number-width: --number-separator:"),
    "tac": _reads("-br -s: --before --regex --separator:"),
    "rev": _reads("-0"),
    "fold": _reads("-bs -w: --bytes --spaces --width:"),
    "fmt": _reads("-cstu -w: -p: -g: -# --width:"),
    "column": _reads("-teLxJdnR -c: -s: -o: -N: -l: -H: -E: -O: -T: --table --separator: --output-separator: --json --table-columns: --output-width: --keep-empty-lines"),
    "paste": _reads("-sz -d: --serial --delimiters: --zero-terminated"),
    "join": _reads("-iz -a: -e: -j: -o: -t: -v: -1: -2: --check-order --nocheck-order --header --ignore-case"),
    "cut": _reads("-nsz -b: -c: -d: -f: --bytes: --characters: --delimiter: --fields: --complement --only-delimited --output-delimiter: --zero-terminated"),
    "tr": _text("-cCdst --complement --delete --squeeze-repeats --truncate-set1"),
    "expand": _reads("-i -t: --initial --tabs:"),
    "unexpand": _reads("-a -t: --all --first-only --tabs:"),
    "comm": _reads("-123z --check-order --nocheck-order --output-delimiter: --total --zero-terminated"),
    "cmp": _reads("-bls -i: -n: --print-bytes --ignore-initial: --verbose --bytes: --quiet --silent"),
    "diff": Program(options=_DIFF, does="compares {}"),
    "colordiff": Program(options=_DIFF, does="compares {}"),
    "sdiff": Program(options="-abBdEHilstWZ -w: -o>", does="compares {}"),
    "sort": Program(options="-bcCdfghiMmnRrsuVz -k: -t: -S: -o> -T^: --ignore-leading-blanks --dictionary-order "
                            "--ignore-case --general-numeric-sort --ignore-nonprinting --month-sort "
                            "--human-numeric-sort --numeric-sort --random-sort --reverse --sort: --version-sort "
                            "--batch-size: --check? --debug --files0-from< --key: --merge --output> --stable "
                            "--buffer-size: --field-separator: --parallel: --unique --zero-terminated "
                            "--compress-program!: --temporary-directory^:"),
    "uniq": Program(options="-cdDiuz -f: -s: -w: --count --repeated --all-repeated? --skip-fields: --group? --ignore-case "
                            "--skip-chars: --unique --zero-terminated --check-chars:", check="second_is_written"),
    "grep": _reads(_GREP, arguments="pattern", does="searches {}"),
    "egrep": _reads(_GREP, arguments="pattern", does="searches {}"),
    "fgrep": _reads(_GREP, arguments="pattern", does="searches {}"),
    "zgrep": Program(options="-EFivwxcloqshHn -e: -A: -B: -C:", arguments="pattern", does="searches {}"),
    "rg": Program(options=_RG, arguments="pattern", check="rg", does="searches {}"),
    "ag": Program(options="-acilLnqQrsSuUvwz -A: -B: -C: -G: -m: --hidden --ignore: --nocolor --color --depth:", arguments="pattern", does="searches {}"),
    "find": Program(check="find", does="searches {}"),
    "fd": Program(options="-HIusigFaLpl0q1 -d: -t: -e: -E: -S: -c: -j: -x! -X! --hidden --no-ignore --unrestricted "
                          "--case-sensitive --ignore-case --glob --fixed-strings --absolute-path --follow --full-path "
                          "--list-details --print0 --max-depth: --min-depth: --type: --extension: --exclude: --size: "
                          "--changed-within: --changed-before: --color: --threads: --max-results: --base-directory< "
                          "--search-path< --strip-cwd-prefix --exec! --exec-batch!", arguments="pattern", check="fd", does="searches {}"),
    "locate": _text("-bciwAre0 -l: -n: --basename --count --ignore-case --limit: --regex --existing", does="searches file names"),
    "sed": Program(check="sed"),
    "awk": Program(check="awk"),
    "gawk": Program(check="awk"),
    "mawk": Program(check="awk"),
    "nawk": Program(check="awk"),
    "jq": _reads("-acCejMnrRsSj -f< -L< -# --arg:: --argjson:: --slurpfile:< --rawfile:< --args --jsonargs --ascii-output --color-output "
                 "--compact-output --exit-status --from-file< --indent: --join-output --monochrome-output --null-input "
                 "--raw-input --raw-output --raw-output0 --seq --slurp --sort-keys --stream --tab --unbuffered", arguments="pattern", check="jq", does="reads {}"),
    "yq": Program(options="-rPeCMnNjy -o: -p: -I: -i^ --unwrapScalar? --prettyPrint --exit-status --colors --no-colors "
                          "--null-input --no-doc --output-format: --input-format: --indent: --tojson --inplace^ "
                          "--raw-output --yaml-output", arguments="pattern", check="yq"),
    "xmllint": Program(options="--noout --format --xpath: --noblanks --pretty:"),
    "file": Program(options="-bciLhkNnprsvE0 -F: -e: -P: -f< -m< --brief --mime --mime-type --mime-encoding --dereference "
                            "--no-dereference --keep-going --raw --extension --separator: --print0"),
    "stat": _reads(_STAT_ONLY, does="looks at {}"),
    "du": _reads("-0abcDHhklmLPsSx -B: -d: -t: -X< -# --null --all --apparent-size --block-size: --bytes --total --dereference-args "
                 "--max-depth: --human-readable --inodes --dereference --no-dereference --separate-dirs --si --summarize "
                 "--threshold: --time? --time-style: --exclude-from< --exclude: --one-file-system --files0-from<", does="measures {}"),
    "df": _reads("-aBhHiklPTv -t: -x: --all --block-size: --human-readable --si --inodes --local --portability --print-type "
                 "--type: --exclude-type: --output? --sync --total", does="shows disk space"),
    "xxd": Program(options="-abeEipru -c: -g: -l: -n: -o: -s: -d -R:", at_most=1),
    "od": _reads("-abcdfhilosvx -A: -j: -N: -S: -t: -w? --address-radix: --skip-bytes: --read-bytes: --format: --output-duplicates --width?"),
    "hexdump": _reads("-bcCdovx -e: -f< -n: -s: --canonical --length: --skip:"),
    "hd": _reads("-bcCdovx -e: -f< -n: -s:"),
    "strings": _reads("-afow -n: -t: -e: -# --all --bytes: --radix: --encoding: --print-file-name"),
    "base64": _reads("-di -w: -D --decode --ignore-garbage --wrap:"),
    "base32": _reads("-di -w: --decode --ignore-garbage --wrap:"),
    "sha256sum": _reads(_SUM), "sha1sum": _reads(_SUM), "sha512sum": _reads(_SUM), "sha224sum": _reads(_SUM),
    "sha384sum": _reads(_SUM), "md5sum": _reads(_SUM), "b2sum": _reads(_SUM + " -l:"), "cksum": _reads(_SUM + " -a: --algorithm:"),
    "shasum": _reads("-bctUq0 -a: --algorithm: --check --status --quiet"), "md5": _reads("-nqr -s:"), "sum": _reads("-rs"),
    "readlink": _reads("-femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline", does="looks at {}"),
    "realpath": _reads("-emLPqsz --canonicalize-existing --canonicalize-missing --logical --physical --quiet --relative-to< --relative-base< --strip --no-symlinks --zero", does="looks at {}"),
    "basename": _text("-az -s: --multiple --suffix: --zero", does="prints a name"),
    "dirname": _text("-z --zero", does="prints a folder name"),
    "pathchk": _text("-pP"),
    "zcat": _reads("-fqv"), "bzcat": _reads("-s"), "xzcat": _reads("-qv"), "zstdcat": _reads("-qv"),
    "gzip": Program(options=_GZIP, check="compress"), "gunzip": Program(options=_GZIP, check="compress"),
    "bzip2": Program(options=_GZIP, check="compress"), "bunzip2": Program(options=_GZIP, check="compress"),
    "xz": Program(options=_GZIP, check="compress"), "unxz": Program(options=_GZIP, check="compress"),
    "zstd": Program(options=_GZIP, check="compress"),
    "unzip": Program(options="-lvptZcCjLnoqu12 -x: -d>", check="unzip"),
    "zipinfo": _reads("-1lmhstTvzM2"),
    "zip": Program(options="-rq9jmuXy -x:", base="writes", arguments="write", lenient=True),
    "tar": Program(check="tar"),
    "ar": Program(base="executes"),
    "nm": _binary("-aACDgnoprSuvl -t: -f: --demangle? --defined-only --undefined-only --dynamic --extern-only --size-sort"),
    "objdump": _binary("-adDfhptTrRsSxgGCwz -j: -M: -b: -m: --disassemble? --syms --headers --all-headers --section: --demangle?"),
    "readelf": _binary("-aehlSgtsnrudVADWI -x: -p: --all --headers --symbols --dynamic --notes --wide --relocs --sections"),
    "ldd": Program(base="executes"),
    "size": _binary("-ABdoxt --format:"),
    "iconv": Program(options="-cls -f: -t: -o> --from-code: --to-code: --output> --list"),
    "dos2unix": Program(base="writes", arguments="write", lenient=True),
    "look": _reads("-df -t:"),
    "tsort": _reads(""), "shuf": Program(options="-erz -i: -n: -o> --echo --head-count: --input-range: --repeat --output>"),
    "pr": _reads("-acdmtTJ -h: -l: -n? -o: -w: -#"),
    "csplit": Program(base="writes", arguments="read", lenient=True), "split": Program(base="writes", arguments="read", lenient=True),

    # saying things
    "echo": _text("*", does="prints text"),
    "printf": Program(arguments="text", check="printf", does="prints text"),
    "yes": _text("*", does="prints text"),
    "true": _text("*", does="does nothing"), "false": _text("*", does="does nothing"), ":": _text("*", does="does nothing"),
    "pwd": _text("-LP --logical --physical", does="prints the current folder"),
    "cd": Program(options="-LPe", does="goes to {}"), "pushd": Program(options="-n", does="goes to {}"),
    "popd": Program(options="-n", arguments="text", does="goes back"), "dirs": _text("-clpv"),
    "sleep": _text("", does="waits"), "wait": _text("", does="waits"),
    "seq": _text("-w -f: -s: -# --equal-width --format: --separator:", does="prints numbers"),
    "expr": _text("*", does="computes"), "factor": _text("-h", does="computes"), "numfmt": _text("-d: -z --from: --to: --field: --format: --grouping --suffix: --round: --padding: --header?"),
    "bc": Program(options="-lqsw --mathlib --quiet --standard", does="computes"), "dc": Program(base="executes"),
    "cal": _text("-13jmswyY -A: -B: -n: -#", does="prints a calendar"), "ncal": _text("-13jmswy -A: -B:"),
    "date": Program(options="-uR -d: -I? -r< --date: --utc --universal --iso-8601? --rfc-3339: --rfc-email --rfc-2822 "
                            "--reference< -s!: --set!: -f!: --file!:", arguments="text", check="date", does="prints the date"),
    "test": Program(arguments="text", check="test", does="checks a condition"),
    "[": Program(arguments="text", check="test", does="checks a condition"),
    "[[": Program(arguments="text", check="test", does="checks a condition"),
    "read": Program(options="-rse -d: -n: -N: -p: -t:", arguments="text", check="variables", does="reads a line"),
    "break": _text(), "continue": _text(), "exit": _text(does="ends the script"), "return": _text(), "shift": _text(),
    "local": Program(arguments="text", check="harmless_assignments"), "export": Program(options="-p", arguments="text", check="harmless_assignments"),
    "set": Program(options="-eux -o:", arguments="none", check="set"),
    "unset": Program(base="executes", does="changes the shell's variables"),
    "type": _text("-afptP", does="says what a name is"), "which": _text("-as", does="finds a program"), "whereis": _text("-bmsu", does="finds a program"),
    "whatis": _text("-w -s:"), "apropos": _text("-ae -s:"),
    "man": Program(options="-akfw -s: -S:", does="shows a manual page"),
    "tldr": Program(arguments="text", base="network", lenient=True), "info": Program(base="executes"),

    # the machine
    "uname": _text("-asnrvmpio --all --kernel-name --kernel-release --machine --operating-system", does="describes the machine"),
    "arch": _text(), "nproc": _text("--all --ignore:", does="counts processors"), "whoami": _text("", does="says who you are"), "logname": _text(), "tty": _text("-s"),
    "id": _text("-agGnruzZ --user --group --groups --name --real --zero", does="says who you are"), "groups": _text(does="says who you are"),
    "who": _text("-abdHlmpqrstTuw"), "w": _text("-hsfoi"), "users": _text(), "last": _text("-adFiwx -n: -#"),
    "hostname": Program(options="-fsiIdA --fqdn --short --ip-address --all-ip-addresses", arguments="none", does="prints the host name"),
    "hostnamectl": Program(options="--static --json:", arguments="text", at_most=1, check="status_only"), "timedatectl": Program(arguments="text", at_most=1, check="status_only"),
    "uptime": _text("-ps --pretty --since", does="describes the machine"), "free": _text("-bkmghltvw -s: -c: --bytes --kilo --mega --giga --human --wide --total --si", does="shows memory"),
    "lscpu": _text("-abcepsxyJ --all --json --extended? --parse?", does="describes the machine"), "lsblk": _text("-abdfilmnOprtJ -o: -e: -I: --json --output: --fs --all", does="describes the machine"),
    "lsusb": _text("-tv -s: -d:"), "lspci": _text("-knvmtxbD -s: -d:"), "lsmod": _text(), "lsb_release": _text("-asicdrv"), "sw_vers": _text("-productVersion"),
    "getconf": _text("-a"), "locale": _text("-am"), "ulimit": _text("-aSH"), "umask": Program(options="-Sp", arguments="none"), "getent": _text("-s:"),
    "ps": _text("*", does="lists processes"), "pgrep": _text("-acfilnorvwx -d: -g: -G: -P: -s: -t: -u: -U: --full --list-name --list-full --count --exact", does="lists processes"),
    "pstree": _text("-aAcglnpTuU -H:", does="lists processes"), "top": Program(options="-bcHiS -n: -d: -p: -u: -U: -o: -w? -E: -e:", arguments="none", check="top", does="lists processes"),
    "pidof": _text("-sx -o:"), "jobs": _text("-lnprs"), "vmstat": _text("-adfmnsStwD"), "iostat": _text("-cdhkmNtxyz"), "times": _text(),
    "lsof": Program(options="-abCHlnNoOPRtUVvX -c: -d: -F? -g? -i? -p: -s? -u:", does="lists open files"),
    "ss": _text("-HnraleomptuiswxO46bEZz -f: -A: --tcp --udp --listening --all --numeric --processes --summary", does="lists connections", harmless=False),
    "netstat": _text("-rinsgMvWeNocFCaltuxpwT46 --tcp --udp --listening --all --numeric --route --interfaces", does="lists connections"),
    "ip": Program(options="-46bdhjnpsor --brief -br -brief --json -json --color? -c? --details --statistics", arguments="text", check="ip", does="shows the network settings"),
    "ifconfig": Program(options="-as", arguments="text", at_most=1), "route": Program(options="-n", arguments="none"), "arp": Program(options="-an", arguments="text"),
    "env": Program(options="-i0v -u: -C< -S: --ignore-environment --null --unset: --chdir< --split-string:", arguments="command", check="env", does="prints the environment"),
    "printenv": _text("-0 --null", does="prints the environment"),
    "systemctl": Program(options="-alq --all --no-pager --full --user --system --failed --type: -t: --state: --no-legend --plain --output: -n: --lines:", base="executes", does="changes services"),
    "systemctl status": _text(_S := "-alq -t: -n: -o: -p: --all --no-pager --full --user --system --type: --state: --no-legend --plain --output: --lines: --property: --value --failed", does="shows services"),
    "systemctl show": _text(_S), "systemctl cat": _text(_S), "systemctl is-active": _text(_S), "systemctl is-enabled": _text(_S), "systemctl is-failed": _text(_S),
    "systemctl list-units": _text(_S), "systemctl list-unit-files": _text(_S), "systemctl list-timers": _text(_S), "systemctl list-dependencies": _text(_S), "systemctl get-default": _text(_S),
    "journalctl": Program(options="-abefklmqrx -n: -u: -t: -p: -g: -o: -S: -U: -b? -n? -# --no-pager --since: --until: --unit: --user-unit: --user --system --lines? "
                                  "--output: --priority: --grep: --reverse --follow --dmesg --boot? --list-boots --utc --no-hostname --disk-usage", arguments="text", does="shows the system log"),
    "dmesg": Program(options="-dehHkLPrTtuwxS -f: -l: --ctime --human --level: --facility: --color? --decode --follow", arguments="none", does="shows the system log"),

    # changing files
    "tee": Program(options="-ai --append --ignore-interrupts", base="writes", arguments="write"),
    "touch": Program(options="-acfhm -d: -r< -t: --no-create --date: --reference< --time:", base="writes", arguments="write"),
    "mkdir": Program(options="-pv -m: -Z --parents --verbose --mode:", base="writes", arguments="write", does="makes {}"),
    "mkfifo": Program(options="-m:", base="writes", arguments="write"), "mktemp": Program(options="-dqtu -p: --directory --suffix: --tmpdir? --dry-run", base="writes", arguments="text", does="makes a temporary file"),
    "cp": Program(options=_COPY, base="writes", arguments="copy", does="copies to {}"), "install": Program(options="-bcCdDpTv -g: -m: -o: -S: -t> --mode: --owner: --group: --directory --strip-program!: -s!", base="writes", arguments="copy", does="copies to {}"),
    "mv": Program(options="-bfinTuv -S: -t> --backup? --force --interactive --no-clobber --strip-trailing-slashes --suffix: --target-directory> --update? --verbose", base="writes", arguments="copy", check="move", does="moves to {}"),
    "ln": Program(options="-bdfFiLnPrsTvS -t> --symbolic --force --relative --no-dereference --backup? --target-directory> --verbose", base="writes", arguments="copy", does="links to {}"),
    "rsync": Program(options="-avzrtlphnPxqucCiHAXogDW --archive --verbose --dry-run --progress --recursive --exclude: --include: --delete% --delete-after% --delete-before% --del% -e!: --rsh!: --rsync-path!:", base="writes", arguments="copy", check="remote_paths", does="copies to {}"),
    "scp": Program(base="network", arguments="text", lenient=True, does="copies over the network"), "sftp": Program(base="network", arguments="text", lenient=True, does="copies over the network"),
    "rm": Program(options="-dfiIrRv --force --recursive --dir --interactive? --verbose --one-file-system --preserve-root? --no-preserve-root", base="destructive", arguments="delete", check="recursive", does="deletes {}"),
    "rmdir": Program(options="-pv --parents --verbose --ignore-fail-on-non-empty", base="writes", arguments="delete", does="removes {}"), "unlink": Program(base="destructive", arguments="delete", does="deletes {}"),
    "shred": Program(options="-fuvxz -n: -s: --remove? --force --iterations: --size: --zero", base="destructive", arguments="delete", does="destroys {}"),
    "truncate": Program(options="-co -r< -s: --size: --reference< --no-create", base="destructive", arguments="write", does="cuts {}"),
    "chmod": Program(options="-cfvR --changes --silent --quiet --verbose --recursive --reference< --preserve-root --no-preserve-root", base="writes", arguments="write", before=1, does="changes who may use {}"),
    "chown": Program(options="-cfvhRHLP --changes --silent --verbose --recursive --reference< --from: --no-dereference --preserve-root --no-preserve-root", base="writes", arguments="write", before=1, does="changes who owns {}"),
    "chgrp": Program(options="-cfvhRHLP --changes --verbose --recursive --reference<", base="writes", arguments="write", before=1, does="changes who owns {}"),
    "dd": Program(arguments="text", base="writes", check="dd"), "patch": Program(base="writes", arguments="text", lenient=True, does="changes files"),
    "ed": Program(base="executes"), "ex": Program(base="executes"), "vi": Program(base="executes"), "vim": Program(base="executes"), "nano": Program(base="executes"),
    "crontab": Program(options="-l -u:", arguments="none", check="crontab"),
    "kill": Program(base="executes", does="stops processes"), "pkill": Program(base="executes", does="stops processes"), "killall": Program(base="executes", does="stops processes"),
    "mount": Program(options="-l", arguments="none"), "umount": Program(base="executes"), "ping": Program(base="network", arguments="url", lenient=True),
    "mkfs": Program(base="destructive", arguments="write", lenient=True, does="formats {}"), "wipefs": Program(base="destructive", arguments="write", lenient=True, does="wipes {}"),
    "fdisk": Program(base="destructive", arguments="write", lenient=True, does="changes partitions"), "parted": Program(base="destructive", arguments="text", lenient=True, does="changes partitions"),
    "blkdiscard": Program(base="destructive", arguments="write", lenient=True, does="wipes {}"),
    "shutdown": Program(base="destructive", arguments="text", lenient=True, does="stops the machine"), "reboot": Program(base="destructive", arguments="text", lenient=True, does="stops the machine"),
    "halt": Program(base="destructive", arguments="text", lenient=True, does="stops the machine"), "poweroff": Program(base="destructive", arguments="text", lenient=True, does="stops the machine"),

    # the network
    "curl": Program(options="-o> -O^ -K< -T< -d: -H: -X: -u: -A: -e: -m: -x: -b: -c> -D> -F: -w: -E< --output> --remote-name^ --output-dir> --upload-file< --dump-header> "
                            "--cookie-jar> --data: --data-raw: --data-binary: --data-urlencode: --json: --header: --request: --user: --user-agent: --max-time: --proxy: --form: --write-out: "
                            "--connect-timeout: --retry: --retry-delay: --url: --cacert< --cert< --key< --resolve: --trace> --trace-ascii> --stderr>",
                    base="network", arguments="url", lenient=True, does="connects to {}"),
    "wget": Program(options="-O> -o> -P> -i< --output-document> --output-file> --directory-prefix> --input-file< --header: --post-data: --post-file< -U: -T: -t: --tries: --timeout: --user: --password: --execute!: -e!: --use-askpass!:",
                    base="network", arguments="url", lenient=True, does="connects to {}"),
    "aria2c": Program(base="network", arguments="url", lenient=True), "http": Program(base="network", arguments="url", lenient=True), "https": Program(base="network", arguments="url", lenient=True), "xh": Program(base="network", arguments="url", lenient=True),
    "dig": Program(base="network", arguments="url", lenient=True, does="looks up {}"), "nslookup": Program(base="network", arguments="url", lenient=True, does="looks up {}"),
    "host": Program(base="network", arguments="url", lenient=True, does="looks up {}"), "whois": Program(base="network", arguments="url", lenient=True, does="looks up {}"),
    "traceroute": Program(base="network", arguments="url", lenient=True), "telnet": Program(base="network", arguments="url", lenient=True), "ftp": Program(base="network", arguments="url", lenient=True),
    "nc": Program(base="executes", arguments="text", lenient=True, does="connects to another machine"), "ncat": Program(base="executes", arguments="text", lenient=True, does="connects to another machine"), "socat": Program(base="executes", arguments="text", lenient=True, does="connects to another machine"),
    "ssh": Program(options="-p: -i: -l: -o: -J: -L: -R: -D: -F: -c: -m: -b: -E: -e: -I: -O: -Q: -S: -w: -W:", base="executes", arguments="text", lenient=True, check="ssh", does="runs a command on another machine"),
}

WRAPPERS: dict[str, Program] = {
    "sudo": Program(options="-AbEHnPSkKvis -u: -g: -h: -p: -C: -D< -r: -t: -T: -U: -R: --user: --group: --preserve-env? --login --non-interactive --stdin --set-home --shell", base="executes", arguments="command", does="runs as another user"),
    "doas": Program(options="-nsL -u: -C:", base="executes", arguments="command", does="runs as another user"),
    "timeout": Program(options="-fpv -k: -s: --foreground --preserve-status --verbose --kill-after: --signal:", arguments="command", before=1),
    "nice": Program(options="-n: -# --adjustment:", arguments="command"), "ionice": Program(options="-t -c: -n: --class: --classdata: --ignore", arguments="command"),
    "nohup": Program(arguments="command"), "time": Program(options="-pvlh -f: --portability --verbose --format: -o> --output> -a --append", arguments="command"),
    "stdbuf": Program(options="-i: -o: -e: --input: --output: --error:", arguments="command"), "setsid": Program(options="-cfw --ctty --fork --wait", arguments="command"),
    "chrt": Program(options="-abfiopr", arguments="command", before=1, base="executes"), "taskset": Program(options="-ac", arguments="command", before=1), "unbuffer": Program(options="-p", arguments="command"),
    "command": Program(options="-pvV", arguments="command", check="command"), "builtin": Program(arguments="command"), "exec": Program(options="-cl -a:", arguments="command"),
    "xargs": Program(options="-0oprtx -a< -d: -E: -I: -i? -L: -l? -n: -P: -s: -R: -J: --null --arg-file< --delimiter: --max-args: --max-procs: --max-lines? --replace? --no-run-if-empty --verbose --max-chars: --exit --open-tty --interactive",
                     arguments="command", check="xargs"),
    "parallel": Program(options="-0jkvX -j: -n: -N: -a< --jobs: --dry-run --keep-order --no-notice --bar --null", arguments="command", base="executes", check="xargs"),
    "watch": Program(options="-bcdegptxw -n: --beep --color --differences? --errexit --chgexit --interval: --precise --no-title --exec", arguments="command", check="script_words"),
    "busybox": Program(arguments="command"), "toybox": Program(arguments="command"), "chronic": Program(arguments="command"), "caffeinate": Program(options="-disu -t:", arguments="command"),
    "flock": Program(base="executes", arguments="text", lenient=True), "strace": Program(base="executes", arguments="text", lenient=True), "script": Program(base="executes", arguments="text", lenient=True),
    "su": Program(base="executes", arguments="text", lenient=True, does="runs as another user"), "chroot": Program(base="executes", arguments="text", lenient=True), "unshare": Program(base="executes", arguments="text", lenient=True),
    "eval": Program(arguments="command", check="script_words"),
}
"""Programs that run the command they are given: what matters is that command."""
# fmt: on

SHELLS = frozenset(["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish"])
INTERPRETERS = frozenset(
    [
        "python",
        "python2",
        "python3",
        "pypy",
        "pypy3",
        "perl",
        "ruby",
        "node",
        "nodejs",
        "deno",
        "bun",
        "php",
        "lua",
        "luajit",
        "Rscript",
        "tclsh",
        "osascript",
    ]
)
POWERSHELLS = frozenset(["powershell", "powershell.exe", "pwsh", "pwsh.exe", "cmd", "cmd.exe"])
CREDENTIAL_TOOLS = frozenset({"security", "secret-tool", "keyctl", "kwalletcli"})
FETCHERS = frozenset(
    ["curl", "wget", "fetch", "aria2c", "http", "https", "xh", "lynx", "w3m", "links", "nc", "ncat"]
)

BUILTINS = frozenset(
    [
        "echo",
        "printf",
        "true",
        "false",
        ":",
        "pwd",
        "cd",
        "pushd",
        "popd",
        "dirs",
        "wait",
        "test",
        "[",
        "[[",
        "read",
        "break",
        "continue",
        "exit",
        "return",
        "shift",
        "type",
        "jobs",
        "times",
        "ulimit",
        "umask",
        "export",
        "local",
        "set",
    ]
)
"""Part of the shell itself: no file of that name can stand in for them."""

HARMLESS_VARIABLES = frozenset(
    [
        "LC_ALL",
        "LC_CTYPE",
        "LC_COLLATE",
        "LC_NUMERIC",
        "LC_TIME",
        "LC_MESSAGES",
        "LANG",
        "LANGUAGE",
        "TZ",
        "NO_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "FORCE_COLOR",
        "CI",
        "COLUMNS",
        "LINES",
        "TERM",
        "COLORTERM",
        "GIT_OPTIONAL_LOCKS",
        "GIT_TERMINAL_PROMPT",
        "GREP_COLOR",
        "GREP_COLORS",
        "BLOCKSIZE",
        "POSIXLY_CORRECT",
        "HOMEBREW_NO_AUTO_UPDATE",
        "NPM_CONFIG_COLOR",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONUNBUFFERED",
        "RUST_BACKTRACE",
    ]
)
HARMLESS_VALUES = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "BAT_PAGER": "cat",
}
"""Variables that change how things look, not what runs."""

NO_KEY = frozenset(
    [
        "rm",
        "rmdir",
        "unlink",
        "shred",
        "dd",
        "sudo",
        "doas",
        "su",
        "env",
        "xargs",
        "eval",
        "exec",
        "ssh",
        "find",
        "sed",
        "awk",
        "gawk",
        "mawk",
        "tee",
        "chmod",
        "chown",
        "cp",
        "mv",
        "ln",
        "curl",
        "wget",
        "nc",
        "ncat",
        "socat",
        "kill",
        "pkill",
        "crontab",
        "docker",
        "make",
        "source",
        ".",
        "watch",
        "parallel",
        "time",
        "nohup",
        "nice",
        "timeout",
        "command",
        "builtin",
        "npx",
        "pnpx",
        "bunx",
        "uvx",
        "pipx",
        "systemd-run",
        "scp",
        "rsync",
        "install",
        "tar",
        "fd",
    ]
)
"""Programs for which "with any arguments" would be a blank cheque."""

KEYED_BY_SUBCOMMAND = frozenset(
    [
        "git",
        "npm",
        "pnpm",
        "yarn",
        "cargo",
        "go",
        "docker",
        "kubectl",
        "gh",
        "pip",
        "pip3",
        "uv",
        "poetry",
        "brew",
        "apt",
        "systemctl",
        "terraform",
        "bundle",
        "rake",
        "gradle",
        "mvn",
        "dotnet",
        "composer",
        "helm",
        "hg",
        "svn",
        "just",
        "task",
        "nx",
        "turbo",
        "lerna",
        "pre-commit",
        "tox",
        "nox",
        "hatch",
        "pdm",
        "rye",
        "bun",
        "deno",
        "rustup",
        "mix",
        "flutter",
        "dart",
        "swift",
        "bazel",
        "conda",
        "mamba",
        "ip",
    ]
)
