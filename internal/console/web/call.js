// A form that makes any call of the API, and shows its answer.
import { html, useEffect, useRef, useState } from "./lib/preact.js";
import { CopyCurl } from "./curl.js";
import { Area, Choice, Form, Text, useAction } from "./form.js";
import { Head } from "./head.js";
import { jsonFault } from "./json.js";
import { climbs, root } from "./router.js";
import { call } from "./service.js";
import { bytes, millis, visible } from "./text.js";

const methods = ["GET", "POST", "PUT", "PATCH", "DELETE"].map((m) => [m, m]);

/** isBelowRoot reports whether a path stays below the service, also if a proxy decodes what is encoded. */
function isBelowRoot(path) {
  const [below] = path.split(/[?#]/);
  const decoded = below.replace(/%2e/gi, ".").replace(/%2f/gi, "/").replace(/%5c/gi, "\\");
  return /^\/(?!\/)[^\\\t\r\n]*$/.test(below) && !climbs(decoded) && !/[\t\r\n]/.test(path) &&
    new URL(root + path.slice(1)).href.startsWith(root);
}

const hasBody = (method) => method !== "GET" && method !== "DELETE";

export default function Call() {
  const [method, setMethod] = useState("GET");
  const [path, setPath] = useState("/v1/info");
  const [body, setBody] = useState("");
  const stop = useRef();
  useEffect(() => () => stop.current?.abort(), []);
  const wrong = isBelowRoot(path.trim()) ? undefined
    : "A path begins with one “/” and stays below it, such as /v1/info, without “..”, “\\” and tabs.";
  const fault = hasBody(method) && body.trim() ? jsonFault(body) : undefined;
  const of = { method, path: path.trim(), body: hasBody(method) ? body : "" };
  const action = useAction(() => {
    stop.current = new AbortController();
    return call({ ...of, signal: stop.current.signal });
  });
  return html`<${Head} title="Try a call" />
    <section class="panel" aria-label="Call"><div class="content">
      <${Form} action=${action}>
        <p class="dim">The service does what you send at once. <a href=${root + "v1/openapi.yaml"} target="_blank"
          rel="noreferrer">The description of the API</a> has all calls.</p>
        <div class="call">
          <${Choice} label="Method" value=${method} onValue=${setMethod} of=${methods} />
          <${Text} label="Path, with its query" value=${path} onValue=${setPath} error=${wrong} />
        </div>
        ${hasBody(method) && html`<${Area} label="Body, in JSON (optional)" value=${body} onValue=${setBody} rows="6"
          error=${fault} />`}
        <div class="actions"><${CopyCurl} of=${of} />
          ${action.busy && html`<button type="button" onClick=${() => stop.current.abort()}>Stop</button>`}
          <button class=${method === "DELETE" ? "danger" : "primary"}
            disabled=${action.busy || wrong !== undefined || fault !== undefined}>
            ${action.busy ? "Waiting …" : "Send"}</button></div>
      <//>
    </div></section>
    ${action.result && html`<${Answer} of=${action.result} />`}`;
}

/** Answer shows the answer of a call. */
const Answer = ({ of: { status, took, headers, text, size, cut } }) => html`<section class="panel"
  aria-labelledby="answer">
  <header><h2 id="answer">Answer</h2>
    <span class=${"tag " + (status < 400 ? "good" : "bad")} role="status">${status}</span>
    <span class="dim">after ${millis(took)}, ${cut ? `the first ${bytes(size)}` : bytes(size)}</span></header>
  <div class="content stack">
    <details><summary>Headers</summary><dl class="facts">
      ${headers.map(([name, value], i) => html`<dt key=${i} class="name">${visible(name)}</dt>
        <dd class="name">${visible(value)}</dd>`)}</dl></details>
    ${text ? html`<pre class="value" tabindex="0" aria-label="Body">${shown(text)}</pre>`
      : html`<p class="dim">It has no body.</p>`}
  </div>
</section>`;

/** shown returns a body as people read it: JSON with a member a line, unless numbers would be rounded. */
function shown(text) {
  let pretty = text;
  try {
    const value = JSON.parse(text);
    if (JSON.stringify(value) === text.trim()) pretty = JSON.stringify(value, null, 2);
  } catch {
    // no JSON, or a part of it
  }
  return pretty.split("\n").map(visible).join("\n");
}
