// The sessions of a user, which an operator can end.
import { html, useState } from "./lib/preact.js";
import { Asked, Confirm, Empty } from "./form.js";
import { line } from "./json.js";
import { List } from "./list.js";
import { Lookup } from "./lookup.js";
import { useQuery } from "./router.js";
import { ask, may, useAsked } from "./service.js";
import { plural, Time, visible } from "./text.js";

export function Sessions() {
  const [user] = useQuery("user");
  const of = useAsked(user ? ["users", user, "sessions"] : null, { every: 5000 });
  const [ending, end] = useState(null); // a session, or all of them
  const writes = user && may("write", `sessions/${user}`, "records");
  const columns = [
    { name: "id", label: "Session", width: "minmax(84px, 110px)",
      cell: (s) => html`<span class="mono" title=${s.id}>${s.id.slice(0, 10)}</span>` },
    { name: "username", label: "Name", width: "minmax(60px, 200px)", from: 480,
      cell: (s) => html`<bdi>${visible(s.username)}</bdi>` },
    { name: "device", label: "Device", width: "minmax(80px, 1fr)", from: 620, cell: (s) => s.deviceInfo === undefined
      ? html`<span class="dim">–</span>`
        : html`<span class="oneline" title=${line(s.deviceInfo, 500)}>${line(s.deviceInfo)}</span>` },
    { name: "createdAt", label: "Logged in", width: "110px", end: true, from: 420,
      cell: (s) => html`<${Time} at=${s.createdAt} />` },
    { name: "lastActivity", label: "Active", width: "minmax(90px, 110px)", end: true,
      cell: (s) => html`<${Time} at=${s.lastActivity} />` },
    ...(writes ? [{ name: "acts", label: html`<span class="spoken">Actions</span>`, width: "52px", end: true,
      cell: (s) => html`<button type="button" class="link" aria-label=${`End session ${s.id.slice(0, 10)}`}
        onClick=${() => end(s)}>End</button>` }] : []),
  ];
  return html`<section class="panel" aria-labelledby="sessions">
    <header><h2 id="sessions">Sessions of a user</h2>
      ${of.data && html`<span
          class="dim">${plural(of.data.sessions.length, "session")}, the most recently active first</span>`}
      <span class="space"></span>
      ${writes && of.data?.sessions.length > 0 &&
        html`<button type="button" class="danger" onClick=${() => end("all")}>End all</button>`}</header>
    <div class="content"><${Lookup} parts=${[["user", "User ID", "ann"]]} /></div>
    ${user && html`<div class="topped"><${Asked} of=${of} rows=${4} show=${({ sessions }) => sessions.length > 0
      ? html`<${List} className="tall" label="Sessions" rows=${sessions} rowKey=${(s) => s.id} columns=${columns} />`
      : html`<${Empty} title=${`“${visible(user)}” has no session.`}>
        <p>The user is not logged in, or the ID is another one: IDs are case-sensitive.</p><//>`} /></div>`}
    ${ending && html`<${Confirm} title=${ending === "all" ? "End all sessions" : "End a session"}
        verb=${ending === "all" ? "End all" : "End"}
      name=${ending === "all" ? user : undefined} onClose=${() => end(null)} onConfirm=${async () => {
        await ask(["users", user, "sessions", ...(ending === "all" ? [] : [ending.id])], { method: "DELETE" });
        of.reload();
      }}>
      <p>Within a second no server accepts ${ending === "all" ? "their tokens"
          : "its token"}, and requests that wait with ${ending === "all" ? "them" : "it"} end.
        The user can log in again.</p>
    <//>`}
  </section>`;
}
