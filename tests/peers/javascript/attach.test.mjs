// The VS Code extension through its own door, with an editor that is none, against a real engine.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { before, beforeEach, after, test } from "node:test";
import { connect, tokenIn } from "bridle-client";

const require = createRequire(import.meta.url);
const { editor } = require("vscode");
const extension = require("./extension.js");
const contributed = require("./package.json").contributes;
const { BRIDLE_URL: url, BRIDLE_TOKEN_FILE: tokenFile, BRIDLE_WORK: work } = process.env;
const context = { subscriptions: [] };
let other;

before(async () => {
  other = await connect({ url, token: tokenIn(readFileSync(tokenFile, "utf8")), ...(await overASocket()) });
  await extension.activate(context);
});

beforeEach(async () => {
  await editor.run("bridle.detach");
  Object.assign(editor, { text: "", errors: [], notices: [], questions: [], offered: [], words: "go on" });
  editor.settings = { "bridle.url": url, "bridle.tokenFile": tokenFile };
});

after(async () => {
  await extension.deactivate();
  await other.close();
});

/** So that the other client is not the same as the editor, whose token it has. */
async function overASocket() {
  return { transport: "websocket", name: "other", WebSocket: globalThis.WebSocket ?? (await import("ws")).default };
}

async function begun(model) {
  const cwd = mkdtempSync(join(work, "editor-"));
  const { session } = await other.send({ kind: "CreateSession", cwd, model });
  editor.pick = (rows) => rows.find(({ id }) => id === session);
  return { session, made: join(cwd, "conformance-made") };
}

/** Says something and waits for the question or the end that comes of it. */
async function said(session, kind) {
  const { event } = await other.say(session, "go on");
  for await (const { id, kind: came, payload } of other.events(session, { since: event })) {
    if (came === kind && id > event) return payload;
  }
}

test("what the palette offers is what there is", () => {
  assert.deepEqual(editor.names().sort(), contributed.commands.map(({ command }) => command).sort());
  assert.equal(context.subscriptions.length, editor.names().length);
  assert.deepEqual(Object.keys(contributed.configuration.properties).sort(), ["bridle.tokenFile", "bridle.url"]);
});

test("a session is picked and shown, spoken to and its question answered", async () => {
  const { session, made } = await begun("demo:conformance-ask");
  await other.send({ kind: "RenameSession", session, title: "Shop" });
  const question = await said(session, "PermissionRequested");
  await other.answer(session, question, "deny");
  editor.errors = [];
  await editor.run("bridle.attach");
  const row = editor.offered.find(({ id }) => id === session);
  assert.deepEqual([row.label, typeof row.description], ["Shop", "string"]);
  await editor.until(({ text }) => text.includes("The first is settled."));
  assert.match(editor.text, /› go on/);
  assert.match(editor.text, /denied {3}bash/);
  assert.deepEqual(editor.questions, [], "what was answered before is not asked again");

  await editor.run("bridle.say");
  await editor.until(({ questions }) => questions.length === 1);
  const [{ title, modal, detail, choices, choose }] = editor.questions;
  assert.match(title, /^Bridle asks: bash\. ./);
  assert.equal(modal, true);
  assert.deepEqual(JSON.parse(detail), { command: "echo allowed >> conformance-made" });
  assert.deepEqual(choices, ["Allow once", "Deny"]);
  choose("Allow once");
  await editor.until(({ text }) => text.includes("The second is settled."));
  assert.equal(readFileSync(made, "utf8"), "allowed\n");
  assert.match(editor.text, /ok {7}bash/);
  assert.deepEqual(editor.errors, []);
});

test("a question that waits is put to whoever attaches, once, and no is no", async () => {
  const { session } = await begun("demo:conformance-ask");
  await said(session, "PermissionRequested");
  await editor.run("bridle.attach");
  await editor.until(({ questions }) => questions.length === 1);
  editor.questions[0].choose("Deny");
  await editor.until(({ text }) => text.includes("The first is settled."));
  assert.match(editor.text, /denied {3}bash/);
  assert.equal(editor.questions.length, 1);
});

test("an answer that comes too late is told so, and closing the question answers nothing", async () => {
  const { session } = await begun("demo:conformance-ask");
  const question = await said(session, "PermissionRequested");
  await editor.run("bridle.attach");
  await editor.until(({ questions }) => questions.length === 1);
  await other.answer(session, question, "deny");
  await editor.until(({ text }) => text.includes("The first is settled."));
  editor.questions[0].choose("Allow once");
  await editor.until(({ notices }) => notices.length === 1);
  assert.match(editor.notices[0], /answered elsewhere/);

  const second = await said(session, "PermissionRequested");
  await editor.until(({ questions }) => questions.length === 2);
  editor.questions[1].choose(undefined);
  await other.answer(session, second, "deny");
  await editor.until(({ text }) => text.includes("The second is settled."));
  assert.deepEqual([editor.notices.length, editor.errors], [1, []]);
});

