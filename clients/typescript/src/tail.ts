/** @module Tails: the messages of a channel without a subscriber, such as a ticker that anybody watches. */
import type { components } from "./api.js";
import type { CallOptions } from "./channel.js";
import { parse, TidemarkError, unreachable } from "./errors.js";
import { backoff, joined, pause, Watchdog } from "./pace.js";
import { events } from "./sse.js";
import type { Tidemark } from "./tidemark.js";
import {
  check,
  firstByteTimeout,
  messageOf,
  silenceTimeout,
  stable,
  type Gap,
  type ReceivedMessage,
} from "./transport.js";

/** A message of a tail. */
export type TailMessage<T = unknown> = ReceivedMessage<T>;

export interface TailOptions extends Pick<CallOptions, "signal"> {
  /** Where the tail begins: after all messages, before the oldest one, or after a clock. Default: "latest". */
  from?: "latest" | "earliest" | number;
  /** Called for messages that the tail doesn't have, before those after them. */
  onGap?: (gap: Gap) => void;
  /** Called with `undefined` when the connection is open, and with the error when it has broken and is tried again. */
  onState?: (error: TidemarkError | undefined) => void;
}

type Data = components["schemas"]["Message"] & Gap;

/**
 * tail yields the messages of a channel as they come, and continues where it was when a connection breaks. It needs no
 * subscriber, and writes nothing. It ends when the channel is closed and everything has come, the signal is aborted or
 * the loop is left, and throws what the service refuses for good.
 */
export async function* tail<T = unknown>(
  client: Tidemark,
  channel: string,
  options: TailOptions = {},
): AsyncGenerator<TailMessage<T>, void, undefined> {
  const ended = joined(options.signal);
  const stop = ended.signal;
  let last = ""; // event ID
  try {
    for (let failures = 0; !stop.aborted; ) {
      let opened = 0; // when
      const silent = new Watchdog(() => unreachable("the stream is silent"), stop);
      let error = unreachable("the stream has ended");
      try {
        silent.expect(firstByteTimeout);
        const query: [string, string][] = [["from", String(options.from ?? "latest")]];
        if (last) query.push(["lastEventId", last]);
        const answer = await client.http.open(["channels", channel, "stream"], { query, signal: silent.signal });
        if (answer.status === 204) return; // the channel is closed
        for await (const e of events(answer)) {
          silent.expect(silenceTimeout);
          if (!opened) options.onState?.(undefined);
          opened ||= Date.now();
          if (e.event === "end") {
            if (parse<Gap>(e.data).reason === "closed") return;
            break;
          }
          if (e.event !== "gap" && e.event !== "message") {
            if (e.id) last = e.id;
            continue;
          }
          const data = parse<Data>(e.data);
          check(data);
          if (e.id) last = e.id;
          failures = 0;
          if (e.event === "gap") options.onGap?.({ reason: data.reason, count: data.count });
          else yield messageOf<T>(channel, data);
        }
      } catch (cause) {
        if (stop.aborted) return;
        error = cause instanceof TidemarkError ? cause : unreachable(silent.signal.aborted ? "the stream is silent"
          : "the stream broke off", cause);
        if (!error.temporary) throw error;
      } finally {
        silent.end();
      }
      if (opened && Date.now() - opened >= stable) failures = 0;
      options.onState?.(error);
      await pause(backoff(failures++, error), stop, true).catch(() => {});
    }
  } finally {
    ended.abort();
  }
}
