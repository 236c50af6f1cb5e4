// Charts of values over time.
import { html, useEffect, useRef, useState } from "./lib/preact.js";
import uPlot from "./lib/uplot.js";
import { bytes, count, millis, rate } from "./text.js";

const dark = matchMedia("(prefers-color-scheme: dark)");
const minute = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const second = new Intl.DateTimeFormat("en",
  { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

const clock = (time) => (time % 60_000 ? second : minute).format(time);
const moment = (time) => second.format(time);

const exactly = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 5 });
const isNumber = (v) => v !== null && v !== undefined && !Number.isNaN(v);

/** inUnits returns a value in the largest unit that it reaches, without rounding it to the unit's usual digits. */
const inUnits = (units) => (v) => {
  const [name, size] = units.findLast(([, least]) => v >= least) ?? units[0];
  return v === 0 ? "0" : `${exactly.format(v / size)} ${name}`;
};

const decimal = (from, to) => Array.from({ length: 3 * (to - from) },
  (_, i) => Number(`${[1, 2, 5][i % 3]}e${from + Math.floor(i / 3)}`));
const powers = (of, n) => Array.from({ length: n }, (_, i) => of ** i);
const sixty = [1, 2, 5, 10, 15, 30];

const parts = [["µs", 0.001], ["ms", 1], ["s", 1000], ["min", 60_000], ["h", 3_600_000]];

/**
 * units are what values of a chart can be: format returns a value as the legend shows it, tick one of the axis exactly,
 * decade a power of ten, and steps are the distances that the axis may have.
 */
export const units = {
  count: { format: (v) => isNumber(v) ? count(Math.round(v * 10) / 10) : "–", tick: (v) => exactly.format(v),
    steps: decimal(0, 15) },
  perSecond: { format: (v) => isNumber(v) ? rate(v) + "/s" : "–", tick: (v) => exactly.format(v) + "/s",
    steps: decimal(-3, 12) },
  percent: { format: (v) => isNumber(v) ? `${Math.round(v * 10) / 10} %` : "–", tick: (v) => exactly.format(v) + " %",
    steps: decimal(-2, 6) },
  millis: { format: (v) => v >= 60_000 ? `${(v / 60_000).toFixed(1)} min` : millis(v),
    tick: inUnits(parts), decade: inUnits(parts.slice(0, 3)),
    steps: [...decimal(-3, 3), ...sixty.map((n) => n * 1000), ...sixty.map((n) => n * 60_000),
      ...decimal(0, 3).map((n) => n * 3_600_000)] },
  bytes: { format: bytes, tick: inUnits(["B", "KiB", "MiB", "GiB", "TiB"].map((name, i) => [name, 1024 ** i])),
    steps: powers(2, 44) },
};

/** logarithmic returns the powers of ten around values. Values of 0 are below the axis. */
const logarithmic = (least, most) => {
  const low = Math.floor(Math.log10(least > 0 ? least : 1));
  const high = Math.max(low + 1, Math.ceil(Math.log10(most > 0 ? most : 1)));
  return [10 ** low, 10 ** high];
};

/** decades returns the powers of ten of an axis. */
const decades = (_, __, low, high) => Array.from({ length: Math.round(Math.log10(high / low)) + 1 },
  (___, i) => low * 10 ** i);

const hour = 3600; // s
const spans = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour,
  ...[1, 2, 3, 7, 14, 28].map((days) => days * 24 * hour)];

const lastOf = (values) => values.findLast((v) => v !== null && v !== undefined);
const highest = (values) => values.reduce((a, b) => (b > a ? b : a), 0);

/**
 * Chart draws lines: {label, color, values}, whose color is the name of one of the stylesheet. times are in
 * milliseconds, at least step seconds apart, and labelled in UTC if utc is set. unit is one of units. The legend shows
 * the values where the pointer is, or the last ones. Charts with the same sync show the same time. With log the axis of
 * values is logarithmic. axis and cursor return the text of a time, below the chart and where the pointer is.
 */
