// Who may do what: API keys, revocations, and the clients that were refused.
import { html, useEffect, useState } from "./lib/preact.js";
import { Asked, Checks, Choice, Confirm, Copy, Dialog, Empty, Form, Text, useAction } from "./form.js";
import { Head } from "./head.js";
import { Icon } from "./icons.js";
import { List } from "./list.js";
import { useQuery } from "./router.js";
import { ask, useAsked, usePages } from "./service.js";
import { absolute, count, Time, visible } from "./text.js";

const tabs = [["keys", "API keys"], ["revocations", "Revocations"], ["limited", "Limited"], ["refused", "Refused"]];

export default function Access() {
  const [tab, setTab] = useQuery("show", "keys");
  const [creating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState(false);
  const [turn, setTurn] = useState(0); // of the lists: they are asked for again
  const again = () => setTurn((n) => n + 1);
  return html`<${Head} title="Access"><span class="space"></span>
      <div class="row-of"><button type="button" class="primary" onClick=${() => setCreating(true)}>Create a key</button>
        <button type="button" onClick=${() => setRevoking(true)}>Revoke tokens</button></div><//>
    <div class="tabs" role="group" aria-label="What to show">
      ${tabs.map(([name, text]) =>
          html`<button key=${name} type="button" aria-pressed=${tab === name}
            onClick=${() => setTab(name)}>${text}</button>`)}
    </div>
    <section class="panel" aria-label=${tabs.find(([name]) => name === tab)?.[1]}>
      ${tab === "keys" ? html`<${Keys} turn=${turn} />`
        : tab === "revocations" ? html`<${Revocations} turn=${turn} />`
          : html`<${Recent} key=${tab} refused=${tab === "refused"} />`}
    </section>
    ${creating && html`<${Create} onDone=${again} onClose=${() => setCreating(false)} />`}
    ${revoking && html`<${Revoke} onDone=${again} onClose=${() => setRevoking(false)} />`}`;
}

/** Grant is a grant in words: actions, and what they are restricted to. */
const Grant = ({ of: g }) => html`<span class="grant-line"><b>${g.actions.join(", ")}</b>
  ${["channels", "subscribers", "queues", "owners", "records"].filter((list) => g[list]).map((list) => html`
    <span key=${list}> <span class="dim">${list}</span> <span class="name">${visible(g[list].join(" ")) || "none"}
      </span></span>`)}</span>`;

const grantsText = (grants) => grants.map((g) => g.actions.join(", ") +
  ["channels", "subscribers", "queues", "owners", "records"].filter((l) => g[l]).map(
    (l) => ` · ${l} ${g[l].join(" ")}`).join("")).join("; ");

/** useChanged asks for a list again after each change, which turn counts. A list is found as it was left otherwise. */
function useChanged(of, turn) {
  useEffect(() => {
    if (turn > 0) of.reload();
  }, [turn]);
  return of;
}

function Keys({ turn }) {
  const of = useChanged(usePages(["keys"], { items: (a) => a.keys }), turn);
  const [shown, show] = useState(null);
  const [revoked, revoke] = useState(null);
  const columns = [
    { name: "id", label: "Key", width: "150px",
      cell: (k) => html`<button type="button" class="link name" onClick=${() => show(k)}>${k.id}</button>` },
    { name: "description", label: "Description", width: "minmax(90px, 1fr)",
      cell: (k) => html`<bdi>${visible(k.description ?? "")}</bdi>` },
    { name: "grants", label: "May", width: "minmax(120px, 2fr)", from: 560,
      cell: (k) => grantsText(k.grants) || html`<span class="dim">nothing</span>` },
    { name: "created", label: "Created", width: "130px", end: true, from: 820,
      cell: (k) => k.created ? html`<${Time} at=${k.created} />` : html`<span class="dim">in a file</span>` },
    { name: "expires", label: "Expires", width: "120px", end: true, from: 700, cell: (k) => k.expires
      ? html`<span class=${Date.parse(k.expires) < Date.now() ? "bad" : ""}><${Time} at=${k.expires} /></span>`
        : html`<span class="dim">never</span>` },
    { name: "acts", label: html`<span class="spoken">Actions</span>`, width: "56px", end: true,
      cell: (k) => k.configured
      ? html`<span class="dim" title="Remove it from the file of keys">file</span>`
      : html`<button type="button" class="link" aria-label=${`Revoke ${k.id}`}
        onClick=${() => revoke(k)}>Revoke</button>` },
  ];
  return html`<${Asked} of=${of} rows=${6} show=${(rows) => rows.length > 0
      ? html`<${List} className="tall" label="API keys" rows=${rows} rowKey=${(k) => k.id} columns=${columns}
        onEnd=${of.more} />`
      : html`<${Empty} title="There are no API keys.">
          <p>A key is for a program, such as a back end. On an open service it has no effect yet; give keys to all
            programs
            before you require credentials.</p><//>`} />
    ${shown && html`<${Dialog} title=${shown.description ? visible(shown.description) : "Key " + shown.id}
        onClose=${() => show(null)}>
      <dl class="facts">
        <dt>ID</dt><dd class="name">${shown.id}</dd>
        <dt>May</dt><dd>${shown.grants.length
            ? shown.grants.map((g, i) => html`<div key=${i}><${Grant} of=${g} /></div>`) : "nothing"}</dd>
        <dt>Limits</dt><dd>${shown.limits ?? "none"}</dd>
        <dt>Expires</dt><dd>${shown.expires ? absolute(Date.parse(shown.expires)) : "never"}</dd>
        <dt>Created</dt><dd>${shown.created ? absolute(Date.parse(shown.created)) : "in the file of keys"}
          ${shown.createdBy && html` by <span class="name">${visible(shown.createdBy)}</span>`}</dd>
      </dl>
    <//>`}
    ${revoked && html`<${Confirm} title="Revoke a key" verb="Revoke" name=${revoked.id} onClose=${() => revoke(null)}
      onConfirm=${async () => {
        await ask(["keys", revoked.id], { method: "DELETE" });
        of.reload();
      }}>
      <p>Within a second no server accepts the key <span class="name">${revoked.id}
        </span>, and requests that wait with it
        end. This can’t be undone: the ID is never used again.</p>
    <//>`}`;
}

const actions = [
  ["publish", "send messages to channels"],
  ["subscribe", "receive and acknowledge messages"],
  ["describe", "see a channel’s clock and subscribers"],
  ["ticket", "create, watch and cancel tickets"],
  ["queue", "see queues, their tickets and matches"],
  ["direct", "match tickets, and assign servers to them"],
  ["backfill", "find players for a match that runs"],
  ["read", "read records, such as sessions and settings"],
  ["write", "create, change and delete records"],
  ["metrics", "read metrics and charts of the last hour"],
  ["admin", "operate the service: all of this console that no other action is for"],
];

/** lists of a grant, and the actions that they restrict */
const lists = [
  ["channels", "Channels", ["publish", "subscribe", "describe"]], ["subscribers", "Subscribers", ["subscribe"]],
  ["queues", "Queues", ["ticket", "queue", "direct", "backfill"]], ["owners", "Owners of tickets", ["ticket"]],
    ["records", "Records", ["read", "write"]],
];

const emptyGrant = () => ({ actions: [], id: Math.random() });

const days = [["", "never"], ["1", "in a day"], ["30", "in 30 days"], ["90", "in 90 days"], ["365", "in a year"]];

function Create({ onClose, onDone }) {
  const [description, setDescription] = useState("");
  const [grants, setGrants] = useState([emptyGrant()]);
  const [expires, setExpires] = useState("90");
  const [limits, setLimits] = useState("");
  const action = useAction(async () => {
    const body = {
      description,
      grants: grants.map((g) => ({
        actions: g.actions,
        ...Object.fromEntries(lists.filter(([list, , of]) => g[list]?.trim() && of.some((a) => g.actions.includes(a)))
          .map(([list]) => [list, g[list].trim().split(/[\s,]+/)])),
      })),
      ...(limits.trim() && { limits: limits.trim() }),
      ...(expires && { expires: new Date(Date.now() + Number(expires) * 86_400_000).toISOString() }),
    };
    const made = await ask(["keys"], { method: "POST", body });
    onDone();
    return made;
  });
  const change = (i, part) => setGrants(grants.map((g, j) => (j === i ? { ...g, ...part } : g)));
  if (action.done) {
    return html`<${Dialog} title="The key was created" onClose=${onClose}>
      <p>Copy it now: it is shown only once, and the service keeps only its hash.</p>
      <div class="secret"><code>${action.result.key}</code><${Copy} text=${action.result.key} /></div>
      <div class="actions"><button type="button" class="primary" onClick=${onClose}>Done</button></div>
    <//>`;
  }
  return html`<${Dialog} title="Create an API key" className="wide" onClose=${onClose}>
    <${Form} action=${action}>
      <div class="fields">
        <${Text} label="Description" value=${description} onValue=${setDescription} maxlength="1024" placeholder="shop"
          autofocus />
        <${Choice} label="Expires" value=${expires} onValue=${setExpires} of=${days} />
        <${Text} label="Limits (optional)" value=${limits} onValue=${setLimits} placeholder="requests=100/s,waits=50" />
      </div>
      <div class="grants">
        ${grants.map((g, i) => html`<div class="grant" key=${g.id}>
          <${Checks} label=${grants.length > 1 ? `Grant ${i + 1}: it may` : "It may"} value=${g.actions} of=${actions}
            onValue=${(v) => change(i, { actions: v })} />
          ${lists.some(([, , of]) => of.some((a) => g.actions.includes(a))) && html`<div class="fields">
            ${lists.filter(([, , of]) => of.some((a) => g.actions.includes(a))).map(
                ([list, label]) => html`<${Text} key=${list}
              label=${label} value=${g[list] ?? ""} onValue=${(v) => change(i, { [list]: v })} placeholder="all"
              hint=${list === "channels" ? "Such as orders.* chat.lobby" : undefined} />`)}
          </div>`}
          ${g.actions.includes("admin") &&
            html`<p class="row-of warn"><${Icon} name="warning" />
              <span>A key with “admin” can create keys, and so do everything.</span></p>`}
          ${grants.length > 1 && html`
            <div><button type="button" class="link"
                onClick=${() => setGrants(grants.filter((_, j) => j !== i))}>Remove this grant</button></div>`}
        </div>`)}
        <div><button type="button" onClick=${() => setGrants([...grants, emptyGrant()])}>Add a grant</button></div>
      </div>
      <div class="actions"><button type="button" onClick=${onClose}>Cancel</button>
        <button class="primary" disabled=${action.busy || grants.some((g) => g.actions.length === 0)}>Create</button>
          </div>
    <//>
  <//>`;
}

