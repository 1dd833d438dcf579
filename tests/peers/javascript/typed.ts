// Compiled, never run: what the types of the client promise, and what they refuse.
import { BridleError, connect, tokenIn } from "bridle-client";
import type { Connection, Envelope, PermissionRequested, SessionList } from "bridle-client";

export async function watch(file: string, url: string): Promise<string> {
  const bridle: Connection = await connect({ url, token: tokenIn(file) });
  const { session } = await bridle.send({ kind: "CreateSession", cwd: "/shop", mode: "plan" });
  const list: SessionList = await bridle.ask({ kind: "ListSessions", cwd: "/shop" });
  const titles: string[] = list.sessions.map((one) => one.id);
  let text = titles.join();
  try {
    for await (const event of bridle.events(session, { since: 3 })) text += shown(event);
  } catch (failure) {
    if (failure instanceof BridleError && failure.reason === "TokenExpired") return text;
    throw failure;
  }
  return text;
}

function shown(event: Envelope): string {
  switch (event.kind) {
    case "TextDelta":
      return event.payload.text;
    case "PermissionRequested":
      return asked(event.payload);
    case "TurnEnded":
      return `${event.id ?? "live"} ${event.payload.stop}`;
    default:
      return "";
  }
}

function asked({ call_id, tool, input }: PermissionRequested): string {
  return `${call_id} ${tool} ${JSON.stringify(input)}`;
}

export async function refused(bridle: Connection, url: string, token: string): Promise<void> {
  await connect({ url, token, transport: "websocket", name: "Tablet", answers: false, WebSocket: globalThis.WebSocket });
  // @ts-expect-error a name does not travel over HTTP
  await connect({ url, token, name: "Tablet" });
  // @ts-expect-error a token is needed
  await connect({ url });
  // @ts-expect-error there is no such command
  await bridle.send({ kind: "Dance" });
  // @ts-expect-error a command without what it needs
  await bridle.send({ kind: "RenameSession", session: "sess_1" });
  // @ts-expect-error a query is not a command
  await bridle.send({ kind: "ListSessions" });
  // @ts-expect-error no such answer
  await bridle.answer("sess_1", { call_id: "call_1" }, "maybe");
  // @ts-expect-error the answer to another query
  (await bridle.ask({ kind: "ListModels" })).sessions;
}
