// Reads [{name, chunks: [base64, …]}, …] on stdin and prints {name: [frame, …]} as eventsource-parser sees them.
// The package gives an id only with the frame that names it; here it stays in force, as the vectors have it.
import { readFileSync } from "node:fs";
import { createParser } from "eventsource-parser";

function framesOf(chunks) {
  const frames = [];
  let lastId = null;
  let retry = null;
  const parser = createParser({
    onEvent(event) {
      lastId = event.id ?? lastId;
      frames.push({ event: event.event ?? null, data: event.data, id: lastId, retry });
      retry = null;
    },
    onRetry(ms) {
      retry = ms;
    },
  });
  const decoder = new TextDecoder("utf-8"); // drops the byte order mark, replaces what is invalid
  for (const chunk of chunks) {
    parser.feed(decoder.decode(Buffer.from(chunk, "base64"), { stream: true }));
  }
  return frames;
}

const cases = JSON.parse(readFileSync(0, "utf-8"));
const answers = Object.fromEntries(cases.map(({ name, chunks }) => [name, framesOf(chunks)]));
process.stdout.write(JSON.stringify(answers));
