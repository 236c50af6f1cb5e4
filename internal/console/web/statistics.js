// Counters of entities, and metrics, over time.
import { html, useMemo } from "./lib/preact.js";
import { Chart, units } from "./chart.js";
import { Asked, Choice, Empty } from "./form.js";
import { colors } from "./history.js";
import { Lookup } from "./lookup.js";
import { useQuery } from "./router.js";
import { useAsked } from "./service.js";
import { count, plural, visible } from "./text.js";

const hour = 3_600_000;
const frames = { __proto__: null, hourly: [hour, 7 * 24], daily: [24 * hour, 30],
  weekly: [7 * 24 * hour, 5] }; // length, and how many are kept
const utc = (options) => new Intl.DateTimeFormat("en", { timeZone: "UTC", ...options });
const day = utc({ month: "short", day: "numeric" });
const dayAndHour = utc({ month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const hourOnly = utc({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const label = (time) => (time % (24 * hour) ? hourOnly : day).format(time);
const perChart = 5; // lines
const manyCharts = 8;

export function Statistics() {
  const [name] = useQuery("name");
  const [frame, setFrame] = useQuery("frame", "daily");
  const [kind, setKind] = useQuery("of", "stats");
  const [length, kept] = frames[frame] ?? frames.daily;
  const from = useMemo(() => new Date(Date.now() - (kept - 1) * length).toISOString(), [frame, name]);
  const asked = useAsked(name ? [kind === "metrics" ? "metrics" : "stats", name, frame] : null,
    { query: [["from", from]], every: 30_000 });
  return html`<section class="panel" aria-labelledby="statistics"><header><h2 id="statistics">Statistics</h2>
      <span class="dim">Hours and days begin in UTC</span></header>
    <div class="content"><${Lookup}
        parts=${[["name", kind === "metrics" ? "Metric" : "Entity", kind === "metrics" ? "cache_hits" : "topics"]]}>
      <${Choice} label="Of" value=${kind} onValue=${setKind}
        of=${[["stats", "counters of an entity"], ["metrics", "a metric"]]} />
      <${Choice} label="Windows" value=${frame} onValue=${setFrame}
        of=${[["hourly", "hours of 7 days"], ["daily", "30 days"], ["weekly", "weeks of 30 days"]]} />
    <//></div>
    ${name && html`<div class="topped content">
        <${Asked} of=${asked} rows=${4} show=${({ windows }) => windows.length > 0
      ? html`<${Windows} of=${windows} name=${name} length=${length} frame=${frame} />`
      : html`<${Empty} title=${`Nothing was counted for “${visible(name)}”.`}>
        <p>Names are case-sensitive. Hours are kept for 7 days, days and weeks for 30.</p><//>`} /></div>`}
  </section>`;
}

function Windows({ of: windows, name, length, frame }) {
  const { times, fields } = useMemo(() => columnsOf(windows, length), [windows, length]);
  const names = [...fields.keys()].sort();
  const groups = Array.from(
    { length: Math.min(manyCharts, Math.ceil(names.length / perChart)) },
    (_, i) => names.slice(i * perChart, (i + 1) * perChart));
  const when = frame === "hourly" ? dayAndHour : day;
  return html`<div class="stack">
    <div class="charts">${groups.map(
          (group, i) => html`<${Chart} key=${i}
            title=${visible(name) + (groups.length > 1 ? `, ${i + 1} of ${groups.length}` : "")}
      times=${times} sync="statistics" height=${220} unit=${units.count} step=${length / 1000} utc axis=${label}
        cursor=${(t) => when.format(t)}
      lines=${group.map((field, j) => ({ label: visible(field), color: colors[j], values: fields.get(field) }))} />`)}
        </div>
    ${names.length > manyCharts * perChart &&
      html`<p class="dim">${plural(names.length - manyCharts * perChart, "more field")} are in the table only.</p>`}
    <div class="scroll bounded" tabindex="0" role="region" aria-label="Windows"><table>
      <thead><tr><th scope="col">Window from</th>
          ${names.map((n) => html`<th key=${n} scope="col" class="end name">${visible(n)}</th>`)}</tr></thead>
      <tbody>${[...windows].reverse().map((w) => html`<tr key=${w.start}><td>${when.format(Date.parse(w.start))}</td>
        ${names.map((n) => html`<td key=${n} class="end">${count(valueOf(w, n))}</td>`)}</tr>`)}</tbody></table></div>
  </div>`;
}

const valuesOf = (w) => w.fields ?? { value: w.value };

/** valueOf returns the value of a field. Its name is any text, also one that all objects have: "constructor". */
const valueOf = (w, name) => Object.hasOwn(valuesOf(w), name) ? valuesOf(w)[name] : undefined;

/** columnsOf returns the values of each field in all windows from the first on. A window without one has 0. */
function columnsOf(windows, length) {
  const first = Date.parse(windows[0].start);
  const size = Math.round((Date.parse(windows.at(-1).start) - first) / length) + 1;
  const fields = new Map(); // by name, which is any text
  for (const w of windows) {
    const at = Math.round((Date.parse(w.start) - first) / length);
    for (const [name, value] of Object.entries(valuesOf(w))) {
      if (!fields.has(name)) fields.set(name, new Array(size).fill(0));
      fields.get(name)[at] = value;
    }
  }
  return { times: Array.from({ length: size }, (_, i) => first + i * length), fields };
}
