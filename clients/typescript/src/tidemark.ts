import { Channel, type Client } from "./channel.js";
import { Connection, type ConnectionOptions } from "./connection.js";
import { Http, type TokenSource } from "./http.js";
import type { Hub } from "./route.js";
import type { Subscription } from "./subscription.js";
import { notesVersion, Tabs } from "./tabs.js";
import { Tickets } from "./tickets.js";
import type { TransportName } from "./transport.js";

export interface Options {
  /**
   * An API key or a token, or a function that returns one. It is asked again when the service has refused the last
   * one.
   */
  token?: string | TokenSource;

  /**
   * Tabs of one origin with the same value share one connection, with the credential of one of them: use the user's
   * name. Default: tabs without `token` share one, others don't. `false`: none do.
   */
  share?: string | false;

  /** The transports, the best first. Default: "socket" if there is a WebSocket, then "sse", then "poll". */
  transports?: readonly TransportName[];

  /** How many messages of a channel may be sent and not acknowledged, from 1 to 1,000. Default: the service's, 256. */
  window?: number;

  /** How long after its first failure a call is tried again, in milliseconds. Default: 30 seconds. */
  retryFor?: number;

  /** In place of those of the platform. */
  fetch?: typeof globalThis.fetch;
  WebSocket?: typeof globalThis.WebSocket;
}

/** baseOf returns the absolute URL of a service, or nothing without a page that a relative one could belong to. */
function baseOf(url: string | URL): URL | undefined {
  const page = globalThis.location?.href;
  try {
    return new URL(url, page);
  } catch (error) {
    if (page !== undefined) throw error;
    return undefined;
  }
}

/** A client of a Tidemark service. */
export class Tidemark implements Client {
  readonly http: Http;
  readonly tickets: Tickets;
  readonly #options: Options;
  readonly #open = new Set<Subscription>();
  #hub: (Hub & { close(): void }) | undefined;

  /** `url` is that of the service, below which `/v1` is. Default: that of the page's origin. */
  constructor(url: string | URL = "/", options: Options = {}) {
    const { token } = options;
    this.#options = options;
    this.http = new Http(
      baseOf(url),
      token,
      options.retryFor ?? 30_000,
      options.fetch ?? globalThis.fetch,
    );
    this.tickets = new Tickets(this.http, (name) => this.channel(name));
  }

  channel<T = unknown>(name: string): Channel<T> {
    return new Channel(name, this);
  }

  /** Closes all subscriptions, after the acknowledgements that are under way, and the connection. */
  async close(): Promise<void> {
    await Promise.all([...this.#open].map((s) => s.close()));
    this.#hub?.close();
    this.#hub = undefined;
  }

  /** For channels: the connection that all subscriptions share. */
  hub(): Hub {
    return (this.#hub ??= this.#connect());
  }

  /** For channels: a subscription that `close` ends. */
  opened(s: Subscription): void {
    this.#open.add(s);
    const forget = () => this.#open.delete(s);
    s.closed.then(forget, forget);
  }

  #connect(): Hub & { close(): void } {
    const { share = this.#options.token === undefined && "", window } = this.#options;
    const webSocket = this.#options.WebSocket ?? globalThis.WebSocket as typeof WebSocket | undefined;
    const { transports: all = ["socket", "sse", "poll"] } = this.#options;
    const transports = all.filter((t) => t !== "socket" || webSocket);
    const options: ConnectionOptions = { http: this.http, transports, window, webSocket };
    const canShare = globalThis.document && globalThis.navigator?.locks && globalThis.BroadcastChannel;
    if (share === false || !canShare) return new Connection(options);
    return new Tabs(`tidemark ${notesVersion} ${this.http.base.href} ${share}`, options);
  }
}
