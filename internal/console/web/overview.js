// What is wrong now, the last hour, all servers, and Redis.
import { html, useState } from "./lib/preact.js";
import { units } from "./chart.js";
import { Asked, Confirm, Empty, Failure, useAction } from "./form.js";
import { Head } from "./head.js";
import { colors, LastHour, perSecond } from "./history.js";
import { Icon } from "./icons.js";
import { at } from "./router.js";
import { ask, credential, may, useAsked } from "./service.js";
import { bytes, count, duration, millis, plural, Time, visible } from "./text.js";

const interval = 10_000; // ms, between two points

export default function Overview() {
  if (!may("admin")) return html`<${Head} title="Overview" /><${Limited} />`;
  return html`<${Head} title="Overview" />
    <${Problems} />
    ${credential.use().kind === "open" && html`<${Open} />`}
    <${LastHour} chartsOf=${chartsOf} />
    <${Servers} />
    <${Storage} />`;
}

const Limited = () => html`<section class="panel"><${Empty} title="The state of the service needs the action “admin”.">
  <p>With this key you can open a channel by its name: <a href=${at("channels")}>Channels</a>.</p>
<//></section>`;

function Problems() {
  const of = useAsked(["problems"], { every: interval });
  return html`<section class="panel" aria-label="Problems">
    <${Asked} of=${of} rows=${1} show=${({ problems, checkedAt, more }) => problems.length === 0
      ? html`<p class="fine"><span class="good"><${Icon} name="check" /></span> <b>Nothing is wrong.</b>
          <span class="dim">Checked <${Time} at=${checkedAt} />.</span></p>`
      : html`<ul class="problems">
          ${problems.map((p) => html`<li key=${p.code + p.about}>
            <span class=${p.severity === "critical" ? "bad" : "warn"}>
              <${Icon} name=${p.severity === "critical" ? "critical" : "warning"} /></span>
            <div>
              <p><span class="spoken">${p.severity}: </span>${visible(p.text)}</p>
              <p class="about">${p.about &&
                  html`<span class="name">${visible(p.about)}</span> · `}since <${Time} at=${p.since} /></p>
            </div>
            <a href=${p.docs} target="_blank" rel="noreferrer">What to do</a>
          </li>`)}
          ${more > 0 && html`<li><span></span><p class="dim">${plural(more, "more problem")} are not listed.</p></li>`}
        </ul>`} />
  </section>`;
}

const Open = () => html`<p class="notice"><span><b>This service asks nobody for a key:</b> everybody who can connect
  to it can read, send and delete everything. Before others than you can connect, give a key to each program (see
  ${" "}<a href=${at("access")}>Access</a>), and then start the service with <code>--require-credentials</code>.</span>
</p>`;

/** chartsOf returns the charts of the overview. A chart has lines only for what was measured in the hour. */
function chartsOf({ times, intervalMs, columns, errors = {}, redisFailures = {} }) {
  const eachSecond = (values) => perSecond(values, intervalMs);
  const of = (name) => columns[name] ?? times.map(() => null);
  const sum = (groups, name) =>
    times.map((_, i) => Object.values(groups).reduce((all, g) => all + (g[name]?.[i] ?? 0), 0));
  const lines = (...all) => all.map(([label, values], i) => ({ label, color: colors[i], values }));
  const codes = Object.keys(errors).sort();
  return [
    { title: "Messages", unit: units.perSecond, lines: lines(["published", eachSecond(of("published"))],
      ["delivered", eachSecond(of("delivered"))], ["acknowledged", eachSecond(of("acks"))]) },
    { title: "Open waits and streams", unit: units.count,
      lines: lines(["waits", of("waits")], ["event streams", of("streams")], ["sockets", of("sockets")]) },
    { title: "Latency", unit: units.millis, log: true, lines: lines(["publish p50", of("publishP50Ms")],
      ["publish p99", of("publishP99Ms")], ["acknowledge p99", of("ackP99Ms")]) },
    { title: "Requests", unit: units.perSecond, lines: lines(["all", eachSecond(of("requests"))],
      ["limited", eachSecond(of("limited"))]) },
    { title: "Errors by status", unit: units.perSecond, lines: codes.length
      ? lines(...codes.slice(-5).map((code) => [code, eachSecond((errors[code].requests ?? []).map((v) => v ?? 0))]))
      : [{ label: "no error", color: "two", values: times.map(() => 0) }] },
    { title: "Redis", unit: units.perSecond, lines: [
      ...lines(["scripts", eachSecond(of("redisScripts"))], ["retries", eachSecond(of("redisRetries"))]),
      { label: "failures", color: "bad", values: eachSecond(sum(redisFailures, "failures")) }] },
    { title: "Processor", unit: units.percent,
      lines: lines(["of a core", of("cpuMs").map((v) => v === null ? null : v * 100 / intervalMs)]) },
    { title: "Memory", unit: units.bytes, lines: lines(["of the process", of("memoryBytes")]) },
  ].map((c) => ({ times, ...c }));
}

