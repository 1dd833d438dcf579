// A client of a running Bridle engine, for browsers and node 20 or newer. No dependencies.
//
//     const bridle = await connect({ url: "http://127.0.0.1:8421", token });
//     const { session } = await bridle.send({ kind: "CreateSession", cwd: "/shop" });
//     await bridle.say(session, "fix the test");
//     for await (const event of bridle.events(session)) console.log(event.kind, event.payload);
//
// Events come in order and without gaps. A stream that breaks is made again behind the last event that was read.
// Over HTTP a client needs nothing but fetch; over a WebSocket all of it goes through one connection.

import { PROTOCOL_VERSION, ROUTES } from "./wire.js";

export { PROTOCOL_VERSION };

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;
const GIVE_UP_MS = 30_000;
const LARGEST_FRAME_BYTES = 1024 * 1024;
const HEADER = "X-Bridle-Token";
// Whoever is turned away for one of these is turned away again.
const FINAL_CLOSE_CODES = new Set([1002, 1003, 1007, 1008, 1009, 4001, 4004, 4028]);
const ONLY_OVER_A_SOCKET = ["name", "answers", "WebSocket"];

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

/** Connects to an engine. Throws `BridleError` where it turns us away or nobody answers. */
export async function connect(options) {
  const { transport = "http" } = options;
  if (transport !== "http" && transport !== "websocket") throw new TypeError(`There is no transport "${transport}".`);
  const client = transport === "websocket" ? new SocketClient(options) : new HttpClient(options);
  await client.open();
  return client;
}

/** The token in what a file of `bridle token mint --out FILE` holds. What else it holds is never repeated. */
export function tokenIn(text) {
  let token = text.trim();
  if (token.startsWith("{")) {
    try {
      ({ token } = JSON.parse(token));
    } catch {
      token = null;
    }
  }
  if (!isToken(token)) throw new TypeError("The file holds no token.");
  return token;
}

function isToken(token) {
  return typeof token === "string" && /^[!-~]+$/.test(token);
}

/** What both kinds of client share: the words a person's client uses most, and going on after a break. */
class Client {
  constructor({ url, token, fetch = globalThis.fetch, sleep = pause, giveUpMs = GIVE_UP_MS }) {
    // A header that cannot be sent would be repeated in the failure.
    if (token !== undefined && !isToken(token)) throw new TypeError("This is no token.");
    this.hello = null;
    this._base = url.replace(/\/+$/, "");
    this._headers = token === undefined ? {} : { [HEADER]: token };
    this._fetch = fetch;
    this._sleep = sleep;
    this._giveUpMs = giveUpMs;
    this._closed = new AbortController();
  }

  /** Hands a command over. Throws `BridleError` when it is not taken. One with an id is sent again after a break. */
  send(command) {
    return this._kept(() => this._send(command), Boolean(command.id));
  }

  /** What is so right now; nothing changes by it. */
  ask(query) {
    return this._kept(() => this._ask(query), true);
  }

  /** Puts words into a session's inbox. Returns what was accepted. */
  say(session, text, { mode = "queue" } = {}) {
    return this.send({ kind: "SendInput", session, content: [{ type: "text", text }], mode });
  }

  /** Answers a permission question: once, pattern, tool, always or deny. */
  answer(session, question, answer, note = "") {
    const { call_id, digest = "" } = question;
    return this.send({ kind: "AnswerPermission", session, call_id, answer, note, digest });
  }

  /** Ends the turn that runs, or the work of one agent that was sent: the turn then goes on. */
  cancel(session, { invocation } = {}) {
    return this.send({ kind: "CancelTurn", session, ...(invocation && { invocation }) });
  }

  /** All events above `since`, then live ones, until the session ends or we close. */
  async *events(session, { since = 0 } = {}) {
    const pauses = new Pauses(this._sleep, this._giveUpMs, this._closed.signal);
    let last = since;
    while (!this._closed.signal.aborted) {
      try {
        for await (const envelope of this._stream(session, last)) {
          // What was left out is not asked for again: it is named, and the log has it.
          last = Math.max(last, envelope.id ?? 0, envelope.kind === "StreamGap" ? envelope.payload.last : 0);
          pauses.forget();
          yield envelope;
        }
        return;
      } catch (failure) {
        if (this._closed.signal.aborted) return;
        if (!mayPass(failure)) throw failure;
        await pauses.next(failure);
      }
    }
  }

  /** What is asked, over another connection where the first one broke and it may be asked `again`. */
  async _kept(attempt, again) {
    const pauses = new Pauses(this._sleep, this._giveUpMs, this._closed.signal);
    for (;;) {
      try {
        return await attempt();
      } catch (failure) {
        if (!again || !wasLost(failure) || this._closed.signal.aborted) throw failure;
        await pauses.next(failure);
      }
    }
  }

