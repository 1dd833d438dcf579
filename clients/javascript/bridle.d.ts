import type { Accepted, AnswerOf, Command, Envelope, Handshake, PermissionRequested, Query } from "./protocol.js";

export type * from "./protocol.js";
export const PROTOCOL_VERSION: string;

/** A refusal: `reason` is stable, `message` is for people, `data` is what the sentence names. */
export class BridleError extends Error {
  constructor(problem: { reason: string; message: string; data?: Record<string, unknown> }, status?: number);
  reason: string;
  data: Record<string, unknown>;
  /** The status of the HTTP answer; 0 where there was none. */
  status: number;
}

interface AnyOptions {
  /** Where the engine listens, such as `http://127.0.0.1:8421`. */
  url: string;
  /** A token of `bridle token mint`. */
  token: string;
  /** How long a broken stream of events tries to come back; default 30,000. */
  giveUpMs?: number;
  fetch?: typeof globalThis.fetch;
  /** Waits between two attempts; it may end sooner when `closed` is aborted. */
  sleep?: (ms: number, closed: AbortSignal) => Promise<void>;
}

/** Requests are fetches and events a fetch stream. Others see us by the name of our token. */
export interface HttpOptions extends AnyOptions {
  transport?: "http";
  name?: undefined;
  answers?: undefined;
  WebSocket?: undefined;
}

/** All of it goes through one connection. */
export interface SocketOptions extends AnyOptions {
  transport: "websocket";
  /** How others see us. */
  name?: string;
  /** Whether we answer questions; default true. */
  answers?: boolean;
  /** One that takes headers: that of node from 22 on, which is the default, or that of the package `ws`. */
  WebSocket?: new (url: string, options?: never) => WebSocketLike;
}

export type Options = HttpOptions | SocketOptions;

/** What we use of a WebSocket. */
export interface WebSocketLike {
  send(text: string): void;
  close(code?: number): void;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
}

export interface Connection {
  readonly hello: Handshake;
  /** Hands a command over. Throws `BridleError` when it is not taken. */
  send(command: Command): Promise<Accepted>;
  /** What is so right now; nothing changes by it. */
  ask<Q extends Query>(query: Q): Promise<AnswerOf<Q>>;
  /** All events above `since`, then live ones, until the session ends or we close. */
  events(session: string, options?: { since?: number }): AsyncGenerator<Envelope, void, void>;
  say(session: string, text: string, options?: { mode?: "queue" | "steer" | "reject" }): Promise<Accepted>;
  answer(
    session: string,
    question: Pick<PermissionRequested, "call_id" | "digest">,
    answer: "once" | "pattern" | "tool" | "always" | "deny",
    note?: string,
  ): Promise<Accepted>;
  cancel(session: string, options?: { invocation?: string }): Promise<Accepted>;
  /** Leaves. Turns go on; nothing is lost. */
  close(): Promise<void>;
}

export function connect(options: Options): Promise<Connection>;
/** The token in what a file of `bridle token mint --out FILE` holds. */
export function tokenIn(text: string): string;
/** The frames of a server-sent event stream. Throws `BridleError` when it is cut in the middle of one. */
export function frames(body: AsyncIterable<Uint8Array>): AsyncGenerator<{ event: string; data: string }>;
