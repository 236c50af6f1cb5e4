import { TidemarkError } from "./errors.js";

/**
 * backoff returns the pause before the next try, in milliseconds: at random up to a bound that doubles with each
 * failure (full jitter), and at least what the service asks for.
 */
export function backoff(failures: number, error?: unknown, first = 500, longest = 30_000): number {
  const asked = error instanceof TidemarkError ? (error.retryAfter ?? 0) * 1000 : 0;
  return asked + Math.random() * Math.min(longest, first * 2 ** failures);
}

/** Events of the window after which trying again may help: the network is back, or the page, which the browser kept. */
const back = ["online", "pageshow"];

/** pause waits for a time. It rejects when the signal is aborted. With `early` the events of `back` end it. */
export function pause(ms: number, signal?: AbortSignal, early = false): Promise<void> {
  return new Promise((resolve, reject) => {
    const events = early ? back : [];
    const end = () => {
      clearTimeout(timer);
      for (const e of events) globalThis.removeEventListener?.(e, end);
      signal?.removeEventListener("abort", end);
      if (signal?.aborted) reject(signal.reason);
      else resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end);
    for (const e of events) globalThis.addEventListener?.(e, end);
    if (signal?.aborted) end();
  });
}

/** within waits for a promise until the signal is aborted. */
export async function within<T>(promise: Promise<T>, signal?: AbortSignal): Promise<T> {
  const done = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason), { signal: done.signal });
    if (signal?.aborted) reject(signal.reason);
  });
  return Promise.race([aborted, promise]).finally(() => done.abort());
}

/** The controllers that are aborted with a signal. It has one listener for all, because Node warns above ten. */
const followers = new WeakMap<AbortSignal, Set<AbortController>>();

/**
 * joined returns a controller that is aborted when a signal is. Abort it to remove it from the signal, which may live
 * longer. Browsers before 2024 have no AbortSignal.any.
 */
export function joined(signal: AbortSignal | undefined): AbortController {
  const follower = new AbortController();
  if (signal?.aborted) follower.abort(signal.reason);
  if (!signal || signal.aborted) return follower;
  let all = followers.get(signal);
  if (!all) {
    followers.set(signal, (all = new Set()));
    signal.addEventListener("abort", () => all!.forEach((f) => f.abort(signal.reason)), { once: true });
  }
  all.add(follower);
  follower.signal.addEventListener("abort", () => all.delete(follower), { once: true });
  return follower;
}

/** limited calls a function with a signal that is aborted with another one, or after a time in milliseconds. */
export async function limited<T>(
  signal: AbortSignal | undefined,
  ms: number,
  f: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = joined(signal);
  const timer = setTimeout(() => limit.abort(), ms);
  try {
    return await f(limit.signal);
  } finally {
    clearTimeout(timer);
    limit.abort();
  }
}

/** Watchdog aborts its signal when nothing was heard for a time, or another signal is aborted. */
export class Watchdog {
  readonly #ended: AbortController;
  #timer: ReturnType<typeof setTimeout> | undefined;

  readonly signal: AbortSignal;

  constructor(
    readonly reason: () => Error,
    signal: AbortSignal,
  ) {
    this.#ended = joined(signal);
    this.signal = this.#ended.signal;
  }

  /** expect (re)starts the clock. */
  expect(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ended.abort(this.reason()), ms);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#ended.abort();
  }
}
