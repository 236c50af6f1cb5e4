// Numbers, sizes, times and texts as people read them.
import { html } from "./lib/preact.js";
import { store } from "./store.js";

const whole = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** count returns a number with separators, or short if it is a million or more. */
export const count = (n) => n === undefined || n === null ? "–" : Math.abs(n) < 1e6 ? whole.format(n)
  : compact.format(n);

/** rate returns a number per second. */
export function rate(n) {
  if (n === undefined || n === null || Number.isNaN(n)) return "–";
  if (n >= 1000) return compact.format(n);
  return n === 0 ? "0" : n < 10 ? n.toFixed(1) : String(Math.round(n));
}

/** bytes returns a size with a unit. */
export function bytes(n) {
  if (n === undefined || n === null || Number.isNaN(n)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(n) >= 1023.5 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${unit && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}

/** millis returns a latency. */
export function millis(n) {
  if (n === undefined || n === null || Number.isNaN(n)) return "–";
  if (n === 0) return "0 ms";
  if (n >= 10_000) return duration(n);
  if (n >= 1000) return `${(n / 1000).toFixed(2)} s`;
  return n >= 10 ? `${Math.round(n)} ms` : n >= 0.1 ? `${n.toFixed(1)} ms` : `${Math.round(n * 1000)} µs`;
}

const steps = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1000]];

/** duration returns a span of time by its two largest units. */
export function duration(ms) {
  if (ms === undefined || ms === null) return "–";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const first = steps.findIndex(([, size]) => ms >= size);
  const [unit, size] = steps[first];
  const parts = [`${Math.floor(ms / size)} ${unit}`];
  const next = steps[first + 1];
  const rest = next && Math.floor((ms % size) / next[1]);
  if (rest && ms / size < 10) parts.push(`${rest} ${next[0]}`);
  return parts.join(" ");
}

const units = { h: 3_600_000, m: 60_000, s: 1000, ms: 1, "µs": 1e-3, ns: 1e-6 };

/** toMs returns a duration as the API writes it, such as 2m0s, in milliseconds. */
export const toMs = (text) => [...text.matchAll(/([\d.]+)(h|ms|m|s|µs|ns)/g)]
  .reduce((all, [, n, unit]) => all + n * units[unit], 0);

/** span returns a duration as the API writes it, as people read it. */
export const span = (text) => duration(toMs(text));

const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** absolute returns a time of this browser's zone, and in UTC. */
export const absolute = (time) => `${clock.format(time)} (${new Date(time).toISOString()})`;

/** now is the time, which changes every second while the tab is visible. */
const now = store(Date.now());
setInterval(() => document.hidden || now.set(Date.now()), 1000);
document.addEventListener("visibilitychange", () => now.set(Date.now()));

function ago(time, from) {
  const past = from - time;
  if (Math.abs(past) < 1500) return "now";
  return past > 0 ? `${duration(past)} ago` : `in ${duration(-past)}`;
}

/** Time shows a time relative to now, and the absolute one where the pointer is. */
export function Time({ at, since }) {
  const current = now.use();
  if (!at) return "–";
  const time = typeof at === "number" ? at : Date.parse(at);
  return html`<time datetime=${new Date(time).toISOString()} title=${absolute(time)}>
    ${since ? duration(Math.max(0, current - time)) : ago(time, current)}
  </time>`;
}

/** visible returns a text whose control characters, and those that change the direction of others, are escaped. */
export const visible = (text) => text.replace(
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
  (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"),
);

/** plural returns a number and a noun. */
export const plural = (n, noun, many = noun + "s") => `${count(n)} ${n === 1 ? noun : many}`;
