// Made by scripts/javascript.py from the types of the protocol. Do not edit.

/**
 * The answer to a command that was taken. `event` is the id of the event that records it, if one does; `session` is
 * empty for a command about none.
 *
 * For a session that was opened, that is its last one so far, and `opened` the `SessionCreated` of this run of it.
 */
export interface Accepted {
  session: string;
  event?: number | null;
  opened?: number | null;
}

/**
 * An agent, who wrote it and where. Of a project's that nobody trusts yet only the name of its file is told.
 *
 * `tools` is None where it sees what its session has; `provider` is empty where it works with that of its session.
 * `chosen`: the session talks with it.
 */
export interface AgentEntry {
  callable?: boolean;
  category?: string;
  chosen?: boolean;
  cost?: string;
  description?: string;
  display_name?: string;
  hidden?: boolean;
  mode?: "all" | "primary" | "subagent";
  name: string;
  place?: string;
  provider?: string;
  selectable?: boolean;
  source?: "builtin" | "bundle" | "code" | "plugin" | "project" | "settings" | "user";
  tools?: Array<string> | null;
  trusted?: boolean;
}

/** `problems` say which definitions do not count, and why. */
export interface AgentList {
  agents: Array<AgentEntry>;
  kind: "AgentList";
  problems?: Array<string>;
}

/** `digest` is the one of the question that was shown; a changed question refuses the answer. */
export interface AnswerPermission {
  answer: "always" | "deny" | "once" | "pattern" | "tool";
  call_id: string;
  digest?: string;
  id?: string;
  kind: "AnswerPermission";
  note?: string;
  session: string;
}

/** `answer` is about what the question was about; one about something else is refused. */
export interface AnswerQuestion {
  answer: WordsAnswer | PlanAnswer | TrustAnswer | BudgetAnswer | StepLimitAnswer | UndoAnswer | ConflictAnswer | GitAnswer | OrphanAnswer | InputAnswer | SamplingAnswer | TokenAnswer;
  id?: string;
  kind: "AnswerQuestion";
  question_id: string;
  session: string;
}

/** Answers the open question whether this content of a file or program may be used, for who names it. */
export interface AnswerTrust {
  id?: string;
  kind: "AnswerTrust";
  path: string;
  session: string;
  sha256: string;
  trusted: boolean;
}

/** Who said yes: the client, and the name of its token; one without a name is the engine's own terminal. */
export interface Approval {
  client: string;
  name?: string;
}

/** A person said yes to a call that needs more than one: so many of `keys` have. */
export interface ApprovalGiven {
  by: Approval;
  call_id: string;
  given: number;
  keys: number;
  stamp?: CommandStamp | null;
}

/** What the model said to the question of event `asked`, or why it said nothing. */
export interface AsideAnswered {
  answer?: string;
  asked: number;
  message?: string | null;
  reason?: string | null;
}

/** A question beside the conversation: neither it nor its answer is ever part of a later request. */
export interface AsideAsked {
  question: string;
  stamp?: CommandStamp | null;
}

/** A question to the model beside the conversation, which stays as it is. A turn may run meanwhile. */
export interface AskAside {
  id?: string;
  kind: "AskAside";
  question: string;
  session: string;
}

export interface AttachSession {
  fs_read?: boolean;
  id?: string;
  kind: "AttachSession";
  session: string;
  since?: number;
}

export interface BackgroundEnded {
  call_id: string;
  exit_code?: number | null;
  outcome: "blocked" | "cancelled" | "denied" | "error" | "ok" | "timeout" | "unknown";
}

export interface BackgroundStarted {
  call_id: string;
  command: string;
}

/** Begins a session as another was after a turn, or after its last. The answer names the new one. */
export interface BranchSession {
  id?: string;
  kind: "BranchSession";
  session: string;
  turn?: number | null;
}

/** This log continues `parent_log` from its event `at`. */
export interface Branched {
  at: number;
  parent_log: string;
}

/** `unlimited` goes on without the limit, for a model whose price nobody knows. */
export interface BudgetAnswer {
  about: "budget";
  choice: "cheaper" | "raise" | "stop" | "unlimited";
}

/**
 * What to do about a request that could cost more than is left, or whose price nobody knows.
 *
 * `raise_to_usd` is the limit a yes would set; `cheaper` names a model that costs less.
 */
export interface BudgetQuestion {
  about: "budget";
  cap_usd: number;
  cheaper?: string | null;
  could_usd?: number;
  model: string;
  raise_to_usd?: number | null;
  reason: "BudgetExceeded" | "PriceUnknown";
  spent_usd: number;
}

/** The files one call changed, relative to the session's folder where they are in it. */
export interface CallChanges {
  call_id: string;
  paths: Array<string>;
}

/** Stops the running turn and everything below it; with `invocation` that child alone, and its turn goes on. */
export interface CancelTurn {
  id?: string;
  invocation?: string | null;
  kind: "CancelTurn";
  session: string;
}

export interface Cancelled {
  by: string;
}

/** Changes an input that waits for its turn, by the event that accepted it. `content` is for an `edit`. */
export interface ChangeInput {
  change: "drop" | "edit" | "first" | "hold" | "release";
  content?: Array<TextBlock | ImageBlock | FileMention>;
  id?: string;
  input: number;
  kind: "ChangeInput";
  session: string;
}

export interface CheckHealth {
  kind: "CheckHealth";
}

/**
 * What a child came to. `stop` is how its turn ended, `stopped_by` the name of who stopped it alone; of
 * `tools_used`, of the `files` it knew and of those it `changed` the first ones are named. What it changed in a
 * worktree of its own is left on `branch`; empty where that is nothing.
 */
export interface ChildEnded {
  agent: string;
  branch?: string;
  changed?: Array<string>;
  files?: Array<string>;
  invocation: string;
  ok: boolean;
  result: string;
  steps?: number;
  stop?: "cancelled" | "content_filter" | "end_turn" | "error" | "interrupted" | "max_tokens" | null;
  stopped_by?: string;
  tools_used?: Array<string>;
  usd?: number;
}

/**
 * What is left of children for the next one like them: their own words, so notes and never instructions. In every
 * list the oldest stands first.
 */
export interface ChildMemory {
  decisions?: Array<string>;
  files?: Array<string>;
  findings?: Array<string>;
  questions?: Array<string>;
  results?: Array<ChildResult>;
  summary?: string;
}

/**
 * What is remembered from here on under `memory_id`: the next child with the same goes on there.
 *
 * It had to be compressed where it would have had more tokens than it may, `tokens_before`; `dropped` entries gave
 * way. Tokens are estimates.
 */
export interface ChildMemoryUpdated {
  agent: string;
  dropped?: number;
  memory: ChildMemory;
  memory_id: string;
  tokens?: number;
  tokens_before?: number;
}

/** A task that a child had, and the beginning of what it came to. */
export interface ChildResult {
  preview: string;
  task: string;
}

/**
 * An agent begins to work on a task, for the call `call_id` of whoever sent it; nobody's where a person did.
 *
 * `worktree` is its folder in a working tree that it has for itself, `branch` the branch there, where it has them.
 */
export interface ChildStarted {
  agent: string;
  background?: boolean;
  branch?: string;
  call_id?: string;
  invocation: string;
  model?: string;
  provider?: string;
  task: string;
  worktree?: string;
}

/**
 * `exp` and `nbf` are seconds since 1970. `name` says which person bears the token; without one it is the person
 * at the engine's own terminal. `commands` are kinds of commands and queries, and `FollowEvents` for reading events.
 * Beside the `sessions` named, those it `opens` itself are its own.
 */
