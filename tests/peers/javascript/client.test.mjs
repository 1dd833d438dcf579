// The JavaScript client against a real engine, over both of its transports.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { BridleError, connect, frames, tokenIn } from "../../../clients/javascript/bridle.js";
import { TRANSPORTS, begun, connected, cwd, ended, line, textOf, token, until, url, watchToken } from "./kit.mjs";

const refused = (reason) => (failure) => {
  assert.ok(failure instanceof BridleError, String(failure));
  assert.equal(failure.reason, reason, failure.message);
  assert.ok(failure.message.length > 0);
  return true;
};

for (const options of TRANSPORTS) {
  const { transport } = options;

  test(`${transport}: a session is made, spoken to and read in order`, async (t) => {
    const bridle = await connected(t, options);
    assert.equal(typeof bridle.hello.protocol_version, "string");
    const session = await begun(bridle, "say");
    const events = bridle.events(session);
    const { event } = await bridle.say(session, "hello");
    const read = await until(events, ended);
    assert.match(textOf(read), /First answer\./);
    assert.ok(read.filter(({ kind }) => kind === "TextDelta").length > 1);
    const ids = read.flatMap(({ id }) => (id === undefined || id === null ? [] : [id]));
    assert.deepEqual(ids, ids.map((_, index) => index + 1));
    assert.equal(read.find(({ id }) => id === event).kind, "InputAccepted");
    await events.return();

    const since = ids.at(-1);
    await bridle.say(session, "again");
    const later = await until(bridle.events(session, { since }), ended);
    assert.ok(later.every(({ id }) => !(id <= since)));
    assert.match(textOf(later), /Second answer\./);
  });

  test(`${transport}: a stream ends with its session`, async (t) => {
    const bridle = await connected(t, options);
    const session = await begun(bridle, "say");
    const events = bridle.events(session);
    await until(events, ({ kind }) => kind === "SessionCreated");
    await bridle.send({ kind: "EndSession", session });
    const kinds = [];
    for await (const { kind } of events) kinds.push(kind);
    assert.equal(kinds.at(-1), "SessionEnded");
  });

  test(`${transport}: a permission question is answered, yes and no`, async (t) => {
    const bridle = await connected(t, options);
    const folder = mkdtempSync(join(cwd, "ask-"));
    const session = await begun(bridle, "ask", { cwd: folder });
    const events = bridle.events(session);
    for (const [answer, verdict] of [["once", "allow"], ["deny", "deny"]]) {
      await bridle.say(session, "go on");
      const question = (await until(events, ({ kind }) => kind === "PermissionRequested")).at(-1).payload;
      assert.equal(question.input.command, "echo allowed >> conformance-made");
      await bridle.answer(session, question, answer);
      const rest = await until(events, ended);
      const decided = rest.find(({ kind }) => kind === "PermissionDecided").payload;
      assert.equal(decided.verdict, verdict);
      await assert.rejects(bridle.answer(session, question, answer), refused("AlreadyAnswered"));
    }
    assert.equal(readFileSync(join(folder, "conformance-made"), "utf8"), "allowed\n");
  });

  test(`${transport}: a turn is cancelled`, async (t) => {
    const bridle = await connected(t, options);
    const session = await begun(bridle, "hold");
    const events = bridle.events(session);
    await bridle.say(session, "hold");
    await until(events, ({ kind }) => kind === "TextDelta");
    await bridle.cancel(session);
    assert.equal((await until(events, ended)).at(-1).payload.stop, "cancelled");
    await assert.rejects(bridle.cancel(session), refused("NoTurn"));
  });

  test(`${transport}: queries are answered, with lists and commands in them`, async (t) => {
    const bridle = await connected(t, options);
    const session = await begun(bridle, "say");
    await bridle.say(session, "something to list");
    await until(bridle.events(session), ended);
    const { sessions } = await bridle.ask({ kind: "ListSessions", cwd });
    assert.ok(sessions.some(({ id }) => id === session));
    const details = await bridle.ask({ kind: "DescribeSession", session, events: 2 });
    assert.equal(details.session.id, session);
    assert.equal(details.events.length, 2);
    const names = ["demo:conformance-say", "demo:conformance-hold"];
    const { models } = await bridle.ask({ kind: "ListModels", names });
    assert.deepEqual(models.map(({ model }) => model).sort(), [...names].sort());
    const create = { kind: "CreateSession", cwd, model: names[0] };
    assert.equal((await bridle.ask({ kind: "PreviewSession", create })).model, names[0]);
  });

  test(`${transport}: what is refused has its reason`, async (t) => {
    const bridle = await connected(t, options);
    await assert.rejects(bridle.ask({ kind: "DescribeSession", session: "sess_nobody" }), refused("UnknownSession"));
    await assert.rejects(bridle.events("sess_nobody").next(), refused("UnknownSession"));
    await assert.rejects(bridle.send({ kind: "CreateSession", cwd: 7 }), refused("BadCommand"));
    const session = await begun(bridle, "say");
    await assert.rejects(bridle.send({ kind: "SetMode", session, mode: "dancing" }), refused("BadCommand"));
    assert.equal((await bridle.ask({ kind: "DescribeSession", session })).session.id, session);
  });

  test(`${transport}: the same command id twice is one command`, async (t) => {
    const bridle = await connected(t, options);
    const session = await begun(bridle, "say");
    const command = { kind: "SendInput", session, content: [{ type: "text", text: "once" }], id: `once-${transport}` };
    const [first, second] = [await bridle.send(command), await bridle.send(command)];
    assert.equal(first.event, second.event);
    command.content = [{ type: "text", text: "other" }];
    await assert.rejects(bridle.send(command), refused("CommandIdUsed"));
  });

  test(`${transport}: a wrong token is told as one, and so is none`, async () => {
    const [claims, seal] = token.split(".");
    const wrong = `${claims}.${[...seal].reverse().join("")}`;
    await assert.rejects(connect({ url, ...options, token: wrong }), refused("TokenInvalid"));
    await assert.rejects(connect({ url, ...options }), refused("TokenMissing"));
    await assert.rejects(connect({ url, ...options, token: "sec\nret" }), { message: "This is no token." });
  });

  test(`${transport}: a token that only watches sees everything and says nothing`, async (t) => {
    const owner = await connected(t, options);
    const watcher = await connected(t, { ...options, token: watchToken });
    const session = process.env.BRIDLE_WATCH_SESSION;
    await owner.send({ kind: "AttachSession", session });
    await owner.say(session, "watched");
    assert.match(textOf(await until(watcher.events(session), ended)), /answer\./);
    await assert.rejects(watcher.say(session, "mine"), refused("NotGranted"));
  });

  test(`${transport}: nobody there is said at once`, async () => {
    const nobody = "http://127.0.0.1:9";
    await assert.rejects(connect({ token, ...options, url: nobody }), refused("NoEngine"));
  });

  test(`${transport}: after breaks the events go on without a gap and without a repeat`, async (t) => {
    const direct = await connected(t, options);
    const broken = await line(t);
    const waits = [];
    const sleep = async (ms) => {
      waits.push(ms);
      if (ms === 1000) broken.down = false;
      await new Promise((over) => setTimeout(over, ms / 25));
    };
    const bridle = await connected(t, { ...options, url: broken.url, sleep });
    const session = await begun(bridle, "say");
    const events = bridle.events(session);
    const read = [];
    for (const [index, words] of ["one", "two", "three"].entries()) {
      if (index === 0) await direct.send({ kind: "AttachSession", session });
      await direct.say(session, words);
      if (index > 0) read.push(...(await until(events, ({ kind }) => kind === "TextDelta")));
      broken.down = index === 1; // the second time nobody answers for a while
      broken.cut();
      read.push(...(await until(events, ended)));
    }
    const ids = read.flatMap(({ id }) => (id === undefined || id === null ? [] : [id]));
    assert.deepEqual(ids, ids.map((_, index) => index + 1));
    assert.equal(read.filter(ended).length, 3);
    assert.ok(waits.includes(1000), `waited ${waits}`);
    assert.match(textOf(read), /First answer\..*Second answer\..*Third answer\./);
    const content = [{ type: "text", text: "four" }];
    const { event } = await bridle.send({ kind: "SendInput", session, content, id: `four-${transport}` });
    assert.ok(event > ids.at(-1), "the client that came back is attached as before");
  });

  test(`${transport}: who falls behind is told which events it missed, and they are not asked for again`, async (t) => {
    const slow = await line(t);
    const bridle = await connected(t, { ...options, url: slow.url });
    const direct = await connected(t, options);
    const session = await begun(bridle, "hold");
    await direct.send({ kind: "AttachSession", session });
    await direct.say(session, "hold");
    const events = bridle.events(session);
    const read = await until(events, ({ kind }) => kind === "TextDelta");
    slow.hold();
    const long = "word ".repeat(100_000);
    let last = 0;
    for (let sent = 0; sent < 20; sent++) last = (await direct.say(session, long)).event;
    slow.go();
    read.push(...(await until(events, ({ kind }) => kind === "StreamGap")));
    const gap = read.at(-1).payload;
    slow.cut();
    if (gap.last < last) read.push(...(await until(events, ({ id }) => id === last)));
    let at = 0;
    for (const { id, kind, payload } of read) {
      if (kind === "StreamGap") {
        assert.equal(payload.first, at + 1);
        at = payload.last;
      } else if (id !== undefined && id !== null) {
        assert.equal(id, at + 1);
        at = id;
      }
    }
    assert.equal(at, last);
    await direct.send({ kind: "EndSession", session });
  });

  test(`${transport}: a stream whose engine stays away ends with the reason`, async (t) => {
    const broken = await line(t);
    const waits = [];
    const sleep = async (ms) => void waits.push(ms);
    const bridle = await connected(t, { ...options, url: broken.url, sleep, giveUpMs: 2000 });
    const session = await begun(bridle, "say");
    const events = bridle.events(session);
    await until(events, ({ kind }) => kind === "SessionCreated");
    broken.down = true;
    broken.cut();
    await assert.rejects(until(events, ended), ({ reason }) => reason === "NoEngine" || reason === "ConnectionLost");
    assert.deepEqual(waits, [250, 500, 1000, 2000]);
  });

  test(`${transport}: a command under way when the line breaks is told as lost`, async (t) => {
    const broken = await line(t);
    const bridle = await connected(t, { ...options, url: broken.url });
    const session = await begun(bridle, "say");
    broken.deaf = true;
    const said = bridle.say(session, "lost");
    setTimeout(broken.cut, 50);
    await assert.rejects(said, refused("ConnectionLost"));
    setTimeout(() => {
      broken.deaf = false;
      broken.cut();
    }, 50);
    const asked = await bridle.ask({ kind: "DescribeSession", session });
    assert.equal(asked.session.id, session, "a query is asked again");
    await bridle.send({ kind: "SendInput", session, content: [{ type: "text", text: "kept" }], id: `kept-${transport}` });
  });

  test(`${transport}: who closes hears nothing more`, async (t) => {
    const bridle = await connected(t, options);
    const session = await begun(bridle, "hold");
    const events = bridle.events(session);
    await bridle.say(session, "hold");
    await until(events, ({ kind }) => kind === "TextDelta");
    const rest = until(events, ended);
    await bridle.close();
    await assert.rejects(rest, /the stream ended/);
    await assert.rejects(bridle.say(session, "more"), refused("ConnectionLost"));
    const again = await connected(t, options);
    await again.send({ kind: "AttachSession", session });
    await again.cancel(session); // the turn went on
  });
}

