// One queue: its state, its last hour, why tickets wait, and its definition.
import { html, useState } from "./lib/preact.js";
import { units } from "./chart.js";
import { Definition } from "./definition.js";
import { Asked, Confirm, Dialog, Empty, Failure, useAction } from "./form.js";
import { Head } from "./head.js";
import { colors, LastHour, perSecond } from "./history.js";
import { Json } from "./json.js";
import { List } from "./list.js";
import { formOf } from "./queues.js";
import { at, go } from "./router.js";
import { ask, may, useAsked } from "./service.js";
import { Teams } from "./ticket.js";
import { count, duration, plural, rate, span, Time, visible } from "./text.js";

export default function Queue({ params: { queue } }) {
  const of = useAsked(["queues", queue], { every: 3000 });
  const [dialog, open] = useState(null);
  const close = () => open(null);
  const missing = of.error?.status === 404;
  return html`<${Head} title=${visible(queue)} className="name" back=${at("queues")} backLabel="All queues">
      ${of.data && html`<span class="dim">${formOf(of.data.definition)}</span>`}
      <span class="space"></span>
      ${may("admin") && of.data && !of.data.configured && !missing && html`<div class="row-of">
        <button type="button" onClick=${() => open("edit")}>Edit the definition</button>
        <button type="button" class="danger" onClick=${() => open("delete")}>Delete</button></div>`}
    <//>
    ${missing
      ? html`<section class="panel">
        <${Empty} title="This queue doesn’t exist."><p>It was deleted, or its name is another one:
          <a href=${at("queues")}>all queues</a>.</p><//></section>`
      : html`<${Asked} of=${of} rows=${2} show=${(d) => html`<${Figures} of=${d} />`} />
        ${(may("metrics") || may("admin")) && html`<${LastHour} queue=${queue} chartsOf=${chartsOf} />`}
        <${Waiting} queue=${queue} />
        <div class="columns"><${Matches} queue=${queue} />${of.data && html`<${Defined} of=${of.data} />`}</div>`}
    ${dialog === "edit" && html`<${Definition} of=${of.data} onClose=${close} onDone=${of.reload} />`}
    ${dialog === "delete" &&
      html`<${Confirm} title="Delete the queue" verb="Delete" name=${queue} onClose=${close} onConfirm=${async () => {
      await ask(["queues", queue], { method: "DELETE" });
      go(at("queues"));
    }}>
      <p>No ticket can be created in it any more. A queue in which tickets wait isn’t deleted${queue === "default" &&
          ", and this one gets its original definition"}.</p>
    <//>`}`;
}

const Figures = ({ of: { tickets: t, ...d } }) => html`<dl class="figures dense">
  <div><dt>Waiting</dt><dd>${count(t.SEARCHING)}
      ${t.PENDING > 0 && html` <small>and ${count(t.PENDING)} being matched</small>`}</dd></div>
  <div><dt>Longest wait</dt><dd>${t.SEARCHING ? wait(d.oldestWaitMs) : "–"}</dd></div>
  <div title="Over the last minute"><dt>Matches</dt><dd>${rate(d.matchRate)}<small> /s</small></dd></div>
  <div title="How long recently matched tickets had waited"><dt>Wait p50</dt><dd>${wait(d.waitMs?.p50)}</dd></div>
  <div title="How long recently matched tickets had waited"><dt>Wait p99</dt><dd>${wait(d.waitMs?.p99)}</dd></div>
  <div title="Since the queue was last unused for a day"><dt>Assigned</dt><dd>${count(t.MATCH_FOUND)}</dd></div>
  <div title="Cancelled, and expired, since the queue was last unused for a day"><dt>Unmatched</dt>
    <dd>${count(t.CANCELLED + t.EXPIRED)}${t.EXPIRED > 0 && html` <small>${count(t.EXPIRED)} expired</small>`}</dd>
    </div>
  <div title="Matches that failed since the queue was last unused for a day"><dt>Conflicts</dt>
    <dd>${count(d.conflicts)}</dd></div>
