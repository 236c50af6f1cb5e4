// Publishing and subscribing on a service without faults.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Tidemark, TidemarkError, type Gap, type TransportName } from "@tidemark-dev/client";
import { patience, startProxy, startService, until } from "./service.js";

const rules = [{ pattern: "short[.].*", maxMessages: 3 }, { pattern: "brief[.].*", ttl: "1s" }];
const service = await startService("--channels", JSON.stringify(rules));

/** open returns a client and a function that closes it when the test has ended. */
const open = (t: { after(f: () => unknown): void }, options: ConstructorParameters<typeof Tidemark>[1] = {}) => {
  const tm = new Tidemark(service.url, options);
  t.after(() => tm.close());
  return tm;
};

test("an ID is published once", { timeout: 60_000 }, async (t) => {
  const channel = open(t).channel("once");
  assert.deepEqual(await channel.publish(1, { id: "m-1" }), { channel: "once", id: "m-1", clock: 1, duplicate: false });
  assert.deepEqual(await channel.publish(1, { id: "m-1" }), { channel: "once", id: "m-1", clock: 1, duplicate: true });
  assert.equal((await channel.publish(2, { id: "m-1" })).differs, true);
  const batch = await channel.publishBatch([{ content: 2 }, { content: 3, id: "m-1" }]);
  assert.deepEqual(batch.map((p) => p.duplicate), [false, true]);
});

test("a content of another type is bytes", { timeout: 60_000 }, async (t) => {
  for (const transport of ["socket", "sse", "poll"] as TransportName[]) {
    const channel = open(t, { transports: [transport] }).channel("bytes-" + transport);
    const bytes = Uint8Array.from({ length: 20_000 }, (_, i) => i);
    await channel.publish(bytes, { contentType: "application/octet-stream", id: "a" });
    assert.equal((await channel.publish(bytes, { contentType: "text/plain", id: "a" })).differs, true);
    await channel.publishBatch([
      { content: "é", contentType: "Text/Plain; charset=UTF-8" },
      { content: new Uint8Array(), contentType: "a/b" },
      { content: "é" },
    ]);
    const got: unknown[] = [];
    for await (const m of channel.subscribe("ann", { from: "earliest" })) {
      if (got.push([m.contentType, m.content]) === 4) break;
    }
    assert.deepEqual(got, [
      ["application/octet-stream", bytes],
      ["text/plain; charset=utf-8", new TextEncoder().encode("é")],
      ["a/b", new Uint8Array()],
      [undefined, "é"],
    ]);
  }
  const channel = open(t).channel("none");
  await assert.rejects(channel.publish(1, { contentType: "text/plain" }), TypeError);
  await assert.rejects(channel.publish("x", { contentType: "text" }), { slug: "invalid-content-type" });
});

test("a publish whose answer is lost is repeated with its ID", { timeout: 60_000 }, async (t) => {
  const asked: unknown[] = [];
  const proxy = await startProxy(service.url, {
    answer: (_, body, answer) => {
      asked.push(JSON.parse(body));
      if (asked.length === 1) answer.destroy();
      if (asked.length === 2) {
        answer.writeHead(429, { "Retry-After": "1" }).end();
      }
      return asked.length < 3;
    },
  });
  const tm = new Tidemark(proxy.url);
  t.after(() => tm.close());
  assert.equal((await tm.channel("repeated").publish({ a: 1 })).duplicate, false);
  assert.equal(asked.length, 3);
  assert.deepEqual(asked[1], asked[0]);
  assert.deepEqual(asked[2], asked[0]);
});

test("an error has the slug, the status and the field", { timeout: 60_000 }, async (t) => {
  const tm = open(t);
  await assert.rejects(tm.channel("no spaces").publish(1), (error) => {
    assert(error instanceof TidemarkError);
    assert.deepEqual([error.slug, error.status], ["invalid-channel-name", 400]);
    assert.match(error.message, /no spaces.*\(400 invalid-channel-name\)$/);
    return true;
  });
  const nowhere = new Tidemark("http://127.0.0.1:1", { retryFor: 0 });
  await assert.rejects(nowhere.channel("a").publish(1), { slug: "unreachable", status: 0, temporary: true });
});

