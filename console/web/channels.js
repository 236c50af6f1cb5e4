// All channels, by prefix.
import { html, useEffect, useMemo, useRef, useState } from "./lib/preact.js";
import { Asked, Empty, Form, Text, useAction } from "./form.js";
import { Head } from "./head.js";
import { Icon } from "./icons.js";
import { List } from "./list.js";
import { at, go, useQuery } from "./router.js";
import { may, usePages } from "./service.js";
import { count, duration, plural, rate, visible } from "./text.js";

const name = { name: "channel", label: "Channel", width: "minmax(120px, 1fr)", sortable: true,
  cell: (c) => html`<a class="name" href=${at("channels", c.channel)}>${visible(c.channel)}</a>` };
const subscribers = { name: "subscriberCount", label: "Subscribers", width: "minmax(70px, 100px)", end: true,
  sortable: true, from: 640,
  cell: (c) => count(c.subscriberCount) };
const clock = { name: "clock", label: "Clock", width: "minmax(70px, 150px)", end: true, sortable: true,
  cell: (c) => html`<span title=${String(c.clock)}>${count(c.clock)}</span>` };
const life = { name: "ttlMs", label: "Lives for", width: "minmax(70px, 110px)", end: true, sortable: true, from: 760,
  cell: (c) => html`<span title="without further activity">${duration(c.ttlMs)}</span>` };

/** What takes Redis a script for each channel, and is asked for only if a person wants it. */
const details = [
  { name: "lag", label: "Lag", width: "minmax(56px, 90px)", end: true, sortable: true, cell: ({ details: d }) => d &&
    html`<span class=${d.lag > 0 ? "warn" : "dim"}
      title=${d.slowest ? `of ${visible(d.slowest)}${d.partial ? ", among the first subscribers" : ""}` : ""}>
      ${count(d.lag)}${d.partial ? "+" : ""}</span>` },
  { name: "messages", label: "Messages", width: "minmax(64px, 100px)", end: true, sortable: true, from: 420,
    cell: ({ details: d }) => d && count(d.messages) },
  { name: "rate", label: "Rate", width: "minmax(50px, 80px)", end: true, sortable: true, from: 520,
    cell: ({ details: d }) => d &&
      (d.rate === undefined ? html`<span class="dim" title="Known from the second look on">–</span>`
        : rate(d.rate) + "/s") },
];

const enough = { plain: 500, detailed: 100 }; // channels that are asked for without scrolling

export default function Channels() {
  return may("admin") ? html`<${All} />` : html`<${ByName} />`;
}

function All() {
  const [prefix, setPrefix] = useQuery("prefix");
  const [typed, setTyped] = useState(prefix);
  const [sort, setSort] = useQuery("sort", "channel");
  const timer = useRef();
  useEffect(() => setTyped(prefix), [prefix]);
  const [detailed, setDetailed] = useQuery("details");
  const of = usePages(["channels"], { query: { prefix, details: detailed }, items: (a) => a.channels });
  const rows = useMemo(() => sorted(of.rows ?? [], sort), [of.rows, sort]);
  const [by, descending] = direction(sort);
  const search = (value) => {
    setTyped(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setPrefix(value), 250);
  };
  useEffect(() => { // a page can have few channels, or none, although others follow
    if (of.rows?.length < (detailed ? enough.detailed : enough.plain) && of.cursor && !of.busy) of.more();
  });
  return html`<${Head} title="Channels">
      <span class="dim">${of.rows && !of.error && plural(of.rows.length, "channel") + (of.cursor ? " so far" : "")}
        </span>
    <//>
    <div class="row-of">
      <div class="search" role="search"><${Icon} name="search" />
        <input type="search" aria-label="Names that begin with" placeholder="Names that begin with …" autocomplete="off"
          spellcheck=${false} value=${typed} onInput=${(e) => search(e.currentTarget.value)} /></div>
      <label class="check" title="Costs Redis a script for each channel of the list">
        <input type="checkbox" checked=${detailed !== ""}
          onChange=${(e) => setDetailed(e.currentTarget.checked ? "true" : "")} />
        Lag, messages and rate</label>
      <button type="button" onClick=${of.reload}>Refresh</button>
    </div>
    <section class="panel" aria-label="List of channels">
      <${Asked} of=${of} rows=${12} show=${() => rows.length > 0
        ? html`<${List} label="Channels" rows=${rows} rowKey=${(c) => c.channel} sort=${by}
            columns=${[name, ...(detailed ? details : []), subscribers, clock, life].map(
                (c) => ({ ...c, ascending: c.name === by && !descending }))}
            onSort=${(name) => setSort(
                name === by ? (descending ? name : "-" + name) : name === "channel" ? name : "-" + name)}
            onEnd=${of.more} />`
        : of.cursor ? null : html`<${None} prefix=${prefix} clear=${() => setPrefix("")} />`} />
    </section>`;
}

const None = ({ prefix, clear }) => prefix
  ? html`<${Empty} title=${`No channel’s name begins with “${visible(prefix)}”.`}>
      <p>Names are case-sensitive. <button type="button" class="link" onClick=${clear}>Show all channels</button></p>
        <//>`
  : html`<${Empty} title="There are no channels yet.">
      <p>A channel is created by its first message or subscriber:</p>
      <p><code>tidemark publish lobby '"hello!"'</code></p><//>`;

const direction = (sort) => sort.startsWith("-") ? [sort.slice(1), true] : [sort, false];

function sorted(rows, sort) {
  const [by, descending] = direction(sort);
  const sign = descending ? -1 : 1;
  const value = (c) => c[by] ?? c.details?.[by] ?? -1;
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  return [...rows].sort((a, b) => sign * order(value(a), value(b)) || order(a.channel, b.channel));
}

/** ByName opens a channel by its name, for a key that may not list them. */
function ByName() {
  const [name, setName] = useState("");
  const action = useAction(async () => go(at("channels", name)));
  return html`<${Head} title="Channels" />
    <section class="panel"><div class="content stack">
      <p class="dim">The list of channels needs the action “admin”. Enter the name of a channel that this key may
        describe.</p>
      <${Form} action=${action}>
        <${Text} label="Channel" value=${name} onValue=${setName} />
        <div><button class="primary" disabled=${!name}>Open</button></div>
      <//>
    </div></section>`;
}
