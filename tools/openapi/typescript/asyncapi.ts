// Parses docs/asyncapi.yaml, the argument, with the parser of the AsyncAPI Initiative. It accepts no diagnostics.
import assert from "node:assert/strict";
import { Parser, fromFile } from "@asyncapi/parser";

const file = process.argv[2];
assert(file, "usage: asyncapi.ts FILE");
const { document, diagnostics } = await fromFile(new Parser(), file).parse();
assert.deepEqual(diagnostics.map((d) => `${d.path.join(".")}: ${d.message}`), []);
assert(document);
assert(document.operations().length > 0);
