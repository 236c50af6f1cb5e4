// Credentials and limits.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Tidemark, TidemarkError, type State, type TransportName } from "@tidemark-dev/client";
import { startService, until } from "./service.js";

const secret = Buffer.alloc(32, 7);
const encode = (value: Buffer | object) =>
  (Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value))).toString("base64url");

/** token returns a JSON Web Token for a user, which ends after some seconds, and may begin after some. */
function token(user: string, seconds: number, begins = 0): string {
  const grants = [{ actions: ["publish", "subscribe", "describe"], channels: ["lobby*"] }];
  const now = Math.floor(Date.now() / 1000);
  const claims = { sub: user, exp: now + seconds, nbf: now + begins, tidemark: grants };
  const text = encode({ alg: "HS256", typ: "JWT" }) + "." + encode(claims);
  return text + "." + encode(createHmac("sha256", secret).update(text).digest());
}

const dir = await mkdtemp(join(tmpdir(), "tidemark-client-"));
after(() => rm(dir, { recursive: true }));
const keys = join(dir, "keys.json");
await writeFile(keys, JSON.stringify({ kty: "oct", alg: "HS256", k: encode(secret) }));
const service = await startService("--jwt-keys", keys, "--jwt-algorithms", "HS256", "--user-limits", "requests=50/s");

for (const transport of ["socket", "sse", "poll"] satisfies TransportName[]) {
  test(`${transport}: a new token is asked for when one has ended`, { timeout: 60_000 }, async () => {
    let asked = 0;
    const next = () => token("ann", ++asked < 3 ? 2 : 3600);
    const tm = new Tidemark(service.url, { token: next, transports: [transport] });
    const channel = tm.channel("lobby-" + transport);
    const seen: unknown[] = [];
    const subscription = channel.subscribe("ann", (m) => void seen.push(m.content), { from: "earliest" });
    for (let n = 1; asked < 3; n++) {
      await channel.publish(n);
      await until(() => seen.length === n);
    }
    await subscription.close();
    await tm.close();
    assert.deepEqual(seen, seen.map((_, i) => i + 1));
  });

  test(`${transport}: a credential that is refused ends the subscription`, { timeout: 60_000 }, async () => {
    const refused = new Tidemark(service.url, { token: "no-token", transports: [transport] });
    const loop = refused.channel("lobby").subscribe("ann")[Symbol.asyncIterator]();
    await assert.rejects(loop.next(), { slug: "credentials-invalid", status: 401 });

    // What isn't granted ends alone.
    const tm = new Tidemark(service.url, { token: () => token("bob", 3600), transports: [transport] });
    const seen: unknown[] = [];
    const granted = tm.channel("lobby-granted").subscribe("bob", (m) => void seen.push(m.content));
    const states: State[] = [];
    granted.on("state", (s) => states.push(s));
    await until(() => states.some((s) => s.state === "open"));
    const other = tm.channel("lobby-granted").subscribe("ann", { create: false })[Symbol.asyncIterator]();
    await assert.rejects(other.next(), { slug: "not-granted" });
    await tm.channel("lobby-granted").publish(1);
    await until(() => seen.length === 1);
    await tm.close();
  });
}

test("a token that begins in a moment is tried again", { timeout: 60_000 }, async () => {
  for (const transport of ["socket", "sse", "poll"] satisfies TransportName[]) {
    const now = new Tidemark(service.url, { token: token("eve", 3600) }).channel("lobby-early-" + transport);
    now.subscribe("eve", () => {}, { from: "earliest" });
    await until(async () => (await now.describe().catch(() => undefined))?.subscribers.length);
    await (now.client as Tidemark).close();
    let asked = 0;
    const early = () => (asked++, token("eve", 3600, 7)); // the service allows for clocks that differ by 5 s
    const tm = new Tidemark(service.url, { token: early, transports: [transport] });
    const channel = tm.channel(now.name);
    const seen: unknown[] = [];
    channel.subscribe("eve", (m) => void seen.push(m.content), { create: false });
    await Promise.all([1, 2, 3, 4, 5].map((n) => channel.publish(n)));
    await until(() => seen.length === 5);
    assert.equal(asked, 1, "it is kept, since another one would begin later");
    await tm.close();
  }
});

test("a function for tokens that has none or fails is called again", { timeout: 60_000 }, async () => {
  const answers = [() => "", () => Promise.reject(new Error("logged out")), () => token("gus", 3600)];
  const tm = new Tidemark(service.url, { token: () => answers.shift()!() as string });
  const errors: unknown[] = [];
  const subscription = tm.channel("lobby-none").subscribe("gus", () => {});
  subscription.on("state", (s) => s.error && errors.push(s.error.message));
  await until(() => answers.length === 0);
  assert.deepEqual(errors.slice(0, 2), [
    "the token is empty or has an invalid character", "the function for tokens has failed: Error: logged out",
  ]);
  await tm.channel("lobby-none").publish(1);
  await tm.close();
  await assert.rejects(new Tidemark(service.url, { token: "" }).channel("a").publish(1), { status: 401 });
});

test("what isn't a token is not kept", { timeout: 60_000 }, async () => {
  const answers = ["<html>\n<title>Log in</title>\n</html>", token("fay", 3600) + "\n"];
  const tm = new Tidemark(service.url, { token: () => answers.shift() ?? "" });
  const states: State[] = [];
  const subscription = tm.channel("lobby-page").subscribe("fay", () => {});
  subscription.on("state", (s) => states.push(s));
  await until(() => states.some((s) => s.state === "open"));
  assert.deepEqual(states[0]?.state, "waiting");
  assert.match(states[0]?.error?.message ?? "", /the token is empty or has an invalid character/);
  assert.equal((await tm.channel("lobby-page").publish(1)).clock, 1);
  await tm.close();
});

test("nothing is sent on a socket before the credential", { timeout: 60_000 }, async () => {
  let authenticate = () => {};
  class Slow extends WebSocket {
    override send(data: string): void {
      if ((JSON.parse(data) as { type: string }).type === "authenticate") authenticate = () => super.send(data);
      else super.send(data);
    }
  }
  const before = authenticate;
  const tm = new Tidemark(service.url, { token: token("dan", 3600), transports: ["socket"], WebSocket: Slow });
  const seen: unknown[] = [];
  const channel = tm.channel("lobby-slow");
  channel.subscribe("dan", (m) => void seen.push(m.content));
  await until(() => authenticate !== before);
  const second = tm.channel("lobby-slow-2").subscribe("dan", (m) => void seen.push(m.content));
  await new Promise((resolve) => second.on("state", resolve)); // it is on the connection
  await channel.publish(1);
  authenticate();
  await until(() => seen.length === 1);
  await tm.channel("lobby-slow-2").publish(2);
  await until(() => seen.length === 2);
  await tm.close();
});

test("a limit is reported, or waited for", { timeout: 60_000 }, async () => {
  const tm = new Tidemark(service.url, { token: token("cid", 3600) });
  const channel = tm.channel("lobby-limited");
  const all = await Promise.allSettled(Array.from({ length: 80 }, (_, i) => channel.publish(i, { retryFor: 0 })));
  const refused = all.filter((p) => p.status === "rejected").map((p) => p.reason as TidemarkError);
  assert(refused.length > 0);
  for (const error of refused) assert.deepEqual([error.slug, error.status, error.retryAfter], ["rate-limited", 429, 1]);
  await Promise.all(Array.from({ length: 80 }, (_, i) => channel.publish(i)));
  await tm.close();
});
