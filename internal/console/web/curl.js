// The command that does what a form of the console does.
import { html } from "./lib/preact.js";
import { Copy } from "./form.js";
import { root } from "./router.js";
import { credential, hasKey } from "./service.js";

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** curlOf returns the command of a call. It has the name of a variable in place of this tab's key. */
export function curlOf({ method, path, body }) {
  const words = ["curl -sS"];
  if (method !== "GET" && !(method === "POST" && body)) words.push("-X " + method);
  if (hasKey()) words.push('-H "Authorization: Bearer $TIDEMARK_TOKEN"');
  if (body) words.push("-H 'Content-Type: application/json'", "--data-raw " + quoted(body));
  const isSocket = credential.get()?.kind === "admin"; // this page comes from tidemark console, whose cookie curl lacks
  if (isSocket) words.push("--unix-socket tidemark-data/admin.sock");
  words.push(quoted((isSocket ? "http://localhost/" : root) + path.slice(1)));
  return words.join(" ");
}

/** CopyCurl is a button that copies the command of a call. */
export const CopyCurl = ({ of }) => html`<${Copy} label="Copy as curl" text=${() => curlOf(of)} />`;
