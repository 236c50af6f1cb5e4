// The service: calls of its API with the key of this tab, what the key may do, and whether the service answers.
import { useCallback, useEffect, useRef, useState } from "./lib/preact.js";
import { tail, Tidemark, TidemarkError } from "./lib/tidemark.js";
import { climbs, entry, root } from "./router.js";
import { store } from "./store.js";

const keyName = "tidemark key of " + root; // in the storage of the tab, which ends with it

const connect = () => new Tidemark(root, {
  token: () => sessionStorage.getItem(keyName) ?? undefined, share: false, retryFor: 0,
});
let client = connect();

/** credential is what the service knows of this tab's key: its answer, `null` if it wants one, `undefined` at first. */
export const credential = store(undefined);

/** refused is the error of the last key, for the page that asks for another one. */
export const refused = store(undefined);

/** unknown is the error because of which it isn't known what this tab may do. */
export const unknown = store(undefined);

/** outage is since when and why the service doesn't answer, or can't serve. */
export const outage = store(undefined);

/** returns counts how often the service has come back. Data that was asked for before is asked for again. */
export const returns = store(0);

/** isKey reports whether a text can be a key: what a header can carry. */
export const isKey = (text) => /^[\x21-\x7e]+$/.test(text);

/** signIn keeps a key for this tab, and asks what it may do. The service has refused the key if `refused` is set. */
export async function signIn(key) {
  sessionStorage.setItem(keyName, key);
  client = connect();
  refused.set(undefined);
  await identify();
  if (unknown.get()) throw unknown.get();
}

/** signOut forgets the key of this tab. */
export function signOut() {
  sessionStorage.removeItem(keyName);
  client = connect();
  refused.set(undefined);
  credential.set(null);
}

/** hasKey reports whether this tab has a key. */
export const hasKey = () => sessionStorage.getItem(keyName) !== null;

/** identify asks the service what this tab may do. It doesn't throw: `unknown` has the error. */
export async function identify() {
  try {
    credential.set(await ask(["whoami"]));
    unknown.set(undefined);
  } catch (error) {
    if (error.slug === "not-granted") credential.set({ kind: "key", actions: [], grants: [] });
    unknown.set(error.slug === "not-granted" || error.status === 401 ? undefined : error);
  }
}

const literal = (text) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");

const matches = (patterns, text, subject) => patterns === undefined || patterns.some((pattern) => {
  if (!subject && pattern.includes("{sub}")) return false;
  const parts = pattern.split("*").map((part) => part.split("{sub}").map(literal).join(literal(subject)));
  return new RegExp(`^${parts.join(".*")}$`, "s").test(text);
});

/** isFree reports whether a client may do everything: on an open service, and on the machine. */
export const isFree = ({ kind }) => kind === "open" || kind === "admin";

/** may reports whether the key's grants allow an action, on a channel or another thing if one is given. */
export function may(action, name, list = "channels") {
  const of = credential.get();
  if (!of) return false;
  if (isFree(of)) return true;
  const isSubject = list === "records" && of.name; // elsewhere {sub} is the name of a user
  const subject = isSubject ? of.principal.slice("user:".length) : of.name ?? "";
  return of.grants.some((g) => g.actions.includes(action) &&
    (name === undefined || matches(g[list], name, subject)));
}

/** checked returns the segments of a path. It throws if the path could become another one on its way. */
function checked(path) {
  if (!path.some((segment) => climbs(String(segment)))) return path;
  throw new Error("an ID with “.” or “..” between slashes can’t be sent from here; use the command line");
}

/** ask calls the API once. path is below /v1, call as in the client: method, query, body, signal. */
export const ask = (path, call = {}) => noting(() => client.http.once(checked(path), call));

