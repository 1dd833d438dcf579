import type { Accepted, AnswerOf, Command, Envelope, Handshake, PermissionRequested, Query } from "./protocol.js";

export type * from "./protocol.js";
export const PROTOCOL_VERSION: string;

/** A refusal: `reason` is stable, `message` is for people, `data` is what the sentence names. */
export class BridleError extends Error {
  reason: string;
  data: Record<string, unknown>;
  status: number;
}

export interface Options {
  /** Where the engine listens, such as `http://127.0.0.1:7430`. */
  url: string;
  /** A token of `bridle token mint`. A page of the engine's own needs none. */
  token?: string;
  /** How others see us. */
  name?: string;
  /** Whether we answer questions; default true. */
  answers?: boolean;
  /** `http` (fetch and server-sent events) or one `websocket`. */
  transport?: "http" | "websocket";
  fetch?: typeof globalThis.fetch;
  WebSocket?: new (url: string, options?: never) => WebSocketLike;
  sleep?: (ms: number) => Promise<void>;
}

/** What we use of a WebSocket. */
export interface WebSocketLike {
  send(text: string): void;
  close(code?: number): void;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
}

export interface Connection {
  readonly hello: Handshake;
  send(command: Command): Promise<Accepted>;
  ask<Q extends Query>(query: Q): Promise<AnswerOf<Q>>;
  events(session: string, options?: { since?: number }): AsyncGenerator<Envelope, void, void>;
  say(session: string, text: string, options?: { mode?: "queue" | "steer" | "reject" }): Promise<Accepted>;
  answer(
    session: string,
    question: Pick<PermissionRequested, "call_id" | "digest">,
    answer: "once" | "pattern" | "tool" | "always" | "deny",
    note?: string,
  ): Promise<Accepted>;
  cancel(session: string): Promise<Accepted>;
  close(): Promise<void>;
}

export function connect(options: Options): Promise<Connection>;
export function frames(body: AsyncIterable<Uint8Array>): AsyncGenerator<{ event: string; data: string }>;
