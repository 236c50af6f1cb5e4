import { parse, problemError, TidemarkError, unreachable } from "./errors.js";
import type { ClientFrame, ServerFrame } from "./frames.js";
import { Watchdog } from "./pace.js";
import { firstByteTimeout, keyOf, keyOfArrived, silenceTimeout } from "./transport.js";
import type { Link, Source, Transport } from "./transport.js";

const subprotocol = "tidemark.v1";

type Request = ClientFrame extends infer F ? F extends { ref?: number } ? Omit<F, "ref"> : never : never;
type Answer = Extract<ServerFrame, { ref: number }>;

/** Socket carries frames over a WebSocket. */
export class Socket implements Transport {
  #socket: WebSocket | undefined;
  #silent: Watchdog | undefined;
  #lastRef = 0;
  readonly #asked = new Map<number, { resolve(a: Answer): void; reject(e: unknown): void }>(); // by ref
  readonly #subscribed = new Map<string, Source>();
  readonly #leaving = new Set<string>(); // the keys of sources that the service has not answered to be gone
  #ready = false; // the service knows the credential, and frames pass

  constructor(
    readonly link: Link,
    readonly implementation: typeof WebSocket,
  ) {}

  async run(signal: AbortSignal): Promise<void> {
    const url = this.link.http.url(["socket"]);
    url.protocol = url.protocol.replace("http", "ws");
    signal.throwIfAborted();
    const socket = (this.#socket = new this.implementation(url, subprotocol));
    const silent = (this.#silent = new Watchdog(() => unreachable("the socket is silent"), signal));
    try {
      silent.expect(firstByteTimeout);
      await new Promise<void>((resolve, reject) => {
        silent.signal.addEventListener("abort", () => reject(silent.signal.reason));
        socket.onclose = (e) => reject(unreachable(`the socket was closed: ${e.code} ${e.reason}`));
        socket.onerror = () => reject(unreachable("the socket failed"));
        socket.onmessage = ({ data }) => {
          silent.expect(silenceTimeout);
          try {
            const frame = parse<ServerFrame>(data);
            if (frame.type === "end") resolve();
            else this.#dispatch(frame);
          } catch (error) {
            socket.onmessage = null; // to acknowledge what follows would acknowledge this
            reject(error);
          }
        };
        socket.onopen = () => void this.#begin().catch(reject);
      });
    } finally {
      silent.end();
      this.#ready = false;
      this.#socket = undefined;
      this.#subscribed.clear();
      for (const { reject } of this.#asked.values()) reject(unreachable("the socket has ended"));
      this.#asked.clear();
      socket.onclose = socket.onerror = socket.onmessage = socket.onopen = null;
      socket.close();
    }
  }

  /** changed subscribes to new sources, and unsubscribes from those that are gone. */
  changed(): void {
    if (!this.#ready) return; // #begin does it
    const sources = this.link.sources();
    for (const [key, source] of this.#subscribed) {
      if (sources.has(key)) continue;
      this.#subscribed.delete(key);
      this.#leaving.add(key);
      void this.#ask({ type: "unsubscribe", ...source }).catch(() => {}).then(() => {
        this.#leaving.delete(key);
        this.changed();
      });
    }
    for (const [key, source] of sources) {
      if (this.#subscribed.has(key) || this.#leaving.has(key)) continue;
      const { channel, subscriber } = source;
      this.#subscribed.set(key, { channel, subscriber });
      const window = this.link.window;
      this.#ask({ type: "subscribe", ...source, ...(window && { window }) }).catch((error: TidemarkError) => {
        if (error.slug !== "unreachable") this.#end(key, error);
      });
    }
  }

  check(): void {
    if (!this.#ready) return;
    this.#silent?.expect(firstByteTimeout);
    this.#ask({ type: "ping" }).catch(() => {});
  }

  async ack({ channel, subscriber }: Source, receiptHandle: string): Promise<void> {
    if (!this.#ready) throw unreachable("the socket isn't ready");
    await this.#ask({ type: "ack", channel, subscriber, receiptHandle });
  }

  /** #begin proves that frames pass in both directions, and subscribes. */
  async #begin(): Promise<void> {
    for (let renewed = false; ; renewed = true) {
      const token = await this.link.http.token();
      if (token === undefined) break;
      try {
        await this.#ask({ type: "authenticate", token });
        break;
      } catch (error) {
        if (renewed || !this.link.http.refused(token, error)) throw error;
      }
    }
    await this.#ask({ type: "ping" });
    this.link.proved();
    this.#ready = true;
    this.changed();
  }

  #ask(frame: Request): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#socket?.readyState !== 1) return reject(unreachable("there is no socket"));
      const ref = ++this.#lastRef;
      this.#asked.set(ref, { resolve, reject });
      this.#socket.send(JSON.stringify({ ...frame, ref }));
    });
  }

  #dispatch(frame: ServerFrame): void {
    if ("ref" in frame && frame.ref !== undefined) {
      const asked = this.#asked.get(frame.ref);
      this.#asked.delete(frame.ref);
      if (frame.type === "error") asked?.reject(problemError(frame.problem));
      else asked?.resolve(frame);
    } else if (frame.type === "message" || frame.type === "gap") {
      const key = keyOfArrived(frame);
      if (!this.#subscribed.has(key)) return; // it was removed; if it was added again, it is delivered from its mark
      if (frame.type === "message") this.link.message(key, frame);
      else this.link.gap(key, frame);
    } else if (frame.type === "closed") {
      const key = keyOfArrived(frame);
      if (this.#subscribed.delete(key)) this.link.closed(key);
    } else if (frame.type === "error" && frame.channel !== undefined) {
      this.#end(keyOf(frame as Source), problemError(frame.problem));
    }
  }

  #end(key: string, error: TidemarkError): void {
    if (this.#subscribed.delete(key)) this.link.failed(key, error);
  }
}
