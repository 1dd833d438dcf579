// A client of a running Bridle engine, for browsers and node 20 or newer. No dependencies.
//
//     const bridle = await connect({ url: "http://127.0.0.1:7430", token });
//     const { session } = await bridle.send({ kind: "CreateSession", cwd: "/shop" });
//     await bridle.say(session, "fix the test");
//     for await (const event of bridle.events(session)) console.log(event.kind, event.payload);
//
// Events come in order and without gaps. A connection that breaks is made again behind the last event that was read.
// Over HTTP a client needs nothing but fetch; over a WebSocket all of it goes through one connection.

import { PROTOCOL_VERSION, ROUTES } from "./wire.js";

export { PROTOCOL_VERSION };

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;
const HEADER = "X-Bridle-Token";
// Whoever is turned away for one of these is turned away again.
const FINAL_CLOSE_CODES = new Set([1003, 1007, 1009, 4001, 4004, 4028]);

/** A refusal: `reason` is stable, `message` is for people, `data` is what the sentence names. */
export class BridleError extends Error {
  constructor({ reason, message, data = {} }, status = 0) {
    super(message);
    this.name = "BridleError";
    this.reason = reason;
    this.data = data;
    this.status = status;
  }
}

/** Connects to an engine. Throws `BridleError` where it turns us away. */
export async function connect(options) {
  const given = { name: "javascript", answers: true, sleep, ...options };
  const client = options.transport === "websocket" ? new SocketClient(given) : new HttpClient(given);
  await client.open();
  return client;
}

/** What both kinds of client share: the words a person's client uses most. */
class Client {
  /** Puts words into a session's inbox. Returns what was accepted. */
  say(session, text, { mode = "queue" } = {}) {
    return this.send({ kind: "SendInput", session, content: [{ type: "text", text }], mode });
  }

  /** Answers a permission question: once, pattern, tool, always or deny. */
  answer(session, question, answer, note = "") {
    const { call_id, digest = "" } = question;
    return this.send({ kind: "AnswerPermission", session, call_id, answer, note, digest });
  }

  /** Ends the turn that runs. */
  cancel(session) {
    return this.send({ kind: "CancelTurn", session });
  }
}

class HttpClient extends Client {
  constructor({ url, token, fetch = globalThis.fetch, sleep }) {
    super();
    this.hello = null;
    this._base = url.replace(/\/+$/, "");
    this._headers = token === undefined ? {} : { [HEADER]: token };
    this._fetch = fetch;
    this._sleep = sleep;
    this._closed = new AbortController();
  }

  async open() {
    this.hello = await this._json("GET", `/v1/handshake?protocol_version=${PROTOCOL_VERSION}`);
  }

  /** Hands a command over. Throws `BridleError` when it is not taken. */
  send(command) {
    const { route, fields } = placed(command);
    return this._json(route.method, route.path, fields);
  }

  /** What is so right now; nothing changes by it. */
  ask(query) {
    const { route, fields } = placed(query);
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(fields)) {
      for (const one of Array.isArray(value) ? value : [value]) {
        if (one !== null && one !== undefined) {
          search.append(name, typeof one === "object" ? JSON.stringify(one) : String(one));
        }
      }
    }
    const asked = search.size > 0 ? `?${search}` : "";
    return this._json("GET", route.path + asked);
  }

  /** All events above `since`, then live ones, until the session ends or we close. */
  async *events(session, { since = 0 } = {}) {
    const pauses = new Pauses(this._sleep);
    let last = since;
    while (!this._closed.signal.aborted) {
      try {
        const path = `/v1/sessions/${encodeURIComponent(session)}/events`;
        const response = await this._request("GET", path, undefined, { "Last-Event-ID": String(last) });
        for await (const { event, data } of frames(response.body)) {
          if (event === "problem") throw new BridleError(JSON.parse(data), 200);
          const envelope = JSON.parse(data);
          if (envelope.id !== undefined) last = envelope.id;
          pauses.forget();
          yield envelope;
        }
        return;
      } catch (failure) {
        if (this._closed.signal.aborted) return;
        if (failure instanceof BridleError && !mayPass(failure)) throw failure;
        await pauses.next();
      }
    }
  }

  /** Leaves. Turns go on; nothing is lost. */
  async close() {
    this._closed.abort();
  }

  async _json(method, path, body) {
    const response = await this._request(method, path, body);
    return response.json();
  }

  async _request(method, path, body, headers = {}) {
    const response = await this._fetch(this._base + path, {
      method,
      headers: {
        ...this._headers,
        ...headers,
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: this._closed.signal,
      redirect: "error",
      cache: "no-store",
    });
    if (response.ok) return response;
    throw new BridleError(await problemIn(response), response.status);
  }
}

