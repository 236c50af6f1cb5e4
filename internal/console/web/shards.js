// How caches are split into shards, which nodes hold them, and what changes while the page is open.
import { html, useEffect, useMemo, useRef, useState } from "./lib/preact.js";
import { Asked, Empty, Form, useAction } from "./form.js";
import { Head } from "./head.js";
import { Icon } from "./icons.js";
import { List } from "./list.js";
import { useQuery } from "./router.js";
import { useAsked } from "./service.js";
import { count, duration, plural, Time, visible } from "./text.js";

const interval = 2000; // ms, between two looks
const keptChanges = 200;

export default function Shards() {
  const [cache, setCache] = useQuery("cache");
  const of = useAsked(["shards"], { query: cache ? [["cache", cache]] : [], every: interval });
  return html`<${Head} title="Shards">
      <span class="space"></span>
      <${Named} key=${cache} cache=${cache} onCache=${setCache} />
    <//>
    <${Asked} of=${of} rows=${6} show=${({ caches }) => caches.length > 0
      ? caches.map((c) => html`<${Cache} key=${c.cache} of=${c} at=${of.at} />`)
      : html`<section class="panel"><${Empty} title="This service reads no cache through nodes.">
          <p>A read tier answers reads from the memory of many processes, also while Redis fails over.</p>
          <p>To read topics through one: <code>tidemark serve --cache-shards topic</code></p>
          <p>To look at a cache that a program of your own has in shards, enter its name.</p>
        <//></section>`} />`;
}

/** Named is the choice of a cache that is not one of the service. */
function Named({ cache, onCache }) {
  const [name, setName] = useState(cache);
  const action = useAction(async () => onCache(name.trim()));
  return html`<${Form} action=${action} className="inline" role="search" aria-label="Another cache">
    <input type="text" aria-label="Name of a cache" placeholder="another cache" maxlength="128" autocomplete="off"
      spellcheck=${false}
      value=${name} onInput=${(e) => setName(e.currentTarget.value)} />
    <button>Show</button>
    ${cache && html`<button type="button" onClick=${() => onCache("")}>All of the service</button>`}
  <//>`;
}

const starts = (shards) => shards.map((s) => parseInt(s.first, 16) / 2 ** 64);

const states = {
  answers: { label: "answers", tag: "good" }, loads: { label: "loading", tag: "warn" },
  lost: { label: "no node", tag: "bad" }, leaving: { label: "leaving", tag: "" },
};

const stateOf = (s) => !s.held ? "lost" : s.loaded ? "answers" : "loads";

function Cache({ of: c, at }) {
  const shards = c.dcs.flatMap((d) => d.shards);
  const answering = shards.filter((s) => s.held && s.loaded).length;
  return html`<section class="panel" aria-label=${`Cache ${visible(c.cache)}`}>
    <header><h2 class="name">${visible(c.cache)}</h2>
      ${c.dcs.length > 0 && html`<${Whole} of=${c} />`}
      <span class="space"></span>
      <span class="dim">${c.dcs.length > 0 &&
          `${count(answering)} of ${count(shards.length)} shards answer in ${plural(c.dcs.length, "data centre")}`}
          </span>
    </header>
    ${c.dcs.length === 0
      ? html`<${Empty} title="The cache has no layout yet.">
          <p>A layout says how the keys are split. This one makes two shards in each of two data centres:</p>
          <p><code>tidemark shards layout --cache ${visible(c.cache)} --dc a --dc b --shards 2</code></p><//>`
      : html`<div class="content stack">
          <${Layout} of=${c} />
          <${Said} of=${c.missing} icon=${c.severity} color=${colors[c.severity]} />
          <${Said} of=${c.unsettled} icon="warning" color="warn" />
        </div>
        <${Holders} of=${c} />
        <${Changes} of=${c} at=${at} />`}
  </section>`;
}

const colors = { critical: "bad", warning: "warn" }; // of severities

function Whole({ of: c }) {
  if (c.missing.length > 0) return html`<span class=${"tag " + colors[c.severity]}>keys without a node</span>`;
  if (c.unsettled.length > 0) return html`<span class="tag warn">changing</span>`;
  return html`<span class="tag good">complete</span>`;
}

const shownTexts = 8;

/** Worded is a text whose ranges of keys are easy to compare. */
const Worded = ({ of }) => visible(of).split(/\b([0-9a-f]{16}(?:-[0-9a-f]{16})?)\b/)
  .map((part, i) => i % 2 ? html`<span key=${i} class="mono">${part}</span>` : part);

/** Said is what the service says of the cache, in words. */
const Said = ({ of, icon, color }) => of.length > 0 && html`<ul class="said">
  ${of.slice(0, shownTexts).map(
      (text) => html`<li key=${text}>
        <span class=${color}><${Icon} name=${icon} /></span> <span><${Worded} of=${text} /></span>
      </li>`)}
  ${of.length > shownTexts &&
    html`<li class="dim"><span></span> <span>and ${plural(of.length - shownTexts, "more")}</span></li>`}
