"""A rule that denies commands is not talked around: what hides a program's name from it asks a person.

Nothing here is run but `touch` in a scratch folder: every other command is only explained.
"""

import pytest

from bridle.app.queries.explain import Explained, explain, standing
from bridle.protocol.commands import SessionOptions
from bridle.protocol.events import GrantAdded
from safety.corpus.loading import SYSTEM_PATH, Scene
from tables import table

HIDDEN = {
    "a substitution": "$(printf curl) https://example.org",
    "backquotes": "`echo curl` https://example.org",
    "a default": "${X:-curl} https://example.org",
    "another default": "${X-curl} https://example.org",
    "an alternative": "x=1; ${x:+curl} https://example.org",
    "a variable nobody set": "$CURL https://example.org",
    "an alias": "shopt -s expand_aliases\nalias c=curl\nc https://example.org",
    "an alias by its table": "shopt -s expand_aliases\nBASH_ALIASES[c]=curl\nc https://example.org",
    "a function with its arguments": 'f() { "$@"; }; f curl https://example.org',
    "a function with its first": "f() { $1 https://example.org; }; f curl",
    "positional parameters": 'set -- curl https://example.org; "$@"',
    "one positional parameter": "set -- curl; $1 https://example.org",
    "a glob": "/usr/bin/cur? https://example.org",
    "a class": "/usr/bin/[c]url https://example.org",
    "braces": "/usr/bin/{cu,}rl https://example.org",
    "braces that make words": "{curl,https://example.org}",
    "a script just written": "echo 'c''url https://example.org' > s; sh s",
    "a script just written, by its path": "printf 'x' > s; chmod +x s; ./s",
    "a script from a here-document": "cat > s <<E\nhello\nE\nchmod +x s && ./s",
    "a script that is sourced": "echo x > s; . ./s",
    "a link": "ln -s $(which curl) c; ./c https://example.org",
    "a link without substitution": "ln -s /usr/bin/cu\\rl c && ./c x",
    "a copy": "cp /usr/bin/cu*l c && ./c https://example.org",
    "a copy by dd": "dd if=/usr/bin/x of=c; chmod +x c; ./c https://example.org",
    "a copy by cat": "cat /usr/bin/x > c; chmod +x c; ./c https://example.org",
    "a copy by install": "install -m 755 /usr/bin/x c; ./c https://example.org",
    "a copied folder": "cp -r /usr/bin tools; tools/x https://example.org",
    "a linked folder": "ln -s /usr/bin tools; tools/x https://example.org",
    "a copy by bare name": "cp /usr/bin/x ~/bin/c; c https://example.org",
    "a copy behind PATH": "cp /usr/bin/x ./ls; PATH=.:$PATH ls https://example.org",
    "an unpacked program": "tar xf a.tar; ./c https://example.org",
    "a checkout": "git checkout other && ./c https://example.org",
    "a copy to where nobody knows": "cp /usr/bin/x $D/foo; ./foo https://example.org",
    "an array": 'a=(curl https://example.org); "${a[@]}"',
    "an element of one": "a=(curl); ${a[0]} https://example.org",
    "a name reference": "x=curl; declare -n r=x; $r https://example.org",
    "an indirect name": "x=curl; y=x; ${!y} https://example.org",
    "read": "read x <<< curl; $x https://example.org",
    "printf -v": "printf -v x curl; $x https://example.org",
    "mapfile": "mapfile -t x <<< curl; $x https://example.org",
    "a part of a word": "x=scurls; ${x:1:4} https://example.org",
    "a replacement": "x=xurl; ${x/x/c} https://example.org",
    "upper and lower": "x=CURL; ${x,,} https://example.org",
    "eval": 'eval "$x"',
    "eval of a substitution": 'eval "$(printf curl) https://example.org"',
    "a shell with a text nobody knows": 'bash -c "$x"',
    "a shell with arguments": "bash -c '\"$@\"' x curl https://example.org",
    "a shell with its name": "bash -c '$0 https://example.org' curl",
    "a shell with options first": "bash -O extglob -c 'x=curl; $x https://example.org'",
    "a shell that reads": "printf '%s\\n' x | sh",
    "a shell that reads a file": "sh < s",
    "a shell that reads a text nobody knows": 'bash <<< "$x"',
    "a file that is none": "source <(echo hello)",
    "a shell with such a file": "bash <(echo hello)",
    "xargs": "echo curl | xargs -I{} {} https://example.org",
    "xargs with env": "echo curl | xargs env",
    "find": "find /usr/bin -name 'cur?' -exec {} https://example.org \\;",
    "env": "env $x https://example.org",
    "nice": "nice $x https://example.org",
    "an option that may be more": "sudo -u $u ls",
    "exec": "exec $x https://example.org",
    "command": "command $x https://example.org",
    "which": "$(which curl) https://example.org",
    "command -v": '"$(command -v curl)" https://example.org',
    "a tilde": "~+/c https://example.org",
    "a trap": 'trap "$x" EXIT',
    "hash": "hash -p /usr/bin/x ls; ls https://example.org",
    "an index": "y=curl; x='a[$($y u)]'; echo $((x))",
    "an index in a test": "test -v 'a[$($y u)]'",
    "a prompt": "PS4='$($y u)'; set -x; ls",
    "a file the shell obeys": "BASH_ENV=s bash -c ls",
    "parallel": "parallel ::: 'x y'",
    "flock": "flock l $x https://example.org",
    "a text nobody can read": "ls \\ x; {ls; }",
    "a variable that may have changed": "x=ls; if true; then x=$(printf curl); fi; $x https://example.org",
    "a loop over what nobody knows": "for x in $(echo curl); do $x https://example.org; done",
}  # fmt: skip