export interface Claims {
  can_mint?: boolean;
  commands?: Array<string>;
  critical_claims?: Array<string>;
  exp: number;
  identity_class: "agent" | "human";
  jti: string;
  name?: string;
  nbf?: number;
  opens?: boolean;
  sessions?: Array<string>;
  ver: number;
}

/** A client that is here: attached, and seeing what happens. `name` is that of its token, where that has one. */
export interface ClientInfo {
  id: string;
  identity: "agent" | "human";
  name: string;
}

/** The engine asks one client for something only it has, such as an unsaved editor buffer. */
export interface ClientRequest {
  client: string;
  path: string;
  request_id: string;
  verb: "read_file";
}

/** One simple command inside a script, and what it does in a few words. */
export interface CommandPart {
  command_class: "destructive" | "executes" | "network" | "read_only" | "unparseable" | "writes";
  does?: string;
  text: string;
}

/** The command that an event records: the id its client chose, and a digest of the rest of it. */
export type CommandStamp = [string, string];

/** A command with an id begins that no other event records at once. */
export interface CommandTaken {
  kind: string;
  stamp?: CommandStamp | null;
}

/**
 * Everything before event `kept_from` is replaced by `summary` in later requests.
 *
 * What stays of it, before the summary, are the messages of the events `also_kept`: pinned words and what people
 * asked for. The results of the calls `cleared`, by wire id, read `[compacted]` from here on; where that was enough,
 * there is no summary and nothing else was dropped. `ledger`, where there is one, stands in the last of them: a line
 * for each earlier result of an agent that was sent. `pins` counts the pinned words that stay. `why`: the limit was
 * near, a person asked for it, the provider refused the request as too long, or results of agents went into their
 * ledger. Tokens are estimates.
 */
export interface Compacted {
  also_kept?: Array<number>;
  by?: "deterministic" | "model";
  cleared?: Array<string>;
  dropped?: Stretch;
  kept?: Stretch;
  kept_from: number;
  ledger?: Array<string>;
  pins?: number;
  summary: string;
  summary_tokens?: number;
  tokens_after?: number;
  tokens_before?: number;
  why?: "asked" | "ledger" | "limit" | "refused";
}

export interface ConflictAnswer {
  about: "conflict";
  choice: "overwrite" | "skip" | "stop";
}

/** What to do with a file that somebody else has changed since. */
export interface ConflictQuestion {
  about: "conflict";
  conflict: UndoConflict;
}

/**
 * A key for a provider, stored where the person's keys are once it has shown that it is good. For people.
 *
 * Nobody repeats the key: not the log, not an answer, not a refusal. `create` as in `SaveModel`.
 */
export interface ConnectProvider {
  create?: CreateSession | null;
  id?: string;
  key: string;
  kind: "ConnectProvider";
  provider: string;
}

/** Text that joins the conversation at its tail, from `source` (steer, mention, memory, skill …). */
export interface ContextAdded {
  content: Array<TextBlock | ImageBlock | FileMention>;
  input?: number | null;
  source: string;
}

/** The cost of a model request. `local`: the model runs on the engine's machine and costs nothing. */
export interface CostIncremented {
  local?: boolean;
  model: string;
  provider: string;
  purpose?: "draft" | "main" | "sampling" | "side_question" | "subagent" | "summary";
  usage: Usage;
  usd?: number | null;
}

/**
 * What one model, session or day came to. `usd` is what is known; `unknown` counts requests without a price.
 *
 * `local`: every model of it runs on this machine.
 */
export interface CostRow {
  cached_tokens: number;
  input_tokens: number;
  local: boolean;
  name: string;
  output_tokens: number;
  requests: number;
  unknown: number;
  usd: number;
}

export interface CostSum {
  kind: "CostSum";
  rows: Array<CostRow>;
  total: CostRow;
}

/**
 * Opens a new session in `cwd`, or a stored one when `resume` names it.
 *
 * `env` is the caller's allow-listed environment; the session's tools run with it. With `carry_from` a new one begins
 * with a summary of the last `carry_turns` turns of that session, which stays as it is. For people.
 */
export interface CreateSession {
  agent?: string | null;
  aliases?: Array<string>;
  carry_from?: string | null;
  carry_turns?: number;
  config?: SessionOptions;
  cwd: string;
  env?: Record<string, string>;
  id?: string;
  kind: "CreateSession";
  mode?: "auto" | "default" | "plan" | "safe" | "strict" | "yolo" | null;
  model?: string | null;
  profile?: string | null;
  resume?: string | null;
}

export interface CustomAnswer {
  kind: "CustomAnswer";
  payload?: Record<string, unknown>;
}

export interface CustomCommand {
  id?: string;
  kind: "CustomCommand";
  namespace: string;
  payload?: Record<string, unknown>;
  session?: string | null;
  verb: string;
}

/** A plugin's own event. Its `name` lives inside `namespace`. */
export interface CustomEvent {
  name: string;
  namespace: string;
  payload?: Record<string, unknown>;
}

export interface CustomQuery {
  kind: "CustomQuery";
  namespace: string;
  payload?: Record<string, unknown>;
  session?: string | null;
  verb: string;
}

/** Something works with less than its full strength; shown until it is better. */
export interface Degraded {
  message: string;
  reason: string;
  what: string;
}

/** Deletes everything of a session that nobody has open. */
export interface DeleteSession {
  id?: string;
  kind: "DeleteSession";
  session: string;
}

/** The files each call of a session changed, as undo saw it, whatever tool did it. */
export interface DescribeLog {
  kind: "DescribeLog";
  session: string;
}

/** A profile of this name; without one the profile in force in `session`, with what that session has. */
export interface DescribeProfile {
  kind: "DescribeProfile";
  name?: string;
  session?: string | null;
}

/**
 * A session, with so many of its last stored events, each as it is on the wire. Nothing is opened by this.
 *
 * With `since`, the first so many with an id above it instead.
 */
export interface DescribeSession {
  events?: number;
  kind: "DescribeSession";
  session: string;
  since?: number | null;
}

export interface DescribeSkill {
  kind: "DescribeSkill";
  name: string;
  session?: string | null;
}

export interface DetachSession {
  id?: string;
  kind: "DetachSession";
  session: string;
}

/** One line: it came, went, or stays. `…` stands for `number` lines that stay and are left out. */
export type DiffLine = [" " | "+" | "-" | "\u2026", number, string];

/**
 * What a call made of a file. Words as in `FileChange`, which says what it would make of it.
 *
 * `diff` is unified text of bounded size; empty where nothing of the text changed, where it cannot be compared, and
 * where it has no room (`cut`). The counts are of the whole change; `removed` is None where nobody can tell.
 */
export interface EditedFile {
  added?: number;
  cut?: boolean;
  diff?: string;
  kind?: "change" | "create" | "delete" | "move";
  moved_from?: string | null;
  path: string;
  removed?: number | null;
}

/** How much the model thinks, from the next turn on. */
export interface EffortChanged {
  effort: "high" | "low" | "max" | "medium" | "off";
  stamp?: CommandStamp | null;
}

/** `leaving`: because the program that had it opened ends, and not because a person wants it. */
export interface EndSession {
  id?: string;
  kind: "EndSession";
  leaving?: boolean;
  session: string;
}

export interface EnterPlanMode {
  id?: string;
  kind: "EnterPlanMode";
  session: string;
}