test("an abort ends calls and subscriptions", { timeout: 60_000 }, async (t) => {
  const tm = open(t);
  await assert.rejects(tm.channel("a").publish(1, { signal: AbortSignal.abort("why") }), (e) => e === "why");
  const nowhere = new Tidemark("http://127.0.0.1:1", { retryFor: Infinity });
  const stop = new AbortController();
  const publishing = nowhere.channel("a").publish(1, { signal: stop.signal });
  const looping = (async () => {
    for await (const m of nowhere.channel("a").subscribe("ann", { signal: stop.signal })) assert.fail(m.id);
  })();
  const handling = nowhere.channel("a").subscribe("bob", () => assert.fail(), { signal: stop.signal });
  stop.abort("enough");
  await assert.rejects(publishing, (e) => e === "enough");
  await looping;
  await handling.closed;
});

test("close waits for the handler and its acknowledgement", { timeout: 60_000 }, async (t) => {
  const channel = open(t).channel("closing");
  let finish = () => {};
  const handling = new Promise<void>((resolve) => (finish = resolve));
  const calls: unknown[] = [];
  const subscription = channel.subscribe("ann", (m) => calls.push(m) && handling, { from: "earliest" });
  await channel.publish(1);
  await until(() => calls.length === 1);
  void subscription.close();
  let closed = false;
  const closing = subscription.close().then(() => (closed = true));
  assert.equal((await channel.describe()).subscribers[0]!.mark, 0);
  assert.equal(closed, false);
  finish();
  await closing;
  assert.equal((await channel.describe()).subscribers[0]!.mark, 1);
});

test("a function for tokens that doesn't return", { timeout: 60_000 }, async () => {
  const tm = new Tidemark(service.url, { token: () => new Promise<string>(() => {}) });
  const stop = new AbortController();
  const publishing = tm.channel("a").publish(1, { signal: stop.signal });
  stop.abort("enough");
  await assert.rejects(publishing, (e) => e === "enough");
});

test("a name that is invalid ends only its subscription", { timeout: 60_000 }, async (t) => {
  const tm = open(t, { transports: ["sse"] });
  const loop = tm.channel("valid").subscribe("ann", { from: "earliest", signal: patience() })[Symbol.asyncIterator]();
  const wrong = tm.channel("no spaces").subscribe("ann", { create: false });
  await assert.rejects(wrong[Symbol.asyncIterator]().next(), { slug: "invalid-channel-name" });
  await tm.channel("valid").publish(1);
  assert.equal((await loop.next()).value?.content, 1);
});

for (const transport of ["socket", "sse", "poll"] satisfies TransportName[]) {
  test(`${transport}: messages are acknowledged when they are handled`, { timeout: 60_000 }, async (t) => {
    const tm = open(t, { transports: [transport] });
    const channel = tm.channel<number>("handled-" + transport);
    await channel.publishBatch([1, 2, 3].map((content) => ({ content, id: "m-" + content })));
    const mark = async () => (await channel.describe()).subscribers[0]?.mark;

    // The loop acknowledges what it has gone past, but not the message that it leaves at.
    for await (const m of channel.subscribe("ann", { from: "earliest" })) {
      assert.equal(m.id, "m-" + m.clock);
      assert(m.publishedAt instanceof Date);
      if (m.content === 3) break;
    }
    if (transport === "poll") assert.equal(await mark(), 0); // all three have one receipt
    else assert.equal(await mark(), 2);

    // A handler gets it once more, or all of them. What follows a failure isn't acknowledged.
    const seen: number[] = [];
    const handled = channel.subscribe("ann", async (m) => {
      seen.push(m.content);
      if (m.content === 5) throw new Error("five");
    });
    await until(async () => (await mark()) === 3);
    await channel.publish(4);
    await until(async () => (await mark()) === 4);
    const failures: unknown[] = [];
    handled.on("error", (e) => failures.push(e));
    await channel.publish(5);
    await assert.rejects(handled.closed, /five/);
    assert.equal(failures.length, 1);
    assert.deepEqual(seen.slice(-3), [3, 4, 5]);
    assert.equal(await mark(), 4);

    // By hand.
    const manual = channel.subscribe("ann", { ack: "manual" });
    for await (const m of manual) {
      assert.equal(m.content, 5);
      assert.equal(await mark(), 4);
      await m.ack();
      assert.equal(await mark(), 5);
      break;
    }
  });
}

