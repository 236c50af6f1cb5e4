// One message: a line, and what is unfolded below it.
import { html, useMemo, useState } from "./lib/preact.js";
import { base64 } from "./content.js";
import { Copy } from "./form.js";
import { isRounded, Json, line } from "./json.js";
import { absolute, bytes, count, Time, visible } from "./text.js";

const largeContent = 16 << 10; // characters, from which on only the beginning is shown at first
const beginning = 2000;

/** Message is a message of a channel. */
export function Message({ channel, of: m }) {
  const [open, setOpen] = useState(false);
  const beginning = useMemo(() => firstLine(m), [m]);
  return html`<details open=${open} class=${m.fresh ? "fresh" : ""}
    onToggle=${(e) => e.target === e.currentTarget && setOpen(e.currentTarget.open)}>
    <summary><span class="clock">${count(m.clock)}</span><span class="oneline">${beginning}</span>
      <${Time} at=${m.publishedAt} /></summary>
    ${open && html`<${Whole} channel=${channel} of=${m} />`}
  </details>`;
}

/** firstLine returns the line that stands for the content of a message. */
const firstLine = (m) => m.bytes === undefined ? line(m.content)
  : visible(m.contentType) + ", " + (m.content === undefined ? bytes(m.bytes.length) : line(m.content));

/** Whole is a message with all of its content, which is JSON, text, or bytes that are not shown. */
const Whole = ({ channel, of: m }) => m.bytes === undefined ? html`<${WholeJSON} channel=${channel} of=${m} />`
  : html`<div class="whole">
    <${Facts} of=${m} size=${m.bytes.length} />
    ${m.content !== undefined && html`<${Plain} of=${m.content} />`}
    <div>${m.content === undefined ? html`<${Copy} text=${() => base64(m.bytes)} label="Copy the content as base64" />`
      : html`<${Copy} text=${() => m.content} label="Copy the content" />`}</div>
  </div>`;

/** Plain is a text with its lines. */
function Plain({ of: text }) {
  const [all, showAll] = useState(false);
  const isCut = !all && text.length > beginning;
  const lines = (isCut ? text.slice(0, beginning) : text).split("\n");
  return html`<pre class="json plain">${lines.map(visible).join("\n")}</pre>
    ${isCut && html`<div><button type="button" class="link" onClick=${() => showAll(true)}>all of ${
      bytes(text.length)}</button></div>`}`;
}

const Facts = ({ of: m, size }) => html`<dl class="facts">
  <dt>ID</dt><dd class="name">${visible(m.id)}</dd>
  ${m.contentType !== undefined && html`<dt>Type</dt><dd class="name">${visible(m.contentType)}</dd>`}
  <dt>Published</dt><dd>${m.publishedAt ? absolute(Date.parse(m.publishedAt)) : "by the predecessor"}</dd>
  <dt>Size</dt><dd>${bytes(size)}</dd>
</dl>`;

function WholeJSON({ channel, of: m }) {
  const [all, showAll] = useState(false);
  const [size, rounded] = useMemo(
    () => [new Blob([JSON.stringify(m.content)]).size, isRounded(m.content)], [m.content]);
  const isLarge = m.content !== null && typeof m.content === "object" && size > largeContent;
  return html`<div class="whole">
    <${Facts} of=${m} size=${size} />
    ${isLarge && !all ? html`<div class="json">${line(m.content, beginning)}${" "}
        <button type="button" class="link" onClick=${() => showAll(true)}>all of ${bytes(size)}</button></div>`
      : html`<${Json} value=${m.content} open=${isLarge ? 1 : 2} />`}
    ${rounded ? html`
      <p class="notice"><span>Browsers round integers beyond 2⁵³, which are marked with ≈ here. The message has them
      as they were published: <code>tidemark channel peek ${visible(channel)}</code> prints them.</span></p>`
      : html`<div><${Copy} text=${() => JSON.stringify(m.content, null, 2)} label="Copy the content" /></div>`}
  </div>`;
}
