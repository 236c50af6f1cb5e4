// The addresses of pages: History API, links, and the parts of the query that pages keep there.
import { useCallback } from "./lib/preact.js";
import { store } from "./store.js";

/** root is the URL of the service. A proxy may have it below a path; this module is in console/assets/ there. */
export const root = new URL("../..", import.meta.url).href;

const base = new URL("..", import.meta.url).pathname;

/** asset returns the address of a file of the console. */
export const asset = (name) => new URL(name, import.meta.url).href;

/** at returns the address of a page: its segments, which are escaped, and a query. */
export function at(...segments) {
  const query = typeof segments.at(-1) === "object" ? new URLSearchParams(segments.pop()) : "";
  const path = segments.map(encodeURIComponent).join("/");
  return base + path + (String(query) && "?" + query);
}

/**
 * climbs reports whether a path, or what stands for a segment of one, has "." or ".." between slashes. A proxy may
 * decode slashes and then resolve these, so that a call would reach another path.
 */
export const climbs = (path) => path.split(/[/\\]/).some((part) => part === "." || part === "..");

const here = () => ({
  segments: location.pathname.slice(base.length).split("/").filter(Boolean).map(unescaped),
  query: new URLSearchParams(location.search),
});

function unescaped(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

const entries = 20; // of the history, that are remembered
const memory = new Map();

/** entry returns an object for the current entry of the history, in which parts of the page keep what they had. */
export function entry() {
  const key = history.state?.entry;
  if (!memory.has(key)) {
    memory.set(key, {});
    if (memory.size > entries) memory.delete(memory.keys().next().value);
  }
  return memory.get(key);
}

if (!history.state?.entry) history.replaceState({ entry: Math.random() }, "");

/** place is where the browser is: the segments of the path and the query. */
export const place = store(here());

addEventListener("popstate", () => place.set(here()));

/** go opens a page. With replace, back does not return to the one before. */
export function go(url, { replace = false } = {}) {
  if (replace) history.replaceState(history.state, "", url);
  else history.pushState({ entry: Math.random(), from: location.pathname }, "", url);
  place.set(here());
  if (!replace) scrollTo(0, 0);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  const plain = !event.defaultPrevented && event.button === 0 &&
    !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
  if (!link || !plain || link.target || link.origin !== location.origin || !link.pathname.startsWith(base)) return;
  event.preventDefault();
  if (link.rel === "up" && history.state?.from === link.pathname) history.back(); // to the list as it was left
  else if (link.href !== location.href) go(link.href);
});

/** useQuery returns a part of the query and a function that changes it, without a step in the history. */
export function useQuery(name, initial = "") {
  const value = place.use().query.get(name) ?? initial;
  const set = useCallback((next) => {
    const query = new URLSearchParams(location.search);
    if (next === initial || next === undefined) query.delete(name);
    else query.set(name, next);
    go(location.pathname + (String(query) && "?" + query), { replace: true });
  }, [name, initial]);
  return [value, set];
}

/** match returns the first of some pages whose path is that of the place, with its parameters. */
export function match(pages, { segments }) {
  for (const page of pages) {
    const path = page.path.split("/").filter(Boolean);
    if (path.length !== segments.length) continue;
    const params = {};
    const fits = path.every((part, i) => {
      if (!part.startsWith(":")) return part === segments[i];
      params[part.slice(1)] = segments[i];
      return true;
    });
    if (fits) return { page, params };
  }
  return undefined;
}
