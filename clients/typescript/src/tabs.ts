import { Connection, type ConnectionOptions } from "./connection.js";
import { TidemarkError, unreachable } from "./errors.js";
import { pause } from "./pace.js";
import type { Hub, Sink, State } from "./route.js";
import { keyOf, type ArrivedGap, type Arrival, type Source } from "./transport.js";

/** An error as it is sent between tabs. */
interface Fault {
  status: number;
  slug: string;
  message: string;
  retryAfter: number | undefined;
}

/** The version of notes. Tabs with different ones, as while a site is updated, share no connection. */
export const notesVersion = 1;

/**
 * A note between tabs. Without `to` it is for the leader, or from it for all. A tab numbers its sinks. `number` is the
 * newest sink of the source that the leader knew; newer sinks ignore the note, since they begin at the mark.
 */
type Note = { from: string; to?: string } & (
  | { type: "leading" } // I am the leader: tell me your sources
  | { type: "sources"; sources: [key: string, number: number][]; rejoins: boolean } // all of this tab
  | { type: "ack"; ref: number; key: string; m: Arrival | ArrivedGap }
  | { type: "acked"; ref: number; fault: Fault | undefined }
  | { type: "message"; key: string; number: number; m: Arrival }
  | { type: "gap"; key: string; number: number; gap: ArrivedGap }
  | { type: "state"; key: string; number: number; state: Omit<State, "error">; fault: Fault | undefined }
  | { type: "failed"; key: string; number: number; fault: Fault }
);
type Unaddressed = Note extends infer N ? (N extends Note ? Omit<N, "from" | "to"> : never) : never;

interface Pending {
  key: string;
  m: Arrival | ArrivedGap;
  resolve(): void;
  reject(error: unknown): void;
}

const faultOf = (e: TidemarkError): Fault =>
  ({ status: e.status, slug: e.slug, message: e.message, retryAfter: e.retryAfter });
const errorOf = (f: Fault) => new TidemarkError(f.status, f.slug, f.message, f.retryAfter);

/** How long a tab that is offline doesn't want to be the leader, unless it is online again, in milliseconds. */
const offlineTime = 30_000;

/**
 * Tabs is the hub of tabs that share one connection. The tab that holds a Web Lock is the leader and has the
 * connection; the browser gives the lock to another tab when that one is closed. The others talk to it over a
 * BroadcastChannel. Each tab holds a lock of its own, for which the leader waits: so it learns that a tab is gone,
 * however that ended.
 *
 * Nothing is lost when the leader changes. The new one begins at the marks, and keeps what a tab has acknowledged
 * before another one has told its sources. Each tab drops the messages that it knows.
 */
export class Tabs implements Hub {
  readonly #id = crypto.randomUUID();
  readonly #notes: BroadcastChannel;
  readonly #sinks = new Map<string, Map<Sink, number>>(); // of this tab, by the keys of their sources
  #lastNumber = 0;
  readonly #pending = new Map<number, Pending>(); // acknowledgements that the leader has not answered, by ref
  readonly #closed = new AbortController();
  #lastRef = 0;
  #leading: Leading | undefined;
  #away = Promise.resolve(); // until this tab wants to be the leader again

  constructor(
    readonly name: string,
    readonly options: ConnectionOptions,
  ) {
    this.#notes = new BroadcastChannel(name);
    this.#notes.onmessage = ({ data }) => this.#read(data as Note);
    this.#hold();
    const { signal } = this.#closed;
    globalThis.addEventListener("pageshow", ({ persisted }) => {
      if (!persisted) return;
      this.#hold(); // the browser may have released the lock while it kept the page
      this.#join();
    }, { signal });
    void this.#lead();
  }

