// The service: calls of its API with the key of this tab, what the key may do, and whether the service answers.
import { useCallback, useEffect, useRef, useState } from "./lib/preact.js";
import { tail, Tidemark, TidemarkError } from "./lib/tidemark.js";
import { store } from "./store.js";

const keyName = "tidemark key"; // in the storage of the tab, which ends with it

const connect = () => new Tidemark(location.origin, {
  token: () => sessionStorage.getItem(keyName) ?? undefined, share: false, retryFor: 0,
});
let client = connect();

/** credential is what the service knows of this tab's key: its answer, `null` if it wants one, `undefined` at first. */
export const credential = store(undefined);

/** refused is the error of the last key, for the page that asks for another one. */
export const refused = store(undefined);

/** outage is since when and why the service doesn't answer, or can't serve. */
export const outage = store(undefined);

/** returns counts how often the service has come back. Data that was asked for before is asked for again. */
export const returns = store(0);

/** signIn keeps a key for this tab, and asks what it may do. */
export async function signIn(key) {
  sessionStorage.setItem(keyName, key.trim());
  client = connect();
  refused.set(undefined);
  await identify();
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

/** identify asks the service what this tab may do. */
export async function identify() {
  try {
    credential.set(await ask(["whoami"]));
  } catch (error) {
    if (error.slug === "not-granted") credential.set({ kind: "key", actions: [], grants: [] });
  }
}

const matches = (patterns, text, subject = "") => patterns === undefined || patterns.some((pattern) => {
  const parts = pattern.replaceAll("{sub}", subject).split("*").map(
    (part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`, "s").test(text);
});

/** isFree reports whether a client may do everything: on an open service, and on the machine. */
export const isFree = ({ kind }) => kind === "open" || kind === "admin";

/** may reports whether the key's grants allow an action, on a channel or another thing if one is given. */
export function may(action, name, list = "channels") {
  const of = credential.get();
  if (!of) return false;
  if (isFree(of)) return true;
  const subject = of.principal?.startsWith("user:") ? of.principal.slice(5) : "";
  return of.grants.some((g) => g.actions.includes(action) &&
    (name === undefined || matches(g[list], name, subject)));
}

/** ask calls the API once. path is below /v1, call as in the client: method, query, body, signal. */
export async function ask(path, call = {}) {
  try {
    const answer = await client.http.once(path, call);
    answered();
    return answer;
  } catch (error) {
    if (!(error instanceof TidemarkError)) throw error;
    if (error.status === 0 || error.status >= 502 && error.status <= 504) away(error);
    else answered();
    if (error.status === 401) {
      if (hasKey()) refused.set(error);
      credential.set(null);
    }
    throw error;
  }
}

/** askAbout posts a text as it is, so that an answer's lines and columns are those of the text. */
export async function askAbout(path, text, signal) {
  const key = sessionStorage.getItem(keyName);
  const answer = await fetch("/v1/" + path.map(encodeURIComponent).join("/"), {
    method: "POST", body: text, signal, cache: "no-store",
    headers: { "Content-Type": "application/json", ...(key && { Authorization: "Bearer " + key }) },
  });
  const said = await answer.json();
  if (!answer.ok) throw new TidemarkError(
    answer.status, said.type?.split(":").at(-1), said.detail ?? `status ${answer.status}`);
  return said;
}

/** follow yields the messages of a channel as they come. */
export const follow = (channel, options) => tail(client, channel, options);

function answered() {
  if (!outage.get()) return;
  outage.set(undefined);
  returns.set(returns.get() + 1);
}

const probePause = 1000; // ms

async function away(error) {
  const before = outage.get();
  outage.set({ since: before?.since ?? Date.now(), error });
  if (before) return;
  while (outage.get()) {
    await new Promise((resolve) => setTimeout(resolve, probePause));
    try {
      const answer = await fetch("/readyz", { cache: "no-store", signal: AbortSignal.timeout(10_000) });
      if (answer.ok) {
        answered();
        if (!credential.get()) void identify();
      } else {
        const { detail = `status ${answer.status}` } = await answer.json().catch(() => ({}));
        outage.set({ ...outage.get(), error: new TidemarkError(answer.status, "unavailable", detail) });
      }
    } catch {
      const { since, error } = outage.get() ?? {};
      if (since && error.status) outage.set(
        { since, error: new TidemarkError(0, "unreachable", "the service can't be reached") });
    }
  }
}

/**
 * useAsked asks the API, again after some time if every is given, in milliseconds, while the tab is visible, and when
 * the service comes back. It returns the last answer (data, and when: at), the last error, and a function that asks
 * again.
 * Without a path nothing is asked. What another path has answered is not returned.
 */
export function useAsked(path, { query, every } = {}) {
  const id = path && JSON.stringify([path, query]);
  const [state, set] = useState({});
  const run = useRef(() => {});
  const count = returns.use();
  useEffect(() => {
    if (!id) return undefined;
    const stop = new AbortController();
    let timer;
    let due = 0; // when it is asked again
    run.current = async () => {
      clearTimeout(timer);
      try {
        const data = await ask(path, { query, signal: stop.signal });
        if (!stop.signal.aborted) set({ id, data, at: Date.now() });
      } catch (error) {
        if (!stop.signal.aborted) set((s) => ({ ...(s.id === id ? s : { id }), error }));
      }
      if (!every || stop.signal.aborted) return;
      clearTimeout(timer);
      due = Date.now() + every;
      timer = setTimeout(() => document.hidden || run.current(), every);
    };
    const shown = () => !document.hidden && every && Date.now() > due && run.current();
    document.addEventListener("visibilitychange", shown);
    run.current();
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [id, every, count]);
  const reload = useCallback(() => run.current(), []);
  return { ...(state.id === id ? state : {}), reload };
}

/**
 * usePages asks for a list page by page: for the first one, and for the next ones by more. items returns those of an
 * answer, whose cursor names the next page. After an error more does nothing; retry asks again, when a person wants it.
 */
export function usePages(path, { query = {}, items }) {
  const id = JSON.stringify([path, query]);
  const [state, set] = useState({});
  const count = returns.use();
  const [turn, setTurn] = useState(0);
  const latest = useRef();
  const next = useCallback(async (cursor, signal, before) => {
    try {
      const all = Object.entries({ ...query, ...(cursor && { cursor }) }).filter(([, value]) => value !== "");
      const answer = await ask(path, { query: all, signal });
      const made = { id, rows: [...before, ...items(answer)], cursor: answer.cursor, at: Date.now() };
      if (!signal?.aborted) set(made);
    } catch (error) {
      if (!signal?.aborted) set((s) => ({ ...(s.id === id ? s : { id, rows: [] }), busy: false, error }));
    }
  }, [id]);
  useEffect(() => {
    const stop = new AbortController();
    latest.current = stop;
    void next("", stop.signal, []);
    return () => stop.abort();
  }, [id, count, turn]);
  const now = state.id === id ? state : {};
  const on = useCallback((after) => set((s) => {
    if (s.busy || !s.cursor || s.id !== id || s.error && !after) return s;
    queueMicrotask(() => next(s.cursor, latest.current?.signal, s.rows));
    return { ...s, busy: true, error: undefined };
  }), [id, next]);
  const more = useCallback(() => on(false), [on]);
  const reload = useCallback(() => setTurn((n) => n + 1), []);
  const retry = useCallback(() => now.cursor ? on(true) : reload(), [now.cursor, on, reload]);
  return { ...now, more, reload, retry };
}