  async _greeted() {
    return this._json("GET", `/v1/handshake?protocol_version=${PROTOCOL_VERSION}`, { first: true });
  }

  async _json(method, path, options) {
    const response = await this._request(method, path, options);
    try {
      return await response.json();
    } catch (cause) {
      if (!(cause instanceof SyntaxError)) throw this._lost();
      throw new BridleError({ reason: "NotAnEngine", message: `What answers at ${this._base} is no engine.` });
    }
  }

  async _request(method, path, { body, headers = {}, first = false } = {}) {
    const fetch = this._fetch; // that of a browser is no method of ours
    let response;
    try {
      response = await fetch(this._base + path, {
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
    } catch (cause) {
      throw first ? this._noEngine(cause) : this._lost();
    }
    if (response.ok) return response;
    const failure = new BridleError(await problemIn(response), response.status);
    // An engine that was started again has not met us.
    if (failure.reason !== "HandshakeRequired" || first) throw failure;
    this.hello = await this._greeted();
    return this._request(method, path, { body, headers });
  }

  _noEngine(cause) {
    const problem = cause?.cause?.code ?? cause?.message ?? "it does not answer";
    const message = `No engine answers at ${this._base} (${problem}). Start one: bridle serve`;
    return new BridleError({ reason: "NoEngine", message, data: { address: this._base, problem } });
  }

  _lost() {
    const message = this._closed.signal.aborted
      ? `This client of ${this._base} is closed.`
      : `The connection to ${this._base} broke before this was answered. Look whether it happened before you try again.`;
    return new BridleError({ reason: "ConnectionLost", message, data: { address: this._base } });
  }
}

class HttpClient extends Client {
  constructor(options) {
    super(options);
    for (const name of ONLY_OVER_A_SOCKET) {
      if (options[name] !== undefined) throw new TypeError(`"${name}" means nothing without transport: "websocket".`);
    }
  }

  async open() {
    this.hello = await this._greeted();
  }

  async _send(command) {
    const { route, fields } = placed(command);
    return this._json(route.method, route.path, { body: fields });
  }

  async _ask(query) {
    const { route, fields } = placed(query);
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(fields)) {
      for (const one of Array.isArray(value) ? value : [value]) {
        if (one !== null && one !== undefined) {
          search.append(name, typeof one === "object" ? JSON.stringify(one) : String(one));
        }
      }
    }
    const asked = search.toString();
    return this._json("GET", asked === "" ? route.path : `${route.path}?${asked}`);
  }

  /** Leaves. Turns go on; nothing is lost. */
  async close() {
    this._closed.abort();
  }

  async *_stream(session, last) {
    const path = `/v1/sessions/${encodeURIComponent(session)}/events`;
    const response = await this._request("GET", path, { headers: { "Last-Event-ID": String(last) } });
    for await (const { event, data } of frames(this._chunks(response.body))) {
      if (event === "problem") throw new BridleError(JSON.parse(data), response.status);
      yield JSON.parse(data);
    }
  }

  // Not every browser iterates over a body by itself.
  async *_chunks(body) {
    const reader = body.getReader();
    try {
      for (;;) {
        const { done, value } = await reader.read().catch(() => {
          throw this._lost();
        });
        if (done) return;
        yield value;
      }
    } finally {
      reader.cancel().catch(() => {}); // it broke by itself
    }
  }
}

class SocketClient extends Client {
  constructor({ name = "javascript", answers = true, WebSocket = globalThis.WebSocket, ...options }) {
    super(options);
    if (WebSocket === undefined) {
      throw new TypeError("There is no WebSocket here (node has one from version 22 on). Leave out transport.");
    }
    this.client = null;
    this._address = `${this._base.replace(/^http/, "ws")}/v1/ws`;
    this._options = { headers: this._headers };
    this._greeting = { protocol_version: PROTOCOL_VERSION, name, answers };
    this._WebSocket = WebSocket;
    this._socket = null;
    this._opening = null;
    this._number = 0;
    this._attached = new Set();
    this._waiting = new Map();
    this._follows = new Map();
  }

  open() {
    if (this._closed.signal.aborted) return Promise.reject(this._lost());
    if (this._opening === null) {
      const opening = this._connected();
      this._opening = opening;
      opening.catch(() => {
        if (this._opening === opening) this._opening = null;
      });
    }
    return this._opening;
  }

  async _send(command) {
    const accepted = await this._call("command", command);
    if (command.kind === "CreateSession" || command.kind === "AttachSession") this._attached.add(accepted.session);
    if (command.kind === "DetachSession" || command.kind === "EndSession") this._attached.delete(command.session);
    return accepted;
  }

  _ask(query) {
    return this._call("query", query);
  }

  /** Leaves. Turns go on; nothing is lost. */
  async close() {
    this._closed.abort();
    this._drop(this._lost());
    this._socket?.close(1000);
  }