test("characters that hide are seen in a question", async () => {
  const { session } = await begun(`demo:${process.env.BRIDLE_HIDING_SCRIPT}`);
  const { input } = await said(session, "PermissionRequested");
  await editor.run("bridle.attach");
  await editor.until(({ questions }) => questions.length === 1);
  assert.match(input.command, /\u202e/);
  assert.doesNotMatch(editor.questions[0].detail, /\u202e/);
  assert.match(editor.questions[0].detail, /\\u\{202e\}/);
  await other.cancel(session);
});

test("a turn is stopped, and the end of the session is told", async () => {
  const { session } = await begun("demo:conformance-hold");
  await said(session, "TextDelta");
  await editor.run("bridle.attach");
  await editor.until(({ text }) => text.includes("Holding."));
  await editor.run("bridle.cancel");
  await editor.until(({ text }) => text.includes("[cancelled]"));
  await other.send({ kind: "EndSession", session });
  await editor.until(({ text }) => text.includes("[the session ended]"));
  await editor.run("bridle.say");
  assert.match(editor.errors.join(), /^No session is open here/);
});

test("whatever goes wrong is one message", async () => {
  await begun("demo:conformance-say");
  for (const [settings, message] of [
    [{ "bridle.tokenFile": "" }, /^Set bridle\.tokenFile to a file with a token/],
    [{ "bridle.tokenFile": "/nowhere/token" }, /ENOENT/],
    [{ "bridle.url": "http://127.0.0.1:9" }, /^No engine answers at http:\/\/127\.0\.0\.1:9/],
    [{ "bridle.tokenFile": new URL(import.meta.url).pathname }, /^The file holds no token\.$/],
  ]) {
    editor.errors = [];
    const before = editor.settings;
    editor.settings = { ...before, ...settings };
    await editor.run("bridle.attach");
    editor.settings = before;
    assert.equal(editor.errors.length, 1, JSON.stringify(settings));
    assert.match(editor.errors[0], message);
  }
  editor.errors = [];
  editor.pick = () => undefined;
  await editor.run("bridle.attach");
  assert.deepEqual([editor.errors, editor.text], [[], ""]);
});

test("an agent that was sent is told apart from the answer, and its questions have its path", async () => {
  const { Attach } = await import("./attach.mjs");
  const child = { agent_path: ["writer"], invocation: "inv_1" };
  const handoff = { agent: "writer", provider: "work", model: "some", tools: ["read_file"], text: "You are sent." };
  const asks = (call_id, more) => ({ call_id, tool: "t", input: {}, because: "it asks", ...more });
  const happened = [
    { id: 1, kind: "PermissionRequested", payload: asks("call_1", { handoff }) },
    { id: 2, kind: "PermissionDecided", payload: { call_id: "call_1" } },
    { id: 3, kind: "ChildStarted", payload: { invocation: "inv_1", agent: "writer", task: "Write." } },
    { id: 4, kind: "TextDelta", payload: { text: "WORDS OF THE CHILD" }, ...child },
    { id: 5, kind: "PermissionRequested", payload: asks("call_2"), ...child },
    { id: 6, kind: "ToolResult", payload: { call_id: "call_2", tool: "t", outcome: "cancelled" }, ...child },
    { id: 7, kind: "ChildEnded", payload: { agent: "writer", stop: "cancelled", steps: 1 } },
  ];
  const shown = { text: "", titles: [], details: [] };
  const window = {
    createOutputChannel: () => ({
      show() {},
      append: (text) => (shown.text += text),
      appendLine: (text) => (shown.text += `${text}\n`),
    }),
    showQuickPick: async (rows) => rows[0],
    showErrorMessage: assert.fail,
    showWarningMessage: async (title, { detail }) => void (shown.titles.push(title), shown.details.push(detail)),
  };
  const answers = { ListSessions: { sessions: [{ id: "s" }] }, DescribeSession: { events: [] } };
  const bridle = {
    ask: async ({ kind }) => answers[kind],
    send: async () => {},
    close: async () => {},
    async *events() {
      yield* happened;
    },
  };
  const settings = { get: () => "file" };
  const vscode = { window, workspace: { getConfiguration: () => settings } };
  const attach = new Attach({ vscode, connect: async () => bridle, tokenIn: (text) => text, readFile: async () => "" });
  await attach.attach();
  await attach._here?.following;
  assert.deepEqual(shown.titles, ["Bridle asks: t. it asks", "Bridle asks: writer → t. it asks"]);
  assert.match(shown.details[0], /agent writer\nprovider work\nmodel some\ntools read_file\n\nYou are sent\./);
  assert.doesNotMatch(shown.text, /WORDS OF THE CHILD/);
  assert.match(shown.text, /agent writer: Write\.\n {2}writer: cancelled t\nagent writer: cancelled, 1 steps/);
});
