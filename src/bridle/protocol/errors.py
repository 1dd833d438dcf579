"""Every failure a client can see has a stable reason, one sentence and one exit code.

BridleError                    reason, data, message
  CommandRefused               a command that was not taken; nothing changed
  ProviderError                the model's side failed; `retryable`, `retry_after_s`
  StoreError                   the log could not be opened, read or written
  UsageError                   the person asked for something impossible

Nobody matches message text: `reason` is the contract between programs, the sentence the one with people.
Both are stable within a minor release. Plugins use reasons of the form `Custom:<namespace>:<code>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.base.text.phrases import counted


class Sentence(msgspec.Struct, frozen=True):
    """What a reason says, with `{names}` filled from its data, and the exit code of a run that ends on it."""

    text: str
    exit_code: int = 1


SENTENCES: Mapping[str, Sentence] = {
    # Commands that were not taken
    "HandshakeRequired": Sentence(
        "Send /v1/handshake before any command. See the protocol page on versions.", 2
    ),
    "HandshakeVersionMismatch": Sentence(
        "Client speaks protocol {client_version}; server speaks {server_version}. Upgrade {older}.", 2
    ),
    "TurnInProgress": Sentence(
        "Another client is sending input to this session (started by {originator} at {ts}). "
        "Wait, or send /cancel to interrupt."
    ),
    "UnknownCommand": Sentence('There is no command "{kind}".', 2),
    "BadCommand": Sentence("The command {kind} cannot be read: {problem}.", 2),
    "NotSupported": Sentence("{what} is not available in this version.", 2),
    "NotAPerson": Sentence("{what} is for people at a terminal only.", 3),
    "UnknownSlash": Sentence("There is no command /{name}. /help lists them.", 2),
    "OneAgentAlone": Sentence(
        "There is no command /{name}: with one agent alone nobody else is sent. More than one: --multi-agent, or "
        'agent_mode = "multi" in the settings.',
        2,
    ),
    "NotPlanning": Sentence("This session is not in plan mode.", 2),
    "NoTurn": Sentence("No turn is running in this session."),
    "NoSuchQuestion": Sentence("That question is not open (any more)."),
    "AlreadyAnswered": Sentence("{name} has answered this already. Nothing changed."),
    "AlreadyApproved": Sentence(
        "{name} has said yes to this already. It needs the yes of {keys} different people.", 3
    ),
    "CommandIdUsed": Sentence(
        'The id "{id}" was used for another command. Give each command an id of its own.', 2
    ),
    "CommandCutOff": Sentence("The same command was cut off before it had an answer. Send it again."),
    "QuestionChanged": Sentence("This question changed after it was shown. Look again."),
    "WrongAnswer": Sentence(
        "The question is about {asked}, the answer about {answered}. Answer what is asked."
    ),
    "NotGranted": Sentence("This client may not use {what}.", 3),
    "NotAttached": Sentence("This client is not attached to {session}. Attach to it first.", 2),
    "OnlyStricter": Sentence(
        "{what} would allow more than the person's own settings do. An agent may only ask for less.", 3
    ),
    "SelfApproval": Sentence("An agent cannot approve its own action; a person has to answer.", 3),
    "UnknownAgent": Sentence(
        'There is no agent "{agent}". You can talk with: {known}. See: bridle agents', 2
    ),
    "AgentNotSelectable": Sentence(
        "The agent {agent} is only for other agents to send. You can talk with: {known}.", 2
    ),
    "AgentNotTrusted": Sentence(
        "The agent {agent} is in {path}, which nobody agreed to yet. Read it and agree: bridle trust ack", 3
    ),
    "BadAgent": Sentence("{problem}. The other agents are used. Check: bridle agents check", 2),
    "AgentNameTaken": Sentence("{place} is not used: the name {agent} belongs to the agent of {first}."),
    "AgentToolUnknown": Sentence("{place}: the agent {agent} names tools that are not here: {tools}."),
    "UnknownSession": Sentence('There is no session "{session}". List them: bridle sessions', 2),
    "AmbiguousSession": Sentence('"{session}" fits more than one session: {matches}.', 2),
    "NoSessionHere": Sentence("There is no session to continue in {cwd}. Start one: bridle run PROMPT", 2),
    "SessionBusy": Sentence(
        "Session {session} is open in another Bridle ({where}process {pid}, since {started}). Wait until it ends, "
        "or go on with a copy: -r {session} --fork",
        2,
    ),
    "SessionNotOpen": Sentence("Session {session} is not open. Attach to it or resume it first.", 2),
    "SessionIsOpen": Sentence(
        "Session {session} is open with other options than these ({options}). Attach to it as it is, or end it first.",
        2,
    ),
    "SessionExpired": Sentence(
        "What was said in {session} expired on {day} and is not kept any more, so there is nothing to go on with.",
        2,
    ),
    "TokenExpired": Sentence(
        "Capability token expired at {exp}. "
        "Mint a new one: bridle token --session {session} --identity-class {identity_class}.",
        4,
    ),
    "TokenRevoked": Sentence("Token {jti} was revoked at {ts}. Mint a new one via /v1/auth/token.", 4),
    "TokenInvalid": Sentence("The capability token is not valid: {problem}.", 4),
    "TokenNotYetValid": Sentence(
        "The capability token is not valid before {nbf}. Wait, or mint another one.", 4
    ),
    "TooManyFailures": Sentence(
        "Too many requests from here came without a valid token. Try again in {retry_after_s} s.", 4
    ),
    "TokensUnusable": Sentence(
        "{path} cannot be used ({problem}), so no token is minted or accepted. Mend it, or move it away: then every "
        "token is void and new ones can be minted.",
        4,
    ),
    "UnknownToken": Sentence('There is no token "{jti}". List them: bridle token list', 2),
    "MintedAtTerminal": Sentence(
        "A token is minted by a person at a terminal, and this is none. "
        "In one: bridle token mint --session ID --out FILE, then give the file to the program.",
        3,
    ),
    "NoConfirmation": Sentence(
        "Token issuance requires an interactive confirmation channel. For headless/CI: pre-provision a token file. "
        "For service managers: launch with --auth-channel notify.",
        3,
    ),
    "NoSuchMint": Sentence("No such request waits for its code; each waits for 60 s. Ask again.", 3),
    "WrongCode": Sentence("That is not the code; tries left: {left}.", 3),
    "MintRefused": Sentence("This token cannot be minted: {problem}.", 3),
    # Requests that were not taken
    "TokenMissing": Sentence("Nothing is answered without a token. Send it in the header X-Bridle-Token.", 4),
    "HostRefused": Sentence('This engine is not "{host}". Ask for it by the address it listens on.', 3),
    "OriginRefused": Sentence("Pages from {origin} may not use this engine.", 3),
    "NotAClient": Sentence(
        "Processes that a tool, a hook or a server started are never clients, whatever token they show.", 3
    ),
    "OtherUser": Sentence("This engine belongs to another user.", 3),
    "UnknownPath": Sentence("There is nothing at {path}. See /v1/openapi.json.", 2),
    "MethodNotAllowed": Sentence("{method} means nothing at {path}. Allowed: {allowed}.", 2),
    "NotJson": Sentence("A body is JSON, with the header Content-Type: application/json.", 2),
    "TooLarge": Sentence("{what} is larger than {limit} bytes.", 2),
    "TooSlow": Sentence("The request did not come within {seconds} s.", 1),
    "TooManyConnections": Sentence("This engine has {limit} connections already. Try again later.", 1),
    "BadFrame": Sentence("This frame cannot be read: {problem}.", 2),
    "EngineStopping": Sentence("This engine is ending. Stored sessions go on in the next one.", 1),
    # The engine that listens
    "EngineRunning": Sentence(
        "An engine listens for these sessions already (process {pid}, {socket}). Attach to it: bridle attach",
        2,
    ),
    "SocketUnusable": Sentence("The socket {socket} cannot be used: {problem}.", 2),
    "ListenRefused": Sentence("Cannot listen on {address}: {problem}. Choose another with --listen.", 2),
    "ParentNotAllowed": Sentence(
        "{program} may not use Bridle as a tool yet. A person lets it, in a terminal of their own: "
        "bridle mcp allow {id}",
        3,
    ),
    "UnknownParent": Sentence('No program "{id}" asked to use Bridle. List them: bridle mcp parents', 2),
    "OwnParent": Sentence(
        "A program cannot allow itself. Type this in a terminal that {program} did not open.", 3
    ),
    "ParentsUnusable": Sentence("The programs that may use Bridle are not known: {path}: {problem}.", 2),
    "OuterAgent": Sentence("Outer agent {name} started session {session}. Watch it: bridle attach {session}"),
    "NoEngine": Sentence("No engine answers at {address} ({problem}). Start one: bridle serve", 2),
    "EngineUnverified": Sentence(
        "The certificate of {address} cannot be verified ({problem}), so nothing was sent there. "
        "Name the file with whoever signed it: --ca-file FILE",
        2,
    ),
    "ConnectionLost": Sentence(
        "The connection to {address} broke before this was answered. Look whether it happened before you try again.",
        1,
    ),
    "NothingEnforced": Sentence(
        "Nothing on this machine keeps commands from looking for this engine's socket and token ({why}). They are "
        "refused as clients as far as they can be told apart."
    ),
    # Tool calls that did not run
    "PermissionDenied": Sentence(
        "Permission denied for {tool} by {client}. To allow: re-prompt and pick "
        "'Allow once / argv-glob / tool / session'.",
        3,
    ),
    "PermissionTimeout": Sentence(
        "Permission for {tool} not answered within {timeout_s}s. Tool call cancelled.", 3
    ),
    "MorePeopleNeeded": Sentence(
        "{tool} needs the yes of {keys} different people, and {given} of them gave it. Others attach with a token that "
        "has their name: bridle token mint --approve --session ID --name NAME",
        3,
    ),
    "NoApprover": Sentence("Nobody is here to answer for {tool}, so it was not run. {hint}", 3),
    "RuleDenied": Sentence("{tool} is denied by {rule}.", 3),
    "ModeDenied": Sentence("Mode {mode} does not allow {tool} ({risk}).", 3),
    "PathOutsideWorkspace": Sentence("{path} is outside the workspace and cannot be written.", 3),
    "PathNotAllowed": Sentence("{path} is not a path this session may use: {problem}.", 3),
    "NeverAllowed": Sentence("never allowed: {problem}", 3),
    "SecretFile": Sentence(
        "{path} may hold secrets and is not written. Only a rule of your own that names it can allow that.", 3
    ),
    "DryRun": Sentence("Dry run: {tool} would run now. Nothing was changed."),
    "NoSandbox": Sentence(
        "Commands are not sandboxed on this machine (no bubblewrap, no Landlock, no user namespaces).\n"
        "They run with your rights; only the environment is cleaned.   Fix: install bubblewrap.   "
        "Refuse instead: sandbox.required = true"
    ),
    "SandboxRequired": Sentence(
        "Nothing on this machine can sandbox commands (no bubblewrap, no Landlock, no user namespaces), and "
        "sandbox.required = true. Install bubblewrap.",
        3,
    ),
    "SandboxNotKnown": Sentence(
        "What can sandbox commands on this machine was not found out within {seconds} s, so nothing is claimed. It is "
        "tried again with the first command.   See why: bridle sandbox",
        3,
    ),
    "SandboxGaps": Sentence(
        "The sandbox here is {sandbox}, not the strongest: {gaps}.\nFix: bubblewrap, with user namespaces allowed."
    ),
    "SandboxWeaker": Sentence(
        "{told} no longer works here: from now on commands are held by {sandbox}.{gaps}"
    ),
    "SandboxLost": Sentence(
        "Not run: {sandbox} held the commands of this session, and nothing can any more. See why: bridle sandbox",
        3,
    ),
    "NoNetworkFilter": Sentence(
        'sandbox.network = "filtered" needs bubblewrap or user namespaces, and neither works here: no command runs. '
        "Install bubblewrap, or choose --network deny or inherit.",
        3,
    ),
    "ForeignFolder": Sentence(
        "Bridle runs as root and this folder belongs to user {owner}: sandboxed commands cannot write to its files. "
        "Run Bridle as that user, or with --sandbox off."
    ),
    "OutlivedEnded": Sentence(
        "Processes of earlier commands had outlived a Bridle that was killed; they were ended now: {count}."
    ),
    "GuardianReplaced": Sentence(
        "The process that ends commands if Bridle is killed was itself killed; another one took over."
    ),
    "GuardianLost": Sentence(
        "The process that ends commands if Bridle is killed was itself killed and is not replaced now: until the next "
        "command, or for a minute, what runs may outlive Bridle."
    ),
    "NoWayOut": Sentence("sandbox.required = true: no command runs outside the sandbox.", 3),
    "GiveBackRefused": Sentence(
        "{path} stays in quarantine: it can only be restored at a terminal. Type there: "
        "bridle sandbox give-back {path}",
        3,
    ),
    "GiveBackChanged": Sentence(
        "{path} changed after it was shown, so it stays in quarantine. Check it again: bridle sandbox give-back {path}",
        3,
    ),
    "PutAside": Sentence(
        "{path} was left by a command that was killed, and it {why}. It was quarantined as {aside}. To restore it: "
        "bridle sandbox give-back {quoted}"
    ),
    "NotPutAside": Sentence(
        "{path} could not be quarantined ({problem}): a command made it, and it {why}. Check it, and remove it if you "
        "do not want it, before you continue in that folder."
    ),
    "PolicyFileAppeared": Sentence(
        "{path} appeared or changed while no call was running: it {why}. It was left in place, because Bridle cannot "
        "tell who wrote it. Check it before you continue."
    ),
    "PolicyCheckCut": Sentence(
        "The folder is too large or too deep to check for policy files after each command: new ones inside it may be "
        "missed."
    ),
    "GitNotAlone": Sentence(
        "This git command would change policy files: {files}. Nothing was run. Run the git command in a call of its "
        "own, so that the user can be asked.",
        3,
    ),
    "AllowedByFlag": Sentence("{flag}: this run goes on without that question."),
    "HookBlocked": Sentence("{tool} was not run: hook {hook} blocked it: {message}", 3),
    "HookFailed": Sentence("{tool} was not run: hook {hook} failed ({problem}).", 3),
    "HookTimeout": Sentence(
        "Hook '{event}' command '{command}' exceeded its {timeout_s}s deadline. Killed.", 3
    ),
    "HookHashChanged": Sentence(
        "{path} changed since you last approved it. Review the diff (TUI: 'v' opens the diff viewer). "
        "Re-ack to continue.",
        3,
    ),
    "HookNotApproved": Sentence(
        "{path} belongs to this project and you have not approved it as it stands, so hook {hook} cannot run it.",
        3,
    ),
    "HooksIgnored": Sentence("ignored hooks: {hooks}."),
    "InputBlocked": Sentence("Hook {hook} did not let this through: {message}", 3),
    "CheckFailed": Sentence("{tool} was not run: a safety check failed inside Bridle ({problem}).", 3),
    "AllowIsNoLimit": Sentence(
        "--allow limits nothing in mode yolo, which runs everything. To limit it use another mode, or --deny."
    ),
    "GrantNotSaved": Sentence("Your yes holds for this session only; it could not be saved ({problem})."),
    "GrantsUnreadable": Sentence(
        "The saved permissions in {path} cannot be read ({problem}), so none of them holds."
    ),
    "NotWaiting": Sentence("That message does not wait any more. See what does: /queue", 2),
    "NothingAsked": Sentence("There are no words in it, so nothing was sent.", 2),
    "AsideOpen": Sentence("The last question beside the work has no answer yet. Ask again when it has.", 2),
    "AsideStopped": Sentence("The question beside the work was stopped; nothing else changed."),
    "UnknownGrant": Sentence('There is no saved permission "{grant}" here. List them: bridle permissions', 2),
    "AgentDenied": Sentence("{tool} is not something this agent may do.", 3),
    "AgentNotCallable": Sentence("Agent {agent} is not callable. Agents: {known}."),
    "AgentNotForCaller": Sentence("Agent {agent} is not one that {caller} may send."),
    "DelegationCycle": Sentence("Cycle detected: {chain}."),
    "DelegationTooDeep": Sentence("Max delegation depth ({most}) exceeded."),
    "NoRoleWords": Sentence("/{name} works on words behind it: /{name} words. The mode is {mode}."),
    "ChildInBackground": Sentence(
        "{agent} works on it in the background. You will be told when it is done; go on, and do not ask for it."
    ),
    "ChildDone": Sentence(
        "The agent {agent}, sent to work in the background on this: {task}\nis done:\n{result}"
    ),
    "ChildCutShort": Sentence(
        "The agent {agent}, sent to work in the background, was stopped when the session ended, before it was done. "
        "Send it again where its work is still wanted."
    ),
    "NoSuchChild": Sentence("No agent {child} works here now. /agents lists them."),
    "ChildStopped": Sentence("The agent {agent} was stopped by {by}."),
    "ChildFailed": Sentence("The agent {agent} did not finish: {problem}"),
    "NoWorktree": Sentence(
        "The agent {agent} works in a git worktree of its own, and there can be none: {problem}."
    ),
    "ToolNotInWorktree": Sentence(
        "{tool} works in the main folder and not in your worktree, so it is not there for you. Do without it, or say "
        "in your answer what it is needed for."
    ),
    "WorktreeUnsaved": Sentence(
        "What the agent {agent} left is in {path} and not committed ({problem}). See it: /worktrees"
    ),
    "FileUnreadable": Sentence("{path} cannot be read: {problem}."),
    "FetchFailed": Sentence("{url} was not fetched: {problem}."),
    "FileUnwritable": Sentence("{path} cannot be written: {problem}."),
    "ChangedSinceRead": Sentence(
        "{path} was not written: it changed since you last saw it. {change} Call again to replace it all the same."
    ),
    "NeverRead": Sentence(
        "{path} was not written: it is there already and you never saw what it holds; read it first. "
        "Call again to replace it all the same."
    ),
    "TextNotFound": Sentence("{path} was not changed: {problem}."),
    "PatchDoesNotApply": Sentence("The patch does not fit: {problem}. Nothing was written."),
    "CannotStart": Sentence("The command could not be started: {problem}."),
    "ChangedSinceApproval": Sentence("{path} changed after the change was approved, so it was not written."),
    "ToolModuleLeftOut": Sentence("The tool of {path} was left out: {problem}."),
    "ToolNameTaken": Sentence(
        'The {source} tool "{tool}" was left out: a tool of that name is there already.'
    ),
    "BadToolInput": Sentence(
        'The {source} tool "{tool}" was left out: what it says of its input cannot be used ({problem}).'
    ),
    "ToolGone": Sentence(
        "{tool} was not run: whoever offered it took it out or changed it meanwhile. Look at the tools there are now."
    ),
    "ServiceDown": Sentence("{service} is not running ({problem}). It is started again in {wait_s} s."),
    "ServiceGivenUp": Sentence(
        "{service} is not running ({problem}) and was not started again: it failed {times} times in a row."
    ),
    "ServiceFailed": Sentence("{service} could not be started ({problem})."),
    "ServiceBack": Sentence("{service} is running again."),
    "MCPServerUnavailable": Sentence(
        "MCP server '{name}' is down after {attempts} attempts ({problem}). Its tools are in degraded state. "
        "/mcp:restart {name} to retry; its log is in the state folder, under log/."
    ),
    "MCPServerLost": Sentence("MCP server '{name}' is not there ({problem}). It is started again."),
    "MCPSampled": Sentence("Your model wrote for MCP server '{name}': {text}"),
    "MCPNotLetIn": Sentence("MCP server '{name}' {problem}"),
    "MCPServerUntrusted": Sentence(
        "MCP server '{name}' was left out: {problem}. bridle trust shows what waits for your word."
    ),
    "MCPServerSHA256Mismatch": Sentence(
        "MCP server '{name}' refused to start: the binary at {path} changed. Expected sha256 {expected}, found "
        "{found}. To approve the new binary, run /mcp:approve {name} or bridle mcp approve {name}, or change sha256 in "
        "your settings."
    ),
    "MCPServerChanged": Sentence(
        "MCP server '{name}' was not started: {problem}. To look at it and agree: /mcp:approve {name} or "
        "bridle mcp approve {name}."
    ),
    "MCPServerUnseen": Sentence(
        "Refusing to begin: MCP server '{name}' waits for a person ({problem}). To look at it and agree: "
        "bridle mcp approve {name}",
        3,
    ),
    "MCPApprovalNeedsPerson": Sentence(
        "Only a person at a terminal agrees to the MCP server '{name}'. There: bridle mcp approve {name}", 3
    ),
    "MCPToolsChanged": Sentence(
        "MCP server '{name}': {count} left out until you agree ({problem}). To see the difference: /mcp:approve {name} "
        "or bridle mcp approve {name}."
    ),
    "MCPToolChanged": Sentence(
        "The tool {tool} of MCP server '{name}' is not what the person agreed to any more: it was not called. Only a "
        "person can agree to it."
    ),
    "MCPToolsLeftOut": Sentence("MCP server '{name}': {count} left out ({problem})."),
    "MCPToolFailed": Sentence("The tool {tool} of MCP server '{name}' failed."),
    "MCPAsksTooMuch": Sentence(
        "The tool {tool} of MCP server '{name}' was ended: it asked a person for something more than {count} times. "
        "What it did until then is not known. The server asks nobody any more until it is started anew."
    ),
    "MCPCallLost": Sentence(
        "The connection to MCP server '{name}' broke during {tool} ({problem}). Whether it did anything is not known: "
        "look before you call it again."
    ),
    "MCPNoServer": Sentence("There is no MCP server '{name}' here. Servers: {known}.", 2),
    "MCPNoPrompt": Sentence("MCP server '{name}' has no prompt '{prompt}'. Prompts: {known}.", 2),
    "MCPWaiting": Sentence("Waiting up to {seconds} s for the tools of: {names}."),
    "MCPServers": Sentence("{text}"),
    "UnknownSkill": Sentence('There is no skill "{name}" here. Skills: {known}. See: bridle skills list', 2),
    "SkillNotTrusted": Sentence(
        "{path} is a skill that nobody agreed to yet, so it is not used. "
        "Read it and agree: /skills:reload or bridle trust ack",
        3,
    ),
    "SkillUnreadable": Sentence("{file} of the skill {name} cannot be read: {problem}."),
    "SkillChanged": Sentence(
        "{file} of the skill {name} is not what a person agreed to, so it is not used. "
        "Read it and agree: /skills:reload or bridle trust ack",
        3,
    ),
    "BadSkill": Sentence("{problem}. The other skills are used. Check: bridle skills check", 2),
    "Skills": Sentence("{text}"),
    "BadPlugin": Sentence('{where}: the plugin "{plugin}" cannot be used: {problem}.', 2),
    "BadBundle": Sentence("{source} is no bundle to add: {problem}.", 2),
    "BundleNeedsPerson": Sentence(
        "Only a person at a terminal agrees to the bundle {name}. Where nobody sits, name the content you agreed to: "
        "--digest {digest}",
        3,
    ),
    "BundleDiffers": Sentence(
        "The bundle {name} is not the one you named: its content has sha256 {found}, not {expected}.", 3
    ),
    "FeatureConflict": Sentence(
        "{feature} cannot be used: {problem}. Leave it out, or what it collides with.", 2
    ),
    "FeatureFailed": Sentence("{feature} failed ({problem})."),
    "GrantPromoted": Sentence(
        "{what} is a rule now, in {path}. It holds in every folder, from the next session on."
    ),
    "BadAlias": Sentence("aliases.toml: {problem}."),
    "UnknownPrompt": Sentence("There is no prompt /{name}. There are: {known}.", 2),
    "BadPrompt": Sentence("{path} cannot be said: {problem}.", 2),
    "PromptNotTrusted": Sentence(
        "{path} is not trusted here and was not said. To agree to it: bridle trust ack", 3
    ),
    "PromptRunsNothing": Sentence(
        "/{name} has commands in it (!`…`). They are said as text; nothing of it was run."
    ),
    "MemoryUsed": Sentence("notes used: {names}"),
    "MemoryUnreadable": Sentence(
        "The memory {name} is not used: {problem}. Fix the file: bridle memory edit {name}"
    ),
    "MemoryShown": Sentence("The memory {name}."),
    "Remembered": Sentence("remembered: {name}: {description}"),
    "Forgotten": Sentence("forgotten: {name}: {description}"),
    "BadMemory": Sentence("The memory {name} cannot be kept or read: {problem}.", 2),
    "UnknownMemory": Sentence('There is no memory "{name}". List them: bridle memory', 2),
    "SecretInMemory": Sentence(
        "The memory {name} was not kept: some of it looks like a secret, and memory keeps none. Leave it out.",
        3,
    ),
    "NotEnded": Sentence("{name} did not come to its end within {seconds} s and is left behind."),
    "ListenerFailed": Sentence("{feature} hears no more events of this session: it failed ({problem})."),
    "UnknownProfile": Sentence('There is no profile "{profile}". List them: bridle config show', 2),
    "UnknownResource": Sentence('There is nothing to read at "{uri}". See: resources/templates/list', 2),
    "TooManyWatched": Sentence("At most {most} addresses are watched at once. Leave some of them first.", 2),
    "UnknownTool": Sentence('There is no tool "{tool}". Tools: {known}.'),
    "InvalidInput": Sentence("The input of {tool} is not valid: {problem}."),
    "ToolTimeout": Sentence("{tool} did not finish within {timeout_s} s and was stopped."),
    "ToolCancelled": Sentence("{tool} was cancelled before it finished."),
    "BashCancelledMidCommand": Sentence(
        "Cancelled mid-Bash. The command ran for {duration_s} s and may have modified files. "
        "Files possibly affected: {files}. Review /diff to see what changed."
    ),
    "ToolCrashed": Sentence("{tool} failed inside Bridle ({problem})."),
    "Interrupted": Sentence("Interrupted, not run again."),
    "OutcomeUnknown": Sentence("Bridle stopped while this ran. Whether it happened is unknown: check first."),
    "JudgedHappened": Sentence(
        "Bridle stopped while this ran, so its output is lost. A person checked: it happened. Do not repeat it."
    ),
    "JudgedNotHappened": Sentence(
        "Bridle stopped while this ran. A person checked: it did not happen. Repeat it if it is still needed."
    ),
    "JudgedUndone": Sentence(
        "Bridle stopped while this ran. A person undid what it had changed. Look before you go on."
    ),
    "OrphanedCalls": Sentence(
        "Bridle stopped without warning. {count} of its actions may or may not have happened: {calls}. "
        "Judge: bridle -r {id}   Or check, then add --on-orphan mark-unknown to go on.",
        3,
    ),
    "OutputUnreadable": Sentence("What that call printed cannot be read any more ({problem})."),
    "NotUndoable": Sentence("It cannot be undone here: {problem}."),
    # Turns that ended early
    "AgentStepLimit": Sentence(
        "{steps:step} done and still working. Stopped. Give its agent more: max_steps, delegation.max_steps."
    ),
    "StepLimit": Sentence("{steps:step} done and still working. Stopped. Raise --max-steps to go on."),
    "LoopDetected": Sentence(
        "The same call gave the same result {times} times. Stopped. Tell me what to try instead, or /retry."
    ),
    "BudgetExceeded": Sentence(
        "This session has used {spent} of {cap}. The next request could cost {could}, so it was not sent.{next}"
    ),
    "PriceUnknown": Sentence(
        "The cost of {model} is unknown, so the limit of {cap} cannot be kept.{next}", 2
    ),
    "AnswerCut": Sentence(
        "The answer ends here: it is as long as {provider} lets one be. To have the rest: go on"
    ),
    "ContentFiltered": Sentence("The provider {provider} withheld the answer (content filter)."),
    "DeadlineReached": Sentence("The run did not finish within {timeout_s} s.", 124),
    "OutputUnwritable": Sentence(
        "The output cannot be written ({problem}). It is in the session: {session}."
    ),
    "SchemaMismatch": Sentence(
        "The answer does not fit the schema: {problem}. All that was said: bridle sessions show"
    ),
    "TurnInterrupted": Sentence("Bridle stopped without warning during this turn."),
    # Goals
    "GoalNotBegun": Sentence("No goal was begun: {problem}.", 2),
    "GoalState": Sentence("{state}"),
    "RoundsUsed": Sentence("The check did not pass in {rounds:round}. Raise --rounds to have more of them."),
    "GoalTime": Sentence("The check did not pass within {timeout_s} s.", 124),
    "NoProgress": Sentence(
        "The check said the same twice, and no file was changed in between. Stopped. Say what to try instead."
    ),
    "CheckNotRun": Sentence("The check could not be run: {problem}", 3),
    "CheckReplaced": Sentence(
        "In place of the check ran: {command}. A hook changed it, so what came of it does not count.", 3
    ),
    "GoalStopped": Sentence("The goal was stopped before its check had passed."),
    "GoalInterrupted": Sentence(
        "Bridle stopped without warning while it worked on this goal. To work on it again, give it again: /goal"
    ),
    "EngineFault": Sentence("Something inside Bridle failed ({problem}). The session is intact; try again."),
    # Models
    "NoModel": Sentence(
        "no model is configured and {keys}.\n"
        "        Looked at: --model, BRIDLE_MODEL, config, {variables} key variables, local servers on 127.0.0.1.\n"
        "        Next: {next}   (bridle run --model demo runs the scripted one)",
        4,
    ),
    "FallbackModel": Sentence("{provider} is overloaded; continuing this turn with {model} (fallback)."),
    "NoTools": Sentence(
        "{provider}:{model} cannot use tools, and Bridle works through tools. Choose another model: /model", 2
    ),
    "SmallContext": Sentence(
        "{title} serves this model with a {served}-token context. Bridle's first request needs about {needs}.\n"
        "Raise it ({how}) or expect early summaries."
    ),
    "ToolsUnseen": Sentence(
        "{model} counted {heard} tokens of about {sent} that were sent: it does not see the tools, or its context "
        "is cut.\nIt can then talk and do nothing. Choose another model: /model"
    ),
    "AmbiguousModel": Sentence(
        '"{model}" is a model of {providers}. Write provider:model, such as {first}:{model}.', 2
    ),
    "ModelNotSetUp": Sentence(
        '"{model}" is a model of {providers}, which is not set up. Connect it: bridle login {first}   '
        "Or write provider:model.",
        2,
    ),
    "UnknownProvider": Sentence(
        'There is no provider "{provider}". Known: {known}. What each has: bridle models', 2
    ),
    "BadScript": Sentence("{path}, line {line}: {problem}.", 2),
    "ScriptEnded": Sentence("The script {path} has no answer left for this request."),
    "RateLimited": Sentence(
        "Provider {provider} rate-limited the request. Retrying in {retry_after_s}s… "
        "(Ctrl-C to cancel, /model to switch).",
        5,
    ),
    "Overloaded": Sentence("{provider} is overloaded ({status}).", 5),
    "ProviderUnreachable": Sentence("Cannot reach {address} ({problem}).{hint}", 5),
    "ProviderRejected": Sentence("{provider} refused the request ({status}): {problem}.{next}", 5),
    "BadCredentials": Sentence(
        "{provider} refused the key from {source} ({status}). Check it, or run: bridle login {provider}", 4
    ),
    "NoKey": Sentence(
        "{provider} needs a key and none was found. Set {source}, or run: bridle login {provider}", 4
    ),
    "UnusableKey": Sentence("The key from {source} was not sent: it holds characters that no key has.", 4),
    "NoCredit": Sentence(
        "{provider} says this account has no credit left ({status}, {code}). Trying again will not help.", 4
    ),
    "UnknownModel": Sentence('{provider} has no model "{model}".{near}  All: bridle models {provider}', 2),
    "NoImages": Sentence(
        "{provider} takes no images. Choose a model that does, or send only the words: "
        'providers.{provider}.quirks.images = "leave_out"',
        2,
    ),
    "ContextTooLong": Sentence("The conversation is longer than {provider}:{model} can read ({problem}).", 5),
    "StillRateLimited": Sentence("{provider} keeps asking us to wait (rate limit). Try again later.", 5),
    "BadStream": Sentence("{provider} sent an answer that cannot be read: {problem}.", 5),
    "AnswerTooLong": Sentence(
        "The answer was cut off after {limit}; it seemed to have no end. What came before is kept.", 5
    ),
    "StreamSilent": Sentence("No data from {provider} for {timeout_s} s; the request was ended.", 5),
    "StreamSilentAgain": Sentence(
        "No data for {timeout_s} s; the request was ended and sent again (try {attempt} of {attempts}). "
        "Nothing partial was kept.",
        5,
    ),
    # Git, as the person
    "GitUnusable": Sentence("{problem}.", 2),
    "NothingToCommit": Sentence("Nothing to commit: no file that git knows has changed.{hint}", 1),
    "NothingToStash": Sentence("Nothing to stash: no file that git knows has changed."),
    "UnmergedFiles": Sentence(
        "A merge left conflicts in {files}. Resolve them, say so with !git add FILE, then {command} again.", 1
    ),
    "NoBranch": Sentence("No branch is checked out, so there is nothing to push. Make one: /branch NAME", 2),
    "OnDefaultBranch": Sentence(
        "{branch} is the branch a pull request would go to. Make another one first: /branch NAME", 2
    ),
    "NoRemote": Sentence(
        "This repository knows no remote to push to, so nothing was done. Add one: !git remote add origin URL",
        2,
    ),
    "NoGh": Sentence(
        "gh, the program that opens pull requests, is not installed, so nothing was done. /commit works without it.",
        2,
    ),
    "BadBranchName": Sentence("{shown} cannot name a branch: {problem}. {usage}", 2),
    "BranchExists": Sentence("There is a branch {branch} already. Go to it: !git switch {branch}", 2),
    "FolderExists": Sentence("{path} is there already, so no worktree was made. Choose another name.", 2),
    "NoSuchWorktree": Sentence("There is no worktree {shown} here. See which there are: /worktrees", 2),
    "WorktreeInUse": Sentence("An agent still works in {name}. Wait for it, or stop it: /agents", 1),
    "WorktreeOverlaps": Sentence(
        "You changed the same files here: {files}. Commit or stash them, then /worktrees merge {name}", 1
    ),
    "WorktreeConflict": Sentence(
        "The changes do not fit what is here now: {files}. Nothing was changed. "
        "To resolve it by hand: !git merge {branch}",
        1,
    ),
    "NothingInWorktree": Sentence(
        "This session has nothing to take back in {name}: no agent of it changed files there, or their folder is gone. "
        "To be rid of it: /worktrees drop {name}",
        1,
    ),
    "WorktreeCutOff": Sentence(
        "Bridle stopped while an agent worked in a worktree of its own, or while it was taken away: {names}. "
        "What is left of it is still there. See it: /worktrees"
    ),
    "WorktreeEmpty": Sentence("Nothing was changed in {name}. To be rid of it: /worktrees drop {name}", 1),
    "NoWords": Sentence("/{name} takes no words. {hint}", 2),
    "NoMessage": Sentence("Without a message nothing is committed.", 1),
    "NotDone": Sentence("Nothing was done."),
    "NotDrafted": Sentence("No message could be drafted: {problem}", 1),
    "ChangedMeanwhile": Sentence(
        "Files changed while you looked, so nothing was committed. Again: /{name}", 1
    ),
    "GitFailed": Sentence("{command} failed (exit {code}).{done}", 1),
    "GitStopped": Sentence("{command} was stopped.{done}"),
    "GitDrafting": Sentence("Drafting a message from the diff…"),
    "GitRunning": Sentence("Running {command}"),
    # Credentials
    "CredentialsLocked": Sentence("The stored keys in {path} are locked: {problem}.", 4),
    "CredentialsWrongKey": Sentence(
        "{source} does not open the stored keys in {path}. Nothing was changed.", 4
    ),
    "CredentialsDamaged": Sentence(
        "{path} cannot be used: {problem}. Nothing was changed. Move it away to begin anew: bridle login", 4
    ),
    "CredentialsNewer": Sentence("{path} was written by a newer Bridle. Upgrade Bridle.", 2),
    "CredentialsBusy": Sentence("Another Bridle is changing the stored keys in {path}. Try again.", 4),
    "CredentialsUnusable": Sentence("{path} cannot be used for stored keys: {problem}.", 4),
    "BadMachineKey": Sentence(
        "BRIDLE_MACHINE_KEY is no key: 32 bytes are needed, as they are, as 64 hex digits or as base64. "
        "Nothing was opened.",
        4,
    ),
    "KeychainUnusable": Sentence(
        "The system keychain cannot be used: {problem}. Keep keys in a file: "
        "bridle config set credentials.store encrypted",
        4,
    ),
    "ExtraMissing": Sentence("{what} needs a package more. Install it: {install}", 2),
    "CredentialHelperFailed": Sentence(
        "The process that holds the key of {provider} failed: {problem}. Nothing more was sent. "
        "Try again in a minute, or without it: --set credentials.helper=never",
        4,
    ),
    "SignInFailed": Sentence("Signing in at {provider} did not work: {problem}.", 4),
    "SignInEnded": Sentence("The sign-in at {provider} has ended. Sign in again: bridle login {provider}", 4),
    # Files and the log
    "StoreUnwritable": Sentence(
        "Cannot write {path} ({problem}). Bridle keeps its log there; nothing was run.", 2
    ),
    "StoreFailed": Sentence(
        "Bridle cannot write its log any more ({path}: {problem}), so it stopped. What was stored before is whole.",
        1,
    ),
    "DiskFull": Sentence(
        "No space left: changes and commands are paused, reading works. They continue when there is room."
    ),
    "RoomAgain": Sentence("There is room again; changes and commands go on."),
    "NothingStored": Sentence(
        "There is nothing stored here yet. It begins with the first session: bridle run PROMPT", 2
    ),
    "StoreOnNetwork": Sentence(
        "{path} is on a network filesystem ({kind}), where a log is not safe. Use a local folder: BRIDLE_HOME=DIR",
        2,
    ),
    "NoSpace": Sentence(
        "No space left: Bridle cannot write its log in {folder}, so nothing more was run. What is stored is whole; "
        "go on when there is room."
    ),
    "StoreNewer": Sentence(
        "{path} was written by a newer Bridle (schema {found}, this one knows {known}). Upgrade Bridle.", 2
    ),
    "StoreHeld": Sentence(
        "An engine of an older Bridle (process {pid}) listens for {path}, which would have to change its form. "
        "End it first: kill {pid}",
        2,
    ),
    "StoreWrongKey": Sentence("{path} cannot be opened with the key in {key_path}.", 2),
    "SessionsLocked": Sentence("Your sessions are locked: {problem}. Nothing was changed.", 4),
    "SessionsWrongKey": Sentence("{source} does not open your sessions. Nothing was changed.", 4),
    "StoreBadKey": Sentence(
        "{key_path} holds no usable key ({problem}). Without it {path} cannot be read; nothing was changed. "
        "Put the key back, or move both files away to begin anew.",
        2,
    ),
    "StoreDamaged": Sentence(
        "{path} is damaged ({problem}). Nothing was changed. Save what is whole: bridle sessions repair", 1
    ),
    "LogDamaged": Sentence(
        "The log of {session} is damaged at event {event}: {problem}. Save what is whole: bridle sessions repair",
        1,
    ),
    "LeaseLost": Sentence(
        "Another run has taken over {session} ({holder}), so this one writes nothing more. "
        "What was stored before is whole.",
        1,
    ),
    "LogsLost": Sentence(
        "{count} stored sessions are gone from {path}, as after a power cut. What there is to know: "
        "bridle sessions repair",
        1,
    ),
    "TipsGone": Sentence(
        "{path} has nothing about {sessions} any more, so nobody can tell whether events at their end were cut off. "
        "Look, and go on with what is there: bridle sessions repair"
    ),
    "StoreInUse": Sentence(
        "{path} is in use by another Bridle. Nothing was changed; end it and try again.", 1
    ),
    "BadConfig": Sentence("{where}: {problem}.", 2),
    "SettingsNotAgreed": Sentence("{where}: {problem}.", 3),
    "NotUsedYet": Sentence("Not used yet, so without effect: {settings}."),
    "RawDump": Sentence(
        "Every request to a provider and its answer is kept as it was (debug.raw). Look: bridle debug raw {session}"
    ),
    "NoDump": Sentence(
        "Nothing was kept of what {session} sent. From the next session on: bridle config set debug.raw true",
        1,
    ),
    "DumpDamaged": Sentence("{path} line {line} is not what was written.", 1),
    "TracesNotSent": Sentence(
        "No traces are sent: OpenTelemetry is set up for {protocol} here, and Bridle speaks http/protobuf."
    ),
    # Trust
    "NonInteractiveAckRefused": Sentence(
        "Refusing to silently approve an unseen {kind} in non-interactive mode. "
        "Run bridle trust ack --all once interactively, or pre-populate approved.lock from CI.",
        3,
    ),
    "TrustUnwritable": Sentence("{path} cannot be written: {problem}. Nothing was trusted.", 2),
    "BadLockfile": Sentence(
        "{path} cannot be used as a lock file: {problem}. Make one: bridle trust ack --emit-lockfile", 2
    ),
    "TrustFileUnsafe": Sentence("{path} is not obeyed: {problem}", 3),
    "WideFolder": Sentence(
        "{path} is no folder to work in by accident: {problem}. Go into a project's folder, or mean it: -C {path}",
        3,
    ),
    "UnreadableFolder": Sentence("{path} is not a folder Bridle can work in ({problem}).", 2),
    "Usage": Sentence("{problem}", 2),
}

AWAITED_REASONS: Mapping[str, str] = {}
"""Reasons that nothing gives before a capability is there, each with that capability."""


class BridleError(Exception):
    """A failure with a stable reason. The message comes from the one table of sentences."""

    def __init__(self, reason: str, **data: Any) -> None:
        self.reason = reason
        self.data = data
        self.message = sentence(reason, data)
        super().__init__(self.message)

    @property
    def exit_code(self) -> int:
        return exit_code_of(self.reason)


class CommandRefused(BridleError):
    """A command that was not taken. Nothing changed."""


class ProviderError(BridleError):
    """The model's side failed. `retryable` says whether the same request may succeed later, `tries` how often it is
    made at most while it fails like this, where that is less than usual."""

    def __init__(
        self,
        reason: str,
        *,
        retryable: bool = False,
        retry_after_s: float | None = None,
        tries: int | None = None,
        **data: Any,
    ) -> None:
        if retry_after_s is not None:
            data["retry_after_s"] = f"{retry_after_s:g}"
        super().__init__(reason, **data)
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.tries = tries

    def given_up(self) -> ProviderError:
        """The same where nobody tries again: a wait nobody will wait for is no news."""
        if self.reason != "RateLimited":
            return self
        return ProviderError("StillRateLimited", provider=self.data.get("provider", ""))


class StoreError(BridleError):
    """The log could not be opened, read or written."""


class CredentialError(BridleError):
    """A credential could not be read, written or had. The message holds no secret."""


class UsageError(BridleError):
    """The person asked for something impossible. One sentence, exit code 2."""

    def __init__(self, problem: str) -> None:
        super().__init__("Usage", problem=problem)


def sentence(reason: str, data: Mapping[str, Any]) -> str:
    """The sentence of `reason`; names without a value stay visible, so a gap is seen and never raised."""
    known = SENTENCES.get(reason)
    if known is None:
        return str(data.get("message", reason))
    return known.text.format_map(_Shown(data)).rstrip()  # a value that says nothing leaves no gap behind


def exit_code_of(reason: str | None) -> int:
    """The exit code of a run that ended on `reason`; 1 for reasons this version does not know."""
    known = SENTENCES.get(reason or "")
    return known.exit_code if known else 1


class _Shown(dict[str, Any]):
    def __getitem__(self, key: str) -> _Value:
        return _Value(self.get(key, f"<{key}>"))


class _Value(str):
    """A value in a sentence. `{steps:step}` is so many of a thing: `1 step`, `2 steps`."""

    __slots__ = ()

    def __format__(self, noun: str) -> str:
        if not noun:
            return self
        return counted(int(self), noun) if self.isdecimal() else f"{self[:]} {noun}s"