</ul>`;

const barHeight = 46;
const marks = ["0000…", "4000…", "8000…", "c000…", "ffff…"];

/** Layout draws the shards of each data centre as intervals of all keys. */
function Layout({ of: c }) {
  const box = useRef();
  const [width, setWidth] = useState(800);
  useEffect(() => {
    const element = box.current;
    const measure = () => setWidth(element.clientWidth);
    measure();
    const size = new ResizeObserver(measure);
    size.observe(element);
    return () => size.disconnect();
  }, []);
  return html`<div class="layout">
    ${c.dcs.map((d) => html`<div class="dc" key=${d.dc}>
      <div class="about"><b class="name">${visible(d.dc)}</b>
        <span class="dim">${plural(d.shards.length, "shard")} · generation ${count(d.generation)}</span></div>
      <${Bar} of=${d} width=${width} />
    </div>`)}
    <div class="dc scale"><span></span>
      <svg ref=${box} width="100%" height="18" aria-hidden="true">
        ${marks.map((m, i) => html`
            <text key=${m} x=${i * 25 + "%"} y="13" class=${i === 0 ? "first" : i === 4 ? "last" : ""}>${m}</text>`)}
      </svg></div>
    <p class="legend"><span><i class="swatch answers"></i>answers</span><span><i class="swatch loads"></i>loading</span>
      <span><i class="swatch lost"></i>no node</span><span class="dim">by the first bytes of the sharding key</span></p>
  </div>`;
}

function Bar({ of: d, width }) {
  const from = starts(d.shards);
  const described = d.shards.map(
    (s) => `shard ${s.shard} ${states[stateOf(s)].label}${s.held ? ` at ${visible(s.host)}` : ""}`);
  return html`<svg class="bar-of" width="100%" height=${barHeight} role="img"
    aria-label=${`${visible(d.dc)}: ${described.slice(0, 12).join(", ")}${described.length > 12
        ? ` and ${described.length - 12} more` : ""}`}>
    ${d.shards.map((s, i) => {
      const share = (from[i + 1] ?? 1) - from[i];
      const room = share * width;
      const edge = room > 6 ? 1 : 0;
      return html`<svg key=${s.shard} x=${from[i] * 100 + "%"} width=${share * 100 + "%"} height=${barHeight}
        class=${"shard " + stateOf(s)}>
        <title>${titleOf(s, d.shards[i + 1])}</title>
        <rect x=${edge} y="1" width="100%" height=${barHeight - 2} rx=${room > 14 ? 4 : 0}
          style=${edge && { width: "calc(100% - 2px)" }} />
        ${room > 34 && html`<text x="9" y="19" class="number">${s.shard}</text>`}
        ${room > 90 && html`<text x=${18 + 8 * String(s.shard).length}
            y="19">${s.held ? visible(s.host) : "no node"}</text>`}
        ${room > 90 && html`<text x="9" y="36"
            class="dim">${s.held ? s.loaded ? html`<${Held} of=${s} />` : "loading" : s.host
              ? `last: ${visible(s.host)}` : "never held"}</text>`}
      </svg>`;
    })}
  </svg>`;
}

const Held = ({ of: s }) => `for ${duration(Date.now() - Date.parse(s.claimedAt))}`;

const lastKey = (next) => next ? (BigInt("0x" + next.first) - 1n).toString(16).padStart(16, "0") : "ffffffffffffffff";

const titleOf = (s, next) => `Shard ${s.shard}, ${s.first} to ${lastKey(next)}: ` + (s.held
  ? `${visible(s.host)} at ${visible(s.address)}${s.loaded ? "" : ", loading"}` : s.host
    ? `no node, last ${visible(s.host)}` : "no node yet");

const columns = [
  { name: "dc", label: "Data centre", width: "minmax(72px, 130px)",
    cell: (s) => html`<span class="name">${visible(s.dc)}</span>` },
  { name: "shard", label: "Shard", width: "44px", end: true, cell: (s) => count(s.shard) },
  { name: "state", label: "State", width: "78px",
    cell: (s) => html`<span class=${"tag " + states[s.state].tag}>${states[s.state].label}</span>` },
  { name: "host", label: "Node", width: "minmax(76px, 1fr)", cell: (s) => s.host
    ? html`<span class=${"name" + (s.held ? "" : " dim")}
      title=${s.held ? "" : "the last holder"}>${visible(s.host)}</span>` : html`<span class="dim">none yet</span>` },
  { name: "address", label: "Address", width: "minmax(110px, 190px)", from: 770,
    cell: (s) => html`<span class="mono dim">${visible(s.address)}</span>` },
  { name: "keys", label: "Keys", width: "310px", from: 1200,
    cell: (s) => html`<span class="mono dim">${s.first} – ${s.last}</span>` },
  { name: "claimedAt", label: "Held since", width: "128px", end: true, from: 630,
    cell: (s) => html`<${Time} at=${s.claimedAt} />` },
  { name: "pingedAt", label: "Pinged", width: "112px", end: true, from: 480,
    cell: (s) => html`<${Time} at=${s.pingedAt} />` },
  { name: "leftMs", label: "Claim ends", width: "86px", end: true, from: 900,
    cell: (s) => s.held ? html`<span title="unless the node renews it">in ${duration(s.leftMs)}</span>`
      : html`<span class="dim">–</span>` },
];

function Holders({ of: c }) {
  const [only, setOnly] = useState("");
  const rows = useMemo(() => c.dcs.flatMap((d) => [
    ...d.shards.map((s, i) => (
        { ...s, dc: d.dc, state: stateOf(s), last: lastKey(d.shards[i + 1]), id: `${d.dc}/${s.shard}` })),
    ...d.former.map((s, i) => ({ ...s, dc: d.dc, state: "leaving", last: "", id: `${d.dc}/former/${i}` })),
  ]), [c]);
  const found = only ? rows.filter(
    (s) => [s.dc, s.host, s.address, states[s.state].label].some((t) => t.includes(only))) : rows;
  return html`<div class="panel-head topped"><h3>Nodes</h3>
      ${only && html`<span class="dim">${count(found.length)} of ${count(rows.length)}</span>`}
      <div class="search end-of"><${Icon} name="search" />
        <input type="search" aria-label="Nodes, data centres and states that contain"
        placeholder="Node, data centre or state" value=${only} onInput=${(e) => setOnly(e.currentTarget.value)}
          autocomplete="off" spellcheck=${false} /></div></div>
    ${found.length > 0
      ? html`<${List} plain className="short" label=${`Nodes of ${visible(c.cache)}`} rows=${found}
        rowKey=${(s) => s.id} columns=${columns} />`
      : html`<${Empty} title="No node matches." />`}`;
}

/** Changes lists what has changed between two looks, so that a reshard can be followed. */
function Changes({ of: c, at }) {
  const before = useRef();
  const [changes, set] = useState([]);
  useEffect(() => {
    const found = before.current ? differences(before.current, c) : [];
    before.current = c;
    if (found.length > 0) set(
      (all) => [...found.map((text, i) => ({ text, at, key: `${at}/${i}` })).reverse(), ...all].slice(0, keptChanges));
  }, [c]);
  return html`<div class="panel-head topped"><h3>Changes</h3><span class="dim">since this page was opened</span></div>
    ${changes.length === 0 ? html`
      <p class="content dim">No changes yet. Nodes that join or leave are listed here, and each step of
        <code>tidemark shards reshard</code>.</p>`
      : html`<ol class="changes bounded" tabindex="0" aria-label="Changes, the newest first">
          ${changes.map((e) => html`<li key=${e.key}><${Time} at=${e.at} /> <span>${e.text}</span></li>`)}</ol>`}`;
}

/** differences returns in words what has changed in a cache. */
function differences(a, b) {
  const changes = [];
  const former = new Map(a.dcs.map((d) => [d.dc, d]));
  for (const d of b.dcs) {
    const was = former.get(d.dc);
    former.delete(d.dc);
    const dc = visible(d.dc);
    if (!was || was.generation !== d.generation) {
      changes.push(`${dc}: a layout of ${plural(d.shards.length, "shard")}, generation ${count(d.generation)}`);
    }
    const same = was && was.generation === d.generation;
    d.shards.forEach((s, i) => {
      const old = same ? was.shards[i] : undefined;
      const name = `${dc}, shard ${s.shard}`;
      const kept = old?.held && old.incarnation === s.incarnation;
      if (s.held && !kept) changes.push(`${name}: ${visible(s.host)} claimed it${s.loaded ? " and answers" : ""}`);
      if (s.held && kept && s.loaded && !old.loaded) changes.push(`${name}: ${visible(s.host)} answers`);
      if (!s.held && old?.held) changes.push(`${name}: ${visible(old.host)} no longer holds it`);
    });
    if (d.whole && !was?.whole) changes.push(`${dc}: all shards answer`);
  }
  for (const dc of former.keys()) changes.push(`${visible(dc)}: its layout was removed`);
  return changes;
}
