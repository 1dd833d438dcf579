"""The help pages, as text: one screen each, no option list of every verb."""

from bridle.base.text.spelling import meant_words
from bridle.cli.option_page import man_page, option_page
from bridle.clients.interaction.commands import slash_table
from bridle.config.settings_report import reference

OVERVIEW = """\
bridle — a coding agent that asks first, remembers everything and can undo it

  bridle [PROMPT]               talk (in this folder)          -c  continue the last session
  bridle run [PROMPT]           one task, then exit            -r  pick a session to resume
  bridle login [PROVIDER]       connect a model                -m  model, as provider:model
  bridle demo                   watch it work, with a script

Look back   sessions  undo  cost  memory
Set up      login  logout  models  config  profiles  plugins  tools  skills  agents
            doctor  completion
Safety      permissions  trust  sandbox  hooks
Share       serve  attach  token  mcp

Common options
  -y, --yes            answer yes to questions in this run      -C, --cwd DIR     work there
  --mode MODE          strict default safe auto yolo plan       --add-dir DIR     also allow this folder
  --json, --stream-json                                         --allow RULE, --deny RULE   e.g. 'bash(npm test*)'
  --max-steps N, --max-cost USD, --timeout S                    --set KEY=VALUE, --config FILE, --profile NAME
  --on-orphan ask|fail|mark-unknown   after a crash: ask a person, refuse to go on, or tell the model to check

bridle help VERB     bridle help options     bridle help exit-codes     bridle help env     bridle help settings
bridle help scripts     bridle help keys     bridle help man     the manual page, for ~/.local/share/man/man1/bridle.1
bridle help builders    commands for those who build with Bridle     bridle help mcp-serve    a tool of other agents
"""

RUN = """\
bridle run [PROMPT|-] — one task, then exit. The answer goes to stdout, what happens to stderr. All: bridle help options

  bridle run -m openai:MODEL "fix the test"   a model of a provider; bridle models lists what can be used
  bridle run -m demo:my.script "try this"     the scripted model, playing your script; -m demo plays its own
  git diff | bridle run -m demo -             the prompt comes from stdin; @FILE, /init, /review and /skills:NAME work
  bridle run -y /commit                       commit what changed, with a drafted message; --dry-run prints it
  bridle run --goal --check 'npm test' "…"    work on until the command ends with 0, at most --rounds N times
  bridle run -c "and now the tests"           go on with the newest session of this folder
  bridle run -r 01J8ZQ "and now the docs"     go on with that one; any unique part of its beginning will do
  bridle run --session nightly "check it"     go on with the session of that name, or begin it: for jobs that repeat

--fork with -c or -r goes on with a copy and leaves the session as it is. -n, --name TITLE gives it a title.
At a terminal a run asks, as a conversation does, and renders the answer as it comes (--no-stream: at its end).
Where nobody sits, or with --on-ask deny, what would ask is not run, and the model is told why.
Let it with -y, --mode auto, or --allow 'bash(npm test*)'. Nothing lifts a --deny.
Neither -y nor yolo lets a command leave the sandbox (--allow-unsandboxed) or change a policy file such as AGENTS.md
or .git/hooks (--allow-policy-changes). --auto-approve is --yes, --strict-permissions --mode strict.
--no-persistent-grants uses and keeps no yes of other sessions; --persistent-grants does, whatever the settings say.
-s, --sandbox auto|off|read-only|workspace-write: what commands write. --network deny, or filtered with --allow-host.
--max-cost USD: a request that could cost more than is left is not sent, and the run ends with exit 1.
--effort off|low|medium|high|max says how much the model thinks. --no-transcript keeps no transcript file of this run.
--append-system-prompt TEXT, or @FILE: words for the system text. --env-file FILE: NAME=value lines for the environment.
--output-schema FILE: the answer is JSON that fits, and nothing else is printed; one that does not is asked for again.
--json prints one object at the end, --stream-json one line per event; --output-format hub is for hubs of agents.
"""

