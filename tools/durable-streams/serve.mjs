// The reference server of the Durable Streams protocol with its store in files: `node serve.mjs HOST PORT FOLDER`. The
// stream /alive is there once it serves. `make bench` starts it.
import { DurableStreamTestServer } from "@durable-streams/server";

const [host, port, dataDir] = process.argv.slice(2);
const url = await new DurableStreamTestServer({ host, port: Number(port), dataDir }).start();
await fetch(`${url}/alive`, { method: "PUT" });
