// Charts of values over time.
import { html, useEffect, useRef, useState } from "./lib/preact.js";
import uPlot from "./lib/uplot.js";

const dark = matchMedia("(prefers-color-scheme: dark)");
const minute = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const second = new Intl.DateTimeFormat(
  "en", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

const clock = (time) => (time % 60_000 ? second : minute).format(time);
const moment = (time) => second.format(time);

const shortest = 120; // s, that the time axis spans
const powers = Array.from({ length: 44 }, (_, i) => 2 ** i); // the steps of an axis of bytes

const lastOf = (values) => values.findLast((v) => v !== null && v !== undefined);
const highest = (values) => values.reduce((a, b) => (b > a ? b : a), 0);

/**
 * Chart draws lines: {label, color, values}, whose color is the name of one of the stylesheet. times are in
 * milliseconds, and format returns a value with its unit. The legend shows the values where the pointer is, or the last
 * ones. Charts with the same sync show the same time. With binary, values are bytes. axis and cursor
 * return the text of a time, below the chart and where the pointer is.
 */
export function Chart({ title, times, lines, format, binary = false, sync = "console", height = 150, axis = clock,
    cursor = moment }) {
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
      padding: [8, 6, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: sync, setSeries: false }, drag: { x: false, y: false }, points: { size: 6 }, y: false },
      scales: { x: { time: true, range: () => span.current },
        y: { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] } },
      axes: [
        { stroke: text, font, grid: { show: false }, ticks, size: 24, space: 70,
          values: (_, all) => all.map((t) => axis(t * 1000)) },
        { stroke: text, font, grid, ticks, size: 58, space: 32, gap: 6, ...(binary && { incrs: powers }),
          values: (_, all) => all.map((v) => format(v)) },
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
  }, [shape, height, sync, binary]);

  useEffect(() => {
    const last = (times.at(-1) ?? Date.now()) / 1000;
    span.current = [Math.min((times[0] ?? Infinity) / 1000, last - shortest), last];
    plot.current.setData([times.map((t) => t / 1000), ...lines.map((l) => l.values)]);
  }, [times, lines, shape]);

  const shown = (l) => at === null ? lastOf(l.values) : l.values[at];
  return html`<figure class="chart">
    <figcaption>
      <h3>${title}</h3>
      <span class="when">${at === null || times[at] === undefined ? "" : cursor(times[at])}</span>
    </figcaption>
    <ul class="legend">
      ${lines.map((l) => html`<li key=${l.label}>
        <i class=${"line " + l.color}></i>${l.label} <b>${format(shown(l))}</b>
      </li>`)}
    </ul>
    <div class="plot" ref=${box} aria-hidden="true" style=${{ height: height + "px" }}></div>
    <p class="spoken">${lines.map(
          (l) => `${l.label}: ${format(lastOf(l.values))} now, at most ${format(highest(l.values))}. `)}</p>
  </figure>`;
}

const translucent = (color) => color.replace(/^rgb\((.*)\)$/, "rgba($1, 0.12)");
