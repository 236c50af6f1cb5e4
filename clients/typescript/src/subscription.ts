import { TidemarkError } from "./errors.js";
import { Events } from "./events.js";
import type { Http } from "./http.js";
import { backoff, pause } from "./pace.js";
import { placeOf, trim, type Hub, type Sink, type State } from "./route.js";
import { end, messageOf } from "./transport.js";
import type { ArrivedGap, Arrival, Gap, ReceivedMessage, Source } from "./transport.js";

/** A message of a channel. */
export interface Message<T = unknown> extends ReceivedMessage<T> {
  /**
   * Acknowledges this message and all before it. The promise resolves when the service has done so. By long poll, where
   * several messages have one receipt, only the last of them is acknowledged at the service, with those before it.
   */
  ack(): Promise<void>;
}

export interface SubscribeOptions {
  /** Where a new subscriber begins: after all messages, before them, or after a clock. Default: "latest". */
  from?: "latest" | "earliest" | number;
  /**
   * `auto`, the default: when the handler has returned, or the loop asks for the next message. `manual`: by `ack()`.
   */
  ack?: "auto" | "manual";
  /** Whether to make the subscriber if it doesn't exist. Default: true. */
  create?: boolean;
  /** Ends the subscription. */
  signal?: AbortSignal;
}

export type Handler<T> = (m: Message<T>) => unknown;

interface SubscriptionEvents {
  /** Messages that the subscriber doesn't have. It comes before the messages after them. */
  gap: Gap;
  /** The state of the connection has changed. */
  state: State;
  /** The subscription has ended with an error: of the service or of the handler. */
  error: unknown;
}

/**
 * The most messages that wait for a handler. The service sends fewer, but other tabs can acknowledge what this one
 * hasn't read.
 */
const maxQueue = 1000;

/** How many messages are remembered, so that none is shown twice. */
const remembered = 2000;

/** How long `close` waits for the handler and the last acknowledgements, in milliseconds. */
const lastAcks = 5_000;

interface Known {
  readonly id: string;
  /** As it arrived last. It isn't kept any more when it is acknowledged. */
  message: Arrival | undefined;
  place: number; // in the order of arrival, of the last history
  /** Whether it was acknowledged here before it came again in another history, behind others. */
  handled: boolean;
}

interface KnownGap {
  readonly gap: Gap;
  readonly receiptHandle: string | undefined;
  readonly place: number; // of the last message before it
}

/** Subscription is the messages of a subscriber, for one loop or one handler. */
export class Subscription<T = unknown> extends Events<SubscriptionEvents> implements AsyncIterable<Message<T>>, Sink {
  /**
   * Settles when the subscription has ended, as after the last message of a closed channel: it rejects if that is by
   * an error. With a listener for "error" or a loop, that needn't be handled.
   */
  readonly closed: Promise<void>;

  readonly #queue: (Known | KnownGap)[] = [];
  readonly #known = new Map<string, Known>(); // by clock and ID, in order
  #lost = new Map<string, Known>(); // by ID: storage has lost writes since, so that these may come with other clocks
  #closing: Promise<void> | undefined;
  #handling: Promise<void> | undefined;
  readonly #acks = new Set<Promise<void>>(); // under way
  #places = 0; // given out
  #acked = 0; // the place up to which everything is acknowledged here
  #wake = () => {};
  #failure: { error: unknown } | undefined;
  #settle!: { resolve(): void; reject(error: unknown): void };
  #removals = 0; // how often the subscriber has been missing since the last message
  #dropped = 0; // messages that found the queue full

  constructor(
    readonly source: Source,
    readonly hub: Hub,
    readonly http: Http,
    readonly options: SubscribeOptions,
    handler?: Handler<T>,
  ) {
    super();
    this.closed = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
    if (!handler) this.closed.catch(() => {}); // the loop throws it
    const { signal } = options;
    signal?.addEventListener("abort", () => void this.close(), { signal: this.ended.signal });
    if (signal?.aborted) void this.close();
    else void this.#start();
    if (handler) this.#handling = this.#handle(handler);
  }

