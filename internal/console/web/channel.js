// One channel: its state, subscribers, messages, and what an operator does to it.
import { html, useEffect, useState } from "./lib/preact.js";
import { isAfter, isClock, stepsTo } from "./clocks.js";
import { CopyCurl } from "./curl.js";
import { place } from "./find.js";
import { Area, Asked, Choice, Confirm, Dialog, Empty, Form, Text, useAction } from "./form.js";
import { Head } from "./head.js";
import { Icon } from "./icons.js";
import { jsonFault } from "./json.js";
import { List } from "./list.js";
import { Messages } from "./messages.js";
import { at, go } from "./router.js";
import { ask, askAbout, may, useAsked } from "./service.js";
import { bytes, count, duration, plural, Time, visible } from "./text.js";

const pageSize = 250; // subscribers

export default function Channel({ params: { channel } }) {
  const [cursor, setCursor] = useState("");
  const query = [["limit", String(pageSize)], ...(cursor ? [["cursor", cursor]] : [])];
  const of = useAsked(["channels", channel], { query, every: 3000 });
  const [dialog, open] = useState(null);
  const close = () => open(null);
  const changed = () => of.reload();
  const admin = may("admin");
  const missing = of.error?.status === 404;
  const connected = useAsked(admin ? ["channels", channel, "connected"] : undefined,
    { query: [["limit", "1000"]], every: 3000 }).data;
  return html`<${Head} title=${visible(channel)} className="name" back=${at("channels")} backLabel="All channels">
      <span class="space"></span>
      <div class="row-of">${may("publish", channel) &&
          html`<button type="button" class="primary" disabled=${of.data?.closed}
            onClick=${() => open("publish")}>Publish</button>
          <button type="button" disabled=${missing || !of.data || of.data.closed}
            onClick=${() => open("close")}>Close channel</button>`}
      ${admin && html`
        <button type="button" disabled=${missing || !of.data} onClick=${() => open("purge")}>Purge</button>
        <button type="button" class="danger" disabled=${missing} onClick=${() => open("delete")}>Delete</button>`}</div>
    <//>
    ${missing
      ? html`<section class="panel"><${Empty} title="This channel doesn’t exist.">
          <p>It is created by its first message or subscriber. It may have expired, or was deleted.</p><//></section>`
      : of.error?.status === 400 ? html`<section class="panel"><${Asked} of=${of} /></section>`
      : html`
        <${Asked} of=${of} rows=${2} show=${(d) => html`<${Figures} of=${d} connected=${connected} />`} />
        ${admin && html`<${Policy} channel=${channel} />`}
        <div class="columns wide">
          ${admin ? html`<${Messages} key=${of.data?.epoch} channel=${channel} clock=${of.data?.clock}
              oldest=${of.data?.oldest} />` : html`<${NoPeek} />`}
          <${Subscribers} channel=${channel} of=${of} connected=${connected} cursor=${cursor} onPage=${setCursor}
            onChange=${changed} />
        </div>`}
    ${dialog === "publish" && html`<${Publish} channel=${channel} onClose=${close} onDone=${changed} />`}
    ${dialog === "close" && html`<${Close} channel=${channel} onClose=${close} onDone=${changed} />`}
    ${dialog === "purge" && html`<${Purge} channel=${channel} of=${of.data} onClose=${close} onDone=${changed} />`}
    ${dialog === "delete" && html`<${Delete} channel=${channel} onClose=${close} />`}`;
}

const here = "At the server that answers. Other servers on this Redis have their own connections";

/** kinds returns the kinds of some connections, such as "poll, 2 sockets". */
const kinds = ({ polls, streams, sockets }) =>
  [[polls, "poll"], [streams, "stream"], [sockets, "socket"]].filter(([n]) => n > 0)
    .map(([n, kind]) => n === 1 ? kind : plural(n, kind)).join(", ");

const Figures = ({ of: d, connected: c }) => html`<dl class="figures">
  ${d.closed && html`<div title="No further messages can be published; those that it has can be read"><dt>State</dt>
    <dd>Closed</dd></div>`}
  <div><dt>Clock</dt><dd>${count(d.clock)}</dd></div>
  <div><dt>Messages</dt><dd>${count(d.live)}${d.oldest !== undefined && html` <small>from ${count(d.oldest)}</small>`}
    </dd></div>
  <div><dt>Subscribers</dt><dd>${count(d.subscriberCount)}</dd></div>
  ${c && html`<div title=${here}><dt>Connected here</dt>
    <dd>${count(c.polls + c.streams + c.sockets)} <small>${kinds(c)}</small></dd></div>`}
  <div title="The remaining life without further activity"><dt>Lives for</dt><dd>${duration(d.ttlMs)}</dd></div>
  <div title=${"Epoch " + d.epoch}><dt>Created</dt><dd><${Time} at=${bornAt(d.epoch)} /></dd></div>
