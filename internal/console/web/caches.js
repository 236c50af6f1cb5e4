// Caches: how often values are found, one value, and what removes values.
import { html, useEffect, useMemo, useState } from "./lib/preact.js";
import { Chart, units } from "./chart.js";
import { Asked, Choice, Confirm, Dialog, Empty, Failure, Form, Text, useAction } from "./form.js";
import { colors, useHistory } from "./history.js";
import { Icon } from "./icons.js";
import { Json } from "./json.js";
import { Lookup } from "./lookup.js";
import { useQuery } from "./router.js";
import { ask, may, returns } from "./service.js";
import { count, plural, visible } from "./text.js";

export function Caches() {
  const [invalidating, invalidate] = useState(false);
  return html`<div class="stack">
    <section class="panel" aria-labelledby="cached">
      <header><h2 id="cached">A cached value</h2><span class="space"></span>
        ${may("write") && html`<button type="button" onClick=${() => invalidate(true)}>Invalidate</button>`}</header>
      <div class="content"><${Lookup} parts=${[["kind", "Kind", "topic"], ["id", "ID", "123"]]} /></div>
      <${Value} />
    </section>
    ${may("admin") && html`<${Rates} />`}
    ${invalidating && html`<${Invalidate} onClose=${() => invalidate(false)} />`}
  </div>`;
}

const sum = (values = []) => values.reduce((all, v) => all + (v ?? 0), 0);
const share = (part, whole) => whole ? `${(part / whole * 100).toFixed(part / whole > 0.995 && part < whole ? 2 : 1)} %`
  : "–";
const shownLines = 5;

function Rates() {
  const { points, error } = useHistory();
  const kinds = useMemo(() => points &&
    Object.entries(points.caches ?? {}).map(
      ([kind, c]) => ({ kind, hits: sum(c.hits), misses: sum(c.misses), columns: c }))
    .filter((c) => c.hits + c.misses > 0).sort((a, b) => b.hits + b.misses - a.hits - a.misses), [points]);
  if (!points) return error ? html`<${Failure} error=${error} />` : null;
  const busiest = kinds.slice(0, shownLines);
  const lines = (of) => busiest.map((c, i) => ({ label: visible(c.kind), color: colors[i], values: of(c.columns) }));
  const each = (name, c) => points.times.map((_, i) => (c[name]?.[i] ?? null));
  return html`<section class="panel"
    aria-labelledby="rates">
    <header><h2 id="rates">Hit rates</h2><span class="dim">of the last hour, of the server that answers</span></header>
    ${kinds.length === 0 ? html`
      <${Empty} title="No cached value was read."><p>The rates appear here when a program reads values.</p><//>` : html`
      <div class="content"><div class="charts">
        <${Chart} title="Hits" times=${points.times} unit=${units.percent}
          lines=${lines((c) => points.times.map(
                (_, i) => c.hits?.[i] || c.misses?.[i]
                ? (c.hits?.[i] ?? 0) / ((c.hits?.[i] ?? 0) + (c.misses?.[i] ?? 0)) * 100 : null))} />
        <${Chart} title="Reads" times=${points.times} unit=${units.perSecond}
          lines=${lines((c) => each("hits", c).map(
                (h, i) => h === null ? null : (h + (c.misses?.[i] ?? 0)) * 1000 / points.intervalMs))} />
      </div></div>
      <div class="scroll"><table>
          <thead><tr><th scope="col">Kind</th><th scope="col" class="end">Hit rate</th>
              <th scope="col" class="end">Hits</th><th scope="col" class="end">Misses</th></tr></thead>
        <tbody>${kinds.map((c) =>
              html`<tr key=${c.kind}><td class="name">${visible(c.kind)}</td>
                <td class="end"><b>${share(c.hits, c.hits + c.misses)}</b></td>
          <td class="end">${count(c.hits)}</td><td class="end">${count(c.misses)}</td></tr>`)}</tbody></table></div>`}
  </section>`;
}