</dl>`;

/** wait returns how long a ticket waits, in one unit. */
const wait = units.millis.format;

function chartsOf({ times, intervalMs, columns }) {
  const of = (name) => columns[name] ?? times.map(() => null);
  const each = (name) => perSecond(of(name), intervalMs);
  const lines = (...all) => all.map(([label, values], i) => ({ label, color: colors[i], values }));
  return [
    { title: "Tickets", unit: units.count,
      lines: lines(["waiting", of("searching")], ["being matched", of("pending")]) },
    { title: "Rates", unit: units.perSecond, lines: lines(["created", each("tickets")], ["matches", each("matches")],
      ["cancelled", each("cancelled")], ["expired", each("expired")]) },
    { title: "Wait of matched tickets", unit: units.millis, log: true,
      lines: lines(["p50", of("waitP50Ms")], ["p90", of("waitP90Ms")], ["p99", of("waitP99Ms")]) },
    { title: "Failures", unit: units.perSecond, lines: [
      { label: "match function", color: "bad", values: each("failures") },
      ...lines(["conflicts", each("conflicts")], ["allocation", each("allocationFailures")])] },
  ].map((c) => ({ times, ...c }));
}

/** Waiting examines the tickets that wait, when a person asks. */
function Waiting({ queue }) {
  const action = useAction(
    () => ask(["queues", queue], { query: [["waiting", "true"]] }).then((d) => ({ ...d.waiting, at: Date.now() })));
  const [last, keep] = useState();
  const examine = async () => {
    const found = await action.run();
    if (found) keep(found);
  };
  return html`<section class="panel" aria-labelledby="waiting">
    <header><h2 id="waiting">Why tickets wait</h2>
      ${last && html`<span class="dim">
          ${last.examined < last.tickets ? `the oldest ${count(last.examined)} of ${plural(last.tickets, "ticket")}`
            : plural(last.tickets, "ticket")}${", "}<${Time} at=${last.at} /></span>`}
      <span class="space"></span>
        <button type="button" disabled=${action.busy}
          onClick=${examine}>${last ? "Examine again" : "Examine the waiting tickets"}</button></header>
    ${action.error && html`<${Failure} error=${action.error} />`}
    ${!last ? html`<p class="content dim">Who has waited the longest, whom they accept and who accepts them, and which
        ranges of statistics wait longer
        than others. Up to 10,000 tickets are read for it.</p>`
      : last.examined === 0 ? html`<${Empty} title="No ticket waits." />`
        : html`<${Longest} of=${last.longest} /><${Ranges} of=${last.statistics} />`}
  </section>`;
}

/** reasonOf says why a ticket has not been matched, by the counts of those that it could meet. */
function reasonOf({ acceptance: a }) {
  if (!a) return { text: "the match function decides", of: "dim" };
  if (a.others === 0) return { text: "nobody else asks for the same kind of match", of: "bad" };
  if (a.accepts === 0) return { text: "it accepts nobody: its criteria are too narrow", of: "bad" };
  if (a.acceptedBy === 0) return { text: "nobody accepts it", of: "bad" };
  if (a.candidates === 0) return { text: "those that it accepts don’t accept it", of: "warn" };
  return { text: `${plural(a.candidates, "candidate")} would do`, of: "good" };
}

const Longest = ({ of }) => html`<div class="scroll"><table>
  <thead><tr><th scope="col">Ticket</th><th scope="col" class="end">Waits for</th>
      <th scope="col" class="end">Players</th>
    <th scope="col" class="end">Others</th><th scope="col" class="end">It accepts</th>
      <th scope="col" class="end">Accept it</th><th scope="col">Why</th></tr></thead>
  <tbody>${of.map((t) => {
    const why = reasonOf(t);
    return html`<tr key=${t.id}>
      <td class="of">${may("ticket") ? html`<a class="name" href=${at("tickets", t.id)}>${visible(t.id)}</a>`
          : html`<span class="name">${visible(t.id)}</span>`}</td>
      <td class="end">${duration(t.waitMs)}</td><td class="end">${count(t.players)}</td>
      <td class="end">${count(t.acceptance?.others)}</td><td class="end">${count(t.acceptance?.accepts)}</td>
      <td class="end">${count(t.acceptance?.acceptedBy)}</td><td class=${"why " + why.of}>${why.text}</td>
    </tr>`;
  })}</tbody>