SESSIONS = """\
bridle sessions — everything that was done is kept, encrypted, on this machine.

  list [--all] [--limit N]         the sessions of this folder, newest first, 30 at once; --all for every folder;
       [--after PLACE] [--json]    those behind the last one, as the list says; --json: all, with the PLACE of each
  show ID [--json] [--tree]        what happened in one; --json is one object: the session and its events;
                                   --tree the agents that were sent, each below whoever sent it
  replay ID [--pace N] [--step]    as it went, N times as fast, or from Enter to Enter; nothing is run
  search WORDS [--all]             where people or models said that; "two words" in quotes stand together
  export ID [--format F] [-o FILE] jsonl (as stored), markdown, or html: one page that needs nothing else;
                                   events or chain: a transcript for other tools
  import FILE|-                    an exported jsonl comes in again, for this folder; or a backup, as it was
  branch ID [--at TURN]            a new session that begins as that one was when the turn had ended
  diff ID [ID]                     what one changed; what two changed differently; --stat without the lines
  rename ID [TITLE]                without a title: none            pin ID [--off]      delete ID… [-y]
  prune [--dry-run]                lets go now what is older than sessions.retention_days
  repair [--check] [--json]        looks at every event; what is whole is saved, the damaged file is kept
  backup FILE [--json]             a copy of everything, encrypted, with its key in FILE.key; others may be at work
  rekey                            a new key for everything        dismiss [ID…]   ends notices of what expires soon

ID is any unique beginning of the id, the exact title, or a name given with --session. Go on: bridle -r ID, with the
newest: bridle -c, with a branch of it: --fork. What was said and done is kept for 30 days after a session was last
used, then titles, costs and the chain stay; ★ pinned ones are kept. bridle config set sessions.retention_days 90
"""

UNDO = """\
bridle undo [TURN|CALL|SESSION] — takes back what was done to files, by file tools and by commands alike.

  bridle undo                    in the newest session here, the last turn that changed something; asks first
  bridle undo 4                  turn 4 of it          bridle undo call_01J8…    one call
  bridle undo 01J8ZQ             everything a session changed; any name of it will do
  bridle undo --redo             takes back the last undo; of another session: --session ID
  --dry-run                      only shows what would happen
  -y, --yes                      does not ask; a file that changed since stops it, unless:
  --conflicts skip|overwrite     leaves such files as they are, or writes over them (an undo keeps them for --redo)
  --session ID                   the turn or call is of that session     -C, --cwd DIR   work there     --add-dir DIR

A file is put back only while it is as the turn left it. What cannot be undone is listed: network calls, what git
recorded, files that are too large to keep, folders that tools make again (node_modules, .venv), what lies outside the
workspace. Copies are kept encrypted, for 30 days after a session's last change. In a session: /undo, /redo
"""

COST = """\
bridle cost [--since 7d] [--by model|session|day] — what was paid, as the stored sessions tell it.

  bridle cost                       the last seven days, by model
  bridle cost --since 4w --by day   also 12h, 2w, all
  bridle cost --session ID          one session, from its beginning
  bridle cost --json                for programs: usd is what is known, unknown counts requests without a price

Prices are those of the moment. A model whose price nobody knows is said to be unknown, one on this machine local.
A limit: --max-cost USD for one session, or bridle config set budget.usd_per_session 5 for each.
"""

DEMO = """\
bridle demo — a scripted model mends a small project in a scratch folder: no key, no network.

Only the model is a script. The engine, the tools and the log are the real ones, and the session is kept:
bridle sessions shows it. Your own folder is not touched.
"""

LOGIN = """\
bridle login [PROVIDER] — connect a model: a key or an account, kept encrypted on this machine.

  bridle login                       choose a provider, then paste its key; nothing of it is shown
  bridle login openai < key.txt      the key comes from stdin; it is never a word of a command
  bridle login work --device         an account instead, by a code that you type on any device; --browser in a browser
  bridle login --list                what is stored, and what it is locked with; keys are never shown
  bridle login --check [PROVIDER]    ask each provider for its list of models, which costs nothing
  bridle login --export FILE         everything in one file that a passphrase opens; --import FILE takes it in
  bridle login --lock KIND           lock what is stored with a passphrase, the machine key, or an automatic key
  bridle logout PROVIDER             forget it; --all forgets everything

A key is tried before it is stored; --no-check leaves that out. A key in the environment goes before a stored one.
An account needs to know where: providers.NAME.oauth with client_id, token_url and authorize_url or device_url.
BRIDLE_PASSPHRASE or BRIDLE_MACHINE_KEY lock a new store; without them a key is made for you alone (chmod 600).
credentials.store = "keyring" uses the system keychain instead; where its package is missing, what installs it is said.
"""

MODELS = """\
bridle models [FILTER] — which models there are, what they can do and cost, and which can be used now.

  bridle models                  every provider and why it can or cannot be used; models on this machine
  bridle models openai           what that provider lists; it is asked at most once a day, and only it
  bridle models openai:mini      the same, only names with "mini" in them
  bridle models sonnet           every model that is known without asking and has "sonnet" in its name
  bridle models openai --refresh ask it again now; without a name, every provider whose key is there
  bridle models --keys           the environment variables a key may be in, and whether one is

✓ can be used now, * is the default. Choose one for good: bridle config set model PROVIDER:MODEL
Without a name nothing is asked outside this machine. A list costs nothing; no key is ever shown. --json for programs.
Prices are dollars for a million tokens, from the provider's list or a snapshot that comes with Bridle. Your own word
counts first: bridle config set 'models."PROVIDER:MODEL".price_in' 3, also price_out, context_tokens, tools, images.
A provider of your own: bridle config set providers.NAME.base_url URL, and providers.NAME.key_env VARIABLE.
"""

