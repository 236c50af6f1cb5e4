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

/** Watchdog aborts its signal when nothing was heard for a time. */
export class Watchdog {
  readonly #silence = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;

  readonly signal = this.#silence.signal;

  constructor(readonly reason: () => Error) {}

  /** expect (re)starts the clock. */
  expect(ms: number): void {
    this.stop();
    this.#timer = setTimeout(() => this.#silence.abort(this.reason()), ms);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
