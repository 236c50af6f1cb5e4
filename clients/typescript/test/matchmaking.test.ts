import assert from "node:assert/strict";
import { test } from "node:test";
import { Tidemark } from "@tidemark-dev/client";
import { startService } from "./service.js";

const queues = { duel: { assigner: { connection: "127.0.0.1:7777" } }, empty: {} };
const service = await startService("--queues", JSON.stringify(queues));

test("two players get the same match", { timeout: 60_000 }, async () => {
  const tm = new Tidemark(service.url);
  const ann = tm.tickets.create({ queue: "duel", id: "ann" });
  const ben = tm.tickets.create({ queue: "duel" });
  const [first, second] = await Promise.all([ann.assignment(), ben.assignment()]);
  assert.equal(first.connection, "127.0.0.1:7777");
  assert.equal(first.matchId, second.matchId);
  assert.deepEqual(await tm.tickets.open("ann").assignment(), first); // also for a page that was loaded again
  await assert.rejects(ann.cancel(), { slug: "ticket-matched" });
  await tm.close();
});

test("a ticket without a match", { timeout: 60_000 }, async () => {
  const tm = new Tidemark(service.url);
  const cancelled = tm.tickets.create({ queue: "empty" });
  const waiting = assert.rejects(cancelled.assignment(), { slug: "ticket-cancelled" });
  await cancelled.created;
  await cancelled.cancel();
  await waiting;
  await assert.rejects(tm.tickets.create({ queue: "empty", ttl: "1s" }).assignment(), { slug: "ticket-expired" });
  await assert.rejects(tm.tickets.create({ queue: "none" }).assignment(), { slug: "queue-not-found" });
  const stop = new AbortController();
  const aborted = assert.rejects(
    tm.tickets.create({ queue: "empty" }).assignment({ signal: stop.signal }),
    (e) => e === "enough",
  );
  stop.abort("enough");
  await aborted;
  await tm.close();
});
