// A session over a WebSocket by the package ws. The service's URL is the argument.
import assert from "node:assert/strict";
import { once } from "node:events";
import WebSocket from "ws";

const url = process.argv[2];
assert(url, "usage: socket.ts URL");
const put = await fetch(`${url}/v1/channels/socket/subscribers/ann`, { method: "PUT" });
assert.equal(put.status, 201);

type Frame = { type: string; ref?: number; [member: string]: unknown };
const socket = new WebSocket(`${url.replace("http", "ws")}/v1/socket`, "tidemark.v1");
const received: Frame[] = [];
let wake = () => {};
socket.on("message", (data, isBinary) => {
  assert(!isBinary);
  received.push(JSON.parse(data.toString()) as Frame);
  wake();
});
await once(socket, "open");
assert.equal(socket.protocol, "tidemark.v1");

const send = (frame: Frame) => socket.send(JSON.stringify(frame));

// next returns the first frame that match accepts. A timer fails the test if there is none.
async function next(match: (frame: Frame) => boolean): Promise<Frame> {
  for (;;) {
    const i = received.findIndex(match);
    if (i >= 0) return received.splice(i, 1)[0]!;
    await new Promise<void>((resolve) => (wake = resolve));
  }
}
const patience = setTimeout(() => assert.fail(`frames are missing: ${JSON.stringify(received)}`), 30_000);
const answer = (ref: number) => next((frame) => frame.ref === ref);

send({ type: "subscribe", ref: 1, channel: "socket", subscriber: "ann" });
assert.equal((await answer(1)).type, "ok");
const many = Array.from({ length: 200 }, (_, i) => i);
for (const i of many) {
  send({ type: "publish", ref: 100 + i, channel: "socket", id: `m-${i}`, content: { i, text: "ö".repeat(i) } });
}
for (const i of many) {
  const published = await answer(100 + i);
  assert.equal(published.type, "published");
  assert.equal(published.id, `m-${i}`);
}
let handle: unknown;
for (const i of many) {
  const message = await next((frame) => frame.type === "message");
  assert.equal(message.clock, i + 1);
  handle = message.receiptHandle;
}
send({ type: "ack", ref: 2, channel: "socket", subscriber: "ann", receiptHandle: handle });
assert.equal((await answer(2)).type, "acked");
socket.ping();
await once(socket, "pong");
socket.close(1000, "done");
const [code] = await once(socket, "close");
assert.equal(code, 1000);
clearTimeout(patience);
