// Contents of messages that aren't JSON. They are only ever shown as text: nothing here is markup, an image or a
// script.

const textual = /^text\/|^application\/(xml|javascript|yaml|x-ndjson)(;|$)|\+(json|xml)(;|$)/;

/** textOf returns bytes as text if their type says that they are one, and they are. */
function textOf(bytes, contentType) {
  if (!textual.test(contentType)) return undefined;
  try {
    return new TextDecoder(/;\s*charset=([^;\s]+)/.exec(contentType)?.[1] ?? "utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined; // other bytes, or a charset that the browser doesn't know
  }
}

/**
 * decoded returns a message as the pages show it. One that isn't JSON has bytes, and as its content their text, or
 * nothing if they are no text. It comes with base64 from the service, and with bytes from a tail.
 */
export function decoded(m) {
  if (m.contentType === undefined) return m;
  const bytes = m.content instanceof Uint8Array ? m.content : Uint8Array.from(atob(m.content), (c) => c.charCodeAt(0));
  return { ...m, bytes, content: textOf(bytes, m.contentType) };
}

/** sizeOf returns about how many characters of memory the content of a message takes. */
export const sizeOf = (m) => m.bytes?.length ?? JSON.stringify(m.content ?? null).length;

/** base64 returns the base64 of bytes. */
export const base64 = (bytes) => btoa([...bytes].map((b) => String.fromCharCode(b)).join(""));
