"""Programs every system has, and programs that run others. `programs` says how to read this."""

from __future__ import annotations

SYSTEM_TABLE = r"""
&grep
    -EFGPivwxcLloqshHnTUZabryzu -R+ -e: -f< -m: -A: -B: -C: -d: -D: -# --extended-regexp --fixed-strings
    --basic-regexp --perl-regexp --regexp: --file< --ignore-case --no-ignore-case --invert-match --word-regexp
    --line-regexp --count --color? --colour? --files-without-match --files-with-matches --max-count:
    --only-matching --quiet --silent --no-messages --byte-offset --with-filename --no-filename --label:
    --line-number --initial-tab --null --after-context: --before-context: --context: --text --binary-files:
    --devices: --directories: --exclude: --exclude-from< --exclude-dir: --include: --recursive
    --dereference-recursive+ --line-buffered --null-data --binary
&ls
    -aAbBcCdDfFgGhHikKlLmnNopqQrRsStuUvxXZ1 -I: -T: -w: --all --almost-all --author --escape --block-size:
    --ignore-backups --color? --directory --dired --classify? --file-type --format: --full-time
    --group-directories-first --no-group --human-readable --si --dereference-command-line --hide: --hyperlink?
    --indicator-style: --inode --ignore: --kibibytes --dereference --numeric-uid-gid --literal
    --hide-control-chars --show-control-chars --quote-name --quoting-style: --reverse --recursive --size --sort:
    --time: --time-style: --tabsize: --width: --context --zero
&sum
    -bctwz --binary --check --tag --text --zero --ignore-missing --quiet --status --strict --warn
&gzip
    -cdfklnqrtvzN123456789 --stdout --to-stdout --decompress --list --test --verbose --quiet --fast --best
&service
    -alq -t: -n: -o: -p: --all --no-pager --full --user --system --type: --state: --no-legend --plain --output:
    --lines: --property: --value --failed
ls, dir, vdir | read harmless check=links | lists files
    &ls
tree | read | lists files
    -adfipq -l+ -rstuxACDFJNQSUXvchn -L: -P: -I: -H: -T: -o> --dirsfirst --filesfirst --noreport --charset:
    --filelimit: --gitignore --prune --matchdirs --ignore-case --si --du --inodes --device --sort? --timefmt:
    --metafirst --fromfile
cat | read harmless
    -AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs --show-nonprinting
bat | read
    -pnAu -l: -r: -H: --plain --number --show-all --language: --line-range: --style: --color: --paging: --theme:
    --decorations: --wrap: --tabs: --list-themes --list-languages --no-config
head | read harmless check=bounded
    -qvz -n: -c: -# --lines: --bytes: --quiet --silent --verbose --zero-terminated
tail | read harmless check=follows
    -qvzfFr -n: -c: -s: -# --lines: --bytes: --quiet --silent --verbose --follow? --retry --pid:
    --sleep-interval: --zero-terminated --max-unchanged-stats:
less | read check=no_directives
    -NSRFXeEMmniIqQs
more | read check=no_directives
    -dflpcsu -n: -#
wc | read harmless | counts in {}
    -clmwL --bytes --chars --lines --max-line-length --words --total: --files0-from+<
nl | read harmless
    -p -b: -d: -f: -h: -i: -l: -n: -s: -v: -w: --body-numbering: --number-format: --number-width:
    --number-separator:
tac | read harmless
    -br -s: --before --regex --separator:
rev | read harmless
    -0
fold | read harmless
    -bs -w: --bytes --spaces --width:
fmt | read harmless
    -cstu -w: -p: -g: -# --width:
column | read harmless
    -teLxJdnR -c: -s: -o: -N: -l: -H: -E: -O: -T: --table --separator: --output-separator: --json
    --table-columns: --output-width: --keep-empty-lines
paste | read harmless
    -sz -d: --serial --delimiters: --zero-terminated
join | read harmless
    -iz -a: -e: -j: -o: -t: -v: -1: -2: --check-order --nocheck-order --header --ignore-case
cut | read harmless
    -nsz -b: -c: -d: -f: --bytes: --characters: --delimiter: --fields: --complement --only-delimited
    --output-delimiter: --zero-terminated
tr | text harmless
    -cCdst --complement --delete --squeeze-repeats --truncate-set1
expand | read harmless
    -i -t: --initial --tabs:
unexpand | read harmless
    -a -t: --all --first-only --tabs:
comm | read harmless
    -123z --check-order --nocheck-order --output-delimiter: --total --zero-terminated
cmp | read harmless
    -bls -i: -n: --print-bytes --ignore-initial: --verbose --bytes: --quiet --silent
diff, colordiff | read | compares {}
    -abBcdeEiNnpqrstTuwyZ -C: -F: -I: -L: -S: -U: -W: -x: -X< -# --normal --brief --report-identical-files
    --context? --unified? --ed --rcs --side-by-side --width: --left-column --suppress-common-lines
    --show-c-function --show-function-line: --label: --expand-tabs --initial-tab --tabsize:
    --suppress-blank-empty --recursive --no-dereference --new-file --unidirectional-new-file
    --ignore-file-name-case --exclude: --exclude-from< --starting-file: --from-file< --to-file< --ignore-case
    --ignore-tab-expansion --ignore-trailing-space --ignore-space-change --ignore-all-space --ignore-blank-lines
    --ignore-matching-lines: --text --strip-trailing-cr --minimal --horizon-lines: --speed-large-files --color?
    --paginate! -l!
sdiff | read | compares {}
    -abBdEHilstWZ -w: -o>
sort | read
    -bcCdfghiMmnRrsuVz -k: -t: -S: -o> -T^: --ignore-leading-blanks --dictionary-order --ignore-case
    --general-numeric-sort --ignore-nonprinting --month-sort --human-numeric-sort --numeric-sort --random-sort
    --reverse --sort: --version-sort --batch-size: --check? --debug --random-source< --files0-from+< --key: --merge
    --output>
    --stable --buffer-size: --field-separator: --parallel: --unique --zero-terminated --compress-program!:
    --temporary-directory^:
uniq | read check=second_is_written
    -cdDiuz -f: -s: -w: --count --repeated --all-repeated? --skip-fields: --group? --ignore-case --skip-chars:
    --unique --zero-terminated --check-chars:
grep, egrep, fgrep | pattern harmless | searches {}
    &grep
zgrep | pattern | searches {}
    -EFivwxcloqshHn -e: -A: -B: -C:
rg | pattern check=rg | searches {}
    -abchilnopqsuvwxFHINPSUV0. -L+ -# -A: -B: -C: -E: -M: -T: -d: -e: -f< -g: -j: -m: -r: -t: --after-context:
    --auto-hybrid-regex --before-context: --binary --block-buffered --byte-offset --case-sensitive --color:
    --colors: --column --context: --context-separator: --count --count-matches --crlf --debug --dfa-size-limit:
    --encoding: --engine: --field-context-separator: --field-match-separator: --file< --files
    --files-with-matches --files-without-match --fixed-strings --follow+ --glob: --glob-case-insensitive
    --heading --hidden --iglob: --ignore-case --ignore-file< --include-zero --invert-match --json
    --line-buffered --line-number --line-regexp --max-columns: --max-columns-preview --max-count: --max-depth:
    --maxdepth: --max-filesize: --mmap --multiline --multiline-dotall --no-column --no-config
    --no-context-separator --no-filename --no-heading --no-hidden --no-ignore --no-ignore-dot
    --no-ignore-exclude --no-ignore-files --no-ignore-global --no-ignore-messages --no-ignore-parent
    --no-ignore-vcs --no-line-number --no-messages --no-mmap --no-pcre2-unicode --no-require-git --no-unicode
    --null --null-data --one-file-system --only-matching --passthru --path-separator: --pcre2 --pretty --quiet
    --regex-size-limit: --regexp: --replace: --smart-case --sort: --sortr: --stats --stop-on-nonmatch --text
    --threads: --trim --type: --type-add: --type-clear: --type-list --type-not: --unrestricted --vimgrep
    --with-filename --word-regexp --pre!: --pre-glob: --hostname-bin!: --search-zip! -z!
ag | pattern | searches {}
    -acilLnqQrsSuUvwz -A: -B: -C: -G: -m: --hidden --ignore: --nocolor --color --depth:
find | read check=find | searches {}
fd | pattern check=fd | searches {}
    -HIusigFapl0q1 -L+ -d: -t: -e: -E: -S: -c: -j: -x! -X! --hidden --no-ignore --unrestricted --case-sensitive
    --ignore-case --glob --fixed-strings --absolute-path --follow+ --full-path --list-details --print0
    --max-depth: --min-depth: --type: --extension: --exclude: --size: --changed-within: --changed-before:
    --color: --threads: --max-results: --base-directory< --search-path< --strip-cwd-prefix --exec! --exec-batch!
locate | text harmless | searches file names
    -bciwAre0 -l: -n: --basename --count --ignore-case --limit: --regex --existing
sed | read check=sed
awk, gawk, mawk, nawk | read check=awk
jq | pattern harmless check=jq | reads {}
    -acCejMnrRsSj -f< -L< -# --arg:: --argjson:: --slurpfile:< --rawfile:< --args --jsonargs --ascii-output
    --color-output --compact-output --exit-status --from-file< --indent: --join-output --monochrome-output
    --null-input --raw-input --raw-output --raw-output0 --seq --slurp --sort-keys --stream --tab --unbuffered
yq | pattern check=yq
    -rPeCMnNjy -o: -p: -I: -i^ --unwrapScalar? --prettyPrint --exit-status --colors --no-colors --null-input
    --no-doc --output-format: --input-format: --indent: --tojson --inplace^ --raw-output --yaml-output
xmllint | read check=addresses
    --noout --format --xpath: --noblanks --pretty:
file | read
    -bciLhkNnprsvE0 -F: -e: -P: -f+< -m< --brief --mime --mime-type --mime-encoding --dereference
    --no-dereference --keep-going --raw --extension --separator: --print0
stat | read harmless | looks at {}
    -L --dereference -f --file-system -t --terse -c: --format: --printf: --cached: -x -s -r -n
du | read harmless | measures {}
    -0abcDHhklmPsSx -L+ -B: -d: -t: -X< -# --null --all --apparent-size --block-size: --bytes --total
    --dereference-args --max-depth: --human-readable --inodes --dereference+ --no-dereference --separate-dirs
    --si --summarize --threshold: --time? --time-style: --exclude-from< --exclude: --one-file-system
    --files0-from+<
df | read harmless | shows disk space
    -aBhHiklPTv -t: -x: --all --block-size: --human-readable --si --inodes --local --portability --print-type
    --type: --exclude-type: --output? --sync --total
xxd | read at_most=1 check=bounded
    -abeEipru -c: -g: -l: -n: -o: -s: -d -R:
od | read harmless check=bounded
    -abcdfhilosvx -A: -j: -N: -S: -t: -w? --address-radix: --skip-bytes: --read-bytes: --format:
    --output-duplicates --width?
hexdump | read harmless check=bounded
    -bcCdovx -e: -f< -n: -s: --canonical --length: --skip:
hd | read harmless check=bounded
    -bcCdovx -e: -f< -n: -s:
strings | read harmless
    -afow -n: -t: -e: -# --all --bytes: --radix: --encoding: --print-file-name
base64 | read harmless
    -di -w: -D --decode --ignore-garbage --wrap:
base32 | read harmless
    -di -w: --decode --ignore-garbage --wrap:
sha256sum, sha1sum, sha512sum, sha224sum, sha384sum, md5sum | read harmless
    &sum
b2sum | read harmless
    &sum -l:
cksum | read harmless
    &sum -a: --algorithm:
shasum | read harmless
    -bctUq0 -a: --algorithm: --check --status --quiet
md5 | read harmless
    -nqr -s:
sum | read harmless
    -rs
readlink | read harmless | looks at {}
    -femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline
realpath | read harmless | looks at {}
    -emLPqsz --canonicalize-existing --canonicalize-missing --logical --physical --quiet --relative-to<
    --relative-base< --strip --no-symlinks --zero
basename | text harmless | prints a name
    -az -s: --multiple --suffix: --zero
dirname | text harmless | prints a folder name
    -z --zero
pathchk | text harmless
    -pP
zcat | read harmless
    -fqv
bzcat | read harmless
    -s
xzcat, zstdcat | read harmless
    -qv
gzip, gunzip, bzip2, bunzip2, xz, unxz, zstd | read check=compress
    &gzip
unzip | read check=unzip
    -lvptZcCjLnoqu12 -x: -d>
zipinfo | read harmless
    -1lmhstTvzM2
zip | write writes
    -rq9jmuXyv -x: -T! --recurse-paths --quiet --exclude:
tar | read check=tar
ldd | text check=ldd | shows what a program is linked with
    -vdru --verbose --data-relocs --function-relocs --unused
ar, dc, info, ed, ex, vi, vim, nano, umount | read executes
nm | read check=no_directives
    -aACDgnoprSuvl -t: -f: --demangle? --defined-only --undefined-only --dynamic --extern-only --size-sort
objdump | read check=no_directives
    -adDfhptTrRsSxgGCwz -j: -M: -b: -m: --disassemble? --syms --headers --all-headers --section: --demangle?
readelf | read check=no_directives
    -aehlSgtsnrudVADWI -x: -p: --all --headers --symbols --dynamic --notes --wide --relocs --sections
size | read check=no_directives
    -ABdoxt --format:
iconv | read
    -cls -f: -t: -o> --from-code: --to-code: --output> --list
dos2unix | write writes lenient
look | read harmless
    -df -t:
tsort | read harmless
shuf | read
    -erz -i: -n: -o> --echo --head-count: --input-range: --repeat --output> --random-source<
pr | read harmless
    -acdmtTJ -h: -l: -n? -o: -w: -#
csplit | read writes
    -ksz -f: -b: -n: --prefix: --digits: --keep-files --quiet
split | read writes
    -dexu -a: -b: -C: -l: -n: -t: -# --additional-suffix: --bytes: --line-bytes: --lines: --number: --suffix-length:
    --numeric-suffixes? --hex-suffixes? --elide-empty-files --verbose --filter!:
echo | text harmless | prints text
    *
yes | text check=endless | prints without end
    *
printf | text check=printf | prints text
true, false, : | text harmless | does nothing
    *
pwd | text harmless | prints the current folder
    -LP --logical --physical
cd | read | goes to {}
    -LPe
pushd | read | goes to {}
    -n
popd | text | goes back
    -n
dirs | text harmless
    -clpv
sleep, wait | text harmless | waits
seq | text harmless check=seq | prints numbers
    -w -f: -s: -# --equal-width --format: --separator:
expr | text harmless | computes
    *
factor | text harmless | computes
    -h
numfmt | text harmless
    -d: -z --from: --to: --field: --format: --grouping --suffix: --round: --padding: --header?
bc | read | computes
    -lqsw --mathlib --quiet --standard
cal | text harmless | prints a calendar
    -13jmswyY -A: -B: -n: -#
ncal | text harmless
    -13jmswy -A: -B:
date | text check=date | prints the date
    -uR -d: -I? -r< --date: --utc --universal --iso-8601? --rfc-3339: --rfc-email --rfc-2822 --reference< -s!:
    --set!: -f!: --file!:
test, [, [[ | text check=test | checks a condition
read | text check=variables | reads a line
    -rse -d: -n: -N: -p: -t:
break, continue, return, shift, arch, logname, users, lsmod, times | text harmless
exit | text harmless | ends the script
local | text check=harmless_assignments
export | text check=harmless_assignments
    -p
set | none check=set
    -eux -o:
unset | read executes | changes the shell's variables
type | text harmless | says what a name is
    -afptP
which | text harmless | finds a program
    -as
whereis | text harmless | finds a program
    -bmsu
whatis | text harmless
    -w -s:
apropos | text harmless
    -ae -s:
man | read | shows a manual page
    -akfw -s: -S:
tldr | text network lenient
uname | text harmless | describes the machine
    -asnrvmpio --all --kernel-name --kernel-release --machine --operating-system
nproc | text harmless | counts processors
    --all --ignore:
whoami, groups | text harmless | says who you are
tty | text harmless
    -s
id | text harmless | says who you are
    -agGnruzZ --user --group --groups --name --real --zero
who | text harmless
    -abdHlmpqrstTuw
w | text harmless
    -hsfoi
last | text harmless
    -adFiwx -n: -#
hostname | none | prints the host name
    -fsiIdA --fqdn --short --ip-address --all-ip-addresses
hostnamectl | text at_most=1 check=status_only
    --static --json:
timedatectl | text at_most=1 check=status_only
uptime | text harmless | describes the machine
    -ps --pretty --since
free | text harmless | shows memory
    -bkmghltvw -s: -c: --bytes --kilo --mega --giga --human --wide --total --si
lscpu | text harmless | describes the machine
    -abcepsxyJ --all --json --extended? --parse?
lsblk | text harmless | describes the machine
    -abdfilmnOprtJ -o: -e: -I: --json --output: --fs --all
lsusb | text harmless
    -tv -s: -d:
lspci | text harmless
    -knvmtxbD -s: -d:
lsb_release | text harmless
    -asicdrv
sw_vers | text harmless
    -productVersion
getconf | text harmless
    -a
locale | text harmless
    -am
ulimit | text harmless
    -aSH
umask | none
    -Sp
getent | text network lenient | looks up names
ps | text harmless check=ps | lists processes
    *
pgrep | text harmless | lists processes
    -acfilnorvwx -d: -g: -G: -P: -s: -t: -u: -U: --full --list-name --list-full --count --exact
pstree | text harmless | lists processes
    -aAcglnpTuU -H:
top | none check=top | lists processes
    -bcHiS -n: -d: -p: -u: -U: -o: -w? -E: -e:
pidof | text harmless
    -sx -o:
jobs | text harmless
    -lnprs
vmstat | text harmless
    -adfmnsStwD
iostat | text harmless
    -cdhkmNtxyz
lsof | read | lists open files
    -abCHlnNoOPRtUVvX -c: -d: -F? -g? -i? -p: -s? -u:
ss | text | lists connections
    -HnraleomptuiswxO46bEZz -f: -A: --tcp --udp --listening --all --numeric --processes --summary
netstat | text harmless | lists connections
    -rinsgMvWeNocFCaltuxpwT46 --tcp --udp --listening --all --numeric --route --interfaces
ip | text single_dash check=ip | shows the network settings
    -4 -6 -br -brief -j -json -p -pretty -s -stats -statistics -d -details -o -oneline -h -human -c? -color? -r -resolve
ifconfig | text at_most=1
    -as
route | none
    -n
arp | text
    -an
env | command check=env | prints the environment
    -i0v -u: -C< -S: --ignore-environment --null --unset: --chdir< --split-string:
printenv | text harmless | prints the environment
    -0 --null
systemctl | read executes | changes services
    -alq --all --no-pager --full --user --system --failed --type: -t: --state: --no-legend --plain --output: -n:
    --lines:
systemctl status | text harmless | shows services
    &service
systemctl show, systemctl cat, systemctl show-environment | text executes lenient | shows what services were given
systemctl is-active, systemctl is-enabled, systemctl is-failed, systemctl list-units, systemctl list-unit-files,
systemctl list-timers, systemctl list-dependencies, systemctl get-default | text harmless
    &service
journalctl | text check=follows | shows the system log
    -abefklmqrx -n: -u: -t: -p: -g: -o: -S: -U: -b? -n? -# --no-pager --since: --until: --unit: --user-unit:
    --user --system --lines? --output: --priority: --grep: --reverse --follow --dmesg --boot? --list-boots --utc
    --no-hostname --disk-usage
dmesg | none check=follows | shows the system log
    -dehHkLPrTtuwxS -f: -l: --ctime --human --level: --facility: --color? --decode --follow
tee | write writes
    -ai --append --ignore-interrupts
touch | write writes
    -acfhm -d: -r< -t: --no-create --date: --reference< --time:
mkdir | write writes | makes {}
    -pv -m: -Z --parents --verbose --mode:
mkfifo | write writes
    -m:
mktemp | text writes | makes a temporary file
    -dqtu -p: --directory --suffix: --tmpdir? --dry-run
cp | copy writes | copies to {}
    -abdfilLnPprRsuvxHT -t> --archive --backup? --force --interactive --link --dereference --no-clobber
    --no-dereference --preserve? --parents --recursive --reflink? --remove-destination --sparse:
    --strip-trailing-slashes --symbolic-link --suffix: -S: --target-directory> --no-target-directory --update?
    --verbose --one-file-system
install | copy writes | copies to {}
    -bcCdDpTv -g: -m: -o: -S: -t> --mode: --owner: --group: --directory --strip-program!: -s!
mv | copy writes check=move | moves to {}
    -bfinTuv -S: -t> --backup? --force --interactive --no-clobber --strip-trailing-slashes --suffix:
    --target-directory> --update? --verbose
ln | copy writes | links to {}
    -bdfFiLnPrsTvS -t> --symbolic --force --relative --no-dereference --backup? --target-directory> --verbose
rsync | copy writes check=remote_paths | copies to {}
    -avzrtlphnPxqucCiHAXogDW --archive --verbose --dry-run --progress --recursive --exclude: --include:
    --delete% --delete-after% --delete-before% --del% -e!: --rsh!: --rsync-path!:
scp, sftp | text network lenient | copies over the network
rm | delete destructive check=recursive | deletes {}
    -dfiIrRv --force --recursive --dir --interactive? --verbose --one-file-system --preserve-root?
    --no-preserve-root
rmdir | delete writes | removes {}
    -pv --parents --verbose --ignore-fail-on-non-empty
unlink | delete destructive | deletes {}
shred | delete destructive | destroys {}
    -fuvxz -n: -s: --remove? --force --iterations: --size: --zero
truncate | write destructive | cuts {}
    -co -r< -s: --size: --reference< --no-create
chmod | write writes before=1 | changes who may use {}
    -cfvR --changes --silent --quiet --verbose --recursive --reference< --preserve-root --no-preserve-root
chown | write writes before=1 | changes who owns {}
    -cfvhRHLP --changes --silent --verbose --recursive --reference< --from: --no-dereference --preserve-root
    --no-preserve-root
chgrp | write writes before=1 | changes who owns {}
    -cfvhRHLP --changes --verbose --recursive --reference<
dd | text check=dd
patch | text writes | changes files
    -NRsubflt -p: -i< -d< -o> -r> -B: -F: --strip: --input< --directory< --dry-run --forward --reverse --batch --force
    --silent --quiet --unified --backup --verbose
crontab | none check=crontab
    -l -u:
kill, pkill, killall | read executes | stops processes
mount | none
    -l
ping, aria2c, http, https, xh, traceroute, telnet, ftp | url network lenient
mkfs | write destructive lenient | formats {}
wipefs, blkdiscard | write destructive lenient | wipes {}
fdisk | write destructive lenient | changes partitions
parted | text destructive lenient | changes partitions
shutdown, reboot, halt, poweroff | text destructive lenient | stops the machine
curl | url network lenient | connects to {}
    -o> -O^ -K< -T< -d: -H: -X: -u: -A: -e: -m: -x: -b: -c> -D> -F: -w: -E< --output> --remote-name^
    --output-dir> --upload-file< --dump-header> --cookie-jar> --data: --data-raw: --data-binary:
    --data-urlencode: --json: --header: --request: --user: --user-agent: --max-time: --proxy: --form:
    --write-out: --connect-timeout: --retry: --retry-delay: --url: --cacert< --cert< --key< --resolve: --trace>
    --trace-ascii> --stderr>
wget | url network lenient | connects to {}
    -O> -o> -P> -i< --output-document> --output-file> --directory-prefix> --input-file< --header: --post-data:
    --post-file< -U: -T: -t: --tries: --timeout: --user: --password: --execute!: -e!: --use-askpass!:
dig, nslookup, host, whois | url network lenient | looks up {}
nc, ncat, socat | text executes lenient | connects to another machine
ssh | text executes lenient check=ssh | runs a command on another machine
    -p: -i: -l: -o: -J: -L: -R: -D: -F: -c: -m: -b: -E: -e: -I: -O: -Q: -S: -w: -W:
"""

