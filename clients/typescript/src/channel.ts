import type { components } from "./api.js";
import type { Http } from "./http.js";
import type { Hub } from "./route.js";
import { Subscription, type Handler, type SubscribeOptions } from "./subscription.js";

type Schemas = components["schemas"];

/**
 * The outcome of publishing a message. `duplicate`: its ID was published before, and nothing was changed. `differs`: it
 * was published with another content, so this one is not on the channel.
 */
export type Published = Schemas["Published"];

/** A message to publish. */
export interface Draft<T = unknown> {
  content: T;
  /** Chosen by you, or made by the client. An ID is published once. */
  id?: string;
  /**
   * The media type of a content that isn't JSON, such as text/plain. The content is then a Uint8Array of its bytes, or
   * a string, which is sent in UTF-8.
   */
  contentType?: string;
}

/** A channel and a page of its subscribers with their marks. */
export type Description = Schemas["Description"];

export interface CallOptions {
  signal?: AbortSignal;
  /** How long after the first failure the call is tried again, in milliseconds. Default: that of the client. */
  retryFor?: number;
}

export interface PublishOptions extends CallOptions {
  /**
   * Whose publish it is: each sequence of an epoch, from 0 on, is accepted once and in order, and a higher epoch fences
   * the lower ones. Messages without an ID get one of the service that is the same in a repeat.
   */
  producer?: { id: string; epoch: number; sequence: number };
  /** Must be greater than that of the channel's last publish that had one. */
  order?: string;
  /** Whether the channel is closed after the messages, in the same step. */
  close?: boolean;
}

/** A channel that is closed, with the clock of its last message. */
export type Closed = Schemas["Closed"];

/** queryOf returns the parameters of a publish. */
function queryOf({ producer: p, order, close }: PublishOptions): [string, string][] {
  const query: [string, string][] = [];
  if (p) query.push(["producer", p.id], ["epoch", String(p.epoch)], ["sequence", String(p.sequence)]);
  if (order !== undefined) query.push(["order", order]);
  if (close) query.push(["close", "true"]);
  return query;
}

/** What a channel needs of its client. */
export interface Client {
  readonly http: Http;
  hub(): Hub;
  opened(s: Subscription): void;
}

/** newId returns a random ID for a message, a ticket or a grant. */
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}

/** bodyOf returns a message as it is sent. The service makes the ID of a producer's. */
function bodyOf({ id, content, contentType }: Draft, { producer }: PublishOptions): Draft {
  if (!producer) id ??= newId();
  if (!contentType) return { ...(id !== undefined && { id }), content };
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : (content as Uint8Array);
  const binary = [...bytes].map((b) => String.fromCharCode(b)).join("");
  return { ...(id !== undefined && { id }), contentType, content: btoa(binary) };
}

/** A channel of the service. Nothing checks that contents have the type T. */
export class Channel<T = unknown> {
  constructor(
    readonly name: string,
    readonly client: Client,
  ) {}

  /**
   * Publishes a JSON value, or with a contentType bytes. It is on the channel once, even if the call is tried again.
   */
  async publish(content: T, options: PublishOptions & Omit<Draft, "content"> = {}): Promise<Published> {
    const published = await this.#post<Published>(bodyOf({ ...options, content }, options), options);
    if (options.id !== undefined || options.producer) return published;
    return { ...published, duplicate: false }; // of an earlier try of this call
  }

  /** Publishes messages in one step, in order. */
  async publishBatch(drafts: readonly Draft<T>[], options: PublishOptions = {}): Promise<Published[]> {
    const body = drafts.map((d) => bodyOf(d, options));
    const published = await this.#post<Published[]>(body, options);
    return published.map((p, i) => (drafts[i]!.id === undefined && !options.producer ? { ...p, duplicate: false } : p));
  }

  /**
   * Closes the channel: it gets no further messages in this life. Subscriptions end once they have everything. To
   * close it again changes nothing.
   */
  close(options: Omit<PublishOptions, "order" | "close"> = {}): Promise<Closed> {
    const query = queryOf({ ...options, close: false });
    return this.client.http.call(this.#path("close"), { ...options, method: "POST", query });
  }

  /**
   * Receives the messages of a subscriber, which is made if it doesn't exist: in a loop (`for await`), or with a
   * handler that is called for one message at a time. A handler that fails ends the subscription.
   */
  subscribe(subscriber: string, options?: SubscribeOptions): Subscription<T>;
  subscribe(subscriber: string, handler: Handler<T>, options?: SubscribeOptions): Subscription<T>;
  subscribe(
    subscriber: string,
    second?: Handler<T> | SubscribeOptions,
    third?: SubscribeOptions,
  ): Subscription<T> {
    const [handler, options] = typeof second === "function" ? [second, third] : [undefined, second];
    const { http } = this.client;
    const source = { channel: this.name, subscriber };
    const subscription = new Subscription<T>(source, this.client.hub(), http, options ?? {}, handler);
    this.client.opened(subscription as Subscription<never>);
    return subscription;
  }

  /** Removes a subscriber and its mark. */
  async unsubscribe(subscriber: string, options: CallOptions = {}): Promise<void> {
    await this.client.http.call(this.#path("subscribers", subscriber), { ...options, method: "DELETE" });
  }

  /** Returns the channel's clock, and up to 250 subscribers with their marks. */
  describe(options: CallOptions & { cursor?: string } = {}): Promise<Description> {
    const query = [["limit", "250"], ...(options.cursor ? [["cursor", options.cursor]] : [])] as [string, string][];
    return this.client.http.call(this.#path(), { ...options, query });
  }

  #post<Answer>(body: unknown, options: PublishOptions): Promise<Answer> {
    return this.client.http.call(this.#path("messages"), { ...options, method: "POST", body, query: queryOf(options) });
  }

  #path(...below: string[]): string[] {
    return ["channels", this.name, ...below];
  }
}
