// All channels, by prefix.
import { html, useEffect, useMemo, useRef, useState } from "./lib/preact.js";
import { Asked, Empty, Form, Text, useAction } from "./form.js";
import { Head } from "./head.js";
import { Icon } from "./icons.js";
import { List } from "./list.js";
import { at, go, useQuery } from "./router.js";
import { may, usePages } from "./service.js";
import { count, duration, plural, rate, Time, visible } from "./text.js";

const name = { name: "channel", label: "Channel", width: "minmax(96px, 1fr)", sortable: true, words: ["first", "last"],
  cell: (c) => html`<a class="name" href=${at("channels", c.channel)}>${visible(c.channel)}</a>` };
const subscribers = { name: "subscriberCount", label: "Subscribers", width: "minmax(70px, 100px)", end: true,
  sortable: true, from: 640, cell: (c) => count(c.subscriberCount) };
const clock = { name: "clock", label: "Clock", width: "minmax(70px, 150px)", end: true, sortable: true,
  cell: (c) => html`<span title=${String(c.clock)}>${count(c.clock)}</span>` };
const life = { name: "ttlMs", label: "Lives for", width: "minmax(70px, 110px)", end: true, sortable: true, from: 760,
  cell: (c) => html`<span title="without further activity">${duration(c.ttlMs)}</span>` };

/** What takes Redis a script for each channel, and is asked for only if a person wants it. */
const details = [
  { name: "lag", label: "Lag", width: "minmax(44px, 90px)", end: true, sortable: true, cell: ({ details: d }) => d &&
    html`<span class=${d.lag > 0 ? "warn" : "dim"}
      title=${d.slowest ? `of ${visible(d.slowest)}${d.partial ? ", among the first subscribers" : ""}` : ""}>
      ${count(d.lag)}${d.partial ? "+" : ""}</span>` },
  { name: "messages", label: "Messages", width: "minmax(66px, 100px)", end: true, sortable: true,
    cell: ({ details: d }) => d && count(d.messages) },
  { name: "rate", label: "Rate", width: "minmax(48px, 80px)", end: true, sortable: true, cell: ({ details: d }) => d &&
    (d.rate === undefined ? html`<span class="dim" title="Shown once it was counted twice">–</span>`
      : rate(d.rate) + "/s") },
];

const columns = {
  plain: [name, subscribers, clock, life],
  detailed: [name, ...details, subscribers, { ...clock, from: 700 }, life],
};

const enough = { plain: 500, detailed: 100 }; // channels that are asked for at a time
const patience = 20; // pages that are read for them at a time, each of some thousand keys
const tickets = "ticket."; // what the names of the channels of matchmaking begin with

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
  const [withTickets, setWithTickets] = useQuery("tickets");
  const of = usePages(["channels"], { query: { prefix, details: detailed }, items: (a) => a.channels });
  const hides = !withTickets && !prefix.startsWith(tickets);
  const found = useMemo(() => hides ? of.rows?.filter((c) => !c.channel.startsWith(tickets)) : of.rows,
    [of.rows, hides]);
  const rows = useMemo(() => sorted(found ?? [], sort), [found, sort]);
  const hidden = (of.rows?.length ?? 0) - rows.length;
  const [by, descending] = direction(sort);
  const search = (value) => {
    setTyped(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setPrefix(value), 250);
  };
  const further = useFurther(of, rows.length, detailed ? enough.detailed : enough.plain, prefix + detailed);
  const shown = columns[detailed ? "detailed" : "plain"];
  return html`<${Head} title="Channels">
      <span class="dim">${of.rows && !of.error && html`${plural(rows.length, "channel")}${of.cursor ? " so far" : ""}${
        ", read "}<${Time} at=${of.at} />`}</span>
    <//>
    <div class="row-of">
      <div class="search" role="search"><${Icon} name="search" />
        <input type="search" aria-label="Names that begin with" placeholder="Names that begin with …" autocomplete="off"
          spellcheck=${false} value=${typed} onInput=${(e) => search(e.currentTarget.value)} /></div>
      <label class="check" title="Costs Redis a script for each channel of the list">
        <input type="checkbox" checked=${detailed !== ""}
          onChange=${(e) => setDetailed(e.currentTarget.checked ? "true" : "")} />
        Lag, messages and rate</label>
      ${(withTickets || hidden > 0) && html`<button type="button" class="chip" aria-pressed=${withTickets !== ""}
        title="Matchmaking has a channel for each ticket, whose name begins with “ticket.”"
        onClick=${() => setWithTickets(withTickets ? "" : "true")}>
        Tickets${hidden > 0 && html` <span class="dim">${count(hidden)}${of.cursor && "+"} hidden</span>`}</button>`}
      <button type="button" onClick=${of.reload}>Refresh</button>
    </div>
    <section class="panel" aria-label="List of channels">
      <${Asked} of=${of} rows=${12} show=${() => rows.length > 0
        ? html`<${List} label="Channels" rows=${rows} rowKey=${(c) => c.channel} sort=${by}
            columns=${shown.map((c) => ({ ...c, ascending: c.name === by && !descending }))}
            onSort=${(name) => setSort(
              name === by ? (descending ? name : "-" + name) : name === "channel" ? name : "-" + name)}
            onEnd=${further.scrolled} />`
        : of.cursor ? null : html`<${None} prefix=${prefix} hidden=${hidden} clear=${() => setPrefix("")} />`} />
      ${of.cursor && !of.error && html`<footer class="row-of" role="status">
        ${rows.length > 0 && html`<span>Sorted: the ${partOf(shown, by, descending)} of the ${
          plural(rows.length, "channel")} read.</span>`}
        <span>${further.stopped ? `${plural(of.pages, "page")} of keys read, and there are more.`
          : of.busy ? "Reading …" : "Further ones are read as you scroll."}</span>
        ${further.stopped && html`<button type="button" onClick=${further.goOn}>Search on</button>`}</footer>`}
    </section>`;
}

/**
 * useFurther reads pages until a number of channels is found, but only some pages at a time: one can have few channels,
 * or none, although others follow. scrolled reads the next ones; goOn reads on after it has stopped before it found
 * enough. With another id it begins anew.
 */
function useFurther(of, found, enough, id) {
  const [state, set] = useState({});
  const wanted = state.id === id ? state : {}; // how many channels, and up to which page
  const want = (next) => set({ id, ...next });
  const channels = wanted.channels ?? enough;
  const pages = wanted.pages ?? patience;
  const stopped = found < channels && of.pages >= pages && Boolean(of.cursor) && !of.busy;
  useEffect(() => {
    if (found < channels && of.pages < pages && of.cursor && !of.busy) of.more();
  });
  return {
    stopped,
    scrolled: () => found >= channels && want({ channels: found + enough, pages: of.pages + patience }),
    goOn: () => want({ channels, pages: of.pages + patience }),
  };
}

/** partOf returns which part of all channels the first ones of the list can be said to be. */
function partOf(columns, by, descending) {
  const { words = ["smallest", "largest"] } = columns.find((c) => c.name === by) ?? name;
  return words[descending ? 1 : 0];
}

const None = ({ prefix, hidden, clear }) => hidden > 0
  ? html`<${Empty} title="There are only channels of tickets."><p>“Tickets” above shows them.</p><//>` : prefix
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
