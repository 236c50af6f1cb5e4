// Frames that can't be read: none is skipped, and what follows is not acknowledged.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Tidemark, TidemarkError, type State, type TransportName } from "@tidemark-dev/client";
import { tail } from "@tidemark-dev/client/tail";
import { patience, startService, until } from "./service.js";

type Change = (text: string) => string;

const service = await startService();

/** through returns options of a client that reads everything changed. */
function through(change: Change) {
  const changed = async (...args: Parameters<typeof fetch>): Promise<Response> => {
    const answer = await fetch(...args);
    const body = answer.body?.pipeThrough(new TextDecoderStream()).pipeThrough(new TransformStream<string, string>({
      transform: (text, to) => to.enqueue(change(text)),
    })).pipeThrough(new TextEncoderStream());
    return new Response(answer.status === 204 ? null : body, answer);
  };
  class Changed extends WebSocket {
    override set onmessage(listener: ((e: MessageEvent) => void) | null) {
      super.onmessage = listener && ((e) => listener({ data: change(e.data as string) } as MessageEvent));
    }
  }
  return { fetch: changed as typeof fetch, WebSocket: Changed };
}

const byte: Change = (text) => text.replace('"two"', '"t\u0001wo"');
const nothing: Change = (text) => text.replace(/^(data: )?\{.*"two".*$/m, "$1null");
const noMessage: Change = (text) => text.replace('"content":"two"', '"contents":"two"');

for (const transport of ["socket", "sse", "poll"] as TransportName[]) {
  for (const [name, change] of Object.entries({ byte, nothing, noMessage })) {
    test(`${transport}: ${name}`, { timeout: 120_000 }, async () => {
      let broken = true;
      const tm = new Tidemark(service.url, { transports: [transport], ...through((t) => (broken ? change(t) : t)) });
      const direct = new Tidemark(service.url).channel(`unreadable.${transport}.${name}`);
      await direct.publishBatch(["one", "two", "three"].map((content) => ({ content })));
      const seen: unknown[] = [];
      const states: State[] = [];
      const channel = tm.channel(direct.name);
      const subscription = channel.subscribe("ann", (m) => void seen.push(m.content), { from: "earliest" });
      subscription.on("state", (s) => states.push(s));

      await until(() => states.filter((s) => s.state === "waiting" && s.error?.slug === "unreadable").length >= 2);
      assert.ok(!seen.includes("two") && !seen.includes("three"), String(seen));
      assert.ok((await direct.describe()).subscribers[0]!.mark <= 1);
      broken = false;
      await until(async () => (await direct.describe()).subscribers[0]!.lag === 0);
      assert.deepEqual(seen, ["one", "two", "three"]);
      await subscription.close();
      await tm.close();
    });
  }
}

test("tail", { timeout: 120_000 }, async () => {
  const direct = new Tidemark(service.url).channel("unreadable.tail");
  await direct.publishBatch(["one", "two", "three"].map((content) => ({ content })));
  let failures = 0;
  const tm = new Tidemark(service.url, through((t) => (failures < 2 ? byte(t) : t)));
  const onState = (error: TidemarkError | undefined) => void (error?.slug === "unreadable" && failures++);
  const seen: unknown[] = [];
  for await (const m of tail(tm, direct.name, { from: "earliest", onState, signal: patience() })) {
    seen.push(m.content);
    if (m.content === "three") break;
  }
  assert.deepEqual(seen, ["one", "two", "three"]);
  assert.equal(failures, 2);
});

test("a page of a proxy", { timeout: 120_000 }, async () => {
  const page = () => Promise.resolve(new Response("<html>", { headers: { "Content-Type": "text/html" } }));
  for (const transport of ["sse", "poll"] as TransportName[]) {
    const direct = new Tidemark(service.url);
    const name = "page-" + transport;
    direct.channel(name).subscribe("ann", () => {});
    await until(async () => (await direct.channel(name).describe().catch(() => undefined))?.subscribers.length);
    await direct.close();
    const tm = new Tidemark(service.url, { transports: [transport], fetch: page as typeof fetch });
    await assert.rejects(tm.channel("page").publish(1, { retryFor: 0 }), { slug: "unreadable", message: /text\/html/ });
    const states: State[] = [];
    tm.channel(name).subscribe("ann", () => {}, { create: false }).on("state", (s) => states.push(s));
    await until(() => states.some((s) => s.state === "waiting" && s.error?.slug === "unreadable"));
    await tm.close();
  }
});

test("what a call failed by is told", { timeout: 60_000 }, async () => {
  const broken = () => Promise.resolve(new Response(new ReadableStream({ start: (c) => c.error(new Error("cut")) })));
  const tm = new Tidemark(service.url, { fetch: broken as typeof fetch });
  const error = { slug: "unreachable", message: "the answer broke off" };
  await assert.rejects(tm.channel("a").publish(1, { retryFor: 0 }), error);
});

/** streamOf returns options of a client whose streams have events, in chunks, and the receipts that it acknowledges. */
function streamOf(...streams: string[][]) {
  const acked: string[] = [];
  const answer = async (url: string | URL, init?: RequestInit): Promise<Response> => {
    const path = new URL(url).pathname;
    if (path.endsWith("/ack")) {
      acked.push((JSON.parse(init!.body as string) as { receiptHandle: string }).receiptHandle);
      return new Response(null, { status: 204 });
    }
    if (path.endsWith("/fetch")) return Response.json({ deliveries: [], problems: [] });
    const chunks = streams.shift() ?? [];
    const body = new ReadableStream<Uint8Array>({
      async start(to) {
        for (const chunk of chunks) {
          to.enqueue(new TextEncoder().encode(chunk));
          await new Promise((resolve) => setTimeout(resolve, 1));
        }
        if (streams.length) to.close();
        init?.signal?.addEventListener("abort", () => to.error(init.signal!.reason));
      },
    });
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
  };
  return { acked, options: { transports: ["sse"], fetch: answer as typeof fetch } as const };
}

const source = { channel: "c", subscriber: "ann" };
const eventOf = (event: string, value: object) =>
  `event: ${event}\ndata: ${JSON.stringify({ ...source, ...value })}\n\n`;
const messageOf = (id: string, clock: number, content: unknown = id) =>
  eventOf("message", { id, clock, content, receiptHandle: `r-${id}-${clock}` });

test("a line separator in a content isn't the end of a line", { timeout: 60_000 }, async () => {
  const events = messageOf("a", 1) + messageOf("b", 2, "x\u2028: y") + ": ping\n" + messageOf("c", 3);
  const { options } = streamOf([...(": ping\nretry: 1\n" + events)]); // a character at a time
  const tm = new Tidemark("http://127.0.0.1:1", options);
  const seen: unknown[] = [];
  tm.channel("c").subscribe("ann", (m) => void seen.push(m.content), { create: false });
  await until(() => seen.at(-1) === "c");
  assert.deepEqual(seen, ["a", "x\u2028: y", "c"]);
  await tm.close();
});

/** againAfterLoss is a stream in which a message comes again after a loss, behind another one. */
const againAfterLoss = [
  messageOf("a", 1), eventOf("gap", { reason: "lost", count: 0 }) + messageOf("x", 1) + messageOf("a", 2),
];

test("a message that comes again after a loss acknowledges none before it", { timeout: 60_000 }, async () => {
  const { options, acked } = streamOf(againAfterLoss);
  const tm = new Tidemark("http://127.0.0.1:1", options);
  const seen: string[] = [];
  let release = () => {};
  tm.channel("c").subscribe("ann", async (m) => {
    seen.push(m.id);
    if (m.id === "x") await new Promise<void>((resolve) => (release = resolve));
  }, { create: false });
  await until(() => seen.includes("x"));
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.deepEqual(acked, ["r-a-1"]);
  release();
  await until(() => acked.length === 2);
  assert.deepEqual(acked, ["r-a-1", "r-a-2"], "which stands for x, too");
  await tm.close();
});

test("a message that comes again while it is handled acknowledges none before it", { timeout: 60_000 }, async () => {
  const { options, acked } = streamOf(againAfterLoss);
  const tm = new Tidemark("http://127.0.0.1:1", options);
  const seen: string[] = [];
  const release: (() => void)[] = [];
  tm.channel("c").subscribe("ann", async (m) => {
    seen.push(m.id);
    await new Promise<void>((resolve) => release.push(resolve));
  }, { create: false });
  await until(() => release.length === 1);
  await new Promise((resolve) => setTimeout(resolve, 100)); // all has arrived
  release[0]!();
  await until(() => release.length === 2);
  assert.deepEqual([seen, acked], [["a", "x"], []]);
  release[1]!();
  await until(() => acked.length > 0);
  assert.deepEqual(acked, ["r-a-2"], "which stands for x, too");
  await tm.close();
});

test("by long poll, what comes again after a loss doesn't end the polls", { timeout: 60_000 }, async () => {
  const acked: string[] = [];
  const message = (id: string, clock: number) => ({ id, clock, content: id });
  const deliveries = [
    { messages: [message("a", 1)], receiptHandle: "r1" },
    { lost: true, messages: [message("x", 1), message("a", 2)], receiptHandle: "r2" },
    { messages: [message("y", 3)], receiptHandle: "r3" },
  ];
  const answer = async (url: string | URL, init?: RequestInit): Promise<Response> => {
    const body = JSON.parse(init!.body as string) as { receiptHandle: string };
    if (new URL(url).pathname.endsWith("/ack")) {
      acked.push(body.receiptHandle);
      return new Response(null, { status: 204 });
    }
    const next = deliveries.shift();
    return Response.json({ deliveries: next ? [{ ...source, ...next, expired: 0 }] : [], problems: [] });
  };
  const tm = new Tidemark("http://127.0.0.1:1", { transports: ["poll"], fetch: answer as typeof fetch });
  const seen: unknown[] = [];
  tm.channel("c").subscribe("ann", (m) => void seen.push(m.content), { create: false });
  await until(() => acked.length === 3);
  assert.deepEqual([seen, acked], [["a", "x", "y"], ["r1", "r2", "r3"]]);
  await tm.close();
});

test("a function that returns nothing means no token", async () => {
  const tm = new Tidemark(service.url, { token: () => null });
  assert.equal((await tm.channel("no-token").publish(1)).clock, 1);
  await tm.close();
});

test("a mark that is set while messages wait ends no handler", { timeout: 60_000 }, async () => {
  const { options } = streamOf([
    messageOf("a", 1) + messageOf("b", 2) + eventOf("gap", { reason: "moved", count: 0 }) + messageOf("a", 1),
  ]);
  const tm = new Tidemark("http://127.0.0.1:1", options);
  const seen: string[] = [];
  const subscription = tm.channel("c").subscribe("ann", async (m) => void seen.push(m.id), { create: false });
  subscription.on("error", (error) => seen.push(String(error)));
  await until(() => seen.length >= 2);
  assert.equal(seen.at(-1), "a");
  await tm.close();
});

test("an equal gap is reported again once it is acknowledged", { timeout: 60_000 }, async () => {
  const gap = (receiptHandle: string) => eventOf("gap", { reason: "expired", count: 1, receiptHandle });
  const { options, acked } = streamOf([gap("g1")], [gap("g2")], []);
  const tm = new Tidemark("http://127.0.0.1:1", options);
  const gaps: unknown[] = [];
  tm.channel("c").subscribe("ann", () => {}, { create: false }).on("gap", (g) => gaps.push(g.count));
  await until(() => acked.length === 2);
  assert.deepEqual([gaps, acked], [[1, 1], ["g1", "g2"]]);
  await tm.close();
});

test("a subscription that can't begin says why", { timeout: 60_000 }, async () => {
  const tm = new Tidemark("http://127.0.0.1:1");
  const states: State[] = [];
  tm.channel("lobby").subscribe("ann", () => {}).on("state", (s) => states.push(s));
  await until(() => states.length > 1);
  assert.deepEqual(states.map((s) => [s.state, s.error?.slug]).slice(0, 1), [["waiting", "unreachable"]]);
  await tm.close();
});

test("without a page a client needs a URL, when it is used", async () => {
  const tm = new Tidemark(); // as when a server makes a page
  await assert.rejects(tm.channel("lobby").publish(1), { slug: "invalid-url" });
  await assert.rejects(tm.channel("lobby").subscribe("ann", () => {}).closed, { slug: "invalid-url" });
  await tm.close();
});

test("names that a URL can't have", async () => {
  const tm = new Tidemark(service.url);
  const refused = (slug: string) => (e: unknown) =>
    e instanceof TidemarkError && e.status === 400 && e.slug === slug && !e.temporary;
  for (const name of ["", ".", "..", "\ud800"]) {
    await assert.rejects(tm.channel(name).publish(1), refused("invalid-channel-name"));
    await assert.rejects(tm.channel("c").unsubscribe(name), refused("invalid-subscriber-name"));
    await assert.rejects(tm.channel(name).subscribe("ann", () => {}).closed, refused("invalid-channel-name"));
    await assert.rejects(tm.tickets.open(name).get(), refused("invalid-ticket"));
  }
  await assert.rejects(tm.channel("a/../b").publish(1), refused("invalid-channel-name"));
  await tm.close();
});