test("subscriptions to one channel share it, and others come and go", { timeout: 60_000 }, async (t) => {
  const tm = open(t, { transports: ["sse"] });
  const seen: Record<string, unknown[]> = { a: [], b: [], c: [] };
  const channel = tm.channel("shared");
  channel.subscribe("ann", (m) => void seen["a"]!.push(m.content), { from: "earliest", ack: "manual" });
  await channel.publish(1);
  await until(() => seen["a"]!.length === 1);
  channel.subscribe("ann", (m) => void seen["b"]!.push(m.content), { ack: "manual" });
  await until(() => seen["b"]!.length === 1); // the service sends it once
  const other = tm.channel("other").subscribe("ann", (m) => void seen["c"]!.push(m.content), { from: "earliest" });
  await tm.channel("other").publish(3);
  await until(() => seen["c"]!.length === 1);
  await other.close();
  await channel.publish(2);
  await until(() => seen["a"]!.length === 2 && seen["b"]!.length === 2);
  assert.deepEqual(seen, { a: [1, 2], b: [1, 2], c: [3] });
});

test("many subscriptions open one stream of events", { timeout: 60_000 }, async (t) => {
  const names = Array.from({ length: 30 }, (_, i) => "many-" + i);
  const direct = open(t);
  await Promise.all(names.map((name) => direct.http.call(["channels", name, "subscribers", "ann"], { method: "PUT" })));
  const proxy = await startProxy(service.url, {});
  const tm = new Tidemark(proxy.url, { transports: ["sse"] });
  const seen = new Set<string>();
  for (const name of names) tm.channel(name).subscribe("ann", (m) => seen.add(m.channel), { create: false });
  await Promise.all(names.map((name) => direct.channel(name).publish(1)));
  await until(() => seen.size === 30);
  assert.equal(proxy.paths.filter((p) => p === "GET /v1/stream").length, 1);
  await tm.close();
});

test("an acknowledgement ends with its subscription", { timeout: 60_000 }, async (t) => {
  const acks: unknown[] = [];
  const proxy = await startProxy(service.url, {
    answer: (asked, _, answer) => {
      if (!asked.url!.endsWith("/ack")) return false;
      acks.push(answer.writeHead(503).end());
      return true;
    },
  });
  const tm = new Tidemark(proxy.url, { transports: ["sse"] });
  t.after(() => tm.close());
  const channel = tm.channel("unacknowledged");
  await channel.publish(1);
  const path = ["channels", "unacknowledged", "subscribers", "ann"];
  await tm.http.call(path, { method: "PUT", body: { from: "earliest" } });
  const loop = channel.subscribe("ann", { ack: "manual", create: false })[Symbol.asyncIterator]();
  const ack = (await loop.next()).value!.ack();
  await until(() => acks.length > 0);
  await Promise.all([channel.unsubscribe("ann"), assert.rejects(ack, { slug: "subscriber-not-found" })]);
  await assert.rejects(loop.next(), { slug: "subscriber-not-found" });
});

test("by long poll, a receipt that storage has lost ends nothing", { timeout: 60_000 }, async (t) => {
  let forged = false;
  const proxy = await startProxy(service.url, {
    answer: (asked, _, answer) => {
      if (forged || asked.url !== "/v1/fetch") return false;
      forged = true;
      const delivery = { channel: "forged", subscriber: "ann", expired: 2, messages: [], receiptHandle: "tm1.forged" };
      answer.writeHead(200, { "Content-Type": "application/json" });
      answer.end(JSON.stringify({ deliveries: [delivery], problems: [] }));
      return true;
    },
  });
  const tm = new Tidemark(proxy.url, { transports: ["poll"] });
  t.after(() => tm.close());
  const order: unknown[] = [];
  const subscription = tm.channel("forged").subscribe("ann", (m) => void order.push(m.content), { from: "earliest" });
  subscription.on("gap", (g) => order.push(g));
  await tm.channel("forged").publish(1);
  await until(() => order.length === 3);
  assert.deepEqual(order, [{ reason: "expired", count: 2 }, { reason: "lost", count: 0 }, 1]);
});

