// The points that a server keeps of its last hour, and their charts.
import { Chart } from "./chart.js";
import { Failure } from "./form.js";
import { html, useEffect, useMemo, useState } from "./lib/preact.js";
import { ask, returns } from "./service.js";

const interval = 10_000; // ms, between two points

/** colors are those of a chart's lines, by their names in the stylesheet. */
export const colors = ["one", "two", "three", "four", "five"];

/** perSecond returns counts of intervals as rates. */
export const perSecond = (values, intervalMs) => values.map((v) => v === null ? null : v * 1000 / intervalMs);

const hourOfPoints = 361;

/**
 * useHistory returns the points of the last hour, of the service or of a queue. It asks for those after the last one it
 * has.
 */
export function useHistory(queue) {
  const [state, set] = useState({});
  const count = returns.use();
  useEffect(() => {
    const stop = new AbortController();
    let timer;
    let points;
    const run = async () => {
      try {
        const query = [...(points ? [["since", String(points.through)]] : []), ...(queue ? [["queue", queue]] : [])];
        const next = await ask(["history"], { query, signal: stop.signal });
        points = points && points.server === next.server ? joined(points, next) : next;
        set({ points });
      } catch (error) {
        if (stop.signal.aborted) return;
        set((s) => ({ ...s, error }));
      }
      timer = setTimeout(() => (document.hidden ? undefined : run()), interval);
    };
    const shown = () => {
      if (document.hidden) return;
      clearTimeout(timer);
      void run();
    };
    document.addEventListener("visibilitychange", shown);
    void run();
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [queue, count]);
  return state;
}

const noPoints = { times: [], intervalMs: interval, columns: {} };

/**
 * LastHour shows the charts that chartsOf returns for the points of the last hour, of the service or of a queue. Charts
 * without points hold the place until the points arrive: what is below would move away from a person who clicks on it.
 */
export function LastHour({ queue, chartsOf }) {
  const { points, error } = useHistory(queue);
  const charts = useMemo(() => chartsOf(points ?? noPoints), [points]);
  if (!points && error) return html`<${Failure} error=${error} />`;
  return html`<section aria-label="The last hour" aria-busy=${!points} class="stack">
    <div class="row-of"><h2>The last hour</h2>
      <span class="dim">as this server has counted it, every ten seconds</span></div>
    <div class="charts">${charts.map((c) => html`<${Chart} key=${c.title} ...${c} />`)}</div>
  </section>`;
}

/** joined returns the points of an hour from those before and the next ones. A column may begin or end between. */
function joined(before, next) {
  const of = (all, name) => Object.hasOwn(all, name) ? all[name] : undefined; // a kind of cache can be "constructor"
  const columns = (a = {}, b = {}) =>
    Object.fromEntries([...new Set([...Object.keys(a), ...Object.keys(b)])].map((name) => [
    name,
    [...(a[name] ?? before.times.map(() => null)), ...(b[name] ?? next.times.map(() => null))].slice(-hourOfPoints),
  ]));
  const groups = (a = {}, b = {}) => Object.fromEntries([...new Set([...Object.keys(a), ...Object.keys(b)])]
    .map((name) => [name, columns(of(a, name), of(b, name))]));
  return {
    ...next,
    times: [...before.times, ...next.times].slice(-hourOfPoints),
    columns: columns(before.columns, next.columns),
    errors: groups(before.errors, next.errors),
    redisFailures: groups(before.redisFailures, next.redisFailures),
    caches: groups(before.caches, next.caches),
  };
}