function Revocations({ turn }) {
  const of = useChanged(usePages(["revocations"], { items: (a) => a.revocations }), turn);
  const what = (r) => r.jti ? ["token", r.jti] : r.subject ? ["subject", r.subject] : ["API key", r.key];
  const columns = [
    { name: "kind", label: "Kind", width: "90px", cell: (r) => html`<span class="dim">${what(r)[0]}</span>` },
    { name: "name", label: "Revoked", width: "minmax(120px, 1fr)",
      cell: (r) => html`<span class="name">${visible(what(r)[1])}</span>` },
    { name: "at", label: "When", width: "130px", end: true, cell: (r) => html`<${Time} at=${r.at} />` },
    { name: "until", label: "In force until", width: "140px", end: true, from: 520,
      cell: (r) => html`<${Time} at=${r.until} />` },
  ];
  return html`<${Asked} of=${of} rows=${4} show=${(rows) => rows.length > 0
    ? html`<${List} className="tall" label="Revocations" rows=${rows} rowKey=${(r) => what(r).join()} columns=${columns}
      onEnd=${of.more} />`
    : html`<${Empty} title="Nothing is revoked.">
      <p>“Revoke tokens” ends one token, or all tokens and sessions of a user,
        within a second on all servers.</p><//>`} />`;
}

