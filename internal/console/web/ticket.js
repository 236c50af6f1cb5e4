// The life of one ticket.
import { html, useState } from "./lib/preact.js";
import { Asked, Confirm, Empty } from "./form.js";
import { Head } from "./head.js";
import { Json } from "./json.js";
import { at } from "./router.js";
import { ask, may, useAsked } from "./service.js";
import { count, duration, millis, plural, Time, toMs, visible } from "./text.js";

const interval = 3000;
const ended = ["MATCH_FOUND", "CANCELLED", "EXPIRED"];
const words = { SEARCHING: "waiting", PENDING: "being matched", MATCH_FOUND: "assigned", CANCELLED: "cancelled",
  EXPIRED: "expired" };
const tags = { SEARCHING: "", PENDING: "warn", MATCH_FOUND: "good", CANCELLED: "", EXPIRED: "bad" };

export default function Ticket({ params: { ticket } }) {
  const of = useAsked(["tickets", ticket], {
    every: (t) => t && (isWatched(t) || ended.includes(t.status)) ? undefined : interval,
  });
  const t = of.data;
  const [cancelling, cancel] = useState(false);
  return html`<${Head} title=${visible(ticket)} className="name"
    back=${t && may("queue", t.queue, "queues") ? at("queues", t.queue) : at("queues")} backLabel="The queue">
      ${t && html`<span class=${"tag " + tags[t.status]}>${words[t.status]}</span>`}
      <span class="space"></span>
      ${t && html`<div class="row-of"><button type="button" onClick=${of.reload}>Refresh</button>
        ${["SEARCHING", "PENDING"].includes(t.status) &&
          html`<button type="button" class="danger" onClick=${() => cancel(true)}>Cancel the ticket</button>`}</div>`}
    <//>
    ${of.error?.status === 404
      ? html`<section class="panel">
        <${Empty} title="No ticket has this ID."><p>A ticket can be read until the queue’s <code>assignmentTTL</code>
          after its end.</p><p><a href=${at("queues")}>All queues</a></p><//></section>`
      : html`<${Asked} of=${of} rows=${6} show=${() => html`
        ${isWatched(t) && !ended.includes(t.status) &&
          html`<p class="notice">Reading this ticket counts as a sign of its player, which keeps it in the queue.
          It was read when this page was opened, and is read again only when you ask.</p>`}
        <div class="columns"><${Life} of=${t} /><${Asks} of=${t} /></div>`} />`}
    ${cancelling && html`<${Confirm} title="Cancel the ticket" verb="Cancel the ticket" name=${ticket}
        onClose=${() => cancel(false)} onConfirm=${async () => {
      await ask(["tickets", ticket], { method: "DELETE" });
      of.reload();
    }}><p>It leaves the queue, and its player is told that it was cancelled. A ticket that is assigned meanwhile stays
      assigned.</p><//>`}`;
}

/**
 * isWatched reports whether the ticket's queue wants signs of its player, of which reading the ticket is one: ttlMs is
 * the pause between them.
 */
const isWatched = (t) => t.ttlMs !== t.lifeMs;

function Life({ of: t }) {
  const reads = may("queue", t.queue, "queues");
  const queue = useAsked(reads ? ["queues", t.queue] : null);
  const match = useAsked(reads && t.matchId ? ["matches", t.matchId] : null, { query: [["queue", t.queue]] });
  const channel = useAsked(
    t.status === "MATCH_FOUND" && may("describe", t.channel) ? ["channels", t.channel] : null, { every: interval });
  const player = channel.data?.subscribers?.find((s) => s.name === t.subscriber);
  const created = Date.parse(t.createTime);
  const until = match.data ? Date.parse(match.data.assignTime) : t.status === "SEARCHING" || t.status === "PENDING"
    ? Infinity : created;
  const widened = (queue.data?.definition.match.widen ?? []).map((w) => ({
    at: created + toMs(w.after), kind: "step",
    text: html`Its criteria widen: ${Object.entries(w.by).map(([k, v]) => `${visible(k)} by ${v}`).join(", ")}`,
  })).filter((e) => e.at < until);
  const events = [
    { at: created, kind: "done",
      text: html`Created in <${Queue} of=${t} />${t.players > 1 && ` for ${plural(t.players, "player")}`}` },
    ...widened.sort((a, b) => a.at - b.at),
    ...(t.status === "PENDING" ? [{ kind: "now", text: "In a match, for which a game server is being allocated" }]
      : []),
    ...(t.status === "SEARCHING" ? [{ kind: "now", text: "Waits for a match" }] : []),
    ...(t.status === "MATCH_FOUND" ? [{
      at: match.data && until, kind: "done",
      text: html`Assigned to team ${count(t.assignment.team)} of <span class="name">${visible(t.matchId)}</span>
        ${match.data && (until - created < 2 ? " at once" : ` after ${millis(until - created)}`)}`,
    }] : []),
    ...(t.status === "MATCH_FOUND" && channel.data ? [{
      kind: player?.lag === 0 && channel.data.clock !== 0 ? "done" : "now",
      text: html`${player?.lag === 0 && channel.data.clock !== 0 ? "Its player has acknowledged the assignment"
        : "The assignment waits on its channel for the player"}${": "}
        <a class="name" href=${at("channels", t.channel)}>${visible(t.channel)}</a>`,
    }] : []),
    ...(t.status === "CANCELLED" ? [{ kind: "done", text: "Cancelled" }] : []),
    ...(t.status === "EXPIRED" ? [{ kind: "bad", text: "Expired without a match" }] : []),
    ...(["SEARCHING", "PENDING"].includes(t.status) && t.expireTime
      ? [{ at: Date.parse(t.expireTime), kind: "later", text: "Expires unless it is matched" }] : []),
  ];
  return html`<section class="panel" aria-labelledby="life"><header><h2 id="life">Life</h2>
      <span class="dim">${duration(t.lifeMs)} at most</span></header>
    <ol class="timeline">${events.map((e, i) => html`<li key=${i} class=${e.at > Date.now() ? "later" : e.kind}>
      <span class="when">${e.at ? html`<${Time} at=${e.at} />` : e.kind === "now" ? "now" : ""}</span>
        <span>${e.text}</span></li>`)}</ol>
    ${match.data && html`<div
        class="topped"><div class="panel-head"><h3>Match</h3>
          ${match.data.connection && html`<span class="mono">${visible(match.data.connection)}</span>`}</div>
      <${Teams} of=${match.data.teams} self=${t.id} /></div>`}
  </section>`;
}

/** Teams shows the tickets of a match. self is the one that is not a link. */
export const Teams = ({ of, self }) =>
  html`<div class="teams">${of.map((team, i) => html`<div key=${i}><h4 class="dim">Team ${i}</h4>
  <ul>${team.map((m) => html`
        <li key=${m.id} class="name">${m.id === self || !may("ticket") ? html`<b>${visible(m.id)}</b>`
    : html`<a href=${at("tickets", m.id)}>${visible(m.id)}</a>`}</li>`)}</ul></div>`)}</div>`;

const Queue = ({ of: t }) => may("queue", t.queue, "queues")
  ? html`<a class="name" href=${at("queues", t.queue)}>${visible(t.queue)}</a>`
  : html`<span class="name">${visible(t.queue)}</span>`;

function Asks({ of: t }) {
  const { criteria = [], statistics = [] } = t;
  const rest = Object.fromEntries(
    ["searchFields", "extensions", "persistentField", "assignment"].filter((k) => t[k]).map((k) => [k, t[k]]));
  return html`<section class="panel" aria-labelledby="asks"><header><h2 id="asks">What it asks for</h2>
      ${t.numTeams && html`<span class="dim">${plural(t.numTeams, "team")} of ${t.teamSize ?? 1}</span>`}</header>
    ${criteria.length + statistics.length > 0 &&
      html`<div class="scroll bounded" tabindex="0" role="region" aria-label="Criteria and statistics"><table>
      <thead><tr><th scope="col">Name</th><th scope="col" class="end">Its own</th>
          <th scope="col" class="end">It accepts</th></tr></thead>
      <tbody>${[...new Set([...criteria, ...statistics].map((c) => c.name))].map((name) => html`<tr key=${name}>
        <td class="name">${visible(name)}</td>
        <td class="end">${statistics.filter((s) => s.name === name).map((s) => String(s.value)).join(", ") ||
            html`<span class="dim">–</span>`}</td>
        <td class="end">${criteria.filter((c) => c.name === name).map((c) => `${c.minValue} – ${c.maxValue}`).join(
              ", ") || html`<span class="dim">any</span>`}</td>
      </tr>`)}</tbody></table></div>`}
    ${Object.keys(rest).length > 0 && html`<div class="content"><${Json} value=${rest} open=${2} /></div>`}
    ${criteria.length + statistics.length + Object.keys(rest).length === 0 &&
      html`<${Empty} title="Any match of the queue." />`}
  </section>`;
}