test("websocket: others see the name it gave, and a frame that is too large is not sent", async (t) => {
  const [, options] = TRANSPORTS;
  const bridle = await connected(t, { ...options, name: "Tablet" });
  const session = await begun(bridle, "say");
  const { clients } = await bridle.ask({ kind: "DescribeSession", session });
  assert.deepEqual(clients.map(({ name }) => name), ["Tablet"]);
  await assert.rejects(bridle.say(session, "x".repeat(1024 * 1024)), refused("TooLarge"));
  assert.ok((await bridle.say(session, "small")).event > 0);
});

test("what an option cannot do there is said", async () => {
  await assert.rejects(connect({ url, token, name: "x" }), /"name" means nothing without transport/);
  await assert.rejects(connect({ url, token, transport: "pigeon" }), /no transport "pigeon"/);
  const bridle = await connect({ url, token });
  await assert.rejects(bridle.send({ kind: "Dance" }), /no kind "Dance"/);
  await assert.rejects(bridle.say(undefined, "x"), /SendInput needs "session"/);
  await bridle.close();
});

test("a fetch of one's own is called as one of a browser wants it, and what is no engine is said", async () => {
  const seen = [];
  const fetch = function (address, given) {
    seen.push([this, new URL(address).pathname]);
    return globalThis.fetch(address, given);
  };
  const bridle = await connect({ url, token, fetch });
  await bridle.close();
  assert.deepEqual(seen, [[undefined, "/v1/handshake"]]);
  const page = async () => new Response("<html>");
  await assert.rejects(connect({ url, token, fetch: page }), refused("NotAnEngine"));
  const cut = async () =>
    new Response(new ReadableStream({ pull: (pulled) => pulled.error(new TypeError("terminated")) }));
  await assert.rejects(connect({ url, token, fetch: cut }), refused("ConnectionLost"));
});

test("a token is read from a file as it is minted, or by itself", () => {
  assert.equal(tokenIn('{"token": "a.b"}\n'), "a.b");
  assert.equal(tokenIn("a.b\n"), "a.b");
  for (const text of ["", "{}", '{"token": 7}', "{secret", "sec ret", "sec\nret"]) {
    assert.throws(() => tokenIn(text), { message: "The file holds no token." });
  }
});

test("frames are read however they are cut into pieces", async () => {
  const bytes = new TextEncoder().encode(": still here\n\nid: 7\nevent: A\ndata: {\"x\":\"ä\"}\n\nevent: B\ndata: 1\ndata: 2\n\n");
  for (let size = 1; size < bytes.length; size++) {
    const pieces = (async function* () {
      for (let at = 0; at < bytes.length; at += size) yield bytes.slice(at, at + size);
    })();
    const read = [];
    for await (const frame of frames(pieces)) read.push(frame);
    assert.deepEqual(read, [{ event: "A", data: '{"x":"ä"}' }, { event: "B", data: "1\n2" }]);
  }
  const cut = async function* () {
    yield bytes.slice(0, 30);
  };
  await assert.rejects(frames(cut()).next(), refused("ConnectionLost"));
});
