// Reads documents from files and prints what the official parser has against them: errors and warnings, one a line.
import { readFileSync } from "node:fs";
import { Parser } from "@asyncapi/parser";

const parser = new Parser();
for (const file of process.argv.slice(2)) {
  const { document, diagnostics } = await parser.parse(readFileSync(file, "utf8"));
  for (const d of diagnostics.filter((d) => d.severity <= 1)) console.log(`${file}: ${d.code} ${d.message} at ${d.path.join("/")}`);
  if (document) console.log(`${file}: ${document.version()} channels=${document.channels().all().length} operations=${document.operations().all().length} messages=${document.messages().all().length}`);
}