/** A failure a client shows verbatim: a stable reason and its sentence. */
export interface Error {
  data?: Record<string, unknown>;
  message: string;
  reason: string;
}

/** Why something was stopped: who looked, which rule, what it matched. */
export interface Evidence {
  matched?: string;
  preview?: string;
  rule: string;
  source: string;
}

export interface ExitPlanMode {
  approve: boolean;
  id?: string;
  kind: "ExitPlanMode";
  session: string;
}

/**
 * What a call would make of a file, as its tool worked it out from the file with this digest.
 *
 * `lines` are the change, with all lines that stay where the file is short; `cut` of them are left out. `only_ends`:
 * nothing but the end of lines or of the file changes.
 */
export interface FileChange {
  added?: number;
  cut?: number;
  kind?: "change" | "create" | "delete" | "move";
  lines?: Array<DiffLine>;
  moved_from?: string | null;
  only_ends?: boolean;
  path: string;
  removed?: number;
  sha256?: string;
}

/** A file the person pointed at with `@path`; its text arrives as `ContextAdded`. */
export interface FileMention {
  path: string;
  type: "file_mention";
}

/**
 * The session that `create` goes on with: the one used last in its folder, or the one that runs by `alias`, by
 * exactly this name or id. For a session by what people call it there is `DescribeSession`.
 */
export interface FindSession {
  alias?: string | null;
  cwd: string;
  kind: "FindSession";
}

/** `edit` gives another message, which is asked about again; `draft` has the model write another one, by `text`. */
export interface GitAnswer {
  about: "git";
  choice: "draft" | "edit" | "go" | "keep";
  text?: string;
}

/**
 * What came of a git command that a person gave, `name` without its slash.
 *
 * `runs` are the commands that were run, in order. `reason` and its sentence say why nothing, or not all, was done.
 */
export interface GitEnded {
  data?: Record<string, unknown>;
  message?: string;
  name: string;
  reason?: string | null;
  runs?: Array<GitRun>;
}

/** A file that goes into a commit. */
export interface GitFile {
  did: "added" | "changed" | "deleted" | "renamed";
  path: string;
}

/** A program of the repository that git runs on the way. `changed`: it is not as it was committed. */
export interface GitHook {
  changed?: boolean;
  path: string;
}

/**
 * Whether these commands are run, in this order, in this folder: by the person, outside the sandbox.
 *
 * `message` is the commit's, as it will be; `no_draft` says why the model wrote none. `branch` is the one checked out,
 * empty where none is. `new_files` are left out of the commit: git does not know them.
 */
export interface GitQuestion {
  about: "git";
  branch?: string;
  commands: Array<Array<string>>;
  cwd: string;
  deed: "branch" | "commit" | "drop" | "merge" | "publish" | "stash" | "worktree";
  files?: Array<GitFile>;
  hooks?: Array<GitHook>;
  merges?: boolean;
  message?: string;
  more_files?: number;
  more_new_files?: number;
  new_files?: Array<string>;
  no_draft?: string;
}

/** A command that was run as the person; `output` is the end of what it said. Without `exit_code` it did not end. */
export interface GitRun {
  argv: Array<string>;
  exit_code?: number | null;
  output?: string;
}

/**
 * Work goes on from here until the check passes, or a limit is reached.
 *
 * So many files are `watched` as belonging to the check; not `watched_all`: there are more of them.
 */
export interface GoalBegun {
  check: GoalCheck;
  limits: GoalLimits;
  text: string;
  watched?: number;
  watched_all?: boolean;
}

/**
 * What has to pass, all of it: an answer that fits the schema, a command of the person's that ends with 0, an agent
 * that looks at the work and says so.
 */
export interface GoalCheck {
  agent?: string;
  command?: string;
  schema?: boolean;
}

/**
 * The check of one round. `problem` says in a few words why it did not pass, `call_id` is its last call.
 *
 * `changed` are files of the check that are not as they were when the goal began, and not by the check's own doing.
 */
export interface GoalChecked {
  call_id?: string;
  changed?: Array<string>;
  passed: boolean;
  problem?: string;
  round: number;
}

/**
 * Nothing follows by itself any more. `reason` and its sentence say why the goal was not reached.
 *
 * `changed` are files of the check as in `GoalChecked`: of a check that passed, it may be what made it pass.
 */
export interface GoalEnded {
  changed?: Array<string>;
  message?: string | null;
  reached: boolean;
  reason?: string | null;
  rounds: number;
  steps: number;
}

/**
 * How far work on a goal goes: rounds, model calls in all of them together, and seconds without those in which a
 * person was asked.
 */
export interface GoalLimits {
  rounds: number;
  steps: number;
  time_s?: number | null;
}

export interface GrantAdded {
  expires_ms?: number | null;
  grant_id: string;
  life: "once" | "saved" | "session";
  match?: "key" | "literal";
  pattern: string;
  tool: string;
}

/** A remembered yes. Without `expires_ms` it lasts as long as the session's run. */
export interface GrantEntry {
  expires_ms?: number | null;
  grant_id: string;
  match?: "key" | "literal";
  pattern?: string;
  tool: string;
}

export interface GrantList {
  grants: Array<GrantEntry>;
  kind: "GrantList";
}

export interface GrantRevoked {
  grant_id: string;
  stamp?: CommandStamp | null;
}

/** What another agent would be told, word for word, and which model reads it. */
export interface Handoff {
  agent: string;
  model: string;
  provider: string;
  text: string;
  tools?: Array<string>;
}

export interface Handshake {
  canonical_form_version?: number;
  command_kinds?: Array<string>;
  event_kinds?: Array<string>;
  features?: Array<string>;
  protocol_version?: string;
  query_kinds?: Array<string>;
  resource_uri_scheme?: string;
  schema_version_profile?: number;
  schema_version_session_log?: number;
  schema_version_token_claim?: number;
}

/** How the engine is, whole and part by part. `sandbox` is what holds commands, empty until that was tried. */
export interface Health {
  disk_has_room: boolean;
  kind: "Health";
  ok?: boolean;
  open_sessions: number;
  parts?: Array<PartHealth>;
  protocol_version: string;
  sandbox?: string;
  version: string;
}

/** Characters of a line that a screen does not show: the first of them, and how many there are. */
export interface HiddenCharacters {
  code: number;
  count?: number;
  line: number;
}

export interface HookError {
  command: string;
  event: string;
  exit_code: number;
  message?: string;
}

export interface HookTimeout {
  command: string;
  event: string;
  timeout_ms: number;
}

/** An image as a `data:` or `https:` address. */
export interface ImageBlock {
  detail?: "auto" | "high" | "low";
  type: "image";
  url: string;
}

/**
 * Input is in the session's inbox. Its event id names it from here on.
 *
 * `goal` is the event of the goal that another round is for, `child` the invocation in the background whose end it
 * tells: nobody said these words.
 */
export interface InputAccepted {
  child?: string;
  content: Array<TextBlock | ImageBlock | FileMention>;
  goal?: number | null;
  identity?: "agent" | "human";
  mode?: "queue" | "reject" | "steer";
  stamp?: CommandStamp | null;
}

/** `text` is what was written; empty takes the default. A `declined` question gives the server nothing. */
export interface InputAnswer {
  about: "input";
  declined?: boolean;
  text?: string;
}

/**
 * Somebody changed an input that waits: other words, held or let go again, before all others, or gone.
 *
 * `content` is what it says from here on, after an `edit`, and what it said, after a `drop`.
 */
