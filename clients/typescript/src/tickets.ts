import type { components } from "./api.js";
import { newId, type CallOptions, type Channel } from "./channel.js";
import { TidemarkError } from "./errors.js";
import type { Http } from "./http.js";
import { joined, pause, within } from "./pace.js";

type Schemas = components["schemas"];

/** A ticket to create. */
export type NewTicket = Schemas["NewTicket"];
export type CreatedTicket = Schemas["CreatedTicket"];
export type TicketDescription = Schemas["Ticket"];

/** The server that a player connects to, and the match. */
export type Assignment = Schemas["Assignment"];

/** How long a ticket isn't looked at while its assignment is awaited, in milliseconds: with a channel, and without. */
const lookAfter = 20_000;
const lookOften = 2_000;

const ended = (slug: string, text: string) => new TidemarkError(410, slug, text);

/** A request to be matched. */
export class Ticket {
  /** The ticket as it was created, or the error of that. */
  readonly created: Promise<CreatedTicket>;

  constructor(
    readonly id: string,
    readonly http: Http,
    readonly channel: (name: string) => Channel<Assignment>,
    created?: Promise<CreatedTicket>,
  ) {
    this.created = created ?? this.get();
    this.created.catch(() => {}); // the calls throw it
  }

  get(options: CallOptions = {}): Promise<TicketDescription> {
    return this.http.call(["tickets", this.id], options);
  }

  /** Cancels the ticket, and ends `assignment` for it. It fails with "ticket-matched" if there is an assignment. */
  async cancel(options: CallOptions = {}): Promise<void> {
    await this.http.call(["tickets", this.id], { ...options, method: "DELETE" });
  }

  /** Waits for the assignment. It fails with "ticket-cancelled" or "ticket-expired" if there is none any more. */
  async assignment(options: { signal?: AbortSignal } = {}): Promise<Assignment> {
    const { channel, subscriber } = await within(this.created, options.signal);
    const done = joined(options.signal);
    const { signal } = done;
    try {
      let over = false; // the subscription, without the message
      const message = this.#message(channel, subscriber, signal).finally(() => (over = true));
      const longest = channel ? lookAfter : lookOften;
      for (;;) {
        const t = await this.get({ signal, retryFor: Infinity });
        if (t.assignment) return t.assignment; // its message may have been acknowledged before
        if (t.status === "CANCELLED") throw ended("ticket-cancelled", "the ticket was cancelled");
        if (t.status === "EXPIRED") throw ended("ticket-expired", "the ticket expired without a match");
        const wait = pause(Math.min(longest, Math.max(1000, Date.parse(t.expireTime) - Date.now())), signal);
        const assignment = await Promise.race(over ? [wait] : [message, wait]);
        if (assignment) return assignment;
      }
    } finally {
      done.abort();
    }
  }

  /** #message waits for the message with the assignment. It returns undefined if its subscription ends before. */
  async #message(channel: string | undefined, subscriber: string | undefined, signal: AbortSignal) {
    if (!channel || !subscriber) return undefined; // the queue's tickets have none
    try {
      const options = { create: false, ack: "manual", signal } as const;
      for await (const m of this.channel(channel).subscribe(subscriber, options)) {
        if (m.id !== "assignment-" + m.content.matchId) continue;
        void m.ack().catch(() => {}); // without it the message is only delivered again
        return m.content;
      }
    } catch {
      // The ticket's status says more.
    }
    return undefined;
  }
}

/** The tickets of the service. */
export class Tickets {
  constructor(
    readonly http: Http,
    readonly channel: (name: string) => Channel<Assignment>,
  ) {}

  /** Creates a ticket, once, even if the call is tried again. */
  create(ticket: NewTicket, options: CallOptions = {}): Ticket {
    const body = { ...ticket, id: ticket.id ?? newId() };
    const created = this.http.call<CreatedTicket>(["tickets"], { ...options, method: "POST", body });
    return new Ticket(body.id, this.http, this.channel, created);
  }

  /** Returns a ticket that exists, as after the page was loaded again. */
  open(id: string): Ticket {
    return new Ticket(id, this.http, this.channel);
  }
}
