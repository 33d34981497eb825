// A server of the TypeScript SDK with sessions, for the tests of sinks/mcp. It serves /<world>/mcp, each world for itself,
// and tells at /<world>/seen what its tools were called with and what they did. It prints its port, and ends with its
// standard input.
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { CallToolRequestSchema, ErrorCode, ListToolsRequestSchema, McpError } from "@modelcontextprotocol/sdk/types.js";

const worlds = new Map();

function world(name) {
  if (!worlds.has(name)) worlds.set(name, { calls: [], done: {}, sessions: new Map(), ended: 0 });
  return worlds.get(name);
}

const text = (t) => ({ content: [{ type: "text", text: t }] });

// tools do what they are for once per key.
function tool(w, { name, arguments: args, _meta: meta }, headers) {
  w.calls.push({ name, args, meta, key: headers["idempotency-key"], parent: headers["traceparent"] });
  const key = meta?.["forebay/action_id"];
  switch (name) {
    case "triage":
      w.done[key] ??= 1;
      return text("filed");
    case "fails":
      return { ...text("no such project"), isError: true };
    case "picky":
      throw new McpError(ErrorCode.InvalidParams, "no project given");
    case "broken":
      throw new Error("out of disk");
  }
  throw new McpError(ErrorCode.InvalidParams, `no tool ${name}`);
}

async function open(w) {
  const server = new Server({ name: "typescript", version: "1" }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [{ name: "triage", inputSchema: { type: "object" } }] }));
  server.setRequestHandler(CallToolRequestSchema, (request, extra) => tool(w, request.params, extra.requestInfo.headers));
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    enableJsonResponse: false,
    onsessioninitialized: (id) => w.sessions.set(id, transport),
    onsessionclosed: (id) => { w.sessions.delete(id); w.ended++; },
  });
  await server.connect(transport);
  return transport;
}

createServer(async (request, response) => {
  const [, name, rest] = request.url.split("/");
  const w = world(name);
  if (rest === "seen") {
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify({ calls: w.calls, done: w.done, open: w.sessions.size, ended: w.ended }));
    return;
  }
  const id = request.headers["mcp-session-id"];
  if (id && !w.sessions.has(id)) {
    response.writeHead(404).end();
    return;
  }
  const transport = id ? w.sessions.get(id) : await open(w);
  await transport.handleRequest(request, response);
}).listen(0, "127.0.0.1", function () {
  console.log(this.address().port);
});

process.stdin.resume().on("end", () => process.exit(0));