function Servers() {
  const of = useAsked(["servers"], { every: interval });
  return html`<section class="panel" aria-labelledby="servers">
    <header><h2 id="servers">Servers</h2><span class="dim">on this Redis</span><span class="space"></span>
      <a href=${at("shards")}>Nodes of shards</a>
      ${of.data && html`<${Drain} drains=${of.data.servers.some((s) => s.self && s.draining)} onChange=${of.reload} />`}
    </header>
    <${Asked} of=${of} show=${({ servers }) => html`<div class="scroll"><table>
      <thead><tr><th scope="col">Server</th><th scope="col">Listens on</th><th scope="col">Version</th>
        <th scope="col" class="end">Up for</th><th scope="col" class="end">Seen</th><th scope="col">Leases</th></tr>
          </thead>
      <tbody>${servers.map((s) => html`<tr key=${s.id}>
        <td><span class="name">${visible(s.host)}</span> <span class="dim">${s.pid}
          </span> ${s.self && html`<span class="tag">this one</span>`}
          ${s.draining && html` <span class="tag warn">draining</span>`}</td>
        <td>${s.listen.map((l) => html`<div class="mono" key=${l}>${visible(l)}</div>`)}</td>
        <td><span title=${s.commit}>${visible(s.version)}</span></td>
        <td class="end"><${Time} at=${s.startedAt} since /></td>
        <td class="end"><${Time} at=${s.seenAt} /></td>
        <td><${Leases} of=${s} /></td>
      </tr>`)}</tbody>
    </table></div>`} />
  </section>`;
}

/** Drain sends the clients of the server that answers to other servers, or ends that. */
function Drain({ drains, onChange }) {
  const [asks, setAsks] = useState(false);
  const resume = useAction(async () => {
    await ask(["resume"], { method: "POST" });
    onChange();
  });
  if (drains) return html`${resume.error && html`<${Failure} error=${resume.error} />`}
    <button type="button" disabled=${resume.busy} onClick=${resume.run}>Resume this one</button>`;
  return html`<button type="button" onClick=${() => setAsks(true)}>Drain this one</button>
    ${asks && html`<${Confirm} title="Drain this server" verb="Drain" onClose=${() => setAsks(false)}
      onConfirm=${async () => {
        await ask(["drain"], { method: "POST" });
        onChange();
      }}>
      <p>It isn’t ready any more, so that load balancers leave it. Waiting fetches, streams and WebSockets end, and
        their clients connect again. It serves who comes until you resume it, or until its next start.</p>
      <p>Without another server, clients find none that is ready.</p>
    <//>`}`;
}

const Leases = ({ of: { leases, moreLeases = 0 } }) => leases.length === 0 ? html`<span class="dim">none</span>`
  : html`<details><summary>${plural(leases.length + moreLeases, "lease")}</summary>
      <ul>${leases.map((l) => html`<li key=${l} class="mono">${visible(l)}</li>`)}</ul>
      ${moreLeases > 0 && html`<p class="dim">and ${plural(moreLeases, "more")}</p>`}
    </details>`;

const contents = { channels: "Channels", tickets: "Tickets", sessions: "Sessions", cache: "Cache" };
const levels = {
  always: "every write is on disk before it is answered", everysec: "a crash loses about a second",
  snapshot: "a crash loses what came after the last snapshot", memory: "a restart loses everything",
  unknown: "the storage doesn’t say",
};

function Storage() {
  const of = useAsked(["storage"], { every: 6 * interval });
  return html`<section class="stack" aria-label="Redis"><h2>Redis</h2>
    <${Asked} of=${of} show=${({ redis }) => html`<div class="cards">
      ${redis.map((r) => html`<${Redis} key=${r.of} of=${r} />`)}
    </div>`} /></section>`;
}