TOOLS = """\
bridle tools [list] [--json] — what the model may ask for. Takes --config FILE, --profile NAME and --set KEY=VALUE.

risk         what a call can do at worst: rules and modes go by it
concurrency  parallel-safe calls of one step run together, exclusive ones alone, serial ones in order
changes      what a call may change: nothing, the workspace, whatever a process can
source       who brought the tool
"""

SKILLS = """\
bridle skills — ways of working that the model learns of by name and reads when it needs one.

  bridle skills list [--json]             what is offered here, where each comes from, what is not trusted or no skill
  bridle skills show SKILL [--json]       one whole: what the model reads, and the files beside it
  bridle skills check [PATH…] [--json]    whether folders are skills, file and line of what to change; exit 1 for errors
  bridle skills new NAME [--own]          a folder to begin with: in .bridle/skills, or with --own in your own
                                          (--description TEXT says when it is used)

Looked for, the last wins: those Bridle brings, folders of your home that skills.folders lists, skills/ in your config
folder, listed folders of the project, .bridle/skills. Of a project or a listed folder, a skill counts when you agreed
to all of its files (bridle trust ack); your own need no word. In a conversation: /skills, /skills:NAME, /skills:reload.
list and show take --config FILE, --profile NAME and --set KEY=VALUE. More: docs/skills.md
"""

AGENTS = """\
bridle agents — who works: a prompt, the tools it sees, and how far it may go. Never freer than the session it is in.

  bridle agents list [--json]             what can be chosen or sent here, where each comes from, what is not trusted
  bridle agents show AGENT [--json]       one whole: its tools, its rules, its prompt
  bridle agents check [FILE…] [--json]    whether files are agents, every line to change; exit 1 for errors
  bridle agents new NAME [--own]          a file to begin with: in .bridle/agents, or with --own in your own
                                          (--description TEXT says what it is for)
  bridle agents use AGENT                 talk with that one in this project from now on; list marks it with *
  bridle agents forget                    not any more
  bridle --agent review                   talk with that one; bridle config set agent NAME does so everywhere
  bridle run --multi-agent "…"            let it send others; --single-agent (the default) lets it not

A name belongs to the first that has it: those Bridle brings, [agents.NAME] of your settings, agents/ in your config
folder, plugins and bundles (as PLUGIN__NAME), then .bridle/agents and folders of the project that agents.folders lists
(.claude/agents). Of a project, a file counts when you agreed to it (bridle trust ack). More: docs/agents.md
list, show and check take --config FILE, --profile NAME and --set KEY=VALUE.
"""

CONFIG = """\
bridle config — what is set, from where, and how to change it.

  bridle config show [--origin] [--json]    every setting in force; --origin says where each comes from
  bridle config get KEY                     one value; exit 1 where it is not set
  bridle config set KEY VALUE               writes your own file and says which; VALUE as in TOML, or plain words
  bridle config unset KEY                   takes it out of your own file again
  bridle config validate [--json]           everything that is wrong, with file and line; exit 2 for errors
  bridle config path                        your own file
  bridle config edit [--project|--local]    the whole file in VISUAL or EDITOR; says what is wrong with it afterwards

From low to high: defaults, profile, your own file, .bridle/config.toml, .bridle/config.local.toml, --config,
environment, --set. A file inside a project may only tighten. All keys: bridle help settings
show, get and validate take --config FILE, --profile NAME and --set KEY=VALUE.
"""

SHARING = """\
bridle token — let others into a session: what they may, for how long, and under which name.

  bridle token mint --session ID --approve --name Ana --for 2h   answers the questions of that session, and no more
  bridle token mint --session ID --watch --out FILE              looks on; the token goes into a new file (mode 0400)
  bridle token --session ID --identity-class agent               another program: it never says yes
  bridle token mint --ci --out ci-token.json                     what a job's engine is started with; see below
  bridle token list [--json]                                     what was minted, for whom, until when
  bridle token revoke TOKEN_ID                                   nobody is admitted with it any more, here and now
  bridle token audit [--session ID] [--json]                     what was minted, revoked, refused and answered

A token is minted by a person at a terminal and holds for 24 h unless --for says otherwise (30m, 2h, 7d). It works with
every bridle serve of the same data folder. --name is shown with every answer, and tells people apart where a rule wants
two of them; without one it is you. It is printed to a terminal; elsewhere take --out FILE, or --print if you mean it.
--ci names no session: an engine takes such a token only from the file it is started with, and where both have the same
BRIDLE_MACHINE_KEY.
"""