</dl>`;

/** Policy is the rule that applies to the channel, and what it says. */
function Policy({ channel }) {
  const { data: p } = useAsked(["channels", channel, "policy"]);
  if (!p) return null;
  const says = [
    `messages live for ${duration(p.ttlMs)}`, `of at most ${bytes(p.maxMessageBytes)} each`,
    p.maxMessages > 0 && `the last ${count(p.maxMessages)} are kept`,
      p.maxSubscribers > 0 && `at most ${plural(p.maxSubscribers, "subscriber")}`,
    p.replicas > 0 && `${plural(p.replicas, "replica")} confirm a publish`, p.schema && "contents are validated",
    p.copies && "copied to followers", p.plain && "also on Redis’s pub/sub",
  ].filter(Boolean).join(", ");
  return html`<p class="rule">
    <span class="dim">Rule</span> ${p.rule ? html`<code>${visible(p.rule)}</code>` : "none, the defaults"}
    <span class="dim">: ${says}.</span></p>`;
}

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** bornAt returns the time in a ULID. */
const bornAt = (ulid) => [...ulid.slice(0, 10)].reduce((ms, c) => ms * 32 + crockford.indexOf(c), 0);

const NoPeek = () => html`
  <section class="panel"><${Empty} title="Reading messages here needs the action “admin”." /></section>`;

const agesAsked = 12; // marks, whose oldest unread message is asked for

/**
 * useAges returns when the oldest unread message of subscribers was published, by mark, for the marks that are the
 * furthest behind. Each of them costs a call.
 */
function useAges(channel, subscribers) {
  const [ages, set] = useState(new Map());
  const lagging = subscribers.filter((s) => s.lag > 0).sort((a, b) => b.lag - a.lag);
  const marks = [...new Set(lagging.map((s) => s.mark))].slice(0, agesAsked);
  const wanted = marks.join();
  useEffect(() => {
    if (!may("admin") || !wanted) return undefined;
    const stop = new AbortController();
    void (async () => {
      const next = new Map();
      for (const mark of marks) {
        if (ages.has(mark)) {
          next.set(mark, ages.get(mark));
          continue;
        }
        try {
          const query = [["after", String(mark)], ["max", "1"]];
          const { messages } = await ask(["channels", channel, "messages"], { query, signal: stop.signal });
          if (messages[0]?.publishedAt) next.set(mark, messages[0].publishedAt);
        } catch {
          return; // it is asked again with the next answer
        }
      }
      if (!stop.signal.aborted) set(next);
    })();
    return () => stop.abort();
  }, [channel, wanted]);
  return ages;
}

/** connectionsOf returns how the connections of a subscriber are shown, of which an answer may have a part. */
const connectionsOf = (connected) => {
  const known = new Map(connected.subscribers.map((s) => [s.name, s]));
  return {
    cell: ({ name }) => known.has(name)
      ? html`<span title=${here}>${kinds(known.get(name))}</span>`
      : html`<span class="dim">${connected.cursor && name > connected.cursor ? "?" : "–"}</span>`,
    dot: ({ name }) => known.has(name) && html`<span class="dot" title=${`Connected here: ${kinds(known.get(name))}`}>
      <span class="spoken">connected, ${kinds(known.get(name))}: </span></span>`,
  };
};

function Subscribers({ channel, of, connected, cursor, onPage, onChange }) {
  const all = of.data?.subscribers ?? [];
  const ages = useAges(channel, all);
  const connections = connected && connectionsOf(connected);
  const [acted, act] = useState(null); // on which subscriber, and how
  const close = () => act(null);
  const columns = [
    { name: "name", label: "Subscriber", width: "minmax(72px, 1fr)",
      cell: (s) => html`${connections?.dot(s)}<span class="name">${visible(s.name)}</span>` },
    { name: "lag", label: "Lag", width: "minmax(44px, 90px)", end: true,
      cell: (s) => html`<span class=${s.lag > 0 ? "warn" : "dim"}>${count(s.lag)}</span>` },
    { name: "age", label: "Oldest unread", width: "minmax(84px, 110px)", end: true, from: 390,
      cell: (s) => s.lag === 0 ? html`<span class="dim">–</span>`
        : ages.has(s.mark) ? html`<${Time} at=${ages.get(s.mark)} since />`
          : html`<span class="dim" title=${`Known for the ${agesAsked} marks that are the furthest behind`}>?</span>` },
    { name: "mark", label: "Mark", width: "minmax(60px, 110px)", end: true, from: 560, cell: (s) => count(s.mark) },
  ];
  if (connections) {
    columns.splice(1, 0, { name: "connected", label: html`<span title=${here}>Connected</span>`,
      width: "minmax(72px, 120px)", from: 460, cell: connections.cell });
  }
  if (may("admin")) {
    columns.push({ name: "acts", label: html`<span class="spoken">Actions</span>`, width: "auto", end: true,
        cell: (s) => html`
      <button type="button" class="link" aria-label=${`Seek ${visible(s.name)}`}
        onClick=${() => act({ how: "seek", s })}>Seek</button>
      ${may("subscribe", channel) &&
        html`${" · "}<button type="button" class="link" aria-label=${`Remove ${visible(s.name)}`}
        onClick=${() => act({ how: "remove", s })}>Remove</button>`}` });
    columns.at(-1).width = may("subscribe", channel) ? "112px" : "44px";
  }
  return html`<section class="panel" aria-labelledby="subscribers">
    <header><h2 id="subscribers">Subscribers</h2>
      ${of.data && of.data.subscriberCount > all.length &&
        html`<span class="dim">${count(all.length)} of ${count(of.data.subscriberCount)}</span>`}
      <span class="space"></span>
      ${cursor && html`<button type="button" class="link" onClick=${() => onPage("")}>First page</button>`}
      ${of.data?.cursor && html`
        <button type="button" class="link" onClick=${() => onPage(of.data.cursor)}>Next page</button>`}
    </header>
    <${Asked} of=${of} show=${() => all.length > 0
      ? html`<${List} className="short" label="Subscribers" rows=${all} rowKey=${(s) => s.name} columns=${columns} />
          ${new Set(all.filter((s) => s.lag > 0).map((s) => s.mark)).size > agesAsked && may("admin") &&
            html`<footer>The
            oldest unread message is shown for the ${agesAsked} marks that are the furthest behind.</footer>`}`
      : html`<${Empty} title="Nobody has subscribed."><p>Messages stay until their TTL ends: a subscriber that begins
          at “earliest” receives them.</p>
          <p><code>tidemark subscribe ${visible(channel)} --subscriber ann --from earliest</code></p>
            <//>`} />
    ${acted?.how === "seek" && html`<${Seek} channel=${channel} clock=${of.data.clock} onClose=${close}
      onDone=${onChange} of=${all.find((s) => s.name === acted.s.name) ?? acted.s} />`}
    ${acted?.how === "remove" &&
      html`<${Confirm} title="Remove a subscriber" verb="Remove" name=${acted.s.name} onClose=${close}
      onConfirm=${async () => {
        await ask(["channels", channel, "subscribers", acted.s.name], { method: "DELETE" });
        onChange();
      }}>
      <p>Its mark is removed, and with it what it has not read: ${plural(acted.s.lag, "message")}. It can subscribe
        again.</p>
    <//>`}
  </section>`;
}

/** useSkipped returns how many unread messages a subscriber would never receive if its mark were set to a place. */
function useSkipped(channel, { mark, lag }, clock, where, to) {
  const [found, setFound] = useState({}); // for a time, which takes some reads
  const time = where === "time" && lag > 0 ? Date.parse(to) : NaN;
  useEffect(() => {
    if (Number.isNaN(time)) return undefined;
    const stop = new AbortController();
    place(channel, time, mark, clock, stop.signal).then(
      (at) => setFound({ time, skipped: stepsTo(mark, at) }), () => {}); // seeking shows the error
    return () => stop.abort();
  }, [channel, time, mark, clock]);
  if (where === "latest") return lag;
  if (where === "time") return found.time === time ? found.skipped : 0;
  return where === "clock" && isClock(to) && isAfter(to, mark) ? Math.min(lag, stepsTo(mark, to)) : 0;
}

function Seek({ channel, of, clock: newest, onClose, onDone }) {
  const [where, setWhere] = useState("clock");
  const [clock, setClock] = useState(String(of.mark)); // which changes nothing
  const [time, setTime] = useState("");
  const skipped = useSkipped(channel, of, newest, where, where === "clock" ? clock : time);
  const action = useAction(async () => {
    const to = where === "clock" ? Number(clock) : where === "time" ? new Date(time).toISOString() : where;
    const done = await ask(["channels", channel, "subscribers", of.name, "seek"], { method: "POST", body: { to } });
    onDone();
    return done;
  });
  return html`<${Dialog} title="Set a mark" onClose=${onClose}>
    <p><b class="name">${visible(of.name)}</b> has read up to its mark, ${count(of.mark)}. It will receive all messages
      after the new mark, also those that it has read before.</p>
    <${Form} action=${action}>
      <${Choice} label="Set it" value=${where} onValue=${setWhere} of=${[["clock", "after a clock"],
        ["time", "before what was published at a time or later"], ["earliest", "before the oldest message"],
        ["latest", "after all messages"]]} />
      ${where === "clock" && html`<${Text} label="Clock" inputmode="numeric" value=${clock} onValue=${setClock}
        error=${isClock(clock) ? undefined : "A whole number."} />`}
      ${where === "time" && html`
        <${Text} label="Time, of this browser’s zone" type="datetime-local" step="1" value=${time}
          onValue=${setTime} />`}
      ${skipped > 0 && !action.done && html`<p class="row-of warn" role="status"><${Icon} name="warning" />
        <span>It will never receive ${plural(skipped, "message")} that it has not read.</span></p>`}
      ${action.done && html`<p class="notice" role="status"><${Icon} name="check" />
        The mark is ${count(action.result.mark)}; ${
          plural(action.result.lag, "message follows", "messages follow")} it.</p>`}
      <div class="actions"><button type="button" onClick=${onClose}>${action.done ? "Close" : "Cancel"}</button>
        <button class=${skipped > 0 && !action.done ? "danger" : "primary"}
          disabled=${action.busy || where === "clock" && !isClock(clock) || where === "time" && !time}>
          ${skipped > 0 && !action.done ? `Set and skip ${count(skipped)}` : "Set"}</button>
      </div>
    <//>
  <//>`;
}