export interface InputChanged {
  change: "drop" | "edit" | "first" | "hold" | "release";
  content?: Array<TextBlock | ImageBlock | FileMention>;
  input: number;
  stamp?: CommandStamp | null;
}

/**
 * One thing a server wants to know. `choices` are all there are; of `many` any number may be named, with commas.
 *
 * `default` is what it is where nobody says anything else, as it would be written.
 */
export interface InputField {
  about?: string;
  choices?: Array<string>;
  default?: string;
  kind?: "number" | "text" | "whole number" | "yes or no";
  many?: boolean;
  name: string;
  required?: boolean;
  title?: string;
}

/**
 * What a server asks a person for while it works: one field of a form, the n-th of so many, or a visit to `url`.
 *
 * `problem` says what was wrong with the answer before. Its words are the server's: nobody has checked them.
 */
export interface InputQuestion {
  about: "input";
  count?: number;
  field?: InputField | null;
  message: string;
  number?: number;
  problem?: string;
  server: string;
  url?: string;
}

/**
 * A program as it would be started. `fetched` names what it brings from the network, as it is then; `unpinned` says
 * what of it can be other code the next time.
 */
export interface LaunchShown {
  argv: Array<string>;
  command?: string;
  cwd?: string;
  env?: Array<[string, string]>;
  fetched?: string;
  files?: Array<string>;
  program?: string;
  unpinned?: string;
}

/** The agents of a session; without one those that Bridle brings and the person's own. */
export interface ListAgents {
  kind: "ListAgents";
  session?: string | null;
}

/**
 * What a turn (its number), a call (its id or the beginning of it) or the `session` changed.
 *
 * By itself, what the last turn did that changed something.
 */
export interface ListChanges {
  kind: "ListChanges";
  session: string;
  what?: string;
}

export interface ListGrants {
  kind: "ListGrants";
  session: string;
}

/**
 * What is known of these models, or of all that are known of a provider. Nobody is asked over the network, unless
 * `ask_provider` wants its own list; that and `create` are for people.
 *
 * `usable`: also every model that can be asked now, by a key at hand or on this machine; servers of this machine are
 * looked for, and stand first. By the settings of an open `session`, of one that `create` would make, or by the
 * person's own.
 */
export interface ListModels {
  ask_provider?: boolean;
  create?: CreateSession | null;
  kind: "ListModels";
  names?: Array<string>;
  provider?: string | null;
  session?: string | null;
  usable?: boolean;
}

/** With `session`, also those of its project, and which one is in force. */
export interface ListProfiles {
  kind: "ListProfiles";
  session?: string | null;
}

/**
 * These providers, then all others whose key is at hand. For people; nobody is asked over the network.
 *
 * `which`: with `running`, the servers of this machine are looked for first, and stored keys too. `connectable` are
 * all that a key is for. By the settings of an open `session`, of one that `create` would make, or the person's own.
 */
export interface ListProviders {
  create?: CreateSession | null;
  kind: "ListProviders";
  names?: Array<string>;
  session?: string | null;
  which?: "connectable" | "running" | "usable";
}

/**
 * The sessions in which something was said or that are open here, of one folder or of all, the one used last
 * first. With `limit` no more than so many; those behind them with the `next` of the answer as `after`.
 */
export interface ListSessions {
  after?: string | null;
  cwd?: string | null;
  kind: "ListSessions";
  limit?: number | null;
}

/** The skills of a session; without one those that Bridle brings and the person's own. */
export interface ListSkills {
  kind: "ListSkills";
  session?: string | null;
}

/** With `session`, also the commands that plugins add to it. */
export interface ListSlash {
  kind: "ListSlash";
  session?: string | null;
}

export interface ListTools {
  kind: "ListTools";
  session: string;
}

/** `digest` is the last link of the chain of the log, in hex: it stands for everything in it. */
export interface LogDescription {
  changes: Array<CallChanges>;
  digest: string;
  kind: "LogDescription";
}

export interface MCPServerDown {
  attempts: number;
  name: string;
  reason: string;
}

export interface ModeChanged {
  mode: "auto" | "default" | "plan" | "safe" | "strict" | "yolo";
  stamp?: CommandStamp | null;
}

/**
 * Another model. During a turn it counts from the next one on, unless `holds` says something else.
 *
 * `this_turn`: until the turn ends, then the chosen model is asked again. `from_now`: at once and from here on.
 */
export interface ModelChanged {
  holds?: "from_next_turn" | "from_now" | "this_turn";
  model: string;
  provider: string;
  stamp?: CommandStamp | null;
}

/**
 * A model under the name that commands take. Prices are dollars for a million tokens; `local` ones cost nothing.
 *
 * `context_tokens` is what is served, `longest_context_tokens` what the model could have; `size_bytes` its file.
 */
export interface ModelEntry {
  can_chat?: boolean;
  context_tokens?: number | null;
  images?: boolean | null;
  local?: boolean;
  longest_context_tokens?: number | null;
  max_output_tokens?: number | null;
  model: string;
  price_cache_read?: number | null;
  price_cache_write?: number | null;
  price_in?: number | null;
  price_out?: number | null;
  size_bytes?: number | null;
  tools?: boolean | null;
}

export interface ModelList {
  kind: "ModelList";
  models: Array<ModelEntry>;
}

export interface Notice {
  data?: Record<string, unknown>;
  message: string;
  reason: string;
}

/**
 * What one answer to a permission question would remember: which calls pass from then on, and for how long.
 *
 * `literal` patterns are the whole command or path; a `key` is a program and subcommand with harmless arguments inside
 * this folder; an empty pattern for the whole tool. `days` is set when it outlives the session.
 */
export interface Offer {
  answer: "always" | "pattern" | "tool";
  days?: number | null;
  match?: "key" | "literal";
  pattern?: string;
  tool: string;
}

/** A question in words. `choices` are likely answers; any other words answer it too. */
export interface OpenQuestion {
  about: "words";
  choices?: Array<string>;
  text: string;
}

/** `note` is for the model, which must then look for itself. */
export interface OrphanAnswer {
  about: "orphan";
  judgement: "did_not" | "happened" | "later" | "undo" | "unknown";
  note?: string;
}

/**
 * What became of a call that Bridle did not see end: the n-th of so many. `now` is what is there, in short lines.
 *
 * `not_undoable` says in a few words why it cannot be undone; empty where it can.
 */
export interface OrphanQuestion {
  about: "orphan";
  count?: number;
  input: Record<string, unknown>;
  not_undoable?: string;
  now?: Array<string>;
  number?: number;
  started_ms: number;
  stopped_ms: number;
  tool: string;
}

/**
 * A part of what a call printed; `text` is None where nothing more is kept than its result says.
 *
 * `next_offset` is where the next part begins, None at the end.
 */
export interface OutputPart {
  kind: "OutputPart";
  next_offset?: number | null;
  text?: string | null;
}

/** What a request asks of the model. `answer_schema` is the JSON Schema that an answer without calls is to fit. */
export interface Parameters {
  answer_schema?: Record<string, unknown> | null;
  effort?: "high" | "low" | "max" | "medium" | "off" | null;
  max_tokens?: number | null;
  temperature?: number | null;
}

/** How one part of the engine is: it works, works with less, does not, or was not tried yet. */
export interface PartHealth {
  part: string;
  status: "fail" | "ok" | "skip" | "warn";
  text?: string;
}

/**
 * The audit record of one evaluation: what decided, and by whose word. `step` is that of the order of decisions.
 *
 * `answered_by` is a client, `answered_name` the name its token gives; where more than one person had to agree,
 * `approvals` are all who did.
 */