  add(sink: Sink): void {
    const key = keyOf(sink.source);
    const sinks = this.#sinks.get(key) ?? new Map<Sink, number>();
    this.#sinks.set(key, sinks.set(sink, ++this.#lastNumber));
    if (this.#leading) this.#leading.connection.add(sink);
    else this.#tellSources();
  }

  remove(sink: Sink): void {
    const key = keyOf(sink.source);
    const sinks = this.#sinks.get(key);
    sinks?.delete(sink);
    if (!sinks?.size) {
      this.#sinks.delete(key);
      this.#reject("the subscription has ended", key);
    }
    if (this.#leading) this.#leading.connection.remove(sink);
    else this.#tellSources();
  }

  async ack(source: Source, m: Arrival | ArrivedGap): Promise<void> {
    const key = keyOf(source);
    if (!this.#sinks.has(key)) throw unreachable("the subscription has ended");
    const leading = this.#leading;
    if (leading) {
      return leading.connection.ack(source, m).catch((error: unknown) => {
        if (this.#leading === leading || this.#closed.signal.aborted) throw error;
        return this.ack(source, m); // by the next leader
      });
    }
    return new Promise((resolve, reject) => {
      const ref = ++this.#lastRef;
      this.#pending.set(ref, { key, m, resolve, reject });
      this.#tell({ type: "ack", ref, key, m });
    });
  }

  close(): void {
    this.#closed.abort();
    this.#leading?.end.abort();
    this.#reject("the client was closed");
    this.#notes.close();
  }

  /** #reject rejects the acknowledgements of a source, or all, that the leader has not answered. */
  #reject(why: string, key?: string): void {
    for (const [ref, p] of this.#pending) {
      if (key !== undefined && p.key !== key) continue;
      this.#pending.delete(ref);
      p.reject(unreachable(why));
    }
  }

  // Leading.

  /** #hold takes the lock for which the leader waits. */
  #hold(): void {
    const { signal } = this.#closed;
    navigator.locks.request(this.#lockOf(this.#id), { signal }, () => ended(signal)).catch(() => {});
  }

  /** #lead waits until this tab is the leader. After it has given that up it stays away for a while. */
  async #lead(): Promise<void> {
    const { signal } = this.#closed;
    const serve = () => this.#serve();
    while (!signal.aborted) {
      // Locks are refused to a page of an opaque origin, as in a sandbox. It is the only one of its origin.
      await navigator.locks.request(this.name, { signal }, serve).catch(serve);
      await this.#away;
    }
  }

  /**
   * #serve has the connection until this tab is closed, or kept by the browser without running, or gives up because it
   * is offline: another may not be.
   */
  async #serve(): Promise<void> {
    if (this.#closed.signal.aborted) return;
    const end = new AbortController();
    const stuck = () => navigator.onLine || end.abort();
    const connection = new Connection({ ...this.options, stuck });
    this.#leading = { connection, end, tabs: new Map() };
    for (const sinks of this.#sinks.values()) for (const sink of sinks.keys()) connection.add(sink);
    for (const [ref, p] of this.#pending) {
      this.#pending.delete(ref);
      this.ack(sourceOf(p.key), p.m).then(p.resolve, p.reject);
    }
    this.#tell({ type: "leading" });
    globalThis.addEventListener("pagehide", () => end.abort(), { signal: end.signal });
    await ended(end.signal);
    connection.close();
    this.#leading = undefined;
    this.#away = pause(offlineTime, this.#closed.signal, true).catch(() => {});
  }

  /** #setSources adds and removes the sinks of another tab. */
  #setSources({ connection, tabs, end }: Leading, note: Extract<Note, { type: "sources" }>): void {
    const { from: tab, sources, rejoins } = note;
    let sinks = tabs.get(tab);
    if (!sinks) {
      tabs.set(tab, (sinks = new Map()));
      const gone = () => {
        for (const { sink } of sinks!.values()) connection.remove(sink);
        tabs.delete(tab);
      };
      navigator.locks.request(this.#lockOf(tab), { signal: end.signal }, gone).catch(() => {});
    }
    const wanted = new Map(sources);
    for (const [key, { sink }] of sinks) {
      if (wanted.has(key)) continue;
      sinks.delete(key);
      connection.remove(sink);
    }
    for (const [key, number] of sources) {
      const old = sinks.get(key);
      if (old?.number === number && !rejoins) continue;
      const tell = (note: Unaddressed) => this.#tell(note, tab);
      const sink: Sink = {
        source: sourceOf(key),
        rejoins,
        message: (m) => tell({ type: "message", key, number, m }),
        gap: (gap) => tell({ type: "gap", key, number, gap }),
        state: ({ error, ...state }) => tell({ type: "state", key, number, state, fault: error && faultOf(error) }),
        failed: (error) => {
          sinks.delete(key);
          tell({ type: "failed", key, number, fault: faultOf(error) });
        },
      };
      sinks.set(key, { sink, number });
      connection.add(sink); // before the old one is removed, so that the route stays
      if (old) connection.remove(old.sink);
    }
  }

  // Notes.

  #tell(note: Unaddressed, to?: string): void {
    if (this.#closed.signal.aborted) return;
    this.#notes.postMessage({ ...note, from: this.#id, ...(to && { to }) });
  }

  /** #tellSources tells the leader the sources. It sends everything again for those with new sinks, or that rejoin. */
  #tellSources(rejoins = false): void {
    const last = (sinks: Map<Sink, number>) => Math.max(...sinks.values());
    const sources = [...this.#sinks].map(([key, sinks]) => [key, last(sinks)] satisfies [string, number]);
    this.#tell({ type: "sources", sources, rejoins });
  }

  /** #join tells a leader that may not know this tab everything. */
  #join(): void {
    this.#tellSources(true);
    for (const [ref, { key, m }] of this.#pending) this.#tell({ type: "ack", ref, key, m });
  }

  #read(note: Note): void {
    if (note.to !== undefined && note.to !== this.#id) return;
    if (!this.#leading) this.#readAsFollower(note);
    else if (note.type === "sources") this.#setSources(this.#leading, note);
    else if (note.type === "ack") this.#ackFor(this.#leading, note);
    else if (note.type === "message") this.#readAsFollower(note); // of the leader before
  }

  /** #ackFor acknowledges for another tab. */
  #ackFor(leading: Leading, { from, key, m, ref }: Extract<Note, { type: "ack" }>): void {
    if (!leading.tabs.has(from)) return; // it asks again when it knows this leader
    const tell = (fault?: Fault) => this.#tell({ type: "acked", ref, fault }, from);
    leading.connection.ack(sourceOf(key), m).then(() => tell(), (error: TidemarkError) => {
      if (this.#leading === leading) tell(faultOf(error)); // or it asks the next leader
    });
  }

  #readAsFollower(note: Note): void {
    if (note.type === "leading") {
      this.#join();
    } else if (note.type === "acked") {
      const p = this.#pending.get(note.ref);
      this.#pending.delete(note.ref);
      if (note.fault) p?.reject(errorOf(note.fault));
      else p?.resolve();
    } else if ("number" in note) {
      for (const [sink, number] of this.#sinks.get(note.key) ?? []) {
        if (number > note.number) continue;
        if (note.type === "message") sink.message(note.m);
        else if (note.type === "gap") sink.gap(note.gap);
        else if (note.type === "state") sink.state({ ...note.state, error: note.fault && errorOf(note.fault) });
        else if (note.type === "failed") {
          this.remove(sink);
          sink.failed(errorOf(note.fault));
        }
      }
    }
  }

  #lockOf(tab: string): string {
    return `${this.name} ${tab}`;
  }
}

/** Leading is what the leader has. */
interface Leading {
  readonly connection: Connection;
  /** Ends it. */
  readonly end: AbortController;
  /** The sinks of the other tabs, by the keys of their sources. */
  readonly tabs: Map<string, Map<string, { sink: Sink; number: number }>>;
}

/** ended waits until a signal is aborted. */
const ended = (signal: AbortSignal) =>
  new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));

function sourceOf(key: string): Source {
  const [channel, subscriber] = key.split("/") as [string, string];
  return { channel, subscriber };
}
