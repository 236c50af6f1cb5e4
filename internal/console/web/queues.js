// All queues, and where a ticket is opened by its ID.
import { html, useCallback, useEffect, useState } from "./lib/preact.js";
import { Asked, Empty, Form, useAction } from "./form.js";
import { Head } from "./head.js";
import { Icon } from "./icons.js";
import { List } from "./list.js";
import { Definition } from "./definition.js";
import { at, go, useQuery } from "./router.js";
import { may, useAsked } from "./service.js";
import { count, duration, millis, plural, rate, visible } from "./text.js";

const interval = 5000; // ms, between two looks at a queue in view

export default function Queues() {
  const of = useAsked(["queues"], { every: 6 * interval });
  const [only, setOnly] = useQuery("find");
  const [creating, create] = useState(false);
  return html`<${Head} title="Queues">
      <span class="dim">${of.data && plural(of.data.queues.length, "queue")}</span><span class="space"></span>
      ${may("admin") && html`<button type="button" class="primary" onClick=${() => create(true)}>New queue</button>`}
    <//>
    <div class="tools">
      <div class="search" role="search"><${Icon} name="search" />
        <input type="search" aria-label="Names that contain" placeholder="Names that contain …" autocomplete="off"
          spellcheck=${false} value=${only} onInput=${(e) => setOnly(e.currentTarget.value)} /></div>
      ${may("ticket") && html`<${Ticket} />`}
    </div>
    <section class="panel" aria-label="List of queues">
      <${Asked} of=${of} rows=${6}
        show=${({ queues }) => html`
          <${All} of=${only ? queues.filter((q) => q.queue.includes(only)) : queues} only=${only} />`} />
    </section>
    ${creating && html`<${Definition} onClose=${() => create(false)} onDone=${(name) => go(at("queues", name))} />`}`;
}

/** Ticket opens a ticket by its ID. */
function Ticket() {
  const [id, setId] = useState("");
  const action = useAction(async () => go(at("tickets", id.trim())));
  return html`<${Form} action=${action} className="inline" aria-label="Open a ticket">
    <input type="text" aria-label="ID of a ticket" placeholder="ID of a ticket" maxlength="128" autocomplete="off"
      spellcheck=${false}
      value=${id} onInput=${(e) => setId(e.currentTarget.value)} />
    <button disabled=${!id.trim()}>Open</button>
  <//>`;
}

function All({ of, only }) {
  const [live, setLive] = useState(new Map()); // descriptions by queue, of the rows in view
  const found = useCallback((queue, data) => setLive((all) => new Map(all).set(queue, data)), []);
  const from = (q, show) => {
    const d = live.get(q.queue);
    return d ? show(d) : html`<span class="dim">–</span>`;
  };
  const columns = [
    { name: "queue", label: "Queue", width: "minmax(110px, 1fr)",
      cell: (q) => html`<a class="name" href=${at("queues", q.queue)}>${visible(q.queue)}</a>
      <${Live} queue=${q.queue} onFound=${found} />` },
    { name: "match", label: "Matches", width: "minmax(90px, 1fr)", from: 620,
      cell: (q) => html`<span class="dim">${formOf(q.definition)}</span>` },
    { name: "waiting", label: "Waiting", width: "minmax(64px, 100px)", end: true,
      cell: (q) => from(q, (d) => html`<b>${count(d.tickets.SEARCHING)}</b>`) },
    { name: "oldest", label: "Longest wait", width: "100px", end: true, from: 340,
      cell: (q) => from(q, (d) => d.tickets.SEARCHING ? duration(d.oldestWaitMs) : html`<span class="dim">–</span>`) },
    { name: "rate", label: "Matches", width: "90px", end: true, from: 460,
      cell: (q) => from(q, (d) => `${rate(d.matchRate)}/s`) },
    { name: "p50", label: "Wait p50", width: "90px", end: true, from: 760,
      cell: (q) => from(q, (d) => millis(d.waitMs?.p50)) },
    { name: "p99", label: "Wait p99", width: "90px", end: true, from: 760,
      cell: (q) => from(q, (d) => millis(d.waitMs?.p99)) },
  ];
  if (of.length === 0) {
    return only ? html`<${Empty} title=${`No queue’s name contains “${visible(only)}”.`} /> `
      : html`<${Empty} title="There are no queues."><p>Create one here, or in the configuration.</p><//>`;
  }
  return html`<${List} label="Queues" rows=${of} rowKey=${(q) => q.queue} columns=${columns} />`;
}

/** Live asks for the state of a queue while its row is in view. */
function Live({ queue, onFound }) {
  const { data } = useAsked(["queues", queue], { every: interval });
  useEffect(() => {
    if (data) onFound(queue, data);
  }, [queue, data, onFound]);
  return null;
}

/** formOf returns in words what matches of a queue are. */
export function formOf({ match: m }) {
  const size = m.teamSize === 1 ? plural(m.teams, "player") : `${m.teams} teams of ${m.teamSize}`;
  return `${m.function}, ${size}`;
}