function outcome({ duplicate, differs, clock }) {
  if (differs) return `Not published: the ID has other content, at clock ${count(clock)}. Use another ID.`;
  if (duplicate) return `The ID was published before, at clock ${count(clock)}: nothing has changed.`;
  return `Published at clock ${count(clock)}.`;
}

function Publish({ channel, onClose, onDone }) {
  const [text, setText] = useState("");
  const [id, setId] = useState("");
  const fault = text.trim() ? jsonFault(text) : undefined;
  // the text as it is: numbers that JavaScript would round arrive whole
  const body = `{"content":${text}${id && `,"id":${JSON.stringify(id)}`}}`;
  const action = useAction(async () => {
    const done = await askAbout(["channels", channel, "messages"], body);
    onDone();
    return done;
  });
  return html`<${Dialog} title="Publish a message" onClose=${onClose}>
    <${Form} action=${action}>
      <${Area} label="Content, in JSON" value=${text} onValue=${setText} rows="8" autofocus error=${fault}
        placeholder=${'{"text": "hello!"}'} />
      <${Text} label="ID (optional)" value=${id} onValue=${setId} hint="The same ID is published once." />
      ${action.done && html`<p class="notice" role="status">
        <${Icon} name=${action.result.differs ? "warning" : "check"} /> ${outcome(action.result)}</p>`}
      <div class="actions">
        <${CopyCurl} of=${{ method: "POST", path: `/v1/channels/${encodeURIComponent(channel)}/messages`, body }} />
        <span class="space"></span><button type="button" onClick=${onClose}>${action.done ? "Close" : "Cancel"}</button>
        <button class="primary" disabled=${action.busy || !text.trim() || fault !== undefined}>Publish</button></div>
    <//>
  <//>`;
}