export interface PermissionDecided {
  answered_by?: string | null;
  answered_name?: string;
  approvals?: Array<Approval>;
  call_id: string;
  decided_by: string;
  note?: string | null;
  origin?: string | null;
  reason?: string | null;
  rule?: string | null;
  stamp?: CommandStamp | null;
  step?: number | null;
  tool: string;
  verdict: "allow" | "deny";
}

/**
 * A question to a person. `because` says in a few words why it is asked, `parts` what a command consists of.
 *
 * `changes` are what would become of files, where the tool can say so. So many different people must say yes as `keys`
 * says. `of_server` is set where a server carries it out, `handoff` where another agent would.
 */
export interface PermissionRequested {
  because?: string;
  call_id: string;
  changes?: Array<FileChange>;
  digest?: string;
  handoff?: Handoff | null;
  input: Record<string, unknown>;
  keys?: number;
  of_server?: ToolOfServer | null;
  offers?: Array<Offer>;
  parts?: Array<CommandPart>;
  risk: "dangerous" | "network" | "read" | "shell" | "write";
  subjects?: Array<string>;
  tool: string;
  why: string;
}

/** Keeps the content of a session for as long as there is room, or no longer. */
export interface PinSession {
  id?: string;
  kind: "PinSession";
  pinned?: boolean;
  session: string;
}

/** `note` is what to think about instead. */
export interface PlanAnswer {
  about: "plan";
  approve: boolean;
  note?: string;
}

/** Whether the model may leave plan mode and carry this out. */
export interface PlanQuestion {
  about: "plan";
  plan: string;
}

/** The part of a request that stands before the messages; in force until the next one. */
export interface PrefixSet {
  model: string;
  parameters?: Parameters;
  provider: string;
  system: string;
  tools?: Array<ToolSchema>;
}

/** Somebody came or left: these are here now. */
export interface Presence {
  clients: Array<Present>;
}

export interface Present {
  client: string;
  identity: "agent" | "human";
  name: string;
}

/** What would come of this command. For people; nothing is opened and nobody is asked over the network. */
export interface PreviewSession {
  create: CreateSession;
  kind: "PreviewSession";
}

/**
 * `settings` are those that say how a session works; where its models and keys are is not told.
 *
 * What a session has in force by it and by everything else: `tools`, `servers`, `skills` and `plugins`, by name.
 */
export interface ProfileDescription {
  about: string;
  kind: "ProfileDescription";
  name: string;
  plugins?: Array<string>;
  scope?: "own" | "path" | "project" | "shipped";
  servers?: Array<string>;
  settings: Record<string, unknown>;
  skills?: Array<string>;
  tools?: Array<string>;
}

/**
 * A profile that can be chosen by `name`, and who wrote it. Of a project's that nobody trusts yet only the name is
 * told.
 */
export interface ProfileEntry {
  about?: string;
  in_force?: boolean;
  name: string;
  scope?: "own" | "path" | "project" | "shipped";
  trusted?: boolean;
}

export interface ProfileList {
  entries?: Array<ProfileEntry>;
  kind: "ProfileList";
  profiles: Array<string>;
}

/**
 * A remembered yes becomes a rule of the person's own settings, for later sessions in every folder.
 *
 * A `Notice` with the reason `GrantPromoted` says where it stands. For people.
 */
export interface PromoteGrant {
  grant_id: string;
  id?: string;
  kind: "PromoteGrant";
  session: string;
}

/**
 * A provider of models. `key_from` says where its key comes from, None where there is none; never the key.
 *
 * `title` is what people call it, `key_env` the variable its key is looked for in. `running` servers were found on
 * this machine just now, with these `models`.
 */
export interface ProviderEntry {
  key_env?: string | null;
  key_from?: string | null;
  local?: boolean;
  models?: Array<ModelEntry>;
  name: string;
  running?: boolean;
  title?: string;
}

/** `default` is the model that the keys at hand stand for, where they were looked for and stand for one. */
export interface ProviderList {
  default?: string | null;
  kind: "ProviderList";
  providers: Array<ProviderEntry>;
}

export interface QuestionAnswered {
  answer: WordsAnswer | PlanAnswer | TrustAnswer | BudgetAnswer | StepLimitAnswer | UndoAnswer | ConflictAnswer | GitAnswer | OrphanAnswer | InputAnswer | SamplingAnswer | TokenAnswer;
  answered_by: string;
  answered_name?: string;
  question_id: string;
  stamp?: CommandStamp | null;
}

export interface QuestionAsked {
  question: OpenQuestion | PlanQuestion | TrustQuestion | BudgetQuestion | StepLimitQuestion | UndoQuestion | ConflictQuestion | GitQuestion | OrphanQuestion | InputQuestion | SamplingQuestion | TokenQuestion;
  question_id: string;
}

/** What a call printed that was too long for its result, from a byte on; at most some megabytes at once. */
export interface ReadOutput {
  call_id: string;
  kind: "ReadOutput";
  offset?: number;
  session: string;
}

/** Gives a session a title of a person's choice; after an empty one the next input names it. */
export interface RenameSession {
  id?: string;
  kind: "RenameSession";
  session: string;
  title: string;
}

/** A tool call as the model asked for it. `problem` says why the arguments could not be read. */
export interface RequestedCall {
  call_id: string;
  input: Record<string, unknown>;
  problem?: string | null;
  tool: string;
  wire_id: string;
}

export interface RevokeGrant {
  grant_id: string;
  id?: string;
  kind: "RevokeGrant";
  session: string;
}

export interface RunSlash {
  arguments?: string;
  id?: string;
  kind: "RunSlash";
  name: string;
  session: string;
}

/** A message that a server wants the model to read. */
export interface SampledMessage {
  role: "assistant" | "user";
  text: string;
}

/** A yes is for these messages and no others. */
export interface SamplingAnswer {
  about: "sampling";
  allow?: boolean;
}

/**
 * Whether the model of the session may answer these messages of a server, in so many tokens.
 *
 * Its words are the server's: nobody has checked them. What is left is left for all servers of this session.
 */
export interface SamplingQuestion {
  about: "sampling";
  max_tokens: number;
  messages: Array<SampledMessage>;
  requests_left?: number;
  server: string;
  system?: string;
  tokens_left?: number;
}

/**
 * The model that new sessions of this person begin with, as `provider:model`. For people.
 *
 * It must be there for a session made with `create`, or by the person's own settings.
 */
export interface SaveModel {
  create?: CreateSession | null;
  id?: string;
  kind: "SaveModel";
  model: string;
}

/** A place where the words were said. */
export interface SearchHit {
  event: number;
  excerpt: string;
  session: string;
  ts_ms: number;
  turn: number | null;
  who: string;
}

export interface SearchHits {
  hits: Array<SearchHit>;
  kind: "SearchHits";
}

/** Where every one of the words was said, the best place first; words in quotes stand together. */
export interface SearchSessions {
  cwd?: string | null;
  kind: "SearchSessions";
  limit?: number;
  words: string;
}

export interface SendInput {
  content: Array<TextBlock | ImageBlock | FileMention>;
  id?: string;
  kind: "SendInput";
  mode?: "queue" | "reject" | "steer";
  session: string;
}

/**
 * What calls changed in files, by the record of undo. `turn` is None for more than one.
 *
 * `hidden` are files that hold secrets or look so: nothing of them is shown. `more_files` are left out.
 */
