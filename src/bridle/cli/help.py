"""The help pages, as text: one screen each, no option list of every verb."""

from __future__ import annotations

OVERVIEW = """\
bridle — a coding agent that asks first, remembers everything and can undo it

  bridle run [PROMPT]           one task, then exit            -c  continue the last session here
  bridle demo                   watch it work, with a script   -r  resume a session by its id
  bridle sessions               what was done before           -m  model, as provider:model

Look back   sessions list   sessions show ID   sessions export ID

Options of run
  -y, --yes            answer yes to questions in this run      -C, --cwd DIR     work there
  --mode MODE          strict default safe auto yolo plan       --max-steps N     stop after N steps
  --json, --stream-json                                         --allow RULE, --deny RULE   e.g. 'bash(npm test*)'
  --on-orphan fail|mark-unknown   after a crash: refuse to go on, or tell the model that the outcome is unknown

bridle help run     bridle help sessions     bridle help exit-codes     bridle help env     bridle help scripts
"""

RUN = """\
bridle run [PROMPT|-] — one task, then exit. The answer goes to stdout, what happens to stderr.

  bridle run -m demo "say hello"              the scripted model, nothing leaves the machine
  bridle run -m demo:my.script "try this"     the same, playing your script
  git diff | bridle run -m demo -             the prompt comes from stdin
  bridle run -c "and now the tests"           go on with the newest session of this folder
  bridle run -r 01J8ZQ "and now the docs"     go on with that one; any unique part of its beginning will do

Nobody can answer questions in a run: what would ask is not run, and the model is told why.
Let it with -y, --mode auto, or --allow 'bash(npm test*)'. Nothing lifts a --deny.
--json prints one object at the end, --stream-json one line per event and run.result last.
"""

SESSIONS = """\
bridle sessions — everything that was done is kept, encrypted, on this machine.

  bridle sessions list [--all] [--json]    the sessions of this folder, newest first; --all for every folder
  bridle sessions show ID                  what happened in one
  bridle sessions export ID                its events, one JSON object a line

ID is any unique beginning of the id, or the exact title.
"""

EXIT_CODES = """\
0    done, also when some calls were not allowed but the turn ended normally
1    the run failed: the model gave up, a limit was reached, it went in circles
2    you asked for something impossible: usage, unknown model or session, unusable folder
3    refused by policy: an action of an earlier run may or may not have happened
4    no or bad credentials
5    provider or network
124  the deadline passed
130  interrupted
141  the reader of the output went away
"""

ENV = """\
BRIDLE_HOME     all of Bridle's files under this one folder
BRIDLE_MODEL    the model to use when -m is not given, as provider:model
Also read: HOME, XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_STATE_HOME. An empty value counts as unset.
"""

SCRIPTS = """\
A script is what the demo model plays: answers separated by ---, one statement a line.

  # comments begin with #
  say Reading the file first.
  call read_file {"path": "README.md"}
  ---
  think It is short.
  say That is all there is.

  say TEXT          call TOOL {JSON}          wait SECONDS          fail REASON [times=N]
  think TEXT        pace DELTAS_PER_SECOND    chunk CHARACTERS      usage in=N out=N
Longer arguments go below the call, indented: `key: value`, or `key: <<END` and lines up to END.
Play it: bridle run -m demo:FILE "anything"
"""

PAGES = {
    "": OVERVIEW,
    "run": RUN,
    "sessions": SESSIONS,
    "exit-codes": EXIT_CODES,
    "env": ENV,
    "scripts": SCRIPTS,
}


def page(words: list[str]) -> tuple[str, int]:
    """A page and the exit code: 2 when there is no such page."""
    topic = words[0] if words else ""
    if topic in PAGES:
        return PAGES[topic], 0
    known = ", ".join(name for name in PAGES if name)
    return f'There is no help page "{topic}". Pages: {known}\n', 2