</table></div>`;

/** Matches lists the last matches as they are made. */
function Matches({ queue }) {
  const of = useAsked(["queues", queue, "matches"], { query: [["limit", "100"]], every: 3000 });
  const [opened, open] = useState(null);
  const columns = [
    { name: "id", label: "Match", width: "minmax(84px, 1fr)", cell: (m) => m.id
      ? html`<button type="button" class="link name" onClick=${() => open(m.id)}>${visible(m.id)}</button>`
        : html`<span class="dim">by an earlier version</span>` },
    { name: "waits", label: "Tickets waited", width: "minmax(122px, 150px)", end: true, cell: (m) => waits(m.waitMs) },
    { name: "tickets", label: "Tickets", width: "52px", end: true, from: 560, cell: (m) => count(m.waitMs.length) },
    { name: "assignTime", label: "Assigned", width: "minmax(76px, 100px)", end: true,
      cell: (m) => html`<${Time} at=${m.assignTime} />` },
  ];
  return html`<section class="panel" aria-labelledby="matches">
    <header><h2 id="matches">Last matches</h2><span class="dim">newest first</span></header>
    <${Asked} of=${of} show=${({ matches }) => matches.length > 0
      ? html`<${List} className="short" label="Last matches" rows=${matches}
        rowKey=${(m) => (m.id ?? "") + m.assignTime} columns=${columns} />`
      : html`<${Empty} title="No match was made in the last day." />`} />
    ${opened && html`<${Match} queue=${queue} id=${opened} onClose=${() => open(null)} />`}
  </section>`;
}

const waits = (all) => {
  const [low, high] = [Math.min(...all), Math.max(...all)];
  return low === high ? wait(low) : `${wait(low)} – ${wait(high)}`;
};

function Match({ queue, id, onClose }) {
  const of = useAsked(["matches", id], { query: [["queue", queue]] });
  return html`<${Dialog} className="wide" title="Match" onClose=${onClose}>
    <p class="name long">${visible(id)}</p>
    ${of.error?.status === 404
      ? html`<p class="dim">Its tickets can’t be read any more: they can be for the
        queue’s <code>assignmentTTL</code> after the match.</p>`
      : html`<${Asked} of=${of} rows=${2}
        show=${(m) => html`<p>${m.connection ? html`At <span class="mono">${visible(m.connection)}</span>, assigned `
            : "Assigned "}
        <${Time} at=${m.assignTime} /></p><${Teams} of=${m.teams} />`} />`}
  <//>`;
}

const number = (n) => Number.isInteger(n) ? count(n) : String(Number(n.toPrecision(6)));

function Ranges({ of }) {
  return of.map((s) => {
    const most = Math.max(...s.ranges.map((r) => r.waitMs.max), 1);
    return html`<div key=${s.name} class="topped">
      <div class="panel-head"><h3>Wait by <span class="name">${visible(s.name)}</span></h3>
        <span class="dim">median, and the longest</span></div>
      <ul class="ranges">${s.ranges.map((r) => html`<li key=${r.minValue}>
        <span class="end">${number(r.minValue)} – ${number(r.maxValue)}</span>
        <svg width="100%" height="16"
          aria-hidden="true"><rect class="most" width=${r.waitMs.max / most * 100 + "%"} height="16" rx="3" />
          <rect class="median" width=${r.waitMs.p50 / most * 100 + "%"} height="16" rx="3" /></svg>
        <span>${duration(r.waitMs.p50)}, ${duration(r.waitMs.max)} <span class="dim">${plural(r.tickets, "ticket")}
          </span></span>
      </li>`)}</ul></div>`;
  });
}

function Defined({ of: { definition: d, configured } }) {
  const m = d.match;
  const entries = (of) => Object.entries(of ?? {}).map(([k, v]) => `${visible(k)} ${v}`).join(", ");
  return html`<section class="panel" aria-labelledby="definition">
    <header><h2 id="definition">Definition</h2>
      ${configured && html`<span class="tag"
          title="It is changed in the configuration’s file">in the configuration</span>`}</header>
    <div class="content stack">
      <dl class="facts">
        <dt>Matches</dt><dd>${formOf(d)}${m.function === "criteria" && `, ${m.acceptance} acceptance`}
          ${m.url && html` at <span class="mono">${visible(m.url)}</span>`}</dd>
        ${m.weights && html`<dt>Weights</dt><dd>${entries(m.weights)}</dd>`}
        ${m.widen?.length > 0 &&
          html`<dt>Widens</dt><dd>
            ${m.widen.map((w, i) => html`<div key=${i}>after ${span(w.after)} by ${entries(w.by)}</div>`)}</dd>`}
        ${d.profile.pools && html`<dt>Pools</dt>
          <dd>${d.profile.pools.map((p) => visible(p.name || "without a name")).join(", ")}</dd>`}
        <dt>Assigner</dt><dd>${d.assigner.kind} <span class="mono">${visible(d.assigner.connection || d.assigner.url)}
          </span></dd>
        <dt>A ticket waits</dt><dd>
          ${span(d.ticketTTL)} at most${d.heartbeat !== "0s" &&
            `, and ${span(d.heartbeat)} without a sign of its player`}</dd>
        <dt>Holds</dt><dd>${d.maxTickets ? `${plural(d.maxTickets, "ticket")} at most` : "any number of tickets"}</dd>
      </dl>
      <${Json} value=${d} open=${0} />
    </div>
  </section>`;
}
