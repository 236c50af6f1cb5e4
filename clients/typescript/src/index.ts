/** @module A client of Tidemark, for browsers, Node, Bun, Deno and workers. `Tidemark` is the beginning. */
export { Tidemark, type Options } from "./tidemark.js";
export { TidemarkError, type Problem } from "./errors.js";
export type { TokenSource } from "./http.js";
export type { CallOptions, Channel, Closed, Description, Draft, Published, PublishOptions } from "./channel.js";
export type { Handler, Message, SubscribeOptions, Subscription } from "./subscription.js";
export type { State } from "./route.js";
export type { Gap, TransportName } from "./transport.js";
export type { Assignment, CreatedTicket, NewTicket, Ticket, TicketDescription } from "./tickets.js";