function Redis({ of: r }) {
  const { durability: d, ...s } = r.storage ?? {};
  return html`<div class="panel">
    <header><h3>${contents[r.of] ?? r.of}</h3>
      <span class="dim">${s.product
          ? `${s.product[0].toUpperCase()}${s.product.slice(1)} ${s.version}, ${s.kind}` : ""}</span>
      <span class="space"></span><span class="dim">checked <${Time} at=${r.checkedAt} /></span></header>
    <div class="content stack">
      ${r.error && html`<${Failure} error=${new Error(r.error)} />`}
      ${r.uncovered && html`<${Failure} error=${new Error(`No primary has the slots ${r.uncovered}`)} />`}
      ${d && html`<dl class="facts">
        <dt>Durability</dt><dd><b>${d.level}</b>: ${levels[d.level]}</dd>
        <dt>Append-only file</dt><dd>${d.appendOnly ? `on, fsync ${d.fsync}` : "off"}</dd>
        <dt>Eviction</dt><dd>${d.evictionPolicy || "–"}</dd>
      </dl>`}
      ${d?.warnings.map((w) =>
          html`<p key=${w} class="row-of warn"><${Icon} name="warning" /><span>${visible(w)}</span></p>`)}
    </div>
    <div class="scroll"><table>
      <thead><tr><th scope="col">Primary</th><th scope="col" class="end">Memory</th>
          <th scope="col" class="end">Limit</th>
        <th scope="col" class="end">Replicas</th><th scope="col" class="end">Latency</th>
          <th scope="col" class="end">Clock</th></tr></thead>
      <tbody>${r.primaries.map((p) => html`<tr key=${p.address}>
        <td class="mono">${visible(p.address)}${p.error && html`<p class="bad">${visible(p.error)}</p>`}</td>
        <td class="end">${bytes(p.usedMemoryBytes)}</td>
        <td class="end">${p.maxMemoryBytes ? bytes(p.maxMemoryBytes) : html`<span class="dim">none</span>`}</td>
        <td class="end">${count(p.replicas)}</td>
        <td class="end">${millis(p.latencyUs / 1000)}</td>
        <td class="end" title="How far its clock is ahead of the server’s">${p.clockOffsetMs > 0 ? "+" : ""}
          ${offset(p.clockOffsetMs)}</td>
      </tr>`)}</tbody>
    </table></div>
    <${SlowCalls} of=${r.of} />
  </div>`;
}

/** SlowCalls asks Redis for its slow logs when it is opened. */
function SlowCalls({ of }) {
  const [open, setOpen] = useState(false);
  return html`<details class="slow" onToggle=${(e) => setOpen(e.currentTarget.open)}>
    <summary>Slow calls</summary>
    ${open && html`<${SlowLogs} of=${of} />`}
  </details>`;
}

function SlowLogs({ of: contents }) {
  const of = useAsked(["slowlog"], { every: interval });
  const show = ({ redis }) => redis.filter((r) => r.of === contents).map((r) => html`
    ${r.error && html`<${Failure} error=${new Error(r.error)} />`}
    ${r.logs.map((log) => html`<${SlowLog} key=${log.address} of=${log} />`)}`);
  return html`<${Asked} of=${of} rows=${2} show=${show} />`;
}

function SlowLog({ of: { address, calls, error, remedy } }) {
  if (error) return html`<p class="content warn row-of"><${Icon} name="warning" />
    <span>${visible(address)}: ${visible(error)}${remedy && html`; ${visible(remedy)}`}</span></p>`;
  if (calls.length === 0) return html`<p class="content dim">${visible(address)} has no slow calls.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${"Slow calls of " + visible(address)}><table>
    <caption>The latest of ${visible(address)}, without contents</caption>
    <thead><tr><th scope="col">Call</th><th scope="col" class="end">Took</th><th scope="col" class="end">At</th>
      <th scope="col">Keys</th><th scope="col">Client</th></tr></thead>
    <tbody>${calls.map((c, i) => html`<tr key=${i}>
      <td class="mono">${visible(c.command)} ${c.script && html`<span class="dim">${c.script}</span>`}</td>
      <td class="end">${millis(c.durationUs / 1000)}</td>
      <td class="end"><${Time} at=${c.at} /></td>
      <td class="mono">${c.keys.map((k) => html`<div key=${k}>${visible(k)}</div>`)}</td>
      <td class="mono dim">${visible(c.client) || "in a script"}</td>
    </tr>`)}</tbody>
  </table></div>`;
}

const offset = (n) => n === 0 ? "0 ms"
  : (n < 0 ? "−" : "") + (Math.abs(n) < 1000 ? `${Math.abs(n)} ms` : duration(Math.abs(n)));