  _connected() {
    return new Promise((resolve, reject) => {
      const socket = new this._WebSocket(this._address, this._options);
      let greeted = false;
      let told = null;
      this._socket = socket;
      socket.onopen = () => {
        const before = this.client === null ? {} : { client: this.client };
        socket.send(JSON.stringify({ frame: "handshake", body: { ...this._greeting, ...before } }));
      };
      socket.onmessage = ({ data }) => {
        const frame = JSON.parse(data);
        if (frame.frame === "handshake") {
          greeted = true;
          this.hello = frame.body;
          this.client = frame.client;
          this._attachAgain();
          resolve();
        } else if (frame.frame === "error" && frame.id === undefined) {
          told = lasting(new BridleError(frame.body));
        } else {
          this._take(frame);
        }
      };
      socket.onerror = () => {}; // what it means is told by its end
      socket.onclose = ({ code, reason }) => {
        if (this._socket === socket) {
          this._socket = null;
          if (greeted) this._opening = null;
        }
        const failure = told ?? this._closedBy(code, reason);
        if (greeted) this._drop(failure);
        else if (told !== null || FINAL_CLOSE_CODES.has(code)) reject(failure);
        else this._whyNot().then(reject, reject);
      };
    });
  }

  _closedBy(code, words) {
    if (!FINAL_CLOSE_CODES.has(code)) return this._lost();
    const reason = code === 4001 ? "TokenInvalid" : "ConnectionLost";
    return lasting(new BridleError({ reason, message: `The engine closed the connection: ${words || code}.` }));
  }

  /** A socket that is refused does not say why. The same question over HTTP does. */
  async _whyNot() {
    await this._greeted();
    return this._noEngine(new Error("it takes no WebSocket"));
  }

  /** A connection that was made again is attached to what the last one was; whoever follows hears where that fails. */
  _attachAgain() {
    for (const session of this._attached) {
      this._sent("command", { kind: "AttachSession", session }).catch(() => this._attached.delete(session));
    }
  }

  async _call(frame, body) {
    await this.open();
    return this._sent(frame, body);
  }

  _sent(frame, body) {
    const id = ++this._number;
    const text = JSON.stringify({ frame, id, body });
    if (new TextEncoder().encode(text).length > LARGEST_FRAME_BYTES) {
      const message = `The ${frame} is larger than ${LARGEST_FRAME_BYTES} bytes.`;
      const data = { what: `The ${frame}`, limit: LARGEST_FRAME_BYTES };
      return Promise.reject(new BridleError({ reason: "TooLarge", message, data }));
    }
    return new Promise((resolve, reject) => {
      this._waiting.set(id, { resolve, reject });
      this._socket.send(text);
    });
  }

  async *_stream(session, last) {
    await this.open();
    if (!this._attached.has(session)) await this.send({ kind: "AttachSession", session });
    const id = ++this._number;
    const queue = new Queue();
    this._follows.set(id, queue);
    this._socket.send(JSON.stringify({ frame: "follow", id, body: { session, since: last } }));
    try {
      yield* queue;
      this._attached.delete(session); // it ended
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

/** Longer and longer pauses between attempts, until something came or it was too long. */
class Pauses {
  constructor(sleep, giveUpMs, closed) {
    this._sleep = sleep;
    this._giveUpMs = giveUpMs;
    this._closed = closed;
    this.forget();
  }

  forget() {
    this._next = FIRST_PAUSE_MS;
    this._waited = 0;
  }

  async next(failure) {
    if (this._waited >= this._giveUpMs) throw failure;
    const ms = this._next;
    this._waited += ms;
    this._next = Math.min(2 * ms, LONGEST_PAUSE_MS);
    await this._sleep(ms, this._closed);
  }
}

/** Waits, unless it is closed meanwhile. */
function pause(ms, closed) {
  return new Promise((resolve) => {
    const over = () => {
      clearTimeout(timer);
      closed.removeEventListener("abort", over);
      resolve();
    };
    const timer = setTimeout(over, ms);
    closed.addEventListener("abort", over);
  });
}

/** Whether nobody answered, and did not mean to. */
function wasLost(failure) {
  if (!(failure instanceof BridleError) || failure.final === true) return false;
  return failure.reason === "NoEngine" || failure.reason === "ConnectionLost";
}

/** Whether another attempt may succeed: the engine is busy, going away or not there, and did not say no. */
function mayPass(failure) {
  return wasLost(failure) || failure.status >= 500 || failure.status === 429 || failure.status === 408;
}

/** A refusal that another attempt would meet again. */
function lasting(failure) {
  failure.final = true;
  return failure;
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
  if (held.trim() !== "") throw new BridleError({ reason: "ConnectionLost", message: "The stream was cut off." });
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
