// Follows a session over both transports while its engine is killed and another one starts in its place.
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "../../../clients/javascript/bridle.js";
import { TRANSPORTS, begun, ended, textOf, token, until, url } from "./kit.mjs";

const sleep = (ms) => new Promise((over) => setTimeout(over, Math.min(ms, 250)));
const followed = [];
for (const options of TRANSPORTS) {
  const bridle = await connect({ url, token, ...options, sleep });
  const session = await begun(bridle, "say");
  const events = bridle.events(session);
  await bridle.say(session, "before");
  followed.push({ bridle, session, events, read: await until(events, ended) });
}
console.log("killed when you like");
await once(process.stdin, "data");
process.stdin.destroy();
for (const { bridle, session, events, read } of followed) {
  const content = [{ type: "text", text: "after" }];
  const next = until(events, ended);
  await bridle.send({ kind: "AttachSession", session, id: `attach-${session}` });
  await bridle.send({ kind: "SendInput", session, content, id: `after-${session}` });
  read.push(...(await next));
  const ids = read.flatMap(({ id }) => (id === undefined || id === null ? [] : [id]));
  assert.deepEqual(ids, ids.map((_, index) => index + 1));
  assert.equal(textOf(read).match(/answer\./g).length, 2);
  await bridle.close();
}
console.log("went on");