/** askAbout posts a text as it is, so that an answer's lines and columns are those of the text. */
export const askAbout = (path, text, signal) => noting(async () => {
  let answer;
  let said;
  checked(path);
  try {
    answer = await fetch(root + "v1/" + path.map(encodeURIComponent).join("/"), {
      method: "POST", body: text, signal, cache: "no-store",
      headers: { "Content-Type": "application/json", ...authorization() },
    });
    said = await answer.text();
  } catch {
    signal?.throwIfAborted();
    throw unreachable();
  }
  if (answer.ok) return JSON.parse(said);
  const { type, detail } = problemOf(said);
  throw new TidemarkError(answer.status, type?.split(":").at(-1) ?? "", detail ?? `status ${answer.status}`);
});

const answerLimit = 256 << 10; // bytes of an answer's body that are read

/**
 * call sends a request as a person has written it, with a path that begins with a slash, and returns the answer,
 * whatever it is: its status, its headers, the beginning of its body as text, and how long it took.
 */
export async function call({ method, path, body, signal }) {
  const began = performance.now();
  let answer;
  try {
    answer = await fetch(root + path.slice(1), { method, body: body || undefined, signal, cache: "no-store",
      headers: { ...(body && { "Content-Type": "application/json" }), ...authorization() } });
  } catch {
    throw signal.aborted ? new Error("it was stopped") : unreachable();
  }
  const took = performance.now() - began;
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  const reader = answer.body?.getReader();
  try {
    for (let part; reader && size < answerLimit && !(part = await reader.read()).done;) {
      size += part.value.length;
      text += decoder.decode(part.value, { stream: true });
    }
    void reader?.cancel();
  } catch {
    // the beginning is shown: it was stopped, or the connection was lost
  }
  return { status: answer.status, took, headers: [...answer.headers], text, size, cut: size >= answerLimit };
}

function authorization() {
  const key = sessionStorage.getItem(keyName);
  return key ? { Authorization: "Bearer " + key } : {};
}

const unreachable = () => new TidemarkError(0, "unreachable", "the service can't be reached");

/** problemOf returns the members of an error's body, none if it isn't the service's. */
function problemOf(text) {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}

/** noting makes a call, and notes what its outcome says of the service and of the key. */
async function noting(call) {
  try {
    const answer = await call();
    reached();
    return answer;
  } catch (error) {
    if (!(error instanceof TidemarkError)) throw error;
    if (error.status === 0) {
      void away(error);
    } else {
      reached();
      if (error.status >= 502 && error.status <= 504) void suspect();
    }
    if (error.status === 401) {
      if (hasKey()) refused.set(error);
      credential.set(null);
    }
    throw error;
  }
}

/** follow yields the messages of a channel as they come. */
export const follow = (channel, options) => tail(client, ...checked([channel]), options);

/** reached ends an outage in which nothing was answered. Whether the service can serve is for /readyz to say. */
function reached() {
  if (outage.get()?.error.status === 0) back();
}

function back() {
  outage.set(undefined);
  returns.set(returns.get() + 1);
}

const probePause = 1000; // ms

/** suspect finds out whether the service can serve, after a call has failed that may be the only one. */
export async function suspect() {
  if (outage.get()) return;
  const error = await probe();
  if (error) void away(error);
}

/** probe returns why the service can't serve, or undefined if it can. */
async function probe() {
  try {
    const answer = await fetch(root + "readyz", { cache: "no-store", signal: AbortSignal.timeout(10_000) });
    if (answer.ok) return undefined;
    const { type, detail = `status ${answer.status}` } = problemOf(await answer.text());
    if (type?.endsWith(":draining")) return undefined; // it serves who is here, or ends soon
    return new TidemarkError(answer.status, "unavailable", detail);
  } catch {
    return unreachable();
  }
}

let probing = false;

/** away notes an outage, and probes the service until it is over. In a hidden tab it waits. */
async function away(error) {
  if (!outage.get()) outage.set({ since: Date.now(), error });
  if (probing) return;
  probing = true;
  while (outage.get()) {
    await new Promise((resolve) => setTimeout(resolve, probePause));
    while (document.hidden) {
      await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
    }
    const fault = await probe();
    const out = outage.get();
    if (!out) break; // a call was answered meanwhile
    if (!fault) back();
    else if (fault.status !== out.error.status) outage.set({ ...out, error: fault });
  }
  probing = false;
  if (!credential.get()) void identify();
}