  /**
   * The loop ends when the subscription does, also after the last message of a closed channel, and throws its error.
   * Leaving the loop closes the subscription.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Message<T>, void, undefined> {
    try {
      for (let next = await this.#next(); next; next = await this.#next()) {
        yield next;
        if (this.options.ack !== "manual") void next.ack().catch(() => {});
      }
    } finally {
      await this.close();
    }
    if (this.#failure) throw this.#failure.error;
  }

  /**
   * Ends the subscription here, after the handler's call and the acknowledgements that are under way, or after 5 s. The
   * subscriber keeps its mark. A handler doesn't await it.
   */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    this.ended.abort();
    this.#wake();
    const late = new AbortController();
    const last = Promise.resolve(this.#handling).then(() => Promise.allSettled(this.#acks));
    await Promise.race([last, pause(lastAcks, late.signal).catch(() => {})]);
    late.abort();
    this.hub.remove(this);
    this.emit("state", { state: "closed" });
    if (!this.#failure) return this.#settle.resolve();
    const { error } = this.#failure;
    if (this.emit("error", error)) this.closed.catch(() => {});
    this.#settle.reject(error);
  }

  // What the hub calls.

  message(m: Arrival): void {
    this.#removals = 0;
    const place = placeOf(m);
    const known = this.#known.get(place);
    if (known) { // once more, after a reconnect: its receipt is newer
      known.message = m;
      if (known.place <= this.#acked) void this.#sendAcked().catch(() => {});
      return;
    }
    const lost = this.#lost.get(m.id);
    if (lost) { // its receipt now stands for those before it in this history, too
      this.#lost.delete(m.id);
      this.#known.set(place, lost);
      lost.handled ||= lost.place <= this.#acked;
      lost.message = m;
      lost.place = ++this.#places;
      void this.#sendAcked().catch(() => {});
      return;
    }
    const fresh = { id: m.id, message: m, place: ++this.#places, handled: false };
    this.#known.set(place, fresh);
    trim(this.#known, remembered);
    this.#push(fresh);
  }

  gap({ reason, count, receiptHandle }: ArrivedGap): void {
    if (reason === "moved") { // what comes again is new, and what has come isn't wanted any more
      this.#queue.length = 0;
      for (const known of this.#known.values()) known.message = undefined; // nor is it acknowledged
      this.#known.clear();
      this.#lost.clear();
    }
    if (reason === "lost") this.#lost = new Map([...this.#known.values()].map((known) => [known.id, known]));
    this.#push({ gap: { reason, count }, receiptHandle, place: this.#places });
  }

  state(s: State): void {
    this.emit("state", s);
  }

  failed(error: TidemarkError): void {
    if (error.slug === "subscriber-not-found" && this.options.create !== false) void this.#start(error);
    else this.#fail(error);
  }

  /** #start makes the subscriber, and begins to receive. */
  async #start(missing?: TidemarkError): Promise<void> {
    const { channel, subscriber } = this.source;
    const { signal } = this.ended;
    try {
      if (missing && this.#removals++) await pause(backoff(this.#removals), signal);
      if (this.options.create !== false) {
        const body = { from: this.options.from ?? "latest" };
        const path = ["channels", channel, "subscribers", subscriber];
        const onRetry = (error: TidemarkError) => this.state({ state: "waiting", error });
        await this.http.call(path, { method: "PUT", body, signal, retryFor: Infinity, onRetry });
      }
      if (signal.aborted) return;
      if (missing) this.gap({ reason: "removed", count: 0 });
      this.hub.add(this);
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    if (this.ended.signal.aborted) return;
    this.#failure = { error };
    void this.close();
  }

  async #handle(handler: Handler<T>): Promise<void> {
    try {
      for (let next = await this.#next(); next; next = await this.#next()) {
        await handler(next);
        if (this.options.ack !== "manual") void next.ack().catch(() => {});
      }
    } catch (error) {
      this.#fail(error);
    }
  }

  #push(item: Known | KnownGap): void {
    if (this.#queue.length === maxQueue) {
      this.#queue.shift();
      this.#dropped++;
    }
    this.#queue.push(item);
    this.#wake();
  }

  /**
   * #next waits for the next message, and returns it as it is then, or undefined when the subscription has ended.
   */
  async #next(): Promise<Message<T> | undefined> {
    while (!this.ended.signal.aborted) {
      if (this.#dropped) {
        const count = this.#dropped;
        this.#dropped = 0;
        this.emit("gap", { reason: "slow", count });
      }
      const item = this.#queue.shift();
      if (item && "message" in item) return this.#message(item);
      if (item) this.#gap(item);
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    return undefined;
  }

  /** #gap reports a gap, and acknowledges it unless that would acknowledge messages before it. */
  #gap({ gap, receiptHandle, place }: KnownGap): void {
    if (gap.reason === end.reason) return void this.close(); // everything before it was handed out
    this.emit("gap", gap);
    if (receiptHandle && place <= this.#acked) this.#send({ ...gap, receiptHandle }).catch(() => {});
  }

  #message(known: Known): Message<T> {
    const { place } = known;
    return { ...messageOf<T>(this.source.channel, known.message!), ack: () => this.#ack(known, place) };
  }

  /** #ack acknowledges a message that was handed out at a place, and so all before it. */
  async #ack(known: Known, place: number): Promise<void> {
    if (known.place === place) this.#acked = Math.max(this.#acked, place);
    else known.handled = true; // those before it may not be, since it came again behind them
    await this.#sendAcked();
  }

  /** #sendAcked acknowledges what is acknowledged here, and what follows that and was handled before it came again. */
  async #sendAcked(): Promise<void> {
    let last: Known | undefined;
    const open = [...new Set(this.#known.values())].filter((k) => k.message).sort((a, b) => a.place - b.place);
    for (const k of open) {
      if (k.place > this.#acked && !k.handled) break;
      last = k;
    }
    if (!last) return;
    const { place } = last;
    this.#acked = Math.max(this.#acked, place);
    await this.#send(last.message!);
    for (const k of open) if (k.place <= place) k.message = undefined;
  }

  /** #send sends an acknowledgement. What storage has lost doesn't need it any more. */
  #send(m: Arrival | ArrivedGap): Promise<void> {
    const ack = this.hub.ack(this.source, m).catch((error: unknown) => {
      if (!(error instanceof TidemarkError && error.slug.startsWith("receipt-"))) throw error;
    });
    this.#acks.add(ack);
    return ack.finally(() => this.#acks.delete(ack));
  }
}
