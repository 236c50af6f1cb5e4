/** @module The records of a site, as far as a page uses them. */
import type { components } from "./api.js";
import { newId, type CallOptions } from "./channel.js";
import { TidemarkError } from "./errors.js";
import { joined, limited, pause } from "./pace.js";
import type { Tidemark } from "./tidemark.js";

type Schemas = components["schemas"];

export type Session = Schemas["Session"];
export type IssuedSession = Schemas["IssuedSession"];
export type Lock = Schemas["Lock"];
export type LockState = Schemas["LockState"];
export type Views = Schemas["Views"];
export type Setting = Schemas["Setting"];
export type Following = Schemas["Following"];

export interface LockOptions extends CallOptions {
  /** How long the lock lasts after its last renewal, in milliseconds: 1 s to 1 h. Default: 30 s. */
  ttl?: number;
  /** How long to wait if another holds it, in milliseconds. Default: not at all. */
  wait?: number;
}

const defaultLockTtl = 30_000;
const longestWait = 20_000; // of one request

/** Records calls the service for records. The names are those of the Go client. */
export class Records {
  constructor(readonly client: Tidemark) {}

  /** Returns the session of a token, and renews it. For back ends. */
  checkSession(token: string, options: CallOptions = {}): Promise<Session> {
    return this.#call(["sessions", "check"], { ...options, method: "POST", body: { token } });
  }

  /** Replaces the token of a session: the old one isn't valid any more. For back ends. */
  rotateSession(token: string, options: CallOptions = {}): Promise<IssuedSession> {
    const body = { token, idempotencyKey: newId() };
    return this.#call(["sessions", "rotate"], { ...options, method: "POST", body });
  }

  /** Returns the channels of notifications that a user follows. */
  following(user: string, options: CallOptions = {}): Promise<Following> {
    return this.#call(["users", user, "channels"], options);
  }

  /** Acquires a lock of an operation on an entity. It fails with "lock-held" if another has it. */
  async acquireLock(op: string, id: string, options: LockOptions = {}): Promise<Lock> {
    const { ttl = defaultLockTtl, wait = 0, ...call } = options;
    const newToken = "tml_" + newId();
    const end = Date.now() + wait;
    for (;;) {
      const left = Math.min(longestWait, Math.max(0, end - Date.now()));
      try {
        const body = { ttl: ttl + "ms", wait: left + "ms", newToken };
        return await this.#call(["locks", op, id], { ...call, method: "PUT", body, wait: left });
      } catch (error) {
        if (call.signal?.aborted) { // it may be granted
          this.releaseLock(op, id, newToken, { retryFor: 0 }).catch(() => {});
        }
        const held = error instanceof TidemarkError && error.slug === "lock-held";
        if (!held || Date.now() >= end) throw error;
        await pause(Math.min(1000, end - Date.now()), call.signal); // the server ends waits early when it shuts down
      }
    }
  }

  /** Makes a lock last for a time from now on. It fails with "lock-lost" if the token doesn't hold it. */
  renewLock(op: string, id: string, token: string, options: Omit<LockOptions, "wait"> = {}): Promise<Lock> {
    const { ttl = defaultLockTtl, ...call } = options;
    return this.#call(["locks", op, id], { ...call, method: "PUT", body: { token, ttl: ttl + "ms" } });
  }

  async releaseLock(op: string, id: string, token: string, options: CallOptions = {}): Promise<void> {
    await this.#call(["locks", op, id], { ...options, method: "DELETE", body: { token } });
  }

  lockState(op: string, id: string, options: CallOptions = {}): Promise<LockState> {
    return this.#call(["locks", op, id], options);
  }

  /**
   * Calls `use` while a lock is held, renews it until that has returned, and releases it. The signal that `use` gets is
   * aborted before another can hold the lock.
   */
  async withLock<T>(
    op: string,
    id: string,
    use: (signal: AbortSignal, fence: number) => Promise<T>,
    options: LockOptions = {},
  ): Promise<T> {
    const ttl = options.ttl ?? defaultLockTtl;
    const done = new AbortController();
    let held = performance.now(); // when the request began that granted or renewed the lock last
    const lock = await this.acquireLock(op, id, { ...options, ttl });
    if (options.wait) { // it was granted at some time since
      held = performance.now();
      try {
        await this.renewLock(op, id, lock.token, { ttl, ...(options.signal && { signal: options.signal }) });
      } catch (error) {
        this.releaseLock(op, id, lock.token, { retryFor: 5_000 }).catch(() => {});
        throw error;
      }
    }
    const ended = joined(options.signal); // or the lock is lost
    let retryFor = 5_000; // of the release
    const renewing = (async () => {
      for (;;) {
        const end = held + (ttl * 9) / 10;
        await pause(Math.max(0, Math.min(ttl / 3, end - performance.now())), done.signal);
        if (performance.now() >= end) throw new TidemarkError(409, "lock-lost", "the lock was not renewed");
        const begun = performance.now();
        try {
          await limited(done.signal, end - begun, (signal) => this.renewLock(op, id, lock.token, { ttl, signal }));
          held = begun;
        } catch (error) {
          if (error instanceof TidemarkError && !error.temporary) throw error;
        }
      }
    })().catch((error: unknown) => {
      if (done.signal.aborted) return;
      retryFor = 0; // the lock may only be lost to this client
      ended.abort(error);
    });
    try {
      return await use(ended.signal, lock.fence);
    } finally {
      done.abort();
      await renewing;
      ended.abort();
      await this.releaseLock(op, id, lock.token, { retryFor }).catch(() => {});
    }
  }

  /** Counts views of up to 256 IDs. A call that is tried again may count twice. */
  async countViews(views: Record<string, number>, options: CallOptions = {}): Promise<void> {
    await this.#call(["views"], { ...options, method: "POST", body: { views } });
  }

  /** Returns the views of IDs and of the slugs that are known, 256 together at most. */
  async views(ids: readonly string[], slugs: readonly string[] = [], options: CallOptions = {}): Promise<Views[]> {
    const query = [...ids.map((id) => ["id", id] as const), ...slugs.map((slug) => ["slug", slug] as const)];
    return (await this.#call<Schemas["ViewsList"]>(["views"], { ...options, query })).views;
  }

  /** Returns a setting, with its value if that isn't secret. */
  setting(name: string, options: CallOptions = {}): Promise<Setting> {
    return this.#call(["settings", name], options);
  }

  /** Returns the settings of a category, or all, by name. */
  async settings(category?: string, options: CallOptions = {}): Promise<Setting[]> {
    const all: Setting[] = [];
    for (let cursor: string | undefined; ; ) {
      const query: [string, string][] = [];
      if (category !== undefined) query.push(["category", category]);
      if (cursor) query.push(["cursor", cursor]);
      const page = await this.#call<Schemas["Settings"]>(["settings"], { ...options, query });
      all.push(...page.settings);
      if (!(cursor = page.cursor)) return all;
    }
  }

  /**
   * Writes a setting. Without `secret` an existing one keeps its secrecy, and that of a new one follows from its
   * name.
   */
  putSetting(name: string, value: string, options: CallOptions & { secret?: boolean } = {}): Promise<Setting> {
    const { secret, ...call } = options;
    return this.#call(["settings", name], { ...call, method: "PUT", body: { value, secret } });
  }

  async deleteSetting(name: string, options: CallOptions = {}): Promise<void> {
    await this.#call(["settings", name], { ...options, method: "DELETE" });
  }

  #call<T>(...args: Parameters<Tidemark["http"]["call"]>): Promise<T> {
    return this.client.http.call<T>(...args);
  }
}