/**
 * useAsked asks the API, again after some time if every is given, in milliseconds, while the tab is visible, and when
 * the service comes back. every can be a function of the last answer. It returns the last answer (data, and when: at),
 * the last error, and a function that asks again. Without a path nothing is asked. What another path has answered is
 * not returned.
 */
export function useAsked(path, { query, every } = {}) {
  const id = path && JSON.stringify([path, query]);
  const [state, set] = useState({});
  const run = useRef(() => {});
  const pause = useRef();
  pause.current = typeof every === "function" ? every : () => every;
  const count = returns.use();
  useEffect(() => {
    if (!id) return undefined;
    const stop = new AbortController();
    let last;
    let timer;
    let due = Infinity; // when it is asked again
    run.current = async () => {
      clearTimeout(timer);
      try {
        last = await ask(path, { query, signal: stop.signal });
        if (!stop.signal.aborted) set({ id, data: last, at: Date.now() });
      } catch (error) {
        if (!stop.signal.aborted) set((s) => ({ ...(s.id === id ? s : { id }), error }));
      }
      const wait = pause.current(last);
      due = wait ? Date.now() + wait : Infinity;
      clearTimeout(timer);
      if (wait && !stop.signal.aborted) timer = setTimeout(() => document.hidden || run.current(), wait);
    };
    const shown = () => !document.hidden && Date.now() > due && run.current();
    document.addEventListener("visibilitychange", shown);
    void run.current();
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [id, typeof every === "function" ? 0 : every, count]);
  const reload = useCallback(() => run.current(), []);
  return { ...(state.id === id ? state : {}), reload };
}

/**
 * usePages asks for a list page by page: for the first one, and for the next ones by more. items returns those of an
 * answer, whose cursor names the next page. It returns the rows, how many pages they are of, and when the last one was
 * read (at). After an error more does nothing; retry asks again, when a person wants it. A person who goes back to the
 * list finds what was read, and keeps several pages when the service comes back.
 */
export function usePages(path, { query = {}, items }) {
  const id = JSON.stringify([path, query]);
  const count = returns.use();
  const isKept = (had) => had && (had.count === count || had.pages > 1);
  const [state, set] = useState(() => isKept(entry()[id]) ? entry()[id] : {});
  const [turn, setTurn] = useState(0);
  const latest = useRef({}); // what the next page is asked with
  const next = useCallback(async ({ signal, memory }, { rows, pages, cursor }) => {
    try {
      const all = Object.entries({ ...query, ...(cursor && { cursor }) }).filter(([, value]) => value !== "");
      const answer = await ask(path, { query: all, signal });
      if (signal.aborted) return;
      memory[id] = {
        id, count, rows: [...rows, ...items(answer)], pages: pages + 1, cursor: answer.cursor, at: Date.now(),
      };
      set(memory[id]);
    } catch (error) {
      if (!signal.aborted) set((s) => ({ ...(s.id === id ? s : { id, rows: [] }), busy: false, error }));
    }
  }, [id, count]);
  useEffect(() => {
    const stop = new AbortController();
    const memory = entry();
    latest.current = { signal: stop.signal, memory };
    if (isKept(memory[id])) set(memory[id]);
    else void next(latest.current, { rows: [], pages: 0 });
    return () => stop.abort();
  }, [id, count, turn]);
  const now = state.id === id ? state : {};
  const on = useCallback((after) => set((s) => {
    if (s.busy || !s.cursor || s.id !== id || s.error && !after) return s;
    queueMicrotask(() => next(latest.current, s));
    return { ...s, busy: true, error: undefined };
  }), [id, next]);
  const more = useCallback(() => on(false), [on]);
  const reload = useCallback(() => {
    delete latest.current.memory?.[id];
    setTurn((n) => n + 1);
  }, [id]);
  const retry = useCallback(() => now.cursor ? on(true) : reload(), [now.cursor, on, reload]);
  return { ...now, more, reload, retry };
}
