// The options in force, and where each comes from.
import { html, useState } from "./lib/preact.js";
import { Asked, Dialog, Empty, Failure, useAction } from "./form.js";
import { Head } from "./head.js";
import { Icon } from "./icons.js";
import { List } from "./list.js";
import { useQuery } from "./router.js";
import { ask, useAsked } from "./service.js";
import { count, plural, visible } from "./text.js";

const columns = [
  { name: "value", label: "Value", width: "minmax(100px, 2fr)", cell: (o) => o.value
    ? html`<span class="mono" title=${visible(o.value)}>${visible(o.value)}</span>`
    : html`<span class="dim">not set</span>` },
  { name: "source", label: "Set by", width: "minmax(100px, 1.5fr)", from: 520, cell: (o) => o.source
    ? html`<span class="mono" title=${visible(o.source)}>${visible(o.source)}</span>`
    : html`<span class="dim">default</span>` },
  { name: "reloadable", label: "Changes by", width: "90px", from: 760,
    cell: (o) => html`<span class="dim">${o.reloadable ? "reload" : "restart"}</span>` },
];

export default function Configuration() {
  const of = useAsked(["configuration"]);
  const [only, setOnly] = useState("");
  const [all, showAll] = useQuery("all");
  const reload = useAction(async () => {
    const done = await ask(["reload"], { method: "POST" });
    of.reload();
    return done;
  });
  const [shown, show] = useState(null);
  const name = { name: "option", label: "Option", width: "minmax(120px, 240px)",
    cell: (o) => html`<button type="button" class="link name" onClick=${() => show(o)}>${o.option}</button>` };
  const fits = (o) => `${o.option} ${o.group} ${o.value ?? ""}`.toLowerCase().includes(only.toLowerCase());
  return html`<${Head} title="Configuration"><span class="space"></span>
      <button type="button" disabled=${reload.busy} onClick=${reload.run}
        title="Reads the file again, as on SIGHUP, and changes what a reload can change">Reload</button><//>
    ${reload.error && html`<${Failure} error=${reload.error} />`}
    ${reload.done && html`<${Reloaded} of=${reload.result} onClose=${reload.clear} />`}
    <section class="panel" aria-labelledby="options">
      <header><h2 id="options">Options of this server</h2>
        <label class="check"><input type="checkbox" checked=${all !== ""}
          onChange=${(e) => showAll(e.currentTarget.checked ? "true" : "")} /> With defaults</label>
        <span class="space"></span>
        <input type="search" class="filter" aria-label="Options that contain" placeholder="Option or value"
          value=${only} onInput=${(e) => setOnly(e.currentTarget.value)} autocomplete="off" spellcheck=${false} />
      </header>
      <${Asked} of=${of} rows=${8} show=${({ options }) => {
        const rows = options.filter((o) => (all || only || o.source) && fits(o));
        return html`${rows.length > 0
          ? html`<${List} className="tall" label="Options" rows=${rows} rowKey=${(o) => o.option}
              columns=${[name, ...columns]} />`
          : html`<${Empty} title=${only ? "No option matches." : "All options have their defaults."} />`}
        <footer>${count(rows.length)} of ${plural(options.length, "option")}. Secrets are shown as xxxxx. Other servers
          can have other values.</footer>`;
      }} />
    </section>
    ${shown && html`<${Dialog} title=${shown.option} onClose=${() => show(null)}>
      <dl class="facts">
        <dt>Value</dt><dd class="name">${visible(shown.value ?? "not set")}</dd>
        <dt>Set by</dt><dd class="name">${visible(shown.source ?? "default")}</dd>
        <dt>Changes by</dt><dd>${shown.reloadable ? "a reload" : "a restart"}</dd>
        <dt>Section</dt><dd>${shown.group}, in docs/options.md</dd>
      </dl>
    <//>`}`;
}

/** Reloaded says what a reload has changed. */
const Reloaded = ({ of: { changes, restart }, onClose }) => html`<${Dialog} title="The configuration was read again"
  className="wide" onClose=${onClose}>
  ${changes.length === 0 ? html`<p>No option has changed.</p>` : html`
    <p>${plural(changes.length, "option has changed", "options have changed")}:</p>
    <ul class="diff">${changes.map((c) => html`<li key=${c.option}><span class="name">${visible(c.option)}</span>
      <span class="mono bad">${visible(c.from ?? "not set")}</span> <span aria-label="becomes">→</span>
      <span class="mono good">${visible(c.to ?? "not set")}</span></li>`)}</ul>`}
  ${restart.length > 0 && html`<p class="row-of warn"><${Icon} name="warning" />
    <span>Restart the service to change ${restart.join(", ")}.</span></p>`}
  <div class="actions"><button type="button" class="primary" onClick=${onClose}>Close</button></div>
<//>`;
