// Tails of a channel, through restarts and purges.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Tidemark, type Gap } from "@tidemark-dev/client";
import { tail } from "@tidemark-dev/client/tail";
import { patience, startService } from "./service.js";

const service = await startService();

test("a tail continues after a restart, and reports a purge", { timeout: 60_000 }, async (t) => {
  const tm = new Tidemark(service.url);
  t.after(() => tm.close());
  const channel = tm.channel("ticker");
  await channel.publishBatch([{ content: 1 }, { content: 2 }]);
  const states: string[] = [];
  const gaps: Gap[] = [];
  const messages = tail<number>(tm, "ticker", {
    from: "earliest",
    signal: patience(),
    onState: (error) => states.push(error?.slug ?? "open"),
    onGap: (gap) => gaps.push(gap),
  });
  const next = async () => {
    const { value } = await messages.next();
    return value && [value.clock, value.content];
  };
  assert.deepEqual(await next(), [1, 1]);
  assert.deepEqual(await next(), [2, 2]);
  const third = next();
  await service.program.end("SIGTERM");
  await service.program.start();
  await channel.publish(3);
  assert.deepEqual(await third, [3, 3]);
  assert.deepEqual(states, ["open", ...states.slice(1, -1).map(() => "unreachable"), "open"]);
  assert(states.length > 2);

  await service.program.end("SIGTERM"); // while the tail isn't read
  await service.program.start();
  await channel.publish(4);
  await service.operate("/v1/channels/ticker/purge", { through: "latest" });
  await channel.publish(5);
  assert.deepEqual(await next(), [5, 5]);
  assert.deepEqual(gaps, [{ reason: "purged", count: 1 }]);
  await messages.return();
});

test("a tail throws what is refused for good, and ends when it is aborted", { timeout: 60_000 }, async (t) => {
  const tm = new Tidemark(service.url);
  t.after(() => tm.close());
  await assert.rejects(tail(tm, "no spaces").next(), { slug: "invalid-channel-name" });
  const abort = new AbortController();
  const waiting = tail(tm, "quiet", { signal: abort.signal }).next();
  abort.abort();
  assert.equal((await waiting).done, true);
});

test("a tail ends with its channel", { timeout: 60_000 }, async (t) => {
  const tm = new Tidemark(service.url);
  t.after(() => tm.close());
  const channel = tm.channel("finite");
  await channel.publish(1);
  const got: unknown[] = [];
  for await (const m of tail(tm, "finite", { from: "earliest", signal: patience() })) {
    got.push(m.content);
    if (got.length === 1) await channel.publish(2, { close: true });
  }
  assert.deepEqual(got, [1, 2]);
});