PERMISSIONS = """\
bridle permissions — what may run here and why, and what you said yes to.

  bridle permissions list [--json]         the mode, the rules and where each is written, what you saved for this folder
  bridle permissions explain TOOL JSON     what would become of that call; nothing runs, nobody is asked
  bridle permissions revoke ID|all         take a saved yes back; running sessions notice
  bridle permissions promote ID            make it a rule of your own settings, for every folder and for good

explain takes --mode, --allow, --deny, --allow-policy-changes, --allow-unsandboxed and --add-dir as a run does.
It says where only a person's own yes counts. With --json one object; with --batch it reads one call a line,
{"tool": "bash", "input": {"command": "ls"}}, and answers one JSON object a line with its verdict: allow, ask or deny.
The first that speaks decides: 1 guards and hooks, 2 a rule that denies, 3 a yes you gave, 4 the first rule that fits,
5 the agent's default, 6 the mode, 7 you are asked. An allow rule for a command needs every part of a script allowed
or harmless; a deny rule needs one part. A saved yes is for exactly that command or file, in that folder, for 7 days.
"""

TRUST = """\
bridle trust — nothing in a project is obeyed before you have read it and agreed: instruction files, settings, programs.

  bridle trust list [--all] [--json]      what this project wants, and what of it you trust; --all: of every project
  bridle trust ack [PATH…|--all]          read and agree, one thing at a time, at a terminal
  bridle trust diff PATH                  what changed since you agreed
  bridle trust verify [--lockfile FILE]   exit 3 and a list if anything is new or changed
  bridle trust revoke PATH|ID|all         take it back
  bridle trust ack --emit-lockfile [FILE] what is trusted here, for a place where nobody can be asked

What you agree to is the content: a changed file asks again. It is kept in approved.lock in your config folder.
A lock file counts only when you name it from outside: --lockfile FILE, or an absolute path in BRIDLE_APPROVED_LOCK.
One that merely lies in the project counts for nothing; one you name is as good as whoever can change it.
"""

SANDBOX = """\
bridle sandbox — what holds the commands that run here, and whether it does.

  bridle sandbox [--json]                      what is used, what commands may write, and why
  bridle sandbox run [--mode M] -- CMD…        run a command as the engine would; its output and exit code
  bridle sandbox probe [--network deny]        try a dozen escapes; exit 1 if one gets through
  bridle sandbox give-back PATH…               restore a quarantined file (NAME.put-aside-1), shown first

run takes --mode auto|off|read-only|workspace-write, --network inherit|filtered|deny, --allow-host HOST, -C DIR and
--add-dir DIR. The command gets what is piped in, never the terminal. 127: it was not found. 126: it cannot be executed.
3: nothing here can hold it, and sandbox.required = true or the network is to be filtered.

probe attacks only what it made for that: a scratch home, a workspace, sockets, a process. --adapter NAME tries
bubblewrap, landlock, unshare or sandbox-exec instead of the one in use. blocked: it was stopped. leaks: it was not.
not covered: this kind of sandbox or these settings do not stop it. not here: this machine has nothing of the kind.
not tried: it could not be. That and a leak end with exit code 1.

Commands write in the workspace, in --add-dir and sandbox.writable folders and in a private temporary folder. All else
can be read, but for keys, credentials, sockets and Bridle's own files. sandbox.network = "deny" takes the network away,
"filtered" leaves the hosts of sandbox.hosts; with "inherit" no single address can be refused.
Strongest first: bubblewrap, Landlock, unshare; sandbox-exec on macOS. Where none works, commands run with your rights,
which is said; with sandbox.required = true they do not run.
"""