/** useValue asks for one value. A list of one is asked for, since a value alone can be any text. */
function useValue(kind, id) {
  const [state, set] = useState({});
  const [turn, again] = useState(0);
  const back = returns.use();
  useEffect(() => {
    if (!kind || !id) return undefined;
    const stop = new AbortController();
    set({});
    ask(["cache", kind, "get"], { method: "POST", body: { ids: [id] }, signal: stop.signal }).then(
      (a) => set({ data: { found: a.values[0] } }), (error) => stop.signal.aborted || set({ error }));
    return () => stop.abort();
  }, [kind, id, turn, back]);
  return { ...state, reload: () => again((n) => n + 1) };
}

function Value() {
  const [kind] = useQuery("kind");
  const [id] = useQuery("id");
  const of = useValue(kind, id);
  const [removing, remove] = useState(false);
  if (!kind || !id) return null;
  return html`<div class="topped content stack"><${Asked} of=${of} rows=${3} show=${({ found }) => found === undefined
      ? html`<${Empty} title="There is no such value."><p>It was never cached, has expired, or was removed.</p><//>`
      : html`<div class="bounded" tabindex="0" role="region"
        aria-label="Value"><${Json} value=${found.value} open=${2} /></div>
        <div class="row-of"><button type="button" onClick=${of.reload}>Refresh</button>
          ${may("write", `cache/${kind}/${found.id}`, "records") &&
            html`<button type="button" class="danger" onClick=${() => remove(true)}>Remove</button>`}</div>`} />
    ${removing && html`<${Confirm} title="Remove a value" verb="Remove" onClose=${() => remove(false)}
        onConfirm=${async () => {
      await ask(["cache", kind, id], { method: "DELETE" });
      of.reload();
    }}><p>The next read of <b class="name">${visible(kind)}/${visible(id)}
      </b> finds nothing, and its program loads it from its source.</p><//>`}
  </div>`;
}

function Invalidate({ onClose }) {
  const [by, setBy] = useState("tags");
  const [tags, setTags] = useState("");
  const [kind, setKind] = useState("");
  const [prefix, setPrefix] = useState("");
  const [all, setAll] = useState(""); // typed, to remove all of a kind
  const wanted = tags.split(/[\s,]+/).filter(Boolean);
  const whole = by === "kind" && prefix === "";
  const ready = by === "tags" ? wanted.length > 0 : kind.trim() && (!whole || all === kind.trim());
  const action = useAction(
    () => ask(["cache", "invalidate"],
      { method: "POST", body: by === "tags" ? { tags: wanted } : { kind: kind.trim(), prefix } }));
  return html`<${Dialog} title="Invalidate cached values" onClose=${onClose}>
    <p>Values are removed from Redis and from the memory of all servers: the next reads load them from their source.</p>
    <${Form} action=${action}>
      <${Choice} label="Remove the values" value=${by} onValue=${setBy}
        of=${[["tags", "that have one of some tags"], ["kind", "of a kind, by the beginning of their IDs"]]} />
      ${by === "tags" ? html`<${Text} label="Tags" value=${tags} onValue=${setTags} placeholder="topic:5 author:7"
          hint="Separated by spaces." />`
        : html`<${Text} label="Kind" value=${kind} onValue=${setKind} placeholder="search" maxlength="64" />
          <${Text} label="IDs that begin with" value=${prefix} onValue=${setPrefix}
            hint="Empty: all values of the kind." />
          ${whole && kind.trim() &&
            html`<${Text} label=${html`Type <b class="name">${visible(kind.trim())}</b> to remove all of the kind`}
              value=${all} onValue=${setAll} />`}`}
      ${action.done && html`<p class="notice"
          role="status"><${Icon} name="check" /> ${plural(
              action.result.values, "value was", "values were")} removed.</p>`}
      <div class="actions"><button type="button" onClick=${onClose}>${action.done ? "Close" : "Cancel"}</button>
        <button class="danger" disabled=${action.busy || !ready}>Remove</button></div>
    <//>
  <//>`;
}
