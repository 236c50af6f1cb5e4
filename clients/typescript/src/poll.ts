import type { components } from "./api.js";
import { problemError, TidemarkError } from "./errors.js";
import { joined, pause } from "./pace.js";
import { ackByHttp, keyOf } from "./transport.js";
import type { Link, Source, Transport } from "./transport.js";

export type Deliveries = components["schemas"]["Deliveries"];

/** How long a request waits for messages, and the shortest time between two answers without any, in milliseconds. */
const longestWait = 25_000;
const shortestWait = 250;

/**
 * Poll fetches with one request at a time. An answer has one receipt handle, for its last message: the source isn't
 * asked again before that is acknowledged.
 */
export class Poll implements Transport {
  #again = new AbortController();
  #open = new Map<string, string>(); // the receipt handles that are to be acknowledged first, by the keys of sources

  constructor(readonly link: Link) {}

  async run(signal: AbortSignal): Promise<void> {
    for (let wait = 0; ; wait = longestWait) {
      const again = (this.#again = joined(signal));
      try {
        await this.#fetch(again.signal, wait);
      } catch (error) {
        signal.throwIfAborted();
        if (!again.signal.aborted) throw error;
      } finally {
        again.abort();
      }
    }
  }

  changed(): void {
    this.#forget();
    this.#again.abort();
  }

  check(): void {
    this.changed();
  }

  async ack(source: Source, receiptHandle: string): Promise<void> {
    try {
      await ackByHttp(this.link.http, source, receiptHandle);
    } catch (error) {
      if (!(error instanceof TidemarkError) || error.temporary) throw error;
      this.#free(source, receiptHandle); // such as a receipt of a history that is lost
      throw error;
    }
    this.#free(source, receiptHandle);
  }

  #free(source: Source, receiptHandle: string): void {
    if (this.#open.get(keyOf(source)) !== receiptHandle) return;
    this.#open.delete(keyOf(source));
    this.#again.abort();
  }

  /** #forget drops the receipts of sources that are gone: they may be added again. */
  #forget(): void {
    const sources = this.link.sources();
    for (const key of this.#open.keys()) if (!sources.has(key)) this.#open.delete(key);
  }

  async #fetch(signal: AbortSignal, wait: number): Promise<void> {
    const sources = this.link.sources();
    this.#forget();
    const from = [...sources].filter(([key]) => !this.#open.has(key)).map(([, source]) => source);
    if (!from.length) return pause(longestWait, signal);
    const body = { from, wait: wait + "ms", ...(this.link.window && { max: this.link.window }) };
    const asked = Date.now();
    const { deliveries, problems } =
      await this.link.http.once<Deliveries>(["fetch"], { method: "POST", body, signal, wait });
    this.link.proved();
    for (const d of deliveries) {
      const key = keyOf(d);
      if (d.receiptHandle) this.#open.set(key, d.receiptHandle);
      if (d.lost) this.link.gap(key, { reason: "lost", count: 0 });
      const source = sources.get(key);
      if (source && d.receiptHandle) source.lastReceiptHandle = d.receiptHandle;
      if (d.expired) this.link.gap(key, { reason: "expired", count: d.expired });
      if (d.purged) this.link.gap(key, { reason: "purged", count: d.purged });
      if (d.damaged) this.link.gap(key, { reason: "damaged", count: d.damaged });
      d.messages.forEach((m, i) => {
        this.link.message(key, i === d.messages.length - 1 ? { ...m, receiptHandle: d.receiptHandle } : m);
      });
      if (d.closed) this.link.closed(key);
      if (!d.messages.length && d.receiptHandle) {
        await this.ack(d, d.receiptHandle).catch((error: unknown) => {
          if (!(error instanceof TidemarkError) || error.temporary) throw error;
          return pause(shortestWait, signal); // the next answer has a newer receipt, or says why the source has ended
        });
      }
    }
    for (const p of problems) this.link.failed(keyOf(p), problemError(p as Parameters<typeof problemError>[0]));
    if (!deliveries.length && Date.now() - asked < Math.min(wait, shortestWait)) await pause(shortestWait, signal);
  }
}