export interface SessionChanges {
  files?: Array<EditedFile>;
  hidden?: Array<string>;
  kind: "SessionChanges";
  more_files?: number;
  title?: string;
  turn?: number | null;
}

/**
 * A session begins, or goes on. `sandbox` names what confines its commands, `confined` says to what.
 *
 * `hosts` are the rules for what they reach while the network is "filtered". `carried_from` is the session whose last
 * turns it begins with, as a summary.
 */
export interface SessionCreated {
  agent?: string | null;
  carried_from?: string;
  confined?: "off" | "read-only" | "workspace-write";
  cwd: string;
  hosts?: Array<string>;
  log: string;
  mode?: "auto" | "default" | "plan" | "safe" | "strict" | "yolo";
  network?: "deny" | "filtered" | "inherit";
  profile?: string;
  resumed?: boolean;
  sandbox?: string;
}

/** A session, and who is here in it, in this engine. */
export interface SessionDetails {
  clients?: Array<ClientInfo>;
  events?: Array<unknown>;
  kind: "SessionDetails";
  session: SessionInfo;
}

export interface SessionEnded {
  cause: "binary-shutdown" | "error" | "idle" | "user";
}

/**
 * A session as it is stored.
 *
 * `short_id` is a beginning of its id that names no other. `title` is a person's where `named` says so, else the first
 * words they typed. `state`: somebody has it open, or it also waits for an answer. `expires_ms` is when its content
 * will go, `expired_ms` when it went. `last` is the end of what its model said last, as far as anybody ever searched.
 */
export interface SessionInfo {
  branch_of?: string | null;
  created_ms: number;
  cwd: string;
  expired_ms?: number | null;
  expires_ms?: number | null;
  headless?: boolean;
  id: string;
  imported_ms?: number | null;
  last?: string;
  model?: string | null;
  named?: boolean;
  pinned?: boolean;
  profile?: string;
  short_id: string;
  state?: "open" | "stored" | "waiting";
  title?: string;
  turns?: number;
  updated_ms: number;
  usd?: number;
}

/** `next` is the `after` of the query for those behind these; None where there are none. */
export interface SessionList {
  kind: "SessionList";
  next?: string | null;
  sessions: Array<SessionInfo>;
}

/**
 * The options of a session. A default leaves the choice to the settings.
 *
 * `wide_folder` is a folder that the user chose to work in although it holds more than a project.
 */
export interface SessionOptions {
  add_dirs?: Array<string>;
  agent_mode?: "multi" | "single" | null;
  allow?: Array<string>;
  allow_hosts?: Array<string>;
  allow_policy_changes?: boolean;
  allow_project_hooks?: boolean;
  allow_unsandboxed?: boolean;
  append_system?: string;
  config_file?: string | null;
  deny?: Array<string>;
  dry_run?: boolean;
  effort?: string | null;
  headless?: boolean;
  lockfile?: string | null;
  max_cost?: number | null;
  max_steps?: number | null;
  memory?: boolean | null;
  network?: string | null;
  on_ask?: "deny" | "fail" | "wait";
  on_orphan?: "ask" | "fail" | "mark-unknown";
  output_schema?: Record<string, unknown> | null;
  persistent_grants?: boolean | null;
  require_trust?: boolean;
  sandbox?: string | null;
  sets?: Array<string>;
  title?: string | null;
  transcript?: string | null;
  wide_folder?: string | null;
  yes?: boolean;
}

/**
 * What a session would be, before there is one.
 *
 * `model_from`: a person's word in the command, a variable of the environment, or settings; empty where nobody chose
 * one. `wide` says, as the end of a sentence, why the folder holds more than a project. `rules` are the files of
 * instructions that count, `waiting_rules` those that wait for a person. `notify`: a person may be called.
 */
export interface SessionPreview {
  branch?: string;
  cwd: string;
  kind: "SessionPreview";
  model?: string | null;
  model_from?: "" | "command" | "environment" | "settings";
  notify?: boolean;
  rules?: Array<string>;
  waiting_rules?: Array<string>;
  wide?: string;
}

/** How much the model thinks, from the next turn on. */
export interface SetEffort {
  effort: "high" | "low" | "max" | "medium" | "off";
  id?: string;
  kind: "SetEffort";
  session: string;
}

export interface SetMode {
  id?: string;
  kind: "SetMode";
  mode: "auto" | "default" | "plan" | "safe" | "strict" | "yolo";
  session: string;
}

export interface SetModel {
  id?: string;
  kind: "SetModel";
  model: string;
  session: string;
}

/** A shell command the person typed with `!`. Every layer applies; only the question is skipped. */
export interface ShellRequest {
  command: string;
  id?: string;
  kind: "ShellRequest";
  session: string;
  share?: boolean;
}

/** An agent that worked on something, or still does in the background. */
export interface ShownChild {
  agent: string;
  as: "child";
  ended?: boolean;
  invocation: string;
  steps?: number;
  usd?: number;
}

/**
 * A command, or one in the background. `exit_code` is None while it runs, and negative for a signal.
 *
 * `lines` counts all it printed, whatever of it was kept. `sandbox` names what held it; `blocked`: it was kept from
 * something. `reached` and `refused` are hosts, where the network is filtered. `changed` are the files it changed, as
 * undo saw it, those of repositories left out; at most some hundred of them.
 */
export interface ShownCommand {
  as: "command";
  blocked?: boolean;
  changed?: Array<string>;
  exit_code?: number | null;
  lines?: number;
  reached?: Array<string>;
  refused?: Array<string>;
  sandbox?: string;
}

/** Files that were changed. */
export interface ShownEdit {
  as: "edit";
  files: Array<EditedFile>;
}

/** What became of a call that nobody saw end, by the word of the client `by`; of nobody, where it is empty. */
export interface ShownJudgement {
  as: "judgement";
  by?: string;
  judgement: "did not happen" | "happened" | "undone" | "unknown";
}

/** Lines of a file, counted from 1; none of an empty one. */
export interface ShownRead {
  as: "read";
  first_line?: number;
  last_line?: number;
}

/** What was found: lines, files or entries of a folder. `files` have those lines. `more`: it is not all. */
export interface ShownSearch {
  as: "search";
  files?: number;
  found: number;
  more?: boolean;
}

/**
 * What a tool of a server gave back. `structured` is the value it gave beside its words, as JSON, if that is not
 * long; nobody has checked it. `pictures` counts the images it gave.
 */
export interface ShownServerResult {
  as: "server_result";
  pictures?: number;
  server: string;
  structured?: string;
  tool: string;
}

/** Nobody answered the question about the call in this time. */
export interface ShownWait {
  as: "wait";
  waited_s: number;
}

/** A skill with its words. `fields` are the others of its front matter, `files` what lies beside it. */
export interface SkillDescription {
  body: string;
  fields: Record<string, unknown>;
  files: Array<string>;
  kind: "SkillDescription";
  skill: SkillEntry;
}

/** A skill as it is offered, or one that no person has agreed to. `in_use`: its words are in the conversation. */
export interface SkillEntry {
  description: string;
  folder: string;
  in_use?: boolean;
  name: string;
  source: "built-in" | "bundle" | "listed" | "project" | "yours";
  trusted?: boolean;
}

/** `problems` say which folders are no skills although they want to be, and why. */
export interface SkillList {
  kind: "SkillList";
  problems: Array<string>;
  skills: Array<SkillEntry>;
}

/**
 * The skills of a session are others than before: `skills` are those there are now, by name.
 *
 * `waiting` are folders of those that no person has agreed to, `problems` say which are none, and why.
 */
