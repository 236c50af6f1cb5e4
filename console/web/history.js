// The points that a server keeps of its last hour.
import { useEffect, useState } from "./lib/preact.js";
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