MCP = """\
bridle mcp — MCP servers whose tools sessions have. Bridle as a tool of other agents: bridle help mcp-serve

  bridle mcp list [--json]                  the servers of this folder, which file names each, whether it is used
  bridle mcp show SERVER [--json]           one of them: what is started, its tools, its log
  bridle mcp test SERVER [--json]           start or reach it as a session would, and say what it offers
      --call TOOL [--arguments JSON] [--defaults]   call a tool as well; answer its forms with their own defaults
  bridle mcp login SERVER                   sign in at one that listens, in a browser; mcp logout SERVER forgets that
      --no-open  only print the address      --no-check  do not reach it afterwards
      --secret   type the secret of oauth_client_id, or pipe it
  bridle mcp add NAME -- CMD ARGS           write one that is started into your own settings
  bridle mcp add NAME URL [--transport sse]     one that listens; its keys go into headers: bridle config edit
  bridle mcp remove SERVER                  take it out of your own settings
  bridle mcp import [FILE] [--dry-run] [--yes] [--json]    take over servers of Claude, Cursor, VS Code and Codex
  bridle mcp secret NAME [--remove]         store what ${NAME} in env, headers, args and url stands for; typed or piped
  bridle mcp restart SERVER                 start it anew in the sessions of the engine that listens
  bridle mcp logs SERVER [-n 100]           the end of what it wrote on its standard error
  bridle mcp approve SERVER                 agree to what it launches and says of its tools now; a person, at a terminal

What a server launches and says of its tools is pinned at its first use. What is not as it was waits for your word, in
a session (/mcp:approve NAME) or here. list, show, test, login and approve take --config, --profile and --set too.
"""

MCP_SERVE = """\
bridle mcp serve — Bridle as a tool of other agents over MCP. You watch, answer and stop. Servers: bridle help mcp

  bridle mcp serve [-C DIR]                 what another program starts: MCP over stdin and stdout, until stdin ends
  bridle mcp parents [--json]               the programs that asked to use Bridle, and what you said
  bridle mcp allow ID [--auto-attach]       let one in, at a terminal it did not open; and see its sessions at once
  bridle mcp forget ID                      it has to ask again

  claude mcp add bridle -- bridle mcp serve         codex mcp add bridle -- bridle mcp serve

Another agent can begin sessions, run tasks, refuse calls and cancel. It never says yes, sees only sessions it began or
its token names, and gets no more than your own settings give. A program that is new here waits at its first call until
you allow it; one whose file changed is new. BRIDLE_TOKEN in its environment binds it to the sessions of a token.
You are told of every session it begins, with how to attach. Where mcp_server.attach_command says how to show you one,
--auto-attach does that for the sessions of this program, such as ["tmux", "new-window", "bridle attach {session}"].
With bridle serve running, sessions live there; over HTTP the same tools are at /mcp, with the token as bearer.
"""

PROFILES = """\
bridle profiles — bundles of settings to begin a session with: a model, words, tools, servers, rules, a budget.

  bridle profiles list [--json]            those there are, whose each is, and with * the one that holds here
  bridle profiles show NAME|FILE [--json]  what one sets, its file, and what is wrong with it
  bridle profiles new NAME [--like NAME]   a file of your own to fill in, or a copy of another
  bridle profiles check [NAME|FILE]        what is wrong with one, or with all; exit 2 where something is

Choose one with --profile NAME or FILE, BRIDLE_PROFILE, or profile = "NAME" in your config.toml. It stands below your
own file. In a conversation: /profile shows the one in force, /profiles the others, /profiles:NAME begins a session
with one and can take a summary of the last turns along; --in-place changes the session you are in.

default and careful come with Bridle. Yours are NAME.toml in profiles/ beside your config.toml, and go before those.
A project's are in .bridle/profiles/; .bridle/profile.toml is the one it wants where you chose none. Of these nothing
counts before you agreed to the very file (bridle trust), and then never a looser mode, sandbox or budget than yours; a
server that is started needs its sha256. An unknown key is named and left out.

  schema_version = 1                     default_model, prompt_header, context_sources, tool_packs, skill_packs,
  model = "work:large"                   mcp_servers = [{ name, cmd, args, sha256, discovery }], allow_project_hooks and
  tools.packs = ["read", "web"]          permissions = "FILE.toml" (rules in a file of their own) are understood too
"""

PLUGINS = """\
bridle plugins — what others add: plugins (Python packages, listed in plugins.enabled) and bundles (folders of files).

  bridle plugins list [--why] [--json]       all of them; --why: each thing they add, and where it comes from
  bridle plugins new NAME [DIR]              a package with a plugin that works, to begin with
  bridle plugins add DIR                     a bundle from a folder: skills, slash commands, hooks, MCP servers
  bridle plugins add URL [--ref REF]         from a git repository, by https, ssh or file
  bridle plugins update NAME                 the same again from where it came; asks where something changed
  bridle plugins remove NAME                 take it away with everything it added
  bridle plugins verify [--json]             whether each bundle is as you agreed to it; exit 3 if one is not

A bundle is copied, and nothing of it runs while it is added. You are shown everything it would add, and only you agree,
at a terminal: -y is not for that. Where nobody sits, --digest SHA256 names the very content you agreed to elsewhere.
What changed since then counts for nothing. A bundle is a folder with bridle-bundle.toml, or a Claude plugin
(.claude-plugin/plugin.json); no Python of one is ever imported, and its hooks run like the commands of a session.
"""

