import type { components } from "./api.js";
import { unreadable, type TidemarkError } from "./errors.js";
import type { Http } from "./http.js";

export type TransportName = "socket" | "sse" | "poll";

/** A subscriber of a channel. */
export interface Source {
  readonly channel: string;
  readonly subscriber: string;
  /** The last one that has arrived: a connection that begins asks whether the history that it is of is lost. */
  lastReceiptHandle?: string | undefined;
}

/** A message as it arrives. Only messages that can be acknowledged by themselves have a receipt handle. */
export type Arrival = components["schemas"]["Message"] & { readonly receiptHandle?: string | undefined };

/** A message of a channel, as a subscriber or a tail has it. */
export interface ReceivedMessage<T = unknown> {
  readonly channel: string;
  readonly id: string;
  /** The message's position in its channel. */
  readonly clock: number;
  /** A Uint8Array if there is a contentType. */
  readonly content: T;
  /** The media type of a content that isn't JSON. */
  readonly contentType: string | undefined;
  /** Redis's time. It isn't known of messages that a predecessor of the service stored. */
  readonly publishedAt: Date | undefined;
}

/** messageOf returns a message of a channel that has arrived. */
export function messageOf<T>(channel: string, m: Arrival): ReceivedMessage<T> {
  const { id, clock, contentType, publishedAt: at } = m;
  let content = m.content;
  if (contentType) content = Uint8Array.from(atob(content as string), (c) => c.charCodeAt(0));
  const publishedAt = at === undefined ? undefined : new Date(at);
  return { channel, id, clock, content: content as T, contentType, publishedAt };
}

/** Messages that a subscriber doesn't have. */
export interface Gap {
  /**
   * `expired`: they expired unread. `lost`: Redis lost writes in a fail-over, or the channel began another life.
   * `purged`: an operator purged them. `damaged`: Redis has them, but they can't be read any more.
   * `moved`: an operator has set the mark; messages may come again, or be left out. `removed`: the subscriber didn't
   * exist any more and was made again. `slow`: this page was too slow for a stream that it shares.
   */
  readonly reason: string;
  /** How many, or 0 if it isn't known. */
  readonly count: number;
}

/** The end of a channel, as sinks get it: nothing follows. */
export const end = { reason: "closed", count: 0 } as const;

/** A gap as it arrives. It has a receipt handle if no message follows. */
export type ArrivedGap = Gap & { readonly receiptHandle?: string | undefined };

/** Link is what a transport sees of its connection. */
export interface Link {
  readonly http: Http;
  readonly window: number | undefined;

  /** The sources that are to be carried now, at most 256, by their keys. */
  sources(): ReadonlyMap<string, Source>;

  /** Bytes have come through: nothing between here and the service breaks this transport. */
  proved(): void;

  /** Both throw if it isn't one, and so break the connection: what follows would acknowledge what was not shown. */
  message(key: string, m: Arrival): void;
  gap(key: string, g: ArrivedGap): void;

  /** The channel of a source is closed, and everything of it has arrived. */
  closed(key: string): void;

  /** A source has ended on this connection. */
  failed(key: string, error: TidemarkError): void;
}

/** Transport carries the messages of many sources over one connection. */
export interface Transport {
  /** run carries messages until the connection ends in order, and rejects if it breaks or the signal is aborted. */
  run(signal: AbortSignal): Promise<void>;

  /** The sources of the link have changed. */
  changed(): void;

  /** The network has changed: the connection may be dead, and nothing else would tell soon. */
  check(): void;

  /** ack acknowledges everything up to a receipt handle. It rejects if there is no answer. */
  ack(source: Source, receiptHandle: string): Promise<void>;
}

/** check throws if what has arrived is neither a message nor a gap. */
export function check(a: Partial<Arrival & Gap>): void {
  if (typeof a.reason !== "string" && !(typeof a.id === "string" && typeof a.clock === "number" && "content" in a)) {
    throw unreadable();
  }
}

export const keyOf = (s: Source): string => s.channel + "/" + s.subscriber;

/** keyOfArrived returns the key of the source of a message or gap. It throws if what has arrived names none. */
export function keyOfArrived({ channel, subscriber }: Partial<Source>): string {
  if (typeof channel !== "string" || typeof subscriber !== "string") throw unreadable();
  return keyOf({ channel, subscriber });
}

/** How long a transport may be silent at first and later, in milliseconds. The service pings after 15 s. */
export const firstByteTimeout = 5_000;
export const silenceTimeout = 45_000;

/** A connection that lasts less than this has broken early, in milliseconds. */
export const stable = 10_000;

/** ackByHttp acknowledges with a request of its own. */
export const ackByHttp = (http: Http, { channel, subscriber }: Source, receiptHandle: string): Promise<void> =>
  http.once(["channels", channel, "subscribers", subscriber, "ack"], { method: "POST", body: { receiptHandle } });