WRAPPER_TABLE = r"""
sudo | command executes | runs as another user
    -AbEHnPSkKvis -u: -g: -h: -p: -C: -D< -r: -t: -T: -U: -R: --user: --group: --preserve-env? --login
    --non-interactive --stdin --set-home --shell
doas | command executes | runs as another user
    -nsL -u: -C:
timeout | command before=1
    -fpv -k: -s: --foreground --preserve-status --verbose --kill-after: --signal:
nice | command
    -n: -# --adjustment:
ionice | command
    -t -c: -n: --class: --classdata: --ignore
nohup, builtin, busybox, toybox, chronic | command
time | command
    -pvlh -f: --portability --verbose --format: -o> --output> -a --append
stdbuf | command
    -i: -o: -e: --input: --output: --error:
setsid | command
    -cfw --ctty --fork --wait
chrt | command executes before=1
    -abfiopr
taskset | command before=1
    -ac
unbuffer | command
    -p
command | command check=command
    -pvV
exec | command
    -cl -a:
xargs | command check=xargs
    -0oprtx -a< -d: -E: -I: -i? -L: -l? -n: -P: -s: -R: -J: --null --arg-file< --delimiter: --max-args:
    --max-procs: --max-lines? --replace? --no-run-if-empty --verbose --max-chars: --exit --open-tty
    --interactive
parallel | command executes check=xargs
    -0jkvX -j: -n: -N: -a< --jobs: --dry-run --keep-order --no-notice --bar --null
watch | command executes check=script_words | runs something again and again
    -bcdegptxw -n: --beep --color --differences? --errexit --chgexit --interval: --precise --no-title --exec
caffeinate | command
    -disu -t:
flock, strace, script, chroot, unshare | text executes lenient
su | text executes lenient | runs as another user
eval | command check=script_words
"""