HOOKS = """\
bridle hooks — your own programs at fixed moments: they may pass, warn, block, ask for a person or change a call.

  bridle hooks list [--json]                          every hook, where it is written, and whether it counts
  bridle hooks test EVENT [--tool NAME] [--input JSON]   runs the hooks of that moment now; exit 3 if one says no

  [[hooks]]                       in your config.toml; or a program named hooks/PreToolUse beside it,
  event = "PreToolUse"            hooks/PreToolUse.sh, or any number of them in hooks/PreToolUse.d/
  tool = "write_file|edit_file"
  command = "check-path"          a list is started as it is; text that needs a shell gets one
                                  script = "MODULE:FUNCTION" instead: hooks/MODULE.py, or what your Python can import

SessionStart SessionEnd UserPromptSubmit BeforeModelRequest AfterModelResponse PreToolUse PostToolUse ToolError
PermissionRequest Stop TurnFailed Compact. A hook reads JSON on stdin, and BRIDLE_TOOL_NAME, BRIDLE_TOOL_INPUT,
BRIDLE_TOOL_OUTPUT, BRIDLE_SESSION_ID (one longer than 100 KB is left out). Exit 0 passes, 2 blocks with stderr as the
reason, anything else is an error; or it prints {"decision": "allow|warn|block|ask", "message": …, "patch": {…}}.
An error blocks before a tool, a prompt or a question, and is noted elsewhere; on_error = "warn" or "block" decides.
A project's hooks need --allow-project-hooks and your trust in each file; so does any file of a project a hook runs.
"""

MEMORY = """\
bridle memory — notes that last beyond a session, one Markdown file each; those that fit go with what you say.

  bridle memory list [--json]             what is remembered for this project and for you, and files that do not count
  bridle memory show NAME [--json]        one of them
  bridle memory add NAME "TEXT"           a note for this project; with - the text comes from stdin
  bridle memory edit NAME                 in VISUAL or EDITOR
  bridle memory remove NAME               forget it
  bridle memory path [NAME] [--json]      where the files are; edit them as you like

add takes -d, --description LINE (else the first line), --tag WORD (also more than one), --scope project|user and
--type user|feedback|project|reference. NAME is small letters, digits and hyphens; project/NAME and user/NAME tell two
of one name apart. A tag, the name, or two words of the description bring a note back; the tag "always" does each time.
The model keeps notes with the memory tool, which asks like an edit; /undo takes one back. /memory lists them in a
session. Notes are data for the model and no instructions. A secret is never kept. A run that nobody watches has no
memory unless you say --memory, or memory.headless = true; --no-memory, or memory.enabled = false: none at all.
"""

SERVE = """\
bridle serve — an engine that goes on running. Clients come and go; sessions, questions and commands stay.

  bridle serve                            on a private Unix socket, for your own programs
  bridle serve --listen 127.0.0.1:8421    also for a browser, an editor or curl on this machine
  bridle serve --no-listen                only on the socket, whatever engine.listen says
  bridle serve --listen 0.0.0.0:8421 --auth-token-file F --tls-cert C --tls-key K
                                          for the network: with TLS, and tokens that name their sessions
  bridle serve --auth-channel notify      the code of a new token is also shown as a notice of the desktop
  bridle serve --idle-exit 600            ends by itself once nobody was connected and no session open for 10 minutes
  bridle serve --print-unit               a unit for systemd (or launchd), so that it starts when you log in

Nothing is answered without a token, on the socket either. Your own programs find one beside the socket; it is new each
time and goes with the engine. A process that a tool, a hook or a server started is never a client.
One engine listens for each set of sessions. Ctrl-C, or SIGTERM, ends its sessions and exits with 0.
engine.share = true lets others attach to what runs at a terminal. What installs missing packages is said.
"""

ATTACH = """\
bridle attach [ID|URL] — go on with a session that runs in an engine elsewhere: watch, answer, say something.

  bridle attach                       the newest session that runs, of this folder if there is one
  bridle attach 01J8ZQ                that one; a stored one is opened for it
  bridle attach --watch               only look on; nobody is asked anything here, Ctrl-C leaves it as it is
  bridle attach https://host:8421 --token-file F [--session ID] [--ca-file C]
                                      an engine on another machine; the token says what may be done there

Ctrl-D leaves the session running; during a turn l does. A token for one session leads to it without --session.
bridle and bridle run find the engine of bridle serve by themselves; with --no-attach, or BRIDLE_NO_ATTACH=1, they run
on their own, as they do where a key is in their environment alone.
BRIDLE_URL and BRIDLE_TOKEN_FILE stand for the address and --token-file.
"""