export interface SkillRegistryChanged {
  added?: Array<string>;
  changed?: Array<string>;
  problems?: Array<string>;
  removed?: Array<string>;
  skills: Array<string>;
  waiting?: Array<string>;
}

/**
 * A command the engine knows. `name` is all of it, as `RunSlash` takes it; `namespace` the part before the first
 * colon. `args_schema` is a JSON Schema of what is written behind it: `properties` stand in their order, the last
 * takes the rest of the line. `words` are what it says to the model, where it is a named prompt. `stands_for` is there
 * for an alias: the line that a client sends in its place, with the words behind it.
 */
export interface SlashEntry {
  args_schema?: Record<string, unknown>;
  description: string;
  name: string;
  namespace?: string;
  stands_for?: string;
  words?: string;
}

export interface SlashList {
  commands: Array<SlashEntry>;
  kind: "SlashList";
}

/** The model call is complete. Its text is the deltas since `StepStarted`; `text_sha256` proves it. */
export interface StepEnded {
  calls?: Array<RequestedCall>;
  step: number;
  stop: "content_filter" | "end_turn" | "error" | "max_tokens" | "tool_use";
  text_sha256: string;
  thinking?: Array<ThinkingBlock>;
  usage?: Usage;
  yielded?: boolean;
}

/**
 * An attempt failed; its deltas do not count. `retry_in_ms` is set when another attempt follows.
 *
 * `attempts` is how many there are at most for this reason.
 */
export interface StepFailed {
  attempt: number;
  attempts?: number | null;
  message: string;
  reason: string;
  retry_in_ms?: number | null;
  step: number;
}

export interface StepLimitAnswer {
  about: "step_limit";
  go_on: boolean;
}

/** Whether a turn of so many steps may take as many more. */
export interface StepLimitQuestion {
  about: "step_limit";
  more: number;
  steps: number;
}

/** Model call number `step` of this session begins. */
export interface StepStarted {
  model: string;
  provider: string;
  step: number;
}

/** Events with ids from `first` to `last` were not sent to this client. */
export interface StreamGap {
  first: number;
  last: number;
  reason: "slow" | "ttl";
}

/** A part of a conversation: its events, turns, messages and tool results. Tokens are estimates. */
export interface Stretch {
  first_event?: number;
  first_turn?: number;
  last_event?: number;
  last_turn?: number;
  messages?: number;
  results?: number;
  tokens?: number;
}

/** What was paid since a time, in one session or in all. */
export interface SumCosts {
  by?: "day" | "model" | "purpose" | "session";
  kind: "SumCosts";
  session?: string | null;
  since_ms?: number;
}

export interface TextBlock {
  text: string;
  type: "text";
}

export interface TextDelta {
  text: string;
}

/** Reasoning as the provider gave it: opaque, stamped with the family that may read it again. */
export interface ThinkingBlock {
  family: string;
  opaque: string;
  type: "thinking";
}

export interface ThinkingDelta {
  text: string;
}

export interface Todo {
  state: "doing" | "done" | "open";
  text: string;
}

export interface TodosChanged {
  todos: Array<Todo>;
}

/** A no voids the request; a yes is the code itself, brought by whoever asked. */
export interface TokenAnswer {
  about: "token";
  allow?: boolean;
}

/** The token of whoever is told this expires soon. Streams end a minute after that, commands at once. */
export interface TokenExpiring {
  expires_ms: number;
  jti: string;
}

/**
 * Somebody asks for a token and has a minute to bring this code. It is told to one person and never stored.
 *
 * `sessions` and `commands` are what it would be for; no commands are all of them.
 */
export interface TokenQuestion {
  about: "token";
  can_mint?: boolean;
  code: string;
  commands?: Array<string> | null;
  identity: "agent" | "human";
  life_s?: number;
  name?: string;
  sessions?: Array<string>;
}

/** What a call has printed since the last of these; of a flood, the end. `lines` counts all of them so far. */
export interface ToolCallProgress {
  call_id: string;
  lines?: number;
  text: string;
}

export interface ToolCallRequested {
  call_id: string;
  input: Record<string, unknown>;
  step: number;
  tool: string;
}

/** The intent of a call. For a mutating one it is on disk before the call begins. */
export interface ToolCallStarted {
  call_id: string;
  input: Record<string, unknown>;
  input_sha256: string;
  mutating: boolean;
  tool: string;
}

/** A tool the model of a session is told of. */
export interface ToolEntry {
  description: string;
  name: string;
  risk: string;
  source: string;
}

export interface ToolList {
  kind: "ToolList";
  tools: Array<ToolEntry>;
}

/**
 * A tool of a server as the server itself describes it. What it says of its doing is `believed` only where the
 * person said so.
 */
export interface ToolOfServer {
  believed?: boolean;
  destructive?: boolean | null;
  idempotent?: boolean | null;
  open_world?: boolean | null;
  read_only?: boolean | null;
  server: string;
  title?: string;
  tool: string;
}

/**
 * Exactly one per requested call. `content` is for the model, `shown` for people; without it the call is plain.
 *
 * `metadata` is for programs: `seen` are digests of files the model knows by this call, `truncated` and `output_bytes`
 * tell that `content` leaves something out. A tool from outside may have keys of its own.
 */
export interface ToolResult {
  call_id: string;
  content: string;
  duration_ms?: number | null;
  evidence?: Evidence | null;
  metadata?: Record<string, unknown>;
  outcome: "blocked" | "cancelled" | "denied" | "error" | "ok" | "timeout" | "unknown";
  reason?: string | null;
  shown?: ShownEdit | ShownCommand | ShownRead | ShownSearch | ShownServerResult | ShownChild | ShownJudgement | ShownWait | null;
  tool: string;
}

/** A tool as the model is told about it. Guidance only: input is validated again when it arrives. */
export interface ToolSchema {
  description: string;
  input_schema: Record<string, unknown>;
  name: string;
}

export interface TrustAnswer {
  about: "trust";
  use: boolean;
}

/**
 * Whether a file of the workspace may be obeyed, or a program of it be started.
 *
 * `lines` are the whole text, or, where `compared`, the change since an older content was trusted at `trusted_ms`.
 * `wishes` are what a settings file asks for; `runs` is the command that would run the file, `when` the moment.
 * `offered`: it is written for another agent and nobody named it; a no is for good, in this project.
 */
export interface TrustQuestion {
  about: "trust";
  added?: number;
  asked_ms: number;
  changed_ms?: number | null;
  compared?: boolean;
  hidden?: Array<HiddenCharacters>;
  hidden_lines?: number;
  kind: "agent" | "command" | "config" | "hook" | "instructions" | "mcp_server" | "plugin" | "settings" | "skill";
  launch?: LaunchShown | null;
  line_count?: number;
  lines?: Array<DiffLine>;
  offered?: boolean;
  owner?: string;
  path: string;
  removed?: number;
  runs?: string;
  sha256: string;
  touches_code?: boolean;
  truncated?: boolean;
  trusted_ms?: number | null;
  when?: string;
  wishes?: Array<string>;
}

export interface TurnEnded {
  message?: string | null;
  reason?: string | null;
  steps?: number;
  stop: "cancelled" | "content_filter" | "end_turn" | "error" | "interrupted" | "max_tokens";
}

/** The turn begins with the input of event `input`. */
export interface TurnStarted {
  identity?: "agent" | "human";
  input: number;
}

/** Where the time of a turn went, in milliseconds, by component name. */
export interface TurnTiming {
  durations_ms: Record<string, number>;
}