DENIED = {
    "a constant": "x=curl; $x https://example.org",
    "a constant of two": "a=cu; b=rl; $a$b https://example.org",
    "a constant with arguments": "c='curl -s'; $c https://example.org",
    "a constant behind a wrapper": "x=curl; nice -n 1 $x https://example.org",
    "a constant in quotes": 'x=curl; "$x" https://example.org',
    "a constant handed on": "export x=curl; $x https://example.org",
    "a constant in a list": "x=curl && $x https://example.org",
    "a constant in a loop": "for x in ls curl; do $x https://example.org; done",
    "a default that is not used": "x=curl; ${x:-ls} https://example.org",
    "quotes": "c''url https://example.org",
    "a backslash": "c\\url https://example.org",
    "a byte": "$'\\x63url' https://example.org",
    "a path": "/usr/bin/curl https://example.org",
    "a substitution around it": "echo $(curl https://example.org)",
    "a pipe": "echo x | xargs curl",
    "a here-document": "bash <<E\ncurl https://example.org\nE",
    "a function": "f() { curl https://example.org; }; f",
    "a text": "eval 'curl https://example.org'",
    "a sourced default": ": ${x:=curl}; curl x",
}

READABLE = {
    "a plain program": "npm test",
    "a script that was there": "./build.sh",
    "a script that was there, by a shell": "bash build.sh",
    "a program that starts others": "make deploy",
    "code of another language": "python3 -c 'print(1)'",
    "arguments nobody knows": 'npm test "$@"',
    "a substitution as an argument": "echo $(date)",
    "a constant": "x=npm; $x test",
    "a file that is written": "echo x > notes; cat notes",
    "a folder that is made": "mkdir -p out && cp README.md out/",
    "a test": '[ -n "$x" ] && npm test',
    "an ordinary loop": 'for f in src/*.py; do wc -l "$f"; done',
    "a commit": "git add -A && git commit -m x && ./build.sh",
    "another branch": "git checkout other",
    "a pull": "git pull && git log -1",
    "a stash": "git stash && npm test",
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> Scene:
    return Scene.make(tmp_path_factory.mktemp("denied"))


async def explained(scene: Scene, command: str, **options) -> Explained:
    env = {"PATH": SYSTEM_PATH, "HOME": scene.home, "BRIDLE_HOME": f"{scene.home}/bridle"}
    mode = options.pop("mode", "yolo")
    given = SessionOptions(**{"deny": ("bash(curl*)",), **options})
    here = standing(env, cwd=scene.cwd, options=given, mode=mode)
    return await explain(here, "bash", {"command": command})


@table("name", HIDDEN)
async def test_a_command_that_hides_what_it_runs_is_asked_about(scene: Scene, name: str) -> None:
    for mode, allow in (("yolo", ("bash",)), ("auto", ()), ("default", (f"bash({HIDDEN[name]})",))):
        found = await explained(scene, HIDDEN[name], mode=mode, allow=allow)
        if found.step == 1:  # refused whatever rules say
            continue
        assert (found.verdict, found.step, found.rule) in (
            ("ask", 2, "bash(curl*)"),
            ("deny", 2, "bash(curl*)"),
        ), found
        assert [answer.answer for answer in found.answers] in ([], ["once"])


@table("name", DENIED)
async def test_and_one_that_shows_it_is_denied(scene: Scene, name: str) -> None:
    found = await explained(scene, DENIED[name])
    assert (found.verdict, found.step, found.rule) == ("deny", 2, "bash(curl*)")


@table("name", READABLE)
async def test_what_can_be_read_and_was_there_before_is_judged_as_without_the_rule(
    scene: Scene, name: str
) -> None:
    found = await explained(scene, READABLE[name])
    assert (found.verdict, found.step) == ("allow", 6), found


@pytest.mark.requirement("D11.3")
async def test_no_saved_yes_lifts_it(scene: Scene) -> None:
    env = {"PATH": SYSTEM_PATH, "HOME": scene.home, "BRIDLE_HOME": f"{scene.home}/bridle"}
    given = SessionOptions(deny=("bash(curl*)",))
    here = standing(env, cwd=scene.cwd, options=given, mode="default")
    for number, pattern in enumerate(("$x https://example.org", "npm test")):
        grant = GrantAdded(grant_id=f"grant_{number}", tool="bash", pattern=pattern, life="saved")
        here.saved.add(here.permissions.root, grant)
    found = await explain(here, "bash", {"command": "$x https://example.org"})
    assert (found.verdict, found.step, found.rule) == ("ask", 2, "bash(curl*)")
    plain = await explain(here, "bash", {"command": "npm test"})
    assert (plain.verdict, plain.step) == ("allow", 3)


@table("name", HIDDEN)
async def test_without_such_a_rule_nothing_changes(scene: Scene, name: str) -> None:
    for deny in ((), ("web_fetch",), ("Read(secret/**)",)):
        found = await explained(scene, HIDDEN[name], deny=deny)
        assert found.step != 2 or found.verdict == "deny"
        assert (found.verdict, found.step) in (("allow", 6), ("deny", 1)), found