for (const transport of ["socket", "sse", "poll"] satisfies TransportName[]) {
  test(`${transport}: an ID that is used again is another message`, { timeout: 60_000 }, async (t) => {
    const channel = open(t, { transports: [transport] }).channel("brief." + transport);
    const seen: unknown[] = [];
    channel.subscribe("ann", (m) => void seen.push(m.content), { from: "earliest" });
    await channel.publish("first", { id: "m-1" });
    await until(() => seen.length === 1);
    await until(async () => {
      await channel.publish("again", { id: "m-1" }); // a duplicate until the life of the one before is over
      return seen.length >= 2; // on a busy machine it may be over before the message is sent
    });
    assert.deepEqual(seen.slice(0, 2), ["first", "again"]);
  });

  test(`${transport}: messages that nobody read are a gap`, { timeout: 60_000 }, async (t) => {
    const tm = open(t, { transports: [transport] });
    const channel = tm.channel("short." + transport);
    await channel.publish(0);
    const order: unknown[] = [];
    const first = channel.subscribe("ann", { from: "earliest", signal: patience() });
    for await (const m of first) if (m.content === 0) break;
    await channel.publishBatch(Array.from({ length: 9 }, (_, i) => ({ content: i + 1 })));
    const second = channel.subscribe("ann", (m) => void order.push(m.content));
    second.on("gap", (g: Gap) => order.push(g));
    await until(() => order.length === 4);
    assert.deepEqual(order, [{ reason: "expired", count: 7 }, 7, 8, 9]);
  });

  test(`${transport}: a subscription that follows another begins at the mark`, { timeout: 60_000 }, async (t) => {
    const tm = open(t, { transports: [transport] });
    tm.channel("kept-too-" + transport).subscribe("ann", () => {}); // keeps the connection
    const channel = tm.channel("followed-" + transport);
    for (let n = 0; n < 10; n++) {
      await channel.publish(2 * n);
      for await (const m of channel.subscribe("ann", { ack: "manual", from: "earliest", signal: patience() })) {
        assert.equal(m.content, 2 * n);
        break;
      }
      const next = channel.subscribe("ann", { create: false, signal: patience() });
      await channel.publish(2 * n + 1); // while the connection may still carry the first subscription
      const order: unknown[] = [];
      for await (const m of next) {
        order.push(m.content);
        if (order.length === 2) {
          await m.ack();
          break;
        }
      }
      assert.deepEqual(order, [2 * n, 2 * n + 1]);
    }
  });

  test(`${transport}: messages that an operator purges are a gap`, { timeout: 60_000 }, async (t) => {
    const channel = open(t, { transports: [transport] }).channel("purged-" + transport);
    await channel.publish(0);
    const order: unknown[] = [];
    for await (const m of channel.subscribe("ann", { from: "earliest", signal: patience() })) {
      if (m.content === 0) break;
    }
    await channel.publishBatch([{ content: 1 }, { content: 2 }, { content: 3 }]);
    await service.operate(`/v1/channels/purged-${transport}/purge`, { through: 3 });
    channel.subscribe("ann", (m) => void order.push(m.content)).on("gap", (g: Gap) => order.push(g));
    await until(() => order.length === 2);
    assert.deepEqual(order, [{ reason: "purged", count: 3 }, 3]);
  });

  test(`${transport}: a subscription that is closed is made again at once`, { timeout: 60_000 }, async (t) => {
    const tm = open(t, { transports: [transport] });
    tm.channel("kept-" + transport).subscribe("ann", () => {}); // keeps the connection
    const channel = tm.channel("again-" + transport);
    await channel.publish(1);
    for (let n = 0; n < 10; n++) {
      const options = { ack: "manual", from: "earliest", create: n === 0, signal: patience() } as const;
      for await (const m of channel.subscribe("ann", options)) {
        assert.equal(m.content, 1);
        break;
      }
    }
  });

  test(`${transport}: a subscriber that is removed is made again`, { timeout: 60_000 }, async (t) => {
    const tm = open(t, { transports: [transport] });
    const channel = tm.channel("removed-" + transport);
    const order: unknown[] = [];
    const kept = channel.subscribe("ann", (m) => void order.push(m.content));
    kept.on("gap", (g: Gap) => order.push(g));
    const ended = channel.subscribe("bob", { create: false });
    await assert.rejects(ended[Symbol.asyncIterator]().next(), { slug: "subscriber-not-found" });
    await until(async () => (await channel.describe().catch(() => undefined))?.subscribers.length === 1);
    await channel.publish(1);
    await until(() => order.length === 1);
    await channel.unsubscribe("ann");
    await until(async () => order.length === 2 && (await channel.describe()).subscribers.length === 1);
    await channel.publish(2);
    await until(() => order.length === 3);
    assert.deepEqual(order, [1, { reason: "removed", count: 0 }, 2]);
  });
}