export interface Undo {
  id?: string;
  kind: "Undo";
  redo?: boolean;
  session: string;
  turn?: number | null;
}

export interface UndoAnswer {
  about: "undo";
  choice: "diff" | "go" | "keep";
}

/**
 * What `calls` had done to `paths` was taken back, or done again. `turn` is 0 for commands a person typed.
 *
 * `left` are paths that stayed as they were: somebody else had changed them, or they could not be written. `action`
 * is the number of this undo or redo in the session. `worktree` is the name of the worktree of an agent in which it
 * happened; empty for the session's own folders.
 */
export interface UndoApplied {
  action?: number;
  calls?: Array<string>;
  left?: Array<string>;
  paths: Array<string>;
  redone?: boolean;
  turn: number;
  worktree?: string;
}

/** A file that is not as the calls left it: by a later turn, or by somebody else so long ago. */
export interface UndoConflict {
  age_ms?: number | null;
  by_turn?: number | null;
  gone?: boolean;
  path: string;
  since: "calls" | "turn" | "undo";
}

/** A file that changes. `did` is what the calls did to it; it `becomes` what it was, and has `mode` again. */
export interface UndoFile {
  added?: number | null;
  becomes: "changed again" | "goes back" | "mode" | "removed" | "restored";
  did: "changed" | "created" | "deleted";
  mode?: number | null;
  path: string;
  removed?: number | null;
}

export interface UndoImpossible {
  did: "changed" | "created" | "deleted";
  path: string;
  why: string;
}

/** What no undo covers, by reason. */
export interface UndoMissed {
  names: Array<string>;
  why: string;
}

/** Objects a repository misses and gets back. */
export interface UndoObjects {
  loose?: number;
  packs?: number;
  path: string;
}

/** What would happen to each file, and what would not. */
export interface UndoPreview {
  conflicts?: Array<UndoConflict>;
  done?: Array<string>;
  files?: Array<UndoFile>;
  impossible?: Array<UndoImpossible>;
  missed?: Array<UndoMissed>;
  more_files?: number;
  objects?: Array<UndoObjects>;
  redo?: boolean;
  repositories?: Array<UndoRepository>;
  scope?: "call" | "calls" | "session" | "turn";
  title?: string;
  turn?: number | null;
}

export interface UndoQuestion {
  about: "undo";
  preview: UndoPreview;
}

/** The files of a repository, too many to be told one by one: those people know by name, and how many others. */
export interface UndoRepository {
  becomes: "removed" | "restored";
  did: "changed" | "created" | "deleted";
  names?: Array<string>;
  others?: number;
  path: string;
  refs?: number;
}

export interface Usage {
  cache_read_tokens?: number;
  cache_write_tokens?: number;
  input_tokens?: number;
  output_tokens?: number;
}

export interface WordsAnswer {
  about: "words";
  text: string;
}

export type Command =
  | AnswerPermission
  | AnswerQuestion
  | AnswerTrust
  | AskAside
  | AttachSession
  | BranchSession
  | CancelTurn
  | ChangeInput
  | ConnectProvider
  | CreateSession
  | CustomCommand
  | DeleteSession
  | DetachSession
  | EndSession
  | EnterPlanMode
  | ExitPlanMode
  | PinSession
  | PromoteGrant
  | RenameSession
  | RevokeGrant
  | RunSlash
  | SaveModel
  | SendInput
  | SetEffort
  | SetMode
  | SetModel
  | ShellRequest
  | Undo;

export type Query =
  | CheckHealth
  | CustomQuery
  | DescribeLog
  | DescribeProfile
  | DescribeSession
  | DescribeSkill
  | FindSession
  | ListAgents
  | ListChanges
  | ListGrants
  | ListModels
  | ListProfiles
  | ListProviders
  | ListSessions
  | ListSkills
  | ListSlash
  | ListTools
  | PreviewSession
  | ReadOutput
  | SearchSessions
  | SumCosts;

export interface Answers {
  CheckHealth: Health;
  CustomQuery: CustomAnswer;
  DescribeLog: LogDescription;
  DescribeProfile: ProfileDescription;
  DescribeSession: SessionDetails;
  DescribeSkill: SkillDescription;
  FindSession: SessionDetails;
  ListAgents: AgentList;
  ListChanges: SessionChanges;
  ListGrants: GrantList;
  ListModels: ModelList;
  ListProfiles: ProfileList;
  ListProviders: ProviderList;
  ListSessions: SessionList;
  ListSkills: SkillList;
  ListSlash: SlashList;
  ListTools: ToolList;
  PreviewSession: SessionPreview;
  ReadOutput: OutputPart;
  SearchSessions: SearchHits;
  SumCosts: CostSum;
}

export type AnswerOf<Q extends Query> = Answers[Q["kind"]];

export interface Payloads {
  ApprovalGiven: ApprovalGiven;
  AsideAnswered: AsideAnswered;
  AsideAsked: AsideAsked;
  BackgroundEnded: BackgroundEnded;
  BackgroundStarted: BackgroundStarted;
  Branched: Branched;
  Cancelled: Cancelled;
  ChildEnded: ChildEnded;
  ChildMemoryUpdated: ChildMemoryUpdated;
  ChildStarted: ChildStarted;
  ClientRequest: ClientRequest;
  CommandTaken: CommandTaken;
  Compacted: Compacted;
  ContextAdded: ContextAdded;
  CostIncremented: CostIncremented;
  CustomEvent: CustomEvent;
  Degraded: Degraded;
  EffortChanged: EffortChanged;
  Error: Error;
  GitEnded: GitEnded;
  GoalBegun: GoalBegun;
  GoalChecked: GoalChecked;
  GoalEnded: GoalEnded;
  GrantAdded: GrantAdded;
  GrantRevoked: GrantRevoked;
  HookError: HookError;
  HookTimeout: HookTimeout;
  InputAccepted: InputAccepted;
  InputChanged: InputChanged;
  MCPServerDown: MCPServerDown;
  ModeChanged: ModeChanged;
  ModelChanged: ModelChanged;
  Notice: Notice;
  PermissionDecided: PermissionDecided;
  PermissionRequested: PermissionRequested;
  PrefixSet: PrefixSet;
  Presence: Presence;
  QuestionAnswered: QuestionAnswered;
  QuestionAsked: QuestionAsked;
  SessionCreated: SessionCreated;
  SessionEnded: SessionEnded;
  SkillRegistryChanged: SkillRegistryChanged;
  StepEnded: StepEnded;
  StepFailed: StepFailed;
  StepStarted: StepStarted;
  StreamGap: StreamGap;
  TextDelta: TextDelta;
  ThinkingDelta: ThinkingDelta;
  TodosChanged: TodosChanged;
  TokenExpiring: TokenExpiring;
  ToolCallProgress: ToolCallProgress;
  ToolCallRequested: ToolCallRequested;
  ToolCallStarted: ToolCallStarted;
  ToolResult: ToolResult;
  TurnEnded: TurnEnded;
  TurnStarted: TurnStarted;
  TurnTiming: TurnTiming;
  UndoApplied: UndoApplied;
}

export interface EnvelopeFields {
  agent_path?: Array<string>;
  id?: number;
  invocation?: string;
  originator: string;
  session: string;
  ts: string;
  turn?: number;
}

/** An event as it travels. Kinds of a newer engine come too: leave them alone. */
export type Envelope = {
  [K in keyof Payloads]: EnvelopeFields & { kind: K; payload: Payloads[K] };
}[keyof Payloads];
