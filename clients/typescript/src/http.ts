import { answerError, failedToken, noToken, otherType, parse, TidemarkError, unreachable } from "./errors.js";
import { backoff, limited, pause, within } from "./pace.js";

/**
 * Returns an API key or a token, or nothing for none. White space around it is cut off. It is asked again when the
 * service has refused the last one, as after its end.
 */
export type TokenSource = () => string | null | undefined | Promise<string | null | undefined>;

export interface Call {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  query?: readonly (readonly [string, string])[];
  body?: unknown;
  signal?: AbortSignal | undefined;
  /** How long the service may wait before it answers, in milliseconds. */
  wait?: number;
  /** How long after the first failure a call is tried again, in milliseconds. */
  retryFor?: number | undefined;
  /** Called with the error before each pause after which the call is tried again. */
  onRetry?: (error: TidemarkError) => void;
}

const answerTimeout = 30_000;

/** What a path can't have: "." and ".." are taken out of URLs, and half of a surrogate pair isn't UTF-8. */
const unsendable = /^\.{0,2}$|[\ud800-\udfff]/u;

/** Http calls the service. */
export class Http {
  #token: string | undefined;
  #asking: Promise<string | null | undefined> | undefined;
  readonly #base: URL | undefined;

  constructor(
    base: URL | undefined,
    readonly tokens: string | TokenSource | null | undefined,
    readonly retryFor: number,
    readonly fetch: typeof globalThis.fetch,
  ) {
    this.#base = base;
  }

  /** The service's URL. It throws if the client has none, as where a server makes a page. */
  get base(): URL {
    if (this.#base) return this.#base;
    throw new TidemarkError(400, "invalid-url", "without a page the client needs the absolute URL of the service");
  }

  /** url returns the URL of a path below /v1, whose names are escaped. It refuses names that a URL can't have. */
  url(path: readonly string[], query: Call["query"] = []): URL {
    path.forEach((name, i) => {
      if (!unsendable.test(name)) return;
      const what = { channels: i > 1 ? "subscriber-name" : "channel-name", tickets: "ticket" }[path[0]!] ?? "id";
      throw new TidemarkError(400, "invalid-" + what, JSON.stringify(name) + " can't be a name");
    });
    const url = new URL(this.base);
    url.pathname = [url.pathname.replace(/\/$/, ""), "v1", ...path.map(encodeURIComponent)].join("/");
    url.search = new URLSearchParams(query.map((pair) => [...pair])).toString();
    return url;
  }

  /** token returns the credential, or undefined if the client has none. */
  async token(): Promise<string | undefined> {
    const { tokens } = this;
    if (tokens == null || this.#token !== undefined) return this.#token;
    const ask = typeof tokens === "function" ? tokens : () => tokens;
    this.#asking ??= Promise.resolve().then(ask).finally(() => (this.#asking = undefined));
    const answer = await this.#asking.catch(failedToken);
    if (answer == null) return undefined;
    const token = String(answer).trim();
    if (!/^[!-~]+$/.test(token)) throw noToken(typeof tokens === "function");
    return (this.#token = token);
  }

  /**
   * refused drops the credential that the service has refused with an error. It reports whether another one can be
   * asked for at once. A token that becomes valid later is kept: another one could begin even later.
   */
  refused(token: string | undefined, error: unknown): boolean {
    if (!(error instanceof TidemarkError) || !error.credential || error.temporary) return false;
    if (this.#token === token) this.#token = undefined;
    return typeof this.tokens === "function";
  }

  /** open tries once, with a new token if the first one is refused, and returns the answer if it is a success. */
  async open(path: readonly string[], call: Call = {}): Promise<Response> {
    const url = this.url(path, call.query);
    for (let renewed = false; ; renewed = true) {
      const token = await within(this.token(), call.signal);
      const headers: Record<string, string> = {};
      if (token !== undefined) headers["Authorization"] = "Bearer " + token;
      const { method = "GET", signal = null } = call;
      const init: RequestInit = { method, headers, cache: "no-store", signal };
      if (call.body !== undefined) {
        init.body = JSON.stringify(call.body);
        headers["Content-Type"] = "application/json";
      }
      let answer: Response;
      try {
        answer = await this.fetch.call(globalThis, url, init);
      } catch (cause) {
        call.signal?.throwIfAborted();
        throw unreachable("the service can't be reached", cause);
      }
      if (answer.ok) return answer;
      const error = await answerError(answer);
      if (renewed || !this.refused(token, error)) throw error;
    }
  }

  /** once tries once, and returns the JSON of the answer. */
  async once<T>(path: readonly string[], call: Call = {}): Promise<T> {
    let late = false;
    try {
      return await limited(call.signal, answerTimeout + (call.wait ?? 0), async (signal) => {
        try {
          const answer = await this.open(path, { ...call, signal });
          const text = await answer.text();
          return text === "" ? (undefined as T) : parse<T>(text, (cause) => otherType(answer, "JSON", cause));
        } finally {
          late = signal.aborted;
        }
      });
    } catch (cause) {
      call.signal?.throwIfAborted();
      if (cause instanceof TidemarkError) throw cause;
      throw unreachable(late ? "the service didn't answer in time" : "the answer broke off", cause);
    }
  }

  /** call tries until it succeeds, fails for good, or its time has passed. All calls are safe to repeat. */
  async call<T>(path: readonly string[], call: Call = {}): Promise<T> {
    const end = Date.now() + (call.retryFor ?? this.retryFor);
    for (let failures = 0; ; failures++) {
      try {
        return await this.once<T>(path, call);
      } catch (error) {
        const ms = backoff(failures, error, 200, 5_000);
        if (!(error instanceof TidemarkError && error.temporary) || Date.now() + ms > end) throw error;
        call.onRetry?.(error);
        await pause(ms, call.signal, true);
      }
    }
  }
}