DOCTOR = """\
bridle doctor [--offline] [--json] — does everything work here?

ok it works, warn it works with less, fail it does not, skip it was not looked at. Exit 0 without a fail, else 1.
The provider of the chosen model is asked for its list of models, which costs nothing; --offline leaves that out.
An engine that listens is asked how it is. A part that does not answer within 20 s is a fail; the others are looked at.
The last line names the folders in use. Nothing is changed.
"""

BUILDERS = """\
For people who build with Bridle or on it.

  bridle redact           what comes in on stdin goes out without secrets (bridle help redact)
  bridle debug request    the next request of a session, byte for byte and not sent (bridle help debug)
  bridle debug raw        what a session sent to providers and what they said, where debug.raw keeps it
  bridle conformance      does a server of sessions do what every such server does? (bridle help conformance)
"""

CONFORMANCE = """\
bridle conformance — does a server of sessions do what every such server does? Any server, over any transport.

  bridle conformance --self                                our own, in a scratch home, over every transport
  bridle conformance --self --transport ws-unix            over one: inproc, rest-unix, rest-tcp, ws-unix, ws-tcp
  bridle conformance --against http://127.0.0.1:8421 --token-file F --cwd /tmp/scratch
                                                           another one, by requests and by WebSocket
  bridle conformance --against unix:///run/server.sock --token-file F --json --badge badge.json

--token-file several times: more people. Over requests a token is one client, so it takes three for everything.
--agent-token-file: a token of an agent. --cwd: a folder of that server in which sessions may work; this one, if nothing
is said. --models: what stands before conformance-say, conformance-ask and conformance-hold there, else demo:.
--ca-file C with https://. --badge writes what shields.io draws.

One line for each scenario: passed, failed or left out, and why. Exit 0: it conforms. 1: something failed. 2: usage.
The server and its folder are used for real: sessions are made there, and a command runs that writes a small file.
"""

DEBUG = """\
bridle debug request [PROMPT] — what would be sent next, byte for byte. Nothing is sent, and nothing is stored.

  bridle debug request "fix the test"            the first request of a new session here
  bridle debug request -c "and now the docs"     the next one of the newest session of this folder; -r ID of that one
  bridle debug request -m openai:MODEL hi | jq   the body alone: it goes to stdout, address and headers to stderr

Keys are shown as ********; so is every header that settings add. The options are those of a run (bridle help options).
Nobody is asked anything: an instruction file that is not trusted yet is left out. Hooks do not run, files behind @ are
not read, and a conversation that would be summarised first is shown as it is.

  bridle debug raw [ID]                          what a session sent and what came back, one line of JSON an exchange

Only where the setting debug.raw kept it, encrypted, for as long as the session's content is there.
Nothing in it is taken out but the keys that Bridle sends: whoever gets a copy gets what was said.
"""

REDACT = """\
bridle redact — what comes in on stdin goes out on stdout, as it comes, without secrets.

  make deploy 2>&1 | bridle redact > deploy.log
  bridle redact --kinds                    every kind of secret that is known, one a line

A secret becomes «redacted:KIND»; the name it is given to stays. Bytes that are no text pass unchanged.
The same happens to everything a session stores or shows. Secrets are known by their shape: not every one is found.
"""

COMPLETION = """\
bridle completion bash|zsh|fish — a script that completes commands, options and their values.

  bash    in ~/.bashrc:                     eval "$(bridle completion bash)"
  zsh     in ~/.zshrc, after compinit:      eval "$(bridle completion zsh)"
  fish    bridle completion fish > ~/.config/fish/completions/bridle.fish

Models, sessions and profiles are asked for when Tab is pressed: bridle completion models, sessions or profiles
"""

EXIT_CODES = """\
0    done, also when some calls were not allowed but the turn ended normally
1    the run failed: the model gave up, a limit was reached, it went in circles
2    you asked for something impossible: usage, settings, unknown model or session, unusable folder
3    refused by policy: a question with --on-ask fail, a file nobody agreed to with --require-trust, no sandbox where
     one is required, an action of an earlier run that may or may not have happened
4    no or bad credentials
5    provider or network
124  the deadline passed
129  the terminal was closed
130  interrupted
141  the reader of the output went away
"""