class SocketClient extends Client {
  constructor({ url, token, name, answers, WebSocket = globalThis.WebSocket, sleep }) {
    super();
    if (WebSocket === undefined) {
      throw new TypeError("There is no WebSocket here (node has one from version 22 on). Leave out transport.");
    }
    this.hello = null;
    this.client = null;
    this._address = `${url.replace(/^http/, "ws").replace(/\/+$/, "")}/v1/ws`;
    // In a browser the page's own cookie says who we are; elsewhere the header does.
    this._options = token === undefined ? undefined : { headers: { [HEADER]: token } };
    this._greeting = { protocol_version: PROTOCOL_VERSION, name, answers };
    this._WebSocket = WebSocket;
    this._sleep = sleep;
    this._socket = null;
    this._number = 0;
    this._waiting = new Map();
    this._follows = new Map();
    this._closed = false;
    this._opening = null;
  }

  open() {
    this._opening ??= this._open().catch((failure) => {
      this._opening = null;
      throw failure;
    });
    return this._opening;
  }

  send(command) {
    return this._call("command", command);
  }

  ask(query) {
    return this._call("query", query);
  }

  async *events(session, { since = 0 } = {}) {
    const pauses = new Pauses(this._sleep);
    let last = since;
    while (!this._closed) {
      try {
        await this.open();
        if (last > since) await this.send({ kind: "AttachSession", session, since: last });
        for await (const envelope of this._follow(session, last)) {
          if (envelope.id !== undefined) last = envelope.id;
          pauses.forget();
          yield envelope;
        }
        return;
      } catch (failure) {
        if (this._closed) return;
        if (failure instanceof BridleError && !mayPass(failure)) throw failure;
        await pauses.next();
      }
    }
  }

  async close() {
    this._closed = true;
    this._socket?.close(1000);
  }

  _open() {
    return new Promise((resolve, reject) => {
      const socket = new this._WebSocket(this._address, this._options);
      this._socket = socket;
      let failure = new BridleError({ reason: "Unreachable", message: `Cannot reach ${this._address}.` });
      socket.onopen = () => {
        const before = this.client === null ? {} : { client: this.client };
        socket.send(JSON.stringify({ frame: "handshake", body: { ...this._greeting, ...before } }));
      };
      socket.onmessage = ({ data }) => {
        const frame = JSON.parse(data);
        if (frame.frame === "handshake") {
          this.hello = frame.body;
          this.client = frame.client;
          resolve();
        } else if (frame.frame === "error" && frame.id === undefined) {
          failure = new BridleError(frame.body);
        } else {
          this._take(frame);
        }
      };
      socket.onclose = ({ code, reason }) => {
        if (this._socket === socket) this._opening = null;
        if (FINAL_CLOSE_CODES.has(code) && failure.reason === "Unreachable") {
          failure = new BridleError({ reason: reason || "Closed", message: `The engine closed: ${reason || code}.` });
        }
        failure.final = FINAL_CLOSE_CODES.has(code);
        this._drop(failure);
        reject(failure);
      };
    });
  }

  async _call(frame, body) {
    await this.open();
    const id = ++this._number;
    return new Promise((resolve, reject) => {
      this._waiting.set(id, { resolve, reject });
      this._socket.send(JSON.stringify({ frame, id, body }));
    });
  }

