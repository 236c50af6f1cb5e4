import assert from "node:assert/strict";
import { test } from "node:test";
import { Tidemark } from "@tidemark-dev/client";
import { Records } from "@tidemark-dev/client/records";
import { startProxy, startService, until } from "./service.js";

const service = await startService();
const records = new Records(new Tidemark(service.url));

test("sessions", { timeout: 60_000 }, async () => {
  const created = await fetch(service.url + "/v1/users/ann/sessions", { method: "POST", body: '{"username":"Ann"}' });
  const { token } = await created.json() as { token: string };
  const session = await records.checkSession(token);
  assert.deepEqual([session.userId, session.username], ["ann", "Ann"]);
  const rotated = await records.rotateSession(token);
  await assert.rejects(records.checkSession(token), { slug: "session-not-found" });
  assert.equal((await records.checkSession(rotated.token)).userId, "ann");
  assert.deepEqual((await records.following("ann")).channels, ["notifications:ann", "notifications:global"]);
});

test("locks", { timeout: 60_000 }, async () => {
  const lock = await records.acquireLock("edit", "1");
  await assert.rejects(records.acquireLock("edit", "1"), { slug: "lock-held" });
  assert.equal((await records.renewLock("edit", "1", lock.token)).fence, lock.fence);
  const next = records.withLock("edit", "1", async (signal, fence) => {
    assert(!signal.aborted && fence > lock.fence);
    return (await records.lockState("edit", "1")).held;
  }, { wait: 30_000 });
  await records.releaseLock("edit", "1", lock.token);
  assert.equal(await next, true);
  assert.equal((await records.lockState("edit", "1")).held, false);
});

test("a lock whose first renewal fails is released", { timeout: 60_000 }, async () => {
  let granted = false;
  const proxy = await startProxy(service.url, {
    answer: (_, body, answer) => {
      const renewal = granted && body.includes("ttl");
      granted = true;
      if (renewal) answer.writeHead(400).end();
      return renewal;
    },
  });
  const behind = new Records(new Tidemark(proxy.url));
  await assert.rejects(behind.withLock("edit", "3", () => assert.fail(), { wait: 1000 }), { status: 400 });
  await until(async () => !(await records.lockState("edit", "3")).held);
});

test("a lock that isn't renewed is released, and its loss is told", { timeout: 60_000 }, async () => {
  const proxy = await startProxy(service.url, {
    answer: (_, body, answer) => {
      const renewal = body.includes("ttl") && body.includes('"token"');
      if (renewal) answer.writeHead(400).end();
      return renewal;
    },
  });
  const behind = new Records(new Tidemark(proxy.url));
  const why = await behind.withLock("edit", "4", async (signal) => {
    await until(() => signal.aborted);
    return signal.reason as { status: number };
  }, { ttl: 9000 });
  assert.equal(why.status, 400);
  assert.equal((await records.lockState("edit", "4")).held, false);
});

test("a lock is renewed while it is used, and its loss is told", { timeout: 60_000 }, async () => {
  const why = await records.withLock("edit", "2", async (signal) => {
    const first = (await records.lockState("edit", "2")).expiresAt!;
    await until(async () => (await records.lockState("edit", "2")).expiresAt! > first);
    await service.redis.end("SIGKILL");
    await until(() => signal.aborted);
    await service.redis.start();
    return signal.reason as unknown;
  }, { ttl: 2000 });
  assert.equal((why as { slug: string }).slug, "lock-lost");
});

test("views and settings", { timeout: 60_000 }, async () => {
  await records.countViews({ "7": 2 });
  await until(async () => (await records.views(["7"]))[0]?.total === 2);
  await records.putSetting("LOG_LEVEL", "debug");
  await records.putSetting("JWT_SECRET", "s3cr3t");
  assert.equal((await records.setting("LOG_LEVEL")).value, "debug");
  const all = await records.settings();
  assert.deepEqual(all.map((s) => [s.name, s.secret]), [["JWT_SECRET", true], ["LOG_LEVEL", false]]);
  await records.deleteSetting("LOG_LEVEL");
  await assert.rejects(records.setting("LOG_LEVEL"), { slug: "setting-not-found" });
});
