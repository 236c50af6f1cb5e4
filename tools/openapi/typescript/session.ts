// A session with a service, by types that openapi-typescript has generated. The service's URL is the argument.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./generated/api.js";

const baseUrl = process.argv[2];
assert(baseUrl, "usage: session.js URL");
const api = createClient<paths>({ baseUrl });
const path = { channel: "lobby", subscriber: "ann" };
const inChannel = { path: { channel: "lobby" } };

const subscribed = await api.PUT("/v1/channels/{channel}/subscribers/{subscriber}", {
  params: { path },
  body: { from: "earliest" },
});
assert.equal(subscribed.data?.created, true);

const one = await api.POST("/v1/channels/{channel}/messages", {
  params: inChannel,
  body: { id: "m-1", content: { text: "hello!" } },
});
assert(one.data && !Array.isArray(one.data));
assert.equal(one.data.clock, 1);
const batch = await api.POST("/v1/channels/{channel}/messages", {
  params: inChannel,
  body: [{ content: null }, { content: [2] }],
});
assert(Array.isArray(batch.data));
assert.equal(batch.data.length, 2);

const fetched = await api.GET("/v1/channels/{channel}/subscribers/{subscriber}/messages", {
  params: { path, query: { max: 10, wait: "20s" } },
});
assert.deepEqual(fetched.data?.messages.map((m) => m.content), [{ text: "hello!" }, null, [2]]);
const receiptHandle = fetched.data?.receiptHandle;
assert(receiptHandle);
const acked = await api.POST("/v1/channels/{channel}/subscribers/{subscriber}/ack", {
  params: { path },
  body: { receiptHandle },
});
assert.equal(acked.response.status, 204);
const refused = await api.GET("/v1/channels/{channel}/subscribers/{subscriber}/messages", {
  params: { path: { ...path, subscriber: "nobody" } },
});
assert.equal(refused.error?.type, "urn:tidemark:problem:subscriber-not-found");

await api.PUT("/v1/queues/{queue}", {
  params: { path: { queue: "duel" } },
  body: { assigner: { connection: "127.0.0.1:7777" } },
});
const ticket: components["schemas"]["NewTicket"] = {
  queue: "duel",
  statistics: [{ name: "skill", value: 1234.5 }],
  searchFields: { doubleArgs: { level: 12, far: "Infinity" } },
};
await api.POST("/v1/tickets", { body: ticket });
const second = await api.POST("/v1/tickets", { body: ticket });
assert(second.data?.channel && second.data.subscriber);
const assigned = await api.GET("/v1/channels/{channel}/subscribers/{subscriber}/messages", {
  params: { path: { channel: second.data.channel, subscriber: second.data.subscriber }, query: { wait: "20s" } },
});
assert.equal(assigned.data?.messages.length, 1);
const shown = await api.GET("/v1/tickets/{id}", { params: { path: { id: second.data.id } } });
assert.equal(shown.data?.assignment?.connection, "127.0.0.1:7777");
assert.equal(shown.data.statistics?.[0]?.value, 1234.5);
