import { TidemarkError, unreachable } from "./errors.js";
import type { Http } from "./http.js";
import { backoff, joined, pause } from "./pace.js";
import { Poll } from "./poll.js";
import { Route, type Hub, type Sink, type State } from "./route.js";
import { Socket } from "./socket.js";
import { Sse } from "./sse.js";
import { check, end, keyOf, stable } from "./transport.js";
import type { ArrivedGap, Arrival, Link, Source, Transport, TransportName } from "./transport.js";

export interface ConnectionOptions {
  readonly http: Http;
  /** The transports, the best first. */
  readonly transports: readonly TransportName[];
  readonly window: number | undefined;
  readonly webSocket: typeof WebSocket | undefined;
  /** Called when no transport works. */
  readonly stuck?: () => void;
}

/** How many sources a connection can carry. */
const maxSources = 256;

/** After so many early breaks in a row the next transport is tried. */
const maxEarlyBreaks = 3;

/** How long a transport that isn't the best one is used before the best one is tried again, in milliseconds. */
const firstFallback = 60_000;
const longestFallback = 3_600_000;

/** How long a connection stays without sources, in milliseconds: a page may be about to subscribe to something else. */
const unusedTime = 250;

/** absent reports whether the service, or what is before it, doesn't have a transport, or not for so many sources. */
const absent = (e: TidemarkError) => e.slug === "path-not-found" || e.slug === "method-not-allowed" || e.status === 431;

/** Connection carries the messages of all sources over one transport at a time, for as long as it has sinks. */
export class Connection implements Hub, Link {
  readonly http: Http;
  readonly window: number | undefined;
  readonly #routes = new Map<string, Route>();
  readonly #closed = new AbortController();
  #transport: Transport | undefined;
  #stop = new AbortController();
  #running = false;
  #state: State = { state: "connecting" };
  #provedAt = 0; // of the current transport; 0: it isn't

  constructor(readonly options: ConnectionOptions) {
    this.http = options.http;
    this.window = options.window;
  }

