// Records: kinds, sessions, settings, locks, states, statistics and caches, each in a tab.
import { html, useEffect, useMemo, useRef, useState } from "./lib/preact.js";
import { Caches } from "./caches.js";
import { Asked, Confirm, Dialog, Empty } from "./form.js";
import { Head } from "./head.js";
import { List } from "./list.js";
import { Lookup } from "./lookup.js";
import { at, go, useQuery } from "./router.js";
import { ask, credential, isFree, may, useAsked } from "./service.js";
import { Sessions } from "./sessions.js";
import { Settings } from "./settings.js";
import { Statistics } from "./statistics.js";
import { Progress, Surveyed, totalsOf, useSurvey } from "./survey.js";
import { bytes, count, plural, span, Time, visible } from "./text.js";

const tabs = [
  ["kinds", "Kinds", "kinds"], ["sessions", "Sessions", "sessions/"], ["settings", "Settings", "settings"],
    ["locks", "Locks", "locks/"],
  ["states", "States", "states/"], ["statistics", "Statistics", "stats/"], ["caches", "Caches", "cache/"],
];

/** mayRead reports whether the key may read any record whose name begins so. */
function mayRead(beginning) {
  const of = credential.get();
  return isFree(of) || of.grants.some((g) => g.actions.includes("read") && (!g.records || g.records.some((pattern) => {
    const plain = pattern.split(/[*{]/)[0];
    return plain.startsWith(beginning) || pattern !== plain && beginning.startsWith(plain);
  })));
}

export default function Records() {
  const shown = tabs.filter(([, , beginning]) => mayRead(beginning));
  const [tab] = useQuery("show", shown[0]?.[0]);
  const parts = { kinds: Kinds, sessions: Sessions, settings: Settings, locks: Locks, states: States,
    statistics: Statistics, caches: Caches };
  const Part = shown.some(([name]) => name === tab) ? parts[tab] : undefined;
  const element = useRef();
  useEffect(() => { // in a narrow window some tabs are beyond the edge
    element.current.querySelector("[aria-pressed=true]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [tab]);
  return html`<${Head} title="Records" />
    <div class="tabs" ref=${element} role="group" aria-label="What to show">
      ${shown.map(([name, text]) =>
          html`<button key=${name} type="button" aria-pressed=${tab === name}
            onClick=${() => go(at("records", { show: name }))}>${text}</button>`)}
    </div>
    ${Part ? html`<${Part} key=${tab} />`
      : html`<section class="panel"><${Empty} title="This key may not read these records." /></section>`}`;
}

const kindColumns = [
  { name: "pattern", label: "Key", width: "minmax(140px, 1.7fr)", from: 560,
    cell: (k) => html`<span class="mono" title=${k.pattern}>${visible(k.pattern)}</span>` },
  { name: "form", label: "Content", width: "minmax(120px, 1.3fr)", from: 1240,
    cell: (k) => html`<span title=${k.form}>${visible(k.form)}</span>` },
  { name: "secret", label: html`<span class="spoken">Secrecy</span>`, width: "56px", from: 420,
    cell: (k) => k.secret && html`<span class="tag warn">secret</span>` },
  { name: "type", label: "Type", width: "60px", from: 760, cell: (k) => html`<span class="dim">${k.type}</span>` },
  { name: "ttl", label: "Lives for", width: "minmax(72px, 90px)", end: true, from: 420,
    cell: (k) => k.ttl ? span(k.ttl) : html`<span title=${k.permanent}>permanent</span>` },
  { name: "maxBytes", label: "At most", width: "84px", end: true, from: 960, cell: (k) => bytes(k.maxBytes) },
  { name: "redis", label: "Redis", width: "72px", from: 860, cell: (k) => html`<span class="dim">${k.redis}</span>` },
];

/** sortedBy returns first the kinds that have keys, in the order of the table, or those with the most keys or bytes. */
const sortedBy = (kinds, sort, totals) => {
  const rank = (k) => sort === "" ? Number(totals.has(k.name)) : totals.get(k.name)?.[sort] ?? -1;
  return [...kinds].sort((a, b) => rank(b) - rank(a));
};

function Kinds() {
  const of = useAsked(["kinds"]);
  const surveying = useSurvey();
  const [only, setOnly] = useState("");
  const [shown, show] = useState(null);
  const totals = useMemo(() => totalsOf(surveying.survey), [surveying.survey]);
  const all = useMemo(() => {
    const known = of.data?.kinds ?? [];
    const names = new Set(known.map((k) => k.name));
    return [...known, ...[...totals.keys()].filter((name) => !names.has(name)).map(
        (name) => ({ name, pattern: "", form: "", other: true }))];
  }, [of.data, totals]);
  const [sort, setSort] = useState("");
  const rows = sortedBy(all.filter((k) => (k.name + " " + k.pattern).includes(only)), sort, totals);
  const columns = [
    { name: "name", label: "Kind", width: "minmax(110px, 180px)",
      cell: (k) => html`<button type="button" class="link name" onClick=${() => show(k)}>${visible(k.name)}</button>` },
    ...kindColumns.map((c) => c.name === "ttl" || c.name === "maxBytes"
      ? { ...c, cell: (k) => k.other ? html`<span class="dim">–</span>` : c.cell(k) } : c),
    ...(totals.size > 0 ? [
      { name: "keys", label: "Keys", width: "72px", end: true, sortable: true, cell: (k) => totals.has(k.name)
        ? html`${totals.get(k.name).problems > 0 && html`<span class="warn" title="Some have a problem">! </span>`}
          <b>${count(totals.get(k.name).keys)}</b>` : html`<span class="dim">–</span>` },
      { name: "bytes", label: "Memory", width: "80px", end: true, sortable: true,
        cell: (k) => totals.has(k.name) ? bytes(totals.get(k.name).bytes) : html`<span class="dim">–</span>` },
    ] : []),
  ];
  return html`<section class="panel" aria-labelledby="kinds">
    <header><h2 id="kinds">Kinds of keys</h2>
      <span class="dim">${of.data && (only ? `${count(rows.length)} of ${count(all.length)}` : count(rows.length))}
        ${of.data && totals.size > 0 && !only && `, ${count(totals.size)} of them with keys`}</span>
      <${Progress} of=${surveying} />
      <span class="space"></span>
        <input type="search" class="filter" aria-label="Kinds that contain" placeholder="Kind or key" value=${only}
        onInput=${(e) => setOnly(e.currentTarget.value)} autocomplete="off" spellcheck=${false} /></header>
    <${Asked} of=${of} rows=${8} show=${() => rows.length > 0
      ? html`<${List} className="tall" label="Kinds of keys" rows=${rows} rowKey=${(k) => k.name} columns=${columns}
          sort=${sort} onSort=${(name) => setSort(name === sort ? "" : name)} />`
      : html`<${Empty} title="No kind matches." />`} />
    ${shown && html`<${Dialog} className="wide" title=${visible(shown.name)} onClose=${() => show(null)}>
      ${!shown.other && html`<dl class="facts even">
        <dt>Key</dt><dd class="name">${visible(shown.pattern)}</dd>
        <dt>Content</dt><dd>${visible(shown.form)}, ${shown.type}${shown.secret && ", secret"}</dd>
        <dt>Lives for</dt><dd>${shown.ttl ? span(shown.ttl) : `ever: ${visible(shown.permanent ?? "")}`}</dd>
        <dt>At most</dt><dd>${bytes(shown.maxBytes)}</dd>
        <dt>Redis</dt><dd>${shown.redis}</dd>
      </dl>`}
      ${totals.has(shown.name) ? html`<${Surveyed} of=${totals.get(shown.name).parts} />`
        : html`<p class="dim">${totals.size > 0 ? "It has no keys." : "Its keys have not been counted."}</p>`}
    <//>`}
  </section>`;
}

function Locks() {
  const [op] = useQuery("op");
  const [id] = useQuery("id");
  const wanted = op && id;
  const of = useAsked(wanted ? ["locks", op, id] : null, { every: 1000 });
  return html`<section class="panel" aria-labelledby="locks"><header><h2 id="locks">Is a lock held?</h2></header>
    <div class="content"><${Lookup} parts=${[["op", "Operation", "resize"], ["id", "Of what", "image-7"]]} /></div>
    ${wanted && html`<div class="topped content"><${Asked} of=${of} rows=${2} show=${(l) => html`<dl class="facts">
      <dt>State</dt><dd>${l.held ? html`<span class="tag warn">held</span>` : html`<span class="tag good">free</span>`}
        </dd>
      ${l.held && html`<dt>Ends</dt>
        <dd><${Time} at=${l.expiresAt} /> <span class="dim">unless it is renewed</span></dd>`}
      ${l.fence && html`<dt>Fence</dt>
        <dd><span class="mono">${l.fence}</span> <span class="dim">of the ${l.held ? "" : "last "}holder</span></dd>`}
    </dl>`} /></div>`}
    <footer>Only its holder can end a lock, with its token; else it ends by itself.</footer>
  </section>`;
}

function States() {
  const [process] = useQuery("process");
  const [id] = useQuery("id");
  const wanted = process && id;
  const of = useAsked(wanted ? ["states", process, id] : null, { every: 2000 });
  const [removing, remove] = useState(false);
  const missing = of.error?.status === 404;
  return html`<section class="panel"
    aria-labelledby="states"><header><h2 id="states">State of a process</h2><span class="space"></span>
      ${of.data && !missing && may("write", `states/${process}/${id}`, "records") &&
        html`<button type="button" class="danger" onClick=${() => remove(true)}>Delete</button>`}</header>
    <div class="content"><${Lookup} parts=${[["process", "Process", "import"], ["id", "Run", "7"]]} /></div>
    ${wanted && html`<div class="topped">
        ${missing ? html`<${Empty} title="There is no such state."><p>It has expired, or was never written.</p><//>`
      : html`<${Asked} of=${of} rows=${3} show=${(s) => html`
        <table class="named"><thead><tr><th scope="col">Field</th><th scope="col">Value</th></tr></thead>
          <tbody>${Object.keys(s.fields).sort().map(
                (name) => html`<tr key=${name}><th scope="row" class="name">${visible(name)}</th>
            <td><${Long} text=${s.fields[name]} /></td></tr>`)}</tbody></table>
        <p class="foot">${plural(Object.keys(s.fields).length, "field")}
          ${s.expiresAt && html`${", ends "}<${Time} at=${s.expiresAt} />`}</p>`} />`}</div>`}
    ${removing && html`<${Confirm} title="Delete the state" verb="Delete" onClose=${() => remove(false)}
        onConfirm=${async () => {
      await ask(["states", process, id], { method: "DELETE" });
      of.reload();
    }}><p>The state of <b class="name">${visible(process)}</b>, <b class="name">${visible(id)}
      </b> is removed for good.</p><//>`}
  </section>`;
}

const shortText = 300;

/** Long is a text of any length, of which the beginning is shown at first. */
function Long({ text }) {
  const [all, setAll] = useState(false);
  const cut = !all && text.length > shortText;
  return html`<span class="mono long">${visible(cut ? text.slice(0, shortText) : text)}</span>
    ${cut && html`${"… "}<button type="button" class="link"
    onClick=${() => setAll(true)}>all of ${bytes(text.length)}</button>`}`;
}
