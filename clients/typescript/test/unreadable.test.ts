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