ENV = """\
BRIDLE_HOME     all of Bridle's files under this one folder
BRIDLE_MODEL    the model to use when -m is not given, as provider:model
BRIDLE_API_KEY  the key for the provider of that model
BRIDLE_MODE     the mode to use when --mode is not given
BRIDLE_SANDBOX  what commands may write when -s is not given
BRIDLE_PROFILE  the profile to use when --profile is not given
BRIDLE_CONFIG   a settings file on top of the others, as with --config
BRIDLE_MAIN_MAX_CONTEXT_TOKENS, BRIDLE_MAIN_COMPACT_AT_RATIO, BRIDLE_MAIN_SUMMARY_TARGET_TOKENS
                as context.max_tokens, context.compact_at and context.summary_tokens
BRIDLE_SUB_…    the same for agents that are sent, and more of them: docs/agents.md
BRIDLE_AGENT, BRIDLE_AGENT_MODE   who is talked with, and whether they may send others (single, multi)
BRIDLE_PLAIN    text that only grows, as with --plain; so does ACCESSIBLE
BRIDLE_LOG      what the operational log takes, as with --log-level; with stderr among it, stderr gets it too
BRIDLE_APPROVED_LOCK  a lock file that counts here, as an absolute path (bridle help trust)
BRIDLE_NO_ATTACH    run in this process, whatever engine listens    BRIDLE_URL, BRIDLE_TOKEN_FILE  for bridle attach
BRIDLE_HUB_TASK, BRIDLE_HUB_RUN, BRIDLE_HUB_AGENT  what a hub calls a run (run --output-format hub)
BRIDLE_PASSPHRASE   what locks the keys that bridle login stores, if you want a passphrase
BRIDLE_MACHINE_KEY  the same, as 32 bytes: as they are, as 64 hex digits or as base64
Also read: the key variables of providers (bridle models --keys), proxy variables, VISUAL, EDITOR, PAGER,
NO_COLOR, FORCE_COLOR, HOME, XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_STATE_HOME, XDG_CACHE_HOME.
An empty value counts as unset; an unknown BRIDLE_ name is reported.
Without an absolute HOME and without BRIDLE_HOME nothing is written anywhere: one sentence, exit 2.
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
  yield             stop max_tokens|content_filter|end_turn
Longer arguments go below the call, indented: `key: value`, or `key: <<END` and lines up to END.
Agents: call delegate_agent {"agent": "review", "task": "…"}, and at the end, below a line `=== review`, its answers.
Play it: bridle run -m demo:FILE "anything"
"""

PAGES = {
    "": OVERVIEW,
    "run": RUN,
    "demo": DEMO,
    "sessions": SESSIONS,
    "undo": UNDO,
    "cost": COST,
    "login": LOGIN,
    "logout": LOGIN,
    "models": MODELS,
    "tools": TOOLS,
    "skills": SKILLS,
    "agents": AGENTS,
    "config": CONFIG,
    "profiles": PROFILES,
    "plugins": PLUGINS,
    "permissions": PERMISSIONS,
    "trust": TRUST,
    "sandbox": SANDBOX,
    "hooks": HOOKS,
    "memory": MEMORY,
    "mcp": MCP,
    "mcp-serve": MCP_SERVE,
    "serve": SERVE,
    "attach": ATTACH,
    "token": SHARING,
    "doctor": DOCTOR,
    "redact": REDACT,
    "debug": DEBUG,
    "conformance": CONFORMANCE,
    "builders": BUILDERS,
    "completion": COMPLETION,
    "exit-codes": EXIT_CODES,
    "env": ENV,
    "scripts": SCRIPTS,
}


_BELOW = {f"mcp {verb}": "mcp-serve" for verb in ("serve", "parents", "allow", "forget")}
"""Verbs below a verb that have another page than it."""


SETTINGS = "settings"
"""The page that is made from the table of settings, and longer than a screen."""
MAN = "man"
"""All pages as one for `man`."""
KEYS = "keys"
"""The page that `/keys` is in a conversation."""
OPTIONS = "options"
"""The page of every option, longer than a screen too."""


def topics() -> list[str]:
    """Every page but the first."""
    return [*filter(None, PAGES), KEYS, OPTIONS, SETTINGS, MAN]


def topic_of(words: list[str]) -> str:
    """The page of these verbs: `sessions list` has that of `sessions`."""
    return _BELOW.get(" ".join(words[:2])) or next((word for word in words if word in PAGES), "")


def page(words: list[str]) -> tuple[str, int]:
    """A page and the exit code; 2 and a sentence instead when there is no such page."""
    topic = _BELOW.get(" ".join(words[:2]), words[0]) if words else ""
    if topic in PAGES:
        return PAGES[topic], 0
    if topic == MAN:
        return man_page(PAGES), 0
    if topic == KEYS:
        return "\n".join(slash_table.KEYS) + "\n", 0
    if topic == OPTIONS:
        return option_page(), 0
    if topic == SETTINGS:
        return "\n".join(reference()) + "\n", 0
    pages = topics()
    return f'There is no help page "{topic}".{meant_words(topic, pages)} Pages: {", ".join(pages)}', 2