function Purge({ channel, of, onClose, onDone }) {
  const [all, setAll] = useState("all");
  const [shown] = useState(of); // what the person saw when the dialog was opened
  const [clock, setClock] = useState("");
  const fault = isClock(clock) ? undefined : "A whole number, such as the clock of a message.";
  return html`<${Confirm} title="Purge messages" verb="Purge" name=${channel} onClose=${onClose}
    onConfirm=${async () => {
    if (all === "clock" && fault) throw new Error("The clock isn’t a whole number: nothing was removed");
    const through = all === "clock" ? Number(clock) : shown.clock;
    await ask(["channels", channel, "purge"], { method: "POST", body: { through, epoch: shown.epoch } });
    onDone();
  }}>
    <p>Messages are removed for good, and subscribers that have not read them are told so. The channel and all marks
      stay.</p>
    <${Choice} label="Remove" value=${all} onValue=${setAll}
      of=${[["all", `all messages up to clock ${String(shown.clock)}`], ["clock", "messages up to a clock"]]} />
    ${all === "clock" && html`
      <${Text} label="Clock" inputmode="numeric" value=${clock} onValue=${setClock} error=${clock && fault} />`}
  <//>`;
}

const Close = ({ channel, onClose, onDone }) =>
  html`<${Confirm} title="Close the channel" verb="Close" name=${channel} onClose=${onClose}
  onConfirm=${async () => {
    await ask(["channels", channel, "close"], { method: "POST" });
    onDone();
  }}>
  <p>It gets no further messages. Those that it has can still be read, and readers are told the end once they have
    everything. It can’t be opened again.</p>
<//>`;

const Delete = ({ channel, onClose }) =>
  html`<${Confirm} title="Delete the channel" verb="Delete" name=${channel} onClose=${onClose}
  onConfirm=${async () => {
    await ask(["channels", channel], { method: "DELETE" });
    go(at("channels"));
  }}>
  <p>Its messages, subscribers and marks are removed for good. The next message or subscriber creates another channel of
    the same name.</p>
<//>`;