  add(sink: Sink): void {
    const key = keyOf(sink.source);
    let route = this.#routes.get(key);
    if (!route) {
      if (this.#routes.size === maxSources) {
        const text = `a connection carries at most ${maxSources} subscriptions`;
        return sink.failed(new TidemarkError(400, "invalid-sources", text));
      }
      const { channel, subscriber } = sink.source;
      route = new Route({ channel, subscriber }, (source, handle) => this.#send(source, handle), this.#closed.signal);
      this.#routes.set(key, route);
      this.#transport?.changed();
    }
    sink.state(this.#state);
    route.add(sink);
    if (!this.#running) void this.#run();
  }

  remove(sink: Sink): void {
    const key = keyOf(sink.source);
    const route = this.#routes.get(key);
    if (!route?.sinks.delete(sink) || route.sinks.size) return;
    this.#routes.delete(key);
    route.end(unreachable("the subscription has ended"));
    this.#transport?.changed();
    if (!this.#routes.size) void pause(unusedTime).then(() => this.#routes.size || this.#stop.abort("unused"));
  }

  async ack(source: Source, m: Arrival | ArrivedGap): Promise<void> {
    const route = this.#routes.get(keyOf(source));
    if (!route) throw unreachable("the subscription has ended");
    await route.ack(m);
  }

  close(): void {
    this.#closed.abort(unreachable("the client was closed"));
  }

  // What a transport calls.

  sources(): ReadonlyMap<string, Source> {
    return new Map([...this.#routes].filter(([, r]) => !r.held && !r.closed).map(([key, r]) => [key, r.source]));
  }

  proved(): void {
    if (this.#provedAt) return;
    this.#provedAt = Date.now();
    this.#setState({ state: "open", transport: this.#state.transport });
  }

  message(key: string, m: Arrival): void {
    check(m);
    const route = this.#routes.get(key);
    if (route && m.receiptHandle) route.source.lastReceiptHandle = m.receiptHandle;
    route?.message(m);
  }

  gap(key: string, g: ArrivedGap): void {
    check(g);
    const route = this.#routes.get(key);
    if (route && (g.receiptHandle || g.reason === "lost")) route.source.lastReceiptHandle = g.receiptHandle;
    route?.gap(g);
  }

  /** closed leaves a source out: only acknowledgements follow. */
  closed(key: string): void {
    const route = this.#routes.get(key);
    if (!route || route.closed) return;
    route.closed = true;
    for (const sink of route.sinks) sink.gap(end);
    this.#transport?.changed();
  }

  /** failed leaves a source out for a while, or ends it. */
  failed(key: string, error: TidemarkError): void {
    const route = this.#routes.get(key);
    if (!route) return;
    if (!error.temporary) {
      this.#routes.delete(key);
      route.end(error);
      for (const sink of route.sinks) sink.failed(error);
      return;
    }
    route.held = true;
    pause(backoff(route.failures++, error), route.signal).then(() => {
      route.held = false;
      this.#transport?.changed();
    }, () => {});
  }

  // The life of the connection.

  async #send(source: Source, receiptHandle: string): Promise<void> {
    if (!this.#transport) throw unreachable("there is no connection");
    await this.#transport.ack(source, receiptHandle);
  }

  /** #run uses one transport after the other until there are no sources any more. */
  async #run(): Promise<void> {
    this.#running = true;
    const check = (e: Event) => (e as PageTransitionEvent).persisted !== false && this.#transport?.check();
    const events = ["online", "offline", "pageshow"];
    for (const event of events) globalThis.addEventListener?.(event, check);
    await Promise.resolve(); // a page subscribes to several channels at once
    const { transports } = this.options;
    let [at, failures, earlyBreaks, fallbacks, fallbackEnd] = [0, 0, 0, 0, 0];
    while (this.#routes.size && !this.#closed.signal.aborted) {
      const ended = await this.#use(transports[at]!, at && fallbackEnd - Date.now());
      if (ended === "unused") continue;
      if (ended === "better" || (at && Date.now() >= fallbackEnd)) { // this isn't the best transport: try that again
        [at, failures] = [0, 0];
        fallbacks++;
        continue;
      }
      const error = ended;
      if (error && !error.temporary && error.slug && !absent(error)) {
        for (const key of [...this.#routes.keys()]) this.failed(key, error);
        continue;
      }
      const proved = this.#provedAt > 0;
      const lasted = proved && Date.now() - this.#provedAt >= stable;
      if (lasted) [failures, earlyBreaks, fallbacks] = [0, 0, at && fallbacks];
      else if (proved && error?.slug !== "unreadable") failures = Math.min(failures, maxEarlyBreaks); // others answer
      const unanswered = !error?.slug || !error.status || absent(error);
      const broken = proved ? !lasted && ++earlyBreaks >= maxEarlyBreaks : unanswered;
      if (broken && at + 1 < transports.length) {
        if (!at) fallbackEnd = Date.now() + Math.min(longestFallback, firstFallback * 2 ** fallbacks);
        [at, earlyBreaks] = [at + 1, 0];
        if (!proved) continue; // at once
      } else if (broken && !proved) { // none works
        at = 0;
        this.options.stuck?.();
      }
      this.#setState({ state: "waiting", transport: transports[at], error });
      await pause(backoff(failures++, error), this.#closed.signal, true).catch(() => {});
    }
    this.#running = false;
    for (const event of events) globalThis.removeEventListener?.(event, check);
  }

  /** #use runs a transport until it ends, and returns why it broke, if it did. With a time it ends it then. */
  async #use(name: TransportName, time: number): Promise<TidemarkError | undefined | "better" | "unused"> {
    this.#provedAt = 0;
    this.#setState({ state: "connecting", transport: name });
    const stop = (this.#stop = joined(this.#closed.signal));
    const timer = time ? setTimeout(() => stop.abort("better"), time) : undefined;
    this.#transport = this.#make(name);
    try {
      await this.#transport.run(stop.signal);
      return undefined;
    } catch (error) {
      if (stop.signal.aborted) return stop.signal.reason as "better" | "unused" | TidemarkError;
      return error instanceof TidemarkError ? error : unreachable(String(error), error);
    } finally {
      clearTimeout(timer);
      stop.abort();
      this.#transport = undefined;
    }
  }

  #make(name: TransportName): Transport {
    if (name === "socket") return new Socket(this, this.options.webSocket!);
    return name === "sse" ? new Sse(this) : new Poll(this);
  }

  #setState(s: State): void {
    this.#state = s;
    for (const route of this.#routes.values()) for (const sink of route.sinks) sink.state(s);
  }
}