export function Chart({ title, times, lines, unit, log = false, sync = "console", height = 150, axis = clock,
  cursor = moment, step = 10, utc = false }) {
  const box = useRef();
  const plot = useRef();
  const span = useRef([0, 1]); // of the time axis, in seconds
  const [at, setAt] = useState(null);
  const [theme, setTheme] = useState(dark.matches);
  const shape = JSON.stringify([lines.map((l) => [l.label, l.color]), theme]);

  useEffect(() => {
    const change = () => setTheme(dark.matches);
    dark.addEventListener("change", change);
    return () => dark.removeEventListener("change", change);
  }, []);

  useEffect(() => {
    const element = box.current;
    const style = getComputedStyle(element);
    // canvas does not know light-dark(): a property of an element has the color that it stands for
    const color = (name) => {
      element.style.color = `var(--${name})`;
      const value = style.color;
      element.style.color = "";
      return value;
    };
    const text = color("dim");
    const grid = { stroke: color("line"), width: 1 };
    const ticks = { show: false };
    const font = "11px " + style.fontFamily;
    const made = new uPlot({
      width: element.clientWidth || 300,
      height,
      padding: [8, 26, 0, 0], // the last label of the time axis is centred on the edge
      legend: { show: false },
      cursor: { sync: { key: sync, setSeries: false }, drag: { x: false, y: false }, points: { size: 6 }, y: false },
      ...(utc && { tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "Etc/UTC") }),
      scales: { x: { time: true, range: () => span.current }, y: log
        ? { distr: 3, log: 10, range: (_, least, most) => logarithmic(least, most) }
        : { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] } },
      axes: [
        { stroke: text, font, grid: { show: false }, ticks, size: 24, space: 70,
          incrs: spans.filter((s) => s >= step), values: (_, all) => all.map((t) => axis(t * 1000)) },
        { stroke: text, font, grid, ticks, size: 58, space: 22, gap: 6,
          ...(log ? { splits: decades, values: (_, all) => all.map(unit.decade), filter: (_, all) => all }
            : { incrs: unit.steps, values: (_, all) => all.map(unit.tick) }) },
      ],
      series: [{}, ...lines.map((l) => ({
        label: l.label, stroke: color(l.color), width: 1.5, spanGaps: false,
        fill: lines.length === 1 ? translucent(color(l.color)) : undefined,
          points: { show: (u) => u.data[0].length === 1 },
      }))],
      hooks: { setCursor: [(u) => setAt(u.cursor.idx ?? null)] },
    }, [[], ...lines.map(() => [])], element);
    plot.current = made;
    const size = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    size.observe(element);
    return () => {
      size.disconnect();
      made.destroy();
    };
  }, [shape, height, sync, unit, log, step, utc]);

  useEffect(() => {
    const last = (times.at(-1) ?? Date.now()) / 1000;
    span.current = [Math.min((times[0] ?? Infinity) / 1000, last - 12 * step), last];
    plot.current.setData([times.map((t) => t / 1000), ...lines.map((l) => l.values)]);
  }, [times, lines, shape]);

  const shown = (l) => at === null ? lastOf(l.values) : l.values[at];
  return html`<figure class="chart">
    <figcaption>
      <h3>${title}</h3>
      <span class="when">${at === null || times[at] === undefined ? log && "log scale" : cursor(times[at])}</span>
    </figcaption>
    <ul class="legend">
      ${lines.map((l) => html`<li key=${l.label}>
        <i class=${"line " + l.color}></i>${l.label} <b>${unit.format(shown(l))}</b>
      </li>`)}
    </ul>
    <div class="plot" ref=${box} aria-hidden="true" style=${{ height: height + "px" }}></div>
    <p class="spoken">${lines.map((l) =>
      `${l.label}: ${unit.format(lastOf(l.values))} now, at most ${unit.format(highest(l.values))}. `)}</p>
  </figure>`;
}

const translucent = (color) => color.replace(/^rgb\((.*)\)$/, "rgba($1, 0.12)");
