// JSON as a tree that can be folded.
import { html, useState } from "./lib/preact.js";
import { bytes, plural, visible } from "./text.js";

const longText = 400; // characters of a string that are shown at first
const manyItems = 100; // items of a list or an object that are shown at first
const furtherItems = 500; // that are shown on demand, each time

/** Json shows a value. Lists and objects below open levels are folded; what is large is shown on demand. */
export function Json({ value, name, open = 1 }) {
  if (value === null || typeof value !== "object") {
    return html`<div class="json">${name !== undefined && html`<${Name} of=${name} />`}<${Scalar} value=${value} />
      </div>`;
  }
  return html`<${Branch} value=${value} name=${name} open=${open} />`;
}

const Name = ({ of }) =>
  html`<span class="member">${typeof of === "number" ? of : visible(JSON.stringify(of)).slice(1, -1)}</span>${": "}`;

/** isLarge reports whether a number is an integer that JavaScript may have rounded when it read it. */
const isLarge = (value) => Number.isInteger(value) && !Number.isSafeInteger(value);

/** isRounded reports whether a value has an integer that may have been rounded. */
export function isRounded(value) {
  let found = false;
  JSON.stringify(value, (_, v) => {
    found ||= isLarge(v);
    return v;
  });
  return found;
}

function Scalar({ value }) {
  const [all, setAll] = useState(false);
  if (isLarge(value)) return html`
    <span class="scalar number" title="Browsers round integers beyond 2⁵³.">≈ ${String(value)}</span>`;
  if (typeof value !== "string") return html`
    <span class=${"scalar " + (value === null ? "null" : typeof value)}>${String(value)}</span>`;
  const cut = !all && value.length > longText;
  return html`<span class=${"scalar string" + (all ? " whole" : "")} tabindex=${all ? 0 : undefined}
      >${visible(JSON.stringify(cut ? value.slice(0, longText) : value))}</span>
    ${cut && html`<button type="button" class="link"
        onClick=${() => setAll(true)}>all of ${bytes(value.length)}</button>`}`;
}

function Branch({ value, name, open }) {
  const [isOpen, setOpen] = useState(open > 0);
  const [limit, setLimit] = useState(manyItems);
  const isList = Array.isArray(value);
  const members = isList ? value : Object.keys(value);
  const size = isList ? `[${plural(members.length, "item")}]` : `{${plural(members.length, "member")}}`;
  return html`<details class="json" open=${isOpen}
    onToggle=${(e) => e.target === e.currentTarget && setOpen(e.currentTarget.open)}>
    <summary>${name !== undefined && html`<${Name} of=${name} />`}<span class="size">${size}</span></summary>
    ${isOpen && html`<div class="members">
      ${members.slice(0, limit).map(
          (m, i) => html`<${Json} key=${i} name=${isList ? i : m} value=${isList ? m : value[m]}
        open=${open - 1} />`)}
      ${members.length > limit &&
        html`<button type="button" class="link" onClick=${() => setLimit(limit + furtherItems)}>
        ${plural(members.length - limit, "more")}
      </button>`}
    </div>`}
  </details>`;
}

/** line returns a value as one line of at most so many characters. It reads about as much of the value. */
export function line(value, length = 200) {
  const text = beginning(value, length);
  return visible(text.length > length ? text.slice(0, length) + "…" : text);
}

/** beginning returns a value as JSON, in which large integers are marked; a longer one up to or beyond length. */
function beginning(value, length) {
  if (typeof value === "string") return JSON.stringify(value.slice(0, length));
  if (value === null || typeof value !== "object") return JSON.stringify(isLarge(value) ? `≈ ${value}` : value) ?? "";
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  let text = open;
  for (const name in value) {
    if (text.length > length) return text;
    if (text.length > 1) text += ",";
    if (open === "{") text += JSON.stringify(name.slice(0, length)) + ":";
    text += beginning(value[name], length);
  }
  return text + close;
}

/** jsonFault returns what is wrong with a JSON text, or undefined. */
export function jsonFault(text) {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return `Not JSON: ${error.message.replace(/^JSON\.parse: /, "")}`;
  }
}
