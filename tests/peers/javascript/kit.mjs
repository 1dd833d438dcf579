// What the tests of the JavaScript client share: where the engine is, a connection, and a line to it that can break.
import { readFileSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import WebSocketOfWs from "ws";
import { connect, tokenIn } from "../../../clients/javascript/bridle.js";

export const { BRIDLE_URL: url, BRIDLE_WORK: cwd } = process.env;
export const [token, watchToken] = ["BRIDLE_TOKEN_FILE", "BRIDLE_WATCH_TOKEN_FILE"].map((name) =>
  tokenIn(readFileSync(process.env[name], "utf8")),
);

// node has a WebSocket of its own from version 22 on
const socket = globalThis.WebSocket === undefined ? { WebSocket: WebSocketOfWs } : {};
export const TRANSPORTS = [{ transport: "http" }, { transport: "websocket", ...socket }];

/** A connection that is closed when the test is over. */
export async function connected(test, options) {
  const bridle = await connect({ url, token, ...options });
  test.after(() => bridle.close());
  return bridle;
}

/** A session that plays a script. */
export async function begun(bridle, script, more = {}) {
  const { session } = await bridle.send({ kind: "CreateSession", cwd, model: `demo:conformance-${script}`, ...more });
  return session;
}

/** Reads events until one fits, and returns them all. */
export async function until(events, fits) {
  const read = [];
  for (;;) {
    const { done, value } = await events.next();
    if (done) throw new Error(`the stream ended after ${read.map(({ kind }) => kind)}`);
    read.push(value);
    if (fits(value)) return read;
  }
}

export const ended = ({ kind }) => kind === "TurnEnded";

export function textOf(events) {
  return events.map(({ kind, payload }) => (kind === "TextDelta" ? payload.text : "")).join("");
}

/**
 * A line to the engine: `cut` breaks every connection, `hold` takes nothing more of what the engine says until `go`.
 * While `down` new ones break at once, while `deaf` nothing said arrives.
 */
export async function line(test) {
  const engine = new URL(url).host;
  const open = new Map();
  const state = { down: false, deaf: false };
  const server = createServer((near) => {
    if (state.down) return void near.resetAndDestroy();
    const far = createConnection({ host: "127.0.0.1", port: engine.split(":")[1] });
    open.set(near, far);
    near.on("data", (chunk) => {
      // the engine answers to its own name alone
      const here = `127.0.0.1:${server.address().port}`;
      if (!state.deaf) far.write(Buffer.from(chunk.toString("latin1").replaceAll(here, engine), "latin1"));
    });
    far.on("data", (chunk) => near.write(chunk));
    for (const [one, other] of [[near, far], [far, near]]) {
      one.on("error", () => {});
      one.on("close", () => (open.delete(near), other.destroy()));
    }
  });
  await new Promise((listens) => server.listen(0, "127.0.0.1", listens));
  const cut = () => [...open.keys()].forEach((near) => near.resetAndDestroy());
  const hold = () => open.forEach((far) => far.pause());
  const go = () => open.forEach((far) => far.resume());
  test.after(() => (cut(), server.close()));
  return Object.assign(state, { cut, hold, go, url: `http://127.0.0.1:${server.address().port}` });
}