function Revoke({ onClose, onDone }) {
  const [of, setOf] = useState("subject");
  const [name, setName] = useState("");
  const [until, setUntil] = useState("");
  const action = useAction(async () => {
    const body = { [of]: name, ...(until && { until: new Date(until).toISOString() }) };
    const done = await ask(["revocations"], { method: "POST", body });
    onDone();
    return done;
  });
  return html`<${Dialog} title="Revoke tokens" onClose=${onClose}>
    <${Form} action=${action}>
      <${Choice} label="Revoke" value=${of} onValue=${setOf}
        of=${[["subject", "all tokens and sessions of a user, issued until now"], ["jti", "one token, by its ID"]]} />
      <${Text} label=${of === "subject" ? "Subject" : "ID of the token (jti)"} value=${name} onValue=${setName}
        autofocus />
      <${Text} label="Until (optional)" type="datetime-local" value=${until} onValue=${setUntil}
        hint="When all such tokens have expired; 30 days from now if left out." />
      ${action.done && html`<p class="notice"
          role="status"><${Icon} name="check" /> Revoked until ${absolute(Date.parse(action.result.until))}.</p>`}
      <div class="actions"><button type="button" onClick=${onClose}>${action.done ? "Close" : "Cancel"}</button>
        <button class="primary" disabled=${action.busy || !name || action.done}>Revoke</button></div>
    <//>
  <//>`;
}

