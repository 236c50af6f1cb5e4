// The protocol's own client writes a stream and reads it while what serves it is killed. The stream's URL is the
// argument. Appends go on until standard input ends, then some follow, and the last one closes the stream. Each line of
// output is an event: how many appends have been acknowledged and, at the end, what was read.
import { DurableStream, FetchError, IdempotentProducer, stream } from "@durable-streams/client";
import { setTimeout as sleep } from "node:timers/promises";

const url = process.argv[2];
const say = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);
let ended = false;
process.stdin.on("end", () => (ended = true)).resume();

// insist is fetch until there is an answer other than 5xx: the producer leaves trying again to it.
let acknowledged = 0, retries = 0;
async function insist(input, init) {
  for (;; retries++) {
    try {
      const answer = await fetch(input, init);
      if (answer.ok) {
        acknowledged += JSON.parse(typeof init.body === "string" ? init.body : "[]").length;
        say({ acknowledged });
      }
      if (answer.status < 500) return answer;
      await answer.arrayBuffer();
    } catch {
      // the service is away
    }
    await sleep(50);
  }
}

// read reads the stream from its beginning to its end, and resumes where a connection broke. A reader whose offset is
// gone, since a fail-over has lost appends that it had read before they were acknowledged, starts over: it is told.
async function read(live, began) {
  const result = { live, got: [], resumed: 0, anewed: 0 };
  for (let offset = "-1"; ; result.resumed++) {
    let response;
    try {
      response = await stream({ url, offset, live, json: true, warnOnHttp: false, sseResilience: { logWarnings: false },
        backoffOptions: { initialDelay: 20, maxDelay: 200, multiplier: 1.3 } });
      const end = new Promise((resolve) => {
        const reading = response;
        reading.subscribeJson((batch) => {
          if (reading !== response) return; // it was given up
          result.got.push(...batch.items.map((item) => item.n));
          offset = batch.offset;
          began();
          if (batch.streamClosed) resolve();
        });
      });
      await response.closed;
      if (response.streamClosed) return await end.then(() => result); // its last batch may still be on its way
    } catch (error) {
      if (error instanceof FetchError && error.status === 410) {
        offset = "-1";
        result.got = [];
        result.anewed++;
      } else if (error instanceof FetchError && error.status < 500) {
        throw error;
      }
    }
    response = undefined;
  }
}

const appended = await DurableStream.create({ url, contentType: "application/json", warnOnHttp: false });
const producer = new IdempotentProducer(appended, "relay", { fetch: insist, maxInFlight: 5, lingerMs: 2,
  onError: (error) => { throw error; } });
producer.append(JSON.stringify({ n: 0 }));
await producer.flush();
const began = [];
const readers = Promise.all(["sse", "long-poll"].map((live) => {
  let result;
  began.push(new Promise((resolve) => (result = read(live, resolve))));
  return result;
}));
await Promise.all(began);
let n = 1;
for (let after = 0; after < 200; n++) {
  producer.append(JSON.stringify({ n }));
  after += ended ? 1 : 0;
  while (producer.inFlightCount > 20) await sleep(1);
  if (n % 4 === 3) await sleep(1);
}
await producer.close(JSON.stringify({ n }));
say({ appended: n + 1, acknowledged, retries, readers: await readers });
