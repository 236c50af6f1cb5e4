// Each message is seen once, whatever happens to the service, to Redis and to the connection.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Tidemark, type State, type TransportName } from "@tidemark-dev/client";
import { patience, startProxy, startService, until, type ProxyOptions } from "./service.js";

const transports: TransportName[] = ["socket", "sse", "poll"];

for (const transport of transports) {
  test(`${transport}: the service restarts, and Redis is killed, in mid-stream`, { timeout: 120_000 }, async () => {
    const service = await startService();
    const tm = new Tidemark(service.url, { transports: [transport], retryFor: Infinity });
    const channel = tm.channel("lobby");
    const seen: unknown[] = [];
    const subscription = channel.subscribe("ann", (m) => void seen.push(m.content), { signal: patience() });
    await until(async () => (await channel.describe().catch(() => undefined))?.subscribers.length);

    let published = 0;
    const publish = async (n: number) => {
      for (const end = published + n; published < end; ) await channel.publish(++published, { signal: patience() });
    };
    await publish(20);
    await until(() => seen.length > 0);
    const more = publish(60);
    await service.program.end("SIGTERM");
    await service.program.start();
    await until(() => seen.length > 20);
    await service.redis.end("SIGKILL");
    await service.redis.start();
    await more;
    await service.program.end("SIGKILL");
    await service.program.start();
    await publish(20);

    await until(() => seen.length >= published);
    assert.deepEqual(seen, Array.from({ length: published }, (_, i) => i + 1));
    await until(async () => (await channel.describe()).subscribers[0]!.lag === 0);
    await subscription.close();
    await tm.close();
  });
}

for (const transport of transports) {
  test(`${transport}: Redis loses messages while the service is down`, { timeout: 60_000 }, async () => {
    const service = await startService();
    const tm = new Tidemark(service.url, { transports: [transport], retryFor: Infinity });
    const channel = tm.channel("lobby");
    const seen: unknown[] = [];
    const subscription = channel.subscribe("ann", (m) => void seen.push(m.content), { signal: patience() });
    subscription.on("gap", ({ reason }) => seen.push(reason));
    const lag = async () => (await channel.describe().catch(() => undefined))?.subscribers[0]?.lag;
    await until(async () => (await lag()) === 0);
    for (const n of [1, 2, 3]) await channel.publish(n, { id: "m" + n });
    await until(async () => seen.length === 3 && (await lag()) === 0);

    await service.program.end("SIGTERM");
    await service.change("SET", "c.{lobby}.clock", "2", "KEEPTTL");
    await service.change("SET", "c.{lobby}.r.ann", "2", "KEEPTTL");
    await service.change("DEL", "c.{lobby}.m.3", "c.{lobby}.mid.m3");
    await service.program.start();
    await channel.publish(4);
    await until(async () => seen.includes(4) && (await lag()) === 0);
    await service.program.end("SIGTERM");
    await service.program.start();
    await channel.publish(5);
    await until(() => seen.includes(5));
    assert.deepEqual(seen, [1, 2, 3, "lost", 4, 5], "it is reported once");
    await subscription.close();
    await tm.close();
  });
}

/** transportThrough returns the transport by which a message comes through a proxy. */
async function transportThrough(url: string): Promise<TransportName | undefined> {
  const tm = new Tidemark(url);
  const subscription = tm.channel("lobby").subscribe("ann", { from: "earliest", signal: patience() });
  let transport: TransportName | undefined;
  subscription.on("state", (s) => (transport = s.transport ?? transport));
  await tm.channel("lobby").publish("hello!");
  for await (const m of subscription) {
    assert.equal(m.content, "hello!");
    break;
  }
  await tm.close();
  return transport;
}

test("a proxy that passes everything, and one that closes WebSockets", { timeout: 60_000 }, async () => {
  const service = await startService();
  assert.equal(await transportThrough((await startProxy(service.url, { upgrades: true })).url), "socket");
  assert.equal(await transportThrough((await startProxy(service.url, {})).url), "sse");
});

test("the best transport is tried again, however short the connections of another one are", { timeout: 60_000 },
  async (t) => {
    const service = await startService();
    const streams = new Set<{ destroy(): void }>();
    const options: ProxyOptions = {
      pass: (from, to) => {
        if (from.headers["content-type"] === "text/event-stream") streams.add(to);
        from.pipe(to);
      },
    };
    const tm = new Tidemark((await startProxy(service.url, options)).url, { transports: ["socket", "sse"] });
    const subscription = tm.channel("lobby").subscribe("ann", () => {});
    const states: State[] = [];
    subscription.on("state", (s) => states.push(s));
    const opened = (transport: TransportName) =>
      until(() => states.findLast((s) => s.state === "open")?.transport === transport && states.splice(0));
    await opened("sse");

    options.upgrades = true;
    streams.forEach((s) => s.destroy());
    await opened("sse"); // it isn't time yet
    t.mock.timers.enable({ apis: ["Date"], now: Date.now() + 60_000 });
    streams.forEach((s) => s.destroy());
    await opened("socket");
    await tm.close();
  });

test("a proxy that passes a stream of events only when it has ended", { timeout: 60_000 }, async () => {
  const service = await startService();
  const proxy = await startProxy(service.url, {
    pass: (from, to) => {
      const parts: Buffer[] = [];
      from.on("data", (part: Buffer) => parts.push(part));
      from.on("end", () => to.end(Buffer.concat(parts)));
    },
  });
  assert.equal(await transportThrough(proxy.url), "poll");
});

test("a proxy that passes a stream of events byte by byte", { timeout: 60_000 }, async () => {
  const service = await startService();
  const proxy = await startProxy(service.url, {
    pass: (from, to) => {
      from.on("data", (part: Buffer) => part.forEach((byte) => to.write(Buffer.of(byte))));
      from.on("end", () => to.end());
    },
  });
  const tm = new Tidemark(proxy.url, { transports: ["sse"] });
  const content = { text: "привет 👋 \u2028 \n\n data: x" };
  const subscription = tm.channel("lobby").subscribe("ann", { from: "earliest", signal: patience() });
  await tm.channel("lobby").publish(content);
  for await (const m of subscription) {
    assert.deepEqual(m.content, content);
    break;
  }
  await tm.close();
});

test("a proxy that cuts each stream after some messages", { timeout: 60_000 }, async () => {
  const service = await startService();
  const proxy = await startProxy(service.url, {
    pass: (from, to) => {
      let left = from.headers["content-type"] === "text/event-stream" ? 2000 : Infinity;
      from.on("data", (part: Buffer) => {
        to.write(part.subarray(0, left));
        if ((left -= part.length) <= 0) to.destroy();
      });
      from.on("end", () => to.end());
    },
  });
  const tm = new Tidemark(proxy.url, { transports: ["sse", "poll"] });
  await tm.channel("lobby").publishBatch(Array.from({ length: 50 }, (_, i) => ({ content: i })));
  const seen: unknown[] = [];
  const subscription = tm.channel("lobby").subscribe("ann", (m) => void seen.push(m.content), { from: "earliest" });
  await until(() => seen.length >= 50);
  assert.deepEqual(seen, Array.from({ length: 50 }, (_, i) => i));
  await subscription.close();
  await tm.close();
});
