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
   * The media type of a content that isn't JSON, such as text/plain. The content is then a Uint8Array of its bytes, or a
   * string, which is sent in UTF-8.
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

/** bodyOf returns a message as it is sent. */
function bodyOf({ id = newId(), content, contentType }: Draft): Draft & { id: string } {
  if (!contentType) return { id, content };
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : (content as Uint8Array);
  return { id, contentType, content: btoa([...bytes].map((b) => String.fromCharCode(b)).join("")) };
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
  async publish(content: T, options: CallOptions & Omit<Draft, "content"> = {}): Promise<Published> {
    const published = await this.#post<Published>(bodyOf({ ...options, content }), options);
    return options.id === undefined ? { ...published, duplicate: false } : published; // an earlier try of this call
  }

  /** Publishes messages in one step, in order. */
  async publishBatch(drafts: readonly Draft<T>[], options: CallOptions = {}): Promise<Published[]> {
    const body = drafts.map(bodyOf);
    const published = await this.#post<Published[]>(body, options);
    return published.map((p, i) => (drafts[i]!.id === undefined ? { ...p, duplicate: false } : p));
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

  #post<Answer>(body: unknown, options: CallOptions): Promise<Answer> {
    return this.client.http.call(this.#path("messages"), { ...options, method: "POST", body });
  }

  #path(...below: string[]): string[] {
    return ["channels", this.name, ...below];
  }
}