function Recent({ refused }) {
  const of = useAsked(["access"], { every: 5000 });
  const times = [
    { name: "count", label: "Times", width: "60px", end: true, cell: (r) => count(r.refusals.count) },
    { name: "last", label: "Last", width: "120px", end: true, cell: (r) => html`<${Time} at=${r.refusals.last} />` },
  ];
  const client = { name: "client", label: "Client", width: "minmax(90px, 200px)",
    cell: (r) => html`<span class="name">${visible(r.client)}</span>` };
  const columns = refused ? [
    client,
    { name: "principal", label: "Taken for", width: "minmax(90px, 180px)", from: 900,
      cell: (r) => r.principal ? html`<span class="name">${visible(r.principal)}</span>`
      : html`<span class="dim">unknown</span>` },
    { name: "reason", label: "Why", width: "minmax(120px, 1fr)",
      cell: (r) => html`<span title=${r.problem}>${visible(r.reason)}</span>` },
    { name: "path", label: "Asked for", width: "minmax(120px, 1fr)", from: 640,
      cell: (r) => html`<span class="name" title=${visible(r.path)}>${r.method} ${visible(r.path)}</span>` },
    ...times,
  ] : [
    client,
    { name: "limit", label: "Limit", width: "minmax(90px, 1fr)",
      cell: (r) => html`${r.limit} <span class="dim">${r.value} per ${r.of}</span>` },
    ...times,
  ];
  return html`<${Asked} of=${of} rows=${4} show=${(all) => {
    const rows = refused ? all.refused : all.limited;
    return rows.length > 0
      ? html`<${List} className="tall" label=${refused ? "Refused credentials" : "Limited clients"} rows=${rows}
        columns=${columns}
          rowKey=${(r) => [r.client, r.problem, r.method, r.path, r.limit, r.reason].join()} />`
      : refused
        ? html`<${Empty} title="This server has refused no credentials.">
          <p>Requests without a valid credential, or without the
            right to what they ask for, are listed here with the reason.</p><//>`
        : html`<${Empty} title="No client is beyond a limit now."><p>Limits are set by <code>--user-limits</code>,
            <code>--address-limits</code>, and the limits of a key.</p><//>`;
  }} />
  <footer>The last 200 ${refused ? ""
      : "within the last minute "}of the server that answers; repeats are one line.</footer>`;
}
