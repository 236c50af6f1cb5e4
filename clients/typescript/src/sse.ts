import { otherType, parse, problemError, TidemarkError, unreachable, type Problem } from "./errors.js";
import { joined, pause, Watchdog, within } from "./pace.js";
import type { Deliveries } from "./poll.js";
import { ackByHttp, firstByteTimeout, keyOf, keyOfArrived, silenceTimeout } from "./transport.js";
import type { Arrival, Gap, Link, Source, Transport } from "./transport.js";

interface ServerEvent {
  id: string;
  event: string;
  data: string;
}

/** How long changes of the sources are collected before a stream with them is opened, in milliseconds. */
const collectTime = 30;

/** The longest event that is read, in characters. */
const maxEvent = 64 << 20;

/**
 * events yields each server-sent event of an answer. It yields an empty one when bytes arrive that complete no event,
 * such as a comment, so that callers see activity.
 */
export async function* events(answer: Response): AsyncGenerator<ServerEvent> {
  const { body } = answer;
  if (!body || !answer.headers.get("Content-Type")?.startsWith("text/event-stream")) {
    throw otherType(answer, "a stream of events");
  }
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let rest = "";
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const blocks = (rest + part.value).split("\n\n");
      rest = blocks.pop()!.replace(/^(?:(?::|retry:)[^\n]*\n)+/, ""); // they come between events
      if (rest.length > maxEvent) throw unreachable("an event is too long");
      if (!blocks.length) yield { id: "", event: "", data: "" };
      for (const block of blocks) {
        const parsed = { id: "", event: "", data: "" };
        for (const line of block.split("\n")) {
          const [, field, value] = /^(\w+): ?(.*)$/s.exec(line) ?? [];
          if (field === "id" || field === "event" || field === "data") parsed[field] = value!;
        }
        yield parsed;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Sse reads a stream of server-sent events with fetch, which can send a header and show why it was refused. */
export class Sse implements Transport {
  #reopen = new AbortController();
  #collecting: ReturnType<typeof setTimeout> | undefined;
  readonly #carried = new Map<string, Source>(); // by the open stream

  constructor(readonly link: Link) {}

  async run(signal: AbortSignal): Promise<void> {
    await pause(collectTime, signal);
    await this.#compare(signal);
    for (;;) {
      const reopen = (this.#reopen = joined(signal));
      try {
        return await this.#stream(reopen.signal);
      } catch (error) {
        if (!reopen.signal.aborted || signal.aborted) throw error;
      } finally {
        reopen.abort();
      }
    }
  }

  /**
   * changed makes the open stream ignore sources that were removed. If one was added again, the next stream delivers
   * from its mark.
   */
  changed(): void {
    const sources = this.link.sources();
    for (const [key, source] of this.#carried) if (sources.get(key) !== source) this.#carried.delete(key);
    clearTimeout(this.#collecting);
    this.#collecting = setTimeout(() => this.check(), collectTime);
  }

  check(): void {
    this.#reopen.abort();
  }

  ack(source: Source, receiptHandle: string): Promise<void> {
    return ackByHttp(this.link.http, source, receiptHandle);
  }

  /** #compare reports the sources whose history was lost since the last connection. */
  async #compare(signal: AbortSignal): Promise<void> {
    const from = [...this.link.sources().values()].filter((s) => s.lastReceiptHandle);
    if (!from.length) return;
    const body = { from, max: 1 };
    const { deliveries } = await this.link.http.once<Deliveries>(["fetch"], { method: "POST", body, signal });
    for (const d of deliveries) if (d.lost) this.link.gap(keyOf(d), { reason: "lost", count: 0 });
  }

  async #stream(stop: AbortSignal): Promise<void> {
    clearTimeout(this.#collecting);
    this.#carried.clear();
    for (const [key, source] of this.link.sources()) this.#carried.set(key, source);
    const sources = [...this.#carried.values()];
    if (!sources.length) return within(new Promise<never>(() => {}), stop);
    const query: [string, string][] = sources.map((s) => ["sub", keyOf(s)]);
    if (this.link.window) query.push(["window", String(this.link.window)]);
    const silent = new Watchdog(() => unreachable("the stream is silent"), stop);
    const { signal } = silent;
    try {
      silent.expect(firstByteTimeout);
      const answer = await this.link.http.open(["stream"], { query, signal });
      for await (const e of events(answer)) {
        signal.throwIfAborted();
        silent.expect(silenceTimeout);
        this.link.proved();
        if (e.event === "end") return this.#end(parse<{ reason: string }>(e.data).reason);
        if (e.data) this.#dispatch(e);
      }
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      const refused = error instanceof TidemarkError && this.#refuse(error, sources);
      if (refused) return this.#stream(stop); // without that source
      throw error instanceof TidemarkError ? error : unreachable("the stream broke off", error);
    } finally {
      silent.end();
    }
  }

  /** #end ends the sources if all are closed. */
  #end(reason: string): void {
    if (reason === "closed") for (const key of [...this.#carried.keys()]) this.link.closed(key);
  }

  #dispatch({ event, data }: ServerEvent): void {
    const value = parse<Source & (Arrival | Gap | Problem)>(data);
    const key = event === "message" || event === "gap" ? keyOfArrived(value) : keyOf(value);
    if (!this.#carried.has(key)) return;
    if (event === "message") this.link.message(key, value as Source & Arrival);
    else if (event === "gap") this.link.gap(key, value as Source & Gap);
    else if (event === "closed") this.link.closed(key);
    else if (event === "problem") this.link.failed(key, problemError(value as Source & Problem));
  }

  /** #refuse ends the sources for which the whole stream was refused. It reports whether there are some. */
  #refuse(error: TidemarkError, sources: readonly Source[]): boolean {
    const place = /^sub\/(\d+)(?:\/|$)/.exec(error.field ?? "")?.[1];
    const refused = error.slug === "subscriber-not-found" ? sources : sources.slice(Number(place), Number(place) + 1);
    for (const s of refused) if (this.#carried.get(keyOf(s)) === s) this.link.failed(keyOf(s), error);
    return refused.length > 0;
  }
}
