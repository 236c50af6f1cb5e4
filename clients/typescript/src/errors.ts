import type { components } from "./api.js";

/** A problem as the service answers it (RFC 9457). */
export type Problem = components["schemas"]["Problem"];

const typePrefix = "urn:tidemark:problem:";

/**
 * An error that the service answered. If it can't be reached, or what has arrived can't be read, `status` is 0 and
 * `slug` is "unreachable" or "unreadable".
 */
export class TidemarkError extends Error {
  override readonly name = "TidemarkError";

  constructor(
    /** The HTTP status. */
    readonly status: number,
    /** The end of the problem's type, such as "subscriber-not-found"; "" if the answer isn't the service's. */
    readonly slug: string,
    message: string,
    /** After how many seconds trying again may help. */
    readonly retryAfter?: number,
    /** The part of the request that is wrong. */
    readonly field?: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** Whether the same request may succeed later. */
  get temporary(): boolean {
    if (this.credential) return this.slug !== "" && this.retryAfter !== undefined; // as a token that begins in a second
    return [0, 429, 502, 503, 504, 507].includes(this.status);
  }

  /** Whether the credential was refused. */
  get credential(): boolean {
    return this.status === 401;
  }
}

/** problemError returns the error for a problem. */
export function problemError(p: Partial<Problem>, retryAfter = p.retryAfter): TidemarkError {
  const slug = p.type?.startsWith(typePrefix) ? p.type.slice(typePrefix.length) : "";
  const text = `${p.field ? p.field + ": " : ""}${p.detail ?? p.title ?? ""} (${p.status} ${slug})`;
  return new TidemarkError(p.status ?? 0, slug, text, retryAfter, p.field);
}

/** answerError returns the error for an answer that isn't a success. */
export async function answerError(answer: Response): Promise<TidemarkError> {
  const header = answer.headers.get("Retry-After");
  const seconds = header === null ? NaN : Number(header) || (Date.parse(header) - Date.now()) / 1000;
  const retryAfter = seconds > 0 ? seconds : undefined;
  const p = await answer.json().catch(() => null) as Partial<Problem> | null;
  if (p?.type?.startsWith(typePrefix)) return problemError(p, retryAfter ?? p.retryAfter);
  return new TidemarkError(answer.status, "", `status ${answer.status} of a proxy`, retryAfter);
}

/** unreadable returns the error for what isn't what the service sends: something on the way has changed it. */
export function unreadable(cause?: unknown, text = "what has arrived can't be read"): TidemarkError {
  return new TidemarkError(0, "unreadable", text, undefined, undefined, { cause });
}

/** otherType returns the error for a successful answer that the service doesn't send, such as the page of a proxy. */
export function otherType(answer: Response, expected: string, cause?: unknown): TidemarkError {
  const type = answer.headers.get("Content-Type") ?? "without a type";
  if (type.includes(expected.toLowerCase())) return unreadable(cause);
  return unreadable(cause, `the answer is ${type} in place of ${expected}: is the service at ${answer.url}?`);
}

/**
 * noToken returns the error for something else than a token, such as a page that asks the user to log in. A function
 * may return another one later.
 */
export function noToken(another: boolean): TidemarkError {
  const text = "the token is empty or has an invalid character";
  return new TidemarkError(401, "credentials-invalid", text, another ? 1 : undefined);
}

/** failedToken throws the error of a function for tokens that has failed. */
export function failedToken(cause: unknown): never {
  if (cause instanceof TidemarkError) throw cause;
  const text = `the function for tokens has failed: ${String(cause)}`;
  throw new TidemarkError(401, "credentials-invalid", text, 1, undefined, { cause });
}

/** parse returns the JSON object of an answer, an event or a frame. */
export function parse<T>(text: unknown, wrong: (cause?: unknown) => TidemarkError = unreadable): T {
  try {
    const value: unknown = JSON.parse(text as string);
    if (Object(value) === value) return value as T;
  } catch (cause) {
    throw wrong(cause);
  }
  throw wrong();
}

/** unreachable returns the error for a request without an answer. */
export function unreachable(why: string, cause?: unknown): TidemarkError {
  return new TidemarkError(0, "unreachable", why, undefined, undefined, { cause });
}
