import type { components } from "./api.js";
import type { Source } from "./transport.js";

type Schemas = components["schemas"];

/** The frames of a socket that a client sends. The answer to one has the same `ref`. */
export type ClientFrame =
  | { type: "authenticate"; ref: number; token: string }
  | ({ type: "subscribe"; ref: number; window?: number } & Source)
  | ({ type: "unsubscribe"; ref: number } & Source)
  | ({ type: "ack"; ref?: number; receiptHandle: string } & Source)
  | ({ type: "publish"; ref: number; channel: string } & Schemas["Draft"] & PublishExtras)
  | { type: "ping"; ref: number };

/** What few publishes have. */
export interface PublishExtras {
  producer?: { id: string; epoch: number; sequence: number };
  order?: string;
  close?: boolean;
}

/** The frames that the service sends. */
export type ServerFrame =
  | { type: "ok"; ref: number }
  | { type: "acked"; ref: number }
  | { type: "pong"; ref: number }
  | ({ type: "published"; ref: number } & Schemas["Published"])
  | ({ type: "message"; receiptHandle: string } & Source & Schemas["Message"])
  | ({ type: "gap"; reason: string; count: number; receiptHandle?: string } & Source)
  | ({ type: "closed" } & Source)
  | ({ type: "error"; ref?: number; problem: Schemas["Problem"] } & Partial<Source>)
  | { type: "ping" }
  | { type: "end"; reason: string };
