import { TidemarkError } from "./errors.js";
import { backoff, joined, pause } from "./pace.js";
import { end } from "./transport.js";
import type { ArrivedGap, Arrival, Source, TransportName } from "./transport.js";

/** The state of the connection to the service. */
export interface State {
  /** `waiting`: for the next try, after `error`. `closed`: the subscription has ended. */
  readonly state: "connecting" | "open" | "waiting" | "closed";
  readonly transport?: TransportName | undefined;
  readonly error?: TidemarkError | undefined;
}

/** Sink receives what arrives for a source. It is called again for messages that it knows after a reconnect. */
export interface Sink {
  readonly source: Source;

  /** Whether it has received messages of this source by another connection, and may have missed some since. */
  readonly rejoins?: boolean;
  message(m: Arrival): void;
  /** It is also called with `end`, when the channel is closed. */
  gap(g: ArrivedGap): void;
  state(s: State): void;

  /** The source has ended, and the sink was removed. */
  failed(error: TidemarkError): void;
}

/** Hub delivers to sinks. */
export interface Hub {
  add(sink: Sink): void;
  remove(sink: Sink): void;

  /**
   * ack resolves when the service has acknowledged everything up to a message or a gap. It rejects if the service
   * refuses to, or the source ends.
   */
  ack(source: Source, m: Arrival | ArrivedGap): Promise<void>;
}

interface Waiter {
  m: Arrival;
  resolve(): void;
  reject(error: unknown): void;
}

/** How many messages that aren't acknowledged are kept: the largest window. */
const maxOpen = 1000;

/** How many acknowledged messages are kept for sinks that rejoin. */
const remembered = 256;

/** An ID may be used again when its message has expired, and a clock in another life of the channel. */
export const placeOf = (m: Arrival): string => [m.clock, m.publishedAt, m.id].join();

/** trim removes the oldest entries. */
export function trim(all: Map<string, unknown>, size: number): void {
  for (const key of all.keys()) {
    if (all.size <= size) break;
    all.delete(key);
  }
}

/** Route is a source with the sinks that share it: they have one mark, which the first acknowledgement of any moves. */
export class Route {
  readonly sinks = new Set<Sink>();

  /** Whether the source is left out for now, after a temporary problem. */
  held = false;

  /** Whether the channel is closed, and everything has arrived. */
  closed = false;

  /** How often the source has failed since its last message. */
  failures = 0;

  readonly #open = new Map<string, Arrival>(); // delivered and not acknowledged, in order, by place
  readonly #done = new Map<string, Arrival>(); // acknowledged last, in order, by place
  #waiters: Waiter[] = [];
  #sending = false;
  #gaps = new Set<string>();
  readonly #ended: AbortController;

  constructor(
    readonly source: Source,
    readonly send: (source: Source, receiptHandle: string) => Promise<void>,
    signal: AbortSignal,
  ) {
    this.#ended = joined(signal);
  }

  /** Aborted when the route has ended. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** end rejects the acknowledgements that aren't answered. */
  end(error: TidemarkError): void {
    this.#ended.abort(error);
  }

  /**
   * add adds a sink, which receives everything that isn't acknowledged, and what was acknowledged last if it rejoins.
   */
  add(sink: Sink): void {
    this.sinks.add(sink);
    if (sink.rejoins) for (const m of this.#done.values()) sink.message(m);
    for (const m of this.#open.values()) sink.message(m);
    if (this.closed) sink.gap(end);
  }

  message(m: Arrival): void {
    this.failures = 0;
    const place = placeOf(m);
    this.#done.delete(place);
    this.#open.delete(place); // it becomes the last one again
    this.#open.set(place, m);
    trim(this.#open, maxOpen);
    for (const sink of this.sinks) sink.message(m);
  }

  /** gap reports a gap, unless it is one of the last ones again, after a reconnect. */
  gap({ reason, count, receiptHandle }: ArrivedGap): void {
    if (reason === "moved") { // what comes again is new
      this.#open.clear();
      this.#done.clear();
      this.#gaps.clear();
    }
    const same = `${reason} ${count}`;
    if (this.#gaps.has(same)) return;
    this.#gaps.add(same);
    for (const sink of this.sinks) sink.gap({ reason, count, receiptHandle });
  }

  /**
   * ack joins the acknowledgements of all sinks: one is under way at a time, and the next one is for the latest
   * message. That of a gap is tried once: without it the gap is only reported again.
   */
  async ack(m: Arrival | ArrivedGap): Promise<void> {
    if (!("clock" in m)) {
      await this.send(this.source, m.receiptHandle!);
      this.#gaps.clear(); // an equal one is another
      return;
    }
    if (this.#done.has(placeOf(m)) || !m.receiptHandle) return;
    await new Promise<void>((resolve, reject) => {
      this.#waiters.push({ m, resolve, reject });
      if (!this.#sending) void this.#sendAll();
    });
  }

  async #sendAll(): Promise<void> {
    this.#sending = true;
    for (let failures = 0; this.#waiters.length; ) {
      const waiters = this.#waiters;
      const latest = waiters.reduce((a, b) => (this.#place(a.m) > this.#place(b.m) ? a : b)).m;
      this.#waiters = [];
      try {
        await this.send(this.source, latest.receiptHandle!);
        failures = 0;
        this.#acknowledged(latest);
        for (const w of waiters) w.resolve();
      } catch (error) {
        if (error instanceof TidemarkError && !error.temporary) {
          for (const w of waiters) w.reject(error);
          continue;
        }
        this.#waiters.unshift(...waiters);
        try {
          await pause(backoff(failures++, error, 200, 5_000), this.signal, true);
        } catch (aborted) {
          for (const w of this.#waiters.splice(0)) w.reject(aborted);
        }
      }
    }
    this.#sending = false;
  }

  /** #place returns the place of a message in the order of arrival, or -1 if it isn't open. */
  #place(m: Arrival): number {
    return [...this.#open.keys()].indexOf(placeOf(m));
  }

  #acknowledged(last: Arrival): void {
    this.#gaps.clear();
    const end = placeOf(last);
    for (const m of this.#open.has(end) ? this.#open.values() : [last]) {
      const place = placeOf(m);
      this.#open.delete(place);
      this.#done.set(place, m);
      if (place === end) break;
    }
    trim(this.#done, remembered);
  }
}