  async *_follow(session, since) {
    const id = ++this._number;
    const queue = new Queue();
    this._follows.set(id, queue);
    this._socket.send(JSON.stringify({ frame: "follow", id, body: { session, since } }));
    try {
      yield* queue;
    } finally {
      if (this._follows.delete(id)) this._socket.send(JSON.stringify({ frame: "unfollow", id }));
    }
  }

  _take({ frame, id, body }) {
    const waiting = this._waiting.get(id);
    const follow = this._follows.get(id);
    if (frame === "event") follow?.push(body);
    else if (frame === "end") this._ended(id, follow);
    else if (frame === "error" && follow) this._ended(id, follow, new BridleError(body));
    else if (waiting) {
      this._waiting.delete(id);
      if (frame === "error") waiting.reject(new BridleError(body));
      else waiting.resolve(body);
    }
  }

  _ended(id, follow, failure) {
    this._follows.delete(id);
    follow?.end(failure);
  }

  _drop(failure) {
    for (const { reject } of this._waiting.values()) reject(failure);
    this._waiting.clear();
    for (const queue of this._follows.values()) queue.end(failure);
    this._follows.clear();
  }
}

/** What comes faster than it is read waits here. */
class Queue {
  constructor() {
    this._items = [];
    this._over = false;
    this._failure = null;
    this._wake = null;
  }

  push(item) {
    this._items.push(item);
    this._wake?.();
  }

  end(failure = null) {
    this._over = true;
    this._failure = failure;
    this._wake?.();
  }

  async *[Symbol.asyncIterator]() {
    for (;;) {
      while (this._items.length > 0) yield this._items.shift();
      if (this._over) {
        if (this._failure) throw this._failure;
        return;
      }
      await new Promise((wake) => {
        this._wake = wake;
      });
    }
  }
}

/** Longer and longer pauses between attempts, until something came. */
class Pauses {
  constructor(sleep) {
    this._sleep = sleep;
    this._next = FIRST_PAUSE_MS;
  }

  forget() {
    this._next = FIRST_PAUSE_MS;
  }

  async next() {
    const pause = this._next;
    this._next = Math.min(2 * pause, LONGEST_PAUSE_MS);
    await this._sleep(pause);
  }
}

function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Whether another attempt may succeed: the engine is busy, going away or not there, and did not say no. */
function mayPass(failure) {
  if (failure.final === true) return false;
  return failure.reason === "Unreachable" || failure.status >= 500 || failure.status === 429;
}

/** Where a command or query goes: its route with the fields in its path filled in, and the fields that are left. */
function placed({ kind, ...fields }) {
  const route = ROUTES[kind];
  if (route === undefined) throw new TypeError(`There is no kind "${kind}".`);
  const left = { ...fields };
  const path = route.path.replace(/\{(\w+)\}/g, (_, name) => {
    if (left[name] === undefined) throw new TypeError(`${kind} needs "${name}".`);
    const value = encodeURIComponent(left[name]);
    delete left[name];
    return value;
  });
  return { route: { method: route.method, path }, fields: left };
}

async function problemIn(response) {
  try {
    const problem = await response.json();
    if (typeof problem.reason === "string") return problem;
  } catch {
    // whoever answered was not an engine
  }
  return { reason: "NotAnEngine", message: `The server answered ${response.status} and no reason.` };
}

/** The frames of a server-sent event stream. Throws when it is cut in the middle of one. */
export async function* frames(body) {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let held = "";
  for await (const chunk of body) {
    held += decoder.decode(chunk, { stream: true });
    let end;
    while ((end = held.indexOf("\n\n")) >= 0) {
      const frame = frameOf(held.slice(0, end));
      held = held.slice(end + 2);
      if (frame !== null) yield frame;
    }
  }
  if (held.trim() !== "") throw new TypeError("The stream was cut off.");
}

function frameOf(text) {
  const frame = { event: "message", data: [] };
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    if (colon === 0) continue; // a sign of life
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") frame.event = value;
    else if (name === "data") frame.data.push(value);
  }
  return frame.data.length === 0 ? null : { event: frame.event, data: frame.data.join("\n") };
}
