// An outer agent on the official client: 1.x or 2.x, over HTTP or over stdio. Prints what it found as one JSON object.
const [package_, target, ...words] = process.argv.slice(2);
const modern = package_ === "client";
const base = modern ? "@modelcontextprotocol/client" : "@modelcontextprotocol/sdk/client";
const { Client } = await import(modern ? base : `${base}/index.js`);
const options = modern ? { versionNegotiation: { mode: "auto" } } : {};
const client = new Client({ name: `peer-${package_}`, version: "1" }, options);

async function transport() {
  if (target.startsWith("http")) {
    const { StreamableHTTPClientTransport } = await import(modern ? base : `${base}/streamableHttp.js`);
    return new StreamableHTTPClientTransport(new URL(target));
  }
  const { StdioClientTransport } = await import(modern ? `${base}/stdio` : `${base}/stdio.js`);
  return new StdioClientTransport({ command: target, args: words, cwd: process.env.PEER_CWD, env: process.env });
}

await client.connect(await transport());
const { tools } = await client.listTools();
const lines = [];
const call = { name: "run_agent_with_shell_access", arguments: { prompt: "go", cwd: process.env.PEER_CWD, model: "" } };
const hear = { onprogress: (progress) => lines.push(progress.message) };
const result = modern ? await client.callTool(call, hear) : await client.callTool(call, undefined, hear);
const { resources } = await client.listResources();
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), lines, result, resources: resources.length }));
await client.close();