for (const transport of ["socket", "sse"] satisfies TransportName[]) {
  test(`${transport}: messages come again if an operator sets the mark back`, { timeout: 60_000 }, async (t) => {
    const channel = open(t, { transports: [transport] }).channel("moved-" + transport);
    await channel.publishBatch([{ content: 1 }, { content: 2 }]);
    const order: unknown[] = [];
    channel.subscribe("ann", (m) => void order.push(m.content), { from: "earliest" }).on("gap", (g) => order.push(g));
    await until(async () => (await channel.describe()).subscribers[0]?.mark === 2);
    await service.operate(`/v1/channels/moved-${transport}/subscribers/ann/seek`, { to: 1 });
    await until(() => order.length === 4);
    assert.deepEqual(order, [1, 2, { reason: "moved", count: 0 }, 2]);
  });
}

test("a subscription ends with its channel, when everything is handled", { timeout: 60_000 }, async (t) => {
  for (const transport of ["socket", "sse", "poll"] as TransportName[]) {
    const tm = open(t, { transports: [transport] });
    const channel = tm.channel<number>("closed-" + transport);
    await channel.publish(1);
    const handled: number[] = [];
    const slow = channel.subscribe("ben", async (m) => {
      await new Promise((resolve) => setTimeout(resolve, 50));
      handled.push(m.content);
    }, { from: "earliest" });
    const got: number[] = [];
    for await (const m of channel.subscribe("ann", { from: "earliest" })) {
      got.push(m.content);
      if (m.content === 1) await channel.publish(2, { close: true });
    }
    assert.deepEqual(got, [1, 2]);
    await slow.closed;
    assert.deepEqual(handled, [1, 2]);
    const { closed, subscribers } = await channel.describe();
    assert.deepEqual([closed, subscribers.map((s) => s.lag)], [true, [0, 0]]);
    for await (const m of channel.subscribe("ann")) assert.fail(`${m.clock} after the end`);
    assert.equal((await channel.close()).clock, 2);
    await assert.rejects(channel.publish(3), { slug: "channel-closed" });
  }
});

test("a producer's publishes are accepted once and in order", { timeout: 60_000 }, async (t) => {
  const channel = open(t).channel("produced");
  const by = (sequence: number) => ({ producer: { id: "p", epoch: 1, sequence } });
  const first = await channel.publish(1, by(0));
  assert.deepEqual(await channel.publish(1, by(0)), { ...first, duplicate: true });
  await assert.rejects(channel.publish(3, by(2)), { slug: "producer-gap" });
  await channel.publishBatch([{ content: 2 }, { content: 3 }], { ...by(1), order: "b" });
  await assert.rejects(channel.publish(4, { order: "a" }), { slug: "order-conflict" });
  assert.equal((await channel.close(by(2))).clock, 3);
});
