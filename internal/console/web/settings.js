// Settings: secret ones are masked until a person asks for one.
import { html, useEffect, useState } from "./lib/preact.js";
import { Area, Asked, Choice, Confirm, Copy, Dialog, Empty, Failure, Form, Text, useAction, Waiting } from "./form.js";
import { List } from "./list.js";
import { useQuery } from "./router.js";
import { ask, may, useAsked, usePages } from "./service.js";
import { plural, visible } from "./text.js";

const categories = ["database", "auth", "redis", "search", "integrations", "security", "logging", "features", "other"];
const validName = /^[A-Za-z_][A-Za-z0-9_.-]*$/;
const writes = (name) => may("write", `settings/${name}`, "records");

export function Settings() {
  const [category, setCategory] = useQuery("category");
  const of = usePages(["settings"], { query: { category }, items: (a) => a.settings });
  const [acted, act] = useState(null); // on which setting, and how
  const close = () => act(null);
  useEffect(() => { // a page can be shorter than its limit
    if (of.rows?.length < 100 && of.cursor && !of.busy) of.more();
  });
  const columns = [
    { name: "name", label: "Setting", width: "minmax(120px, 280px)",
      cell: (s) => html`<button type="button" class="link name"
        onClick=${() => act({ how: "show", s })}>${visible(s.name)}</button>` },
    { name: "category", label: "Category", width: "104px", from: 560,
      cell: (s) => html`<span class="dim">${s.category}</span>` },
    { name: "value", label: "Value", width: "minmax(80px, 1fr)", cell: (s) => s.secret
      ? html`<span class="dim" title="A secret">••••••••</span><span class="spoken">a secret</span>`
        : html`<span class="oneline">${visible((s.value ?? "").slice(0, 200))}</span>` },
    { name: "acts", label: html`<span class="spoken">Actions</span>`, width: "124px", end: true, from: 420,
      cell: (s) => writes(s.name) && html`
      <button type="button" class="link" aria-label=${`Change ${s.name}`}
        onClick=${() => act({ how: "change", s })}>Change</button>${" · "}<button type="button"
        class="link" aria-label=${`Delete ${s.name}`} onClick=${() => act({ how: "delete", s })}>Delete</button>` },
  ];
  return html`<section class="panel" aria-labelledby="settings">
    <header><h2 id="settings">Settings</h2>
      <span class="dim">${of.rows && plural(of.rows.length, "setting") + (of.cursor ? " so far" : "")}</span>
      <span class="space"></span>
      <select class="filter" aria-label="Category" value=${category}
        onChange=${(e) => setCategory(e.currentTarget.value)}>
        <option value="">all categories</option>
          ${categories.map((c) => html`<option key=${c} value=${c}>${c}</option>`)}</select>
      ${may("write") && html`<button type="button" onClick=${() => act({ how: "change" })}>New setting</button>`}
        </header>
    <${Asked} of=${of} rows=${6} show=${(rows) => rows.length > 0
      ? html`<${List} className="tall" label="Settings" rows=${rows} rowKey=${(s) => s.name} columns=${columns}
        onEnd=${of.more} />`
      : of.cursor ? null : html`
        <${Empty} title=${category ? `No setting is in “${category}”.` : "There are no settings."}>
          <p>A setting is a text by its name, which programs read and are told of when it changes.</p><//>`} />
    ${acted?.how === "show" &&
      html`<${Shown} of=${acted.s} onClose=${close} onChange=${() => act({ how: "change", s: acted.s })}
      onDelete=${() => act({ how: "delete", s: acted.s })} />`}
    ${acted?.how === "change" && html`<${Change} of=${acted.s} onClose=${close} onDone=${of.reload} />`}
    ${acted?.how === "delete" &&
      html`<${Confirm} title="Delete a setting" verb="Delete" name=${acted.s.name} onClose=${close}
        onConfirm=${async () => {
      await ask(["settings", acted.s.name], { method: "DELETE" });
      of.reload();
    }}><p>Programs that follow the channel <code>settings</code> are told at once.</p><//>`}
  </section>`;
}

/** Shown is a setting. The value of a secret is asked for when a person wants to see it. */
function Shown({ of: s, onClose, onChange, onDelete }) {
  const [asked, askFor] = useState(!s.secret);
  const of = useAsked(asked ? ["settings", s.name] : null);
  return html`<${Dialog} className="wide" title=${visible(s.name)} onClose=${onClose}>
    <p class="dim">${s.category}${s.secret && ", a secret"}</p>
    ${!asked ? may("admin")
      ? html`<div><button type="button" onClick=${() => askFor(true)}>Show the secret</button></div>`
        : html`<p>Its value is shown only to keys with the action “admin”.</p>`
      : of.error ? html`<${Failure} error=${of.error} />`
        : of.data ? html`<pre class="value" tabindex="0" aria-label="Value">${visible(of.data.value ?? "")}</pre>`
          : html`<${Waiting} rows=${1} />`}
    <div class="actions">${of.data?.value !== undefined && html`<${Copy} text=${of.data.value} />`}
      ${writes(s.name) && html`<button type="button" class="danger" onClick=${onDelete}>Delete</button>
        <button type="button" onClick=${onChange}>Change</button>`}
      <button type="button" onClick=${onClose}>Close</button></div>
  <//>`;
}

function Change({ of: s, onClose, onDone }) {
  const [name, setName] = useState(s?.name ?? "");
  const [value, setValue] = useState(s && !s.secret ? s.value ?? "" : "");
  const [secret, setSecret] = useState(s ? String(s.secret) : "");
  const action = useAction(async () => {
    await ask(["settings", name], { method: "PUT", body: { value, ...(secret && { secret: secret === "true" }) } });
    onDone();
    onClose();
  });
  return html`<${Dialog} className="wide" title=${s ? `Change ${visible(s.name)}` : "New setting"} onClose=${onClose}>
    <${Form} action=${action}>
      ${!s && html`<${Text} label="Name" value=${name} onValue=${setName} autofocus maxlength="128"
          placeholder="LOG_LEVEL"
        error=${name && !validName.test(name) ? "Letters, digits and “_.-”, a letter or “_” first." : undefined} />`}
      <${Area} label="Value" value=${value} onValue=${setValue} rows="6" maxlength="16384"
        hint=${s?.secret ? "The value that it has isn’t shown here: what is entered replaces it." : undefined} />
      <${Choice} label="Secret" value=${secret} onValue=${setSecret}
        of=${[...(s ? [] : [["", "by its name"]]), ["false", "no"], ["true", "yes: lists don’t show its value"]]} />
      <div class="actions"><button type="button" onClick=${onClose}>Cancel</button>
        <button class="primary"
          disabled=${action.busy || !validName.test(name) || s?.secret && !value}>${s ? "Change" : "Create"}</button>
          </div>
    <//>
  <//>`;
}
