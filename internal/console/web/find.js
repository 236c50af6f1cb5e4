// The search in a channel's messages: by text and ID it reads them page by page, the newest first; by time it finds
// the place with some reads.
import { html, useEffect, useId, useRef, useState } from "./lib/preact.js";
import { before, isAfter, stepsTo } from "./clocks.js";
import { decoded, sizeOf } from "./content.js";
import { Choice, Failure, Form, Text } from "./form.js";
import { Message } from "./message.js";
import { ask } from "./service.js";
import { count, plural, Time } from "./text.js";

const pageSize = 1000; // messages that are asked for at a time, if the service allows it
const budget = 50_000; // clocks that are looked at until the person says to go on
const enough = 50; // messages that are found until then
const pageChars = 8 << 20; // characters of the contents of what a page finds
const keptChars = 32 << 20; // of what all pages find: beyond them the search can't go on

const ways = [["text", "Text"], ["id", "ID"], ["time", "Time"]];
const hints = {
  text: "In contents that are JSON or text, as JSON or as people read them, in upper or lower case.",
  id: "The whole ID of a message.",
  time: "Of this browser’s zone. Shows what was published then or later.",
};

/** matcher returns a function that reports whether a message has what is searched for. */
function matcher(by, wanted) {
  if (by === "id") return (m) => m.id === wanted;
  const plain = wanted.toLowerCase();
  const quoted = JSON.stringify(plain).slice(1, -1);
  return (m) => {
    const text = JSON.stringify(m.content ?? null).toLowerCase();
    return text.includes(plain) || text.includes(quoted);
  };
}

async function peek(channel, after, max, signal) {
  const query = [["after", String(after)], ["max", String(max)]];
  const answer = await ask(["channels", channel, "messages"], { query, signal });
  return { ...answer, messages: answer.messages.map(decoded) };
}

/**
 * place returns the clock after which the first message follows that was published at a time or later: the last clock
 * if there is none. It takes a read for each halving of the clocks.
 */
export async function place(channel, time, from, to, signal) {
  let low = from; // what is up to it was published before
  let high = to; // what is after it was not
  while (isAfter(high, low)) {
    const middle = before(high, Math.ceil(stepsTo(low, high) / 2));
    const [m] = (await peek(channel, middle, 1, signal)).messages;
    if (!m || isAfter(m.clock, high) || Date.parse(m.publishedAt) >= time) high = middle;
    else low = m.clock;
  }
  return high;
}

/**
 * useFind returns a search: its state, what starts it, stops it and lets it go on. The state is what was found; how
 * many clocks were looked at (seen) of all; where it goes on (at); and whether it runs (busy), has ended, or failed.
 */
function useFind(channel) {
  const [state, set] = useState();
  const stop = useRef();
  useEffect(() => () => stop.current?.abort(), []);

  const run = async (search) => {
    stop.current?.abort();
    const { signal } = stop.current = new AbortController();
    const limit = search.seen + budget;
    const most = search.found.length + enough;
    let now = { ...search, busy: true, error: undefined };
    const show = (change) => signal.aborted || set(now = { ...now, ...change });
    show();
    try {
      while (!signal.aborted && !now.ended && now.seen < limit && now.found.length < most) {
        show(await now.next(now, signal));
      }
      show({ busy: false });
    } catch (error) {
      show({ busy: false, error });
    }
  };
  return {
    state,
    start: (by, wanted, from, to) => run({ by, found: [], size: 0, seen: 0, all: stepsTo(from, to), from, to,
      ...(by === "time" ? { next: onwards(channel, Date.parse(wanted)) }
        : { at: to, next: backwards(channel, matcher(by, wanted)) }) }),
    goOn: () => run(state),
    halt: () => {
      stop.current?.abort();
      set((s) => ({ ...s, busy: false }));
    },
    clear: () => {
      stop.current?.abort();
      set(undefined);
    },
  };
}

/** added returns what changes in a search when messages are found, which ends when it has too much. */
function added(search, messages) {
  const size = messages.reduce((all, m) => all + sizeOf(m), search.size);
  return { found: [...search.found, ...messages], size, ...(size > keptChars && { ended: true, full: true }) };
}

/** backwards returns what looks at the messages before those that were looked at: a page of them. */
function backwards(channel, fits) {
  let max; // messages of a page
  return async (search, signal) => {
    max ??= Math.min(pageSize, (await ask(["info"], { signal })).limits.maxMax);
    let at = before(search.at, Math.min(max, stepsTo(search.from, search.at)));
    let page = [];
    let more = true;
    for (let after = at; more && isAfter(search.at, after);) {
      const answer = await peek(channel, after, max, signal);
      page = [...page, ...answer.messages.filter((m) => !isAfter(m.clock, search.at) && fits(m))];
      const fit = lastOf(page);
      if (fit.length < page.length) at = before(fit[0].clock, 1); // the others are found by the next page
      page = fit;
      more = answer.more && isAfter(answer.through, after);
      after = answer.through;
      if (more && isAfter(search.at, after)) max = Math.ceil(max / 2); // large messages come in several answers
    }
    return { seen: search.seen + stepsTo(at, search.at), at, ended: at === search.from,
      ...added(search, page.reverse()) };
  };
}

/** lastOf returns the last of some messages, which are at most as many as a page shows, and take little memory. */
function lastOf(messages) {
  let size = 0;
  const left = messages.findLastIndex((m, i) => messages.length - i > enough ||
    (size += sizeOf(m)) > pageChars && i < messages.length - 1);
  return messages.slice(left + 1);
}

/** onwards returns what finds the first messages of a time, and then those that follow. */
const onwards = (channel, time) => async (search, signal) => {
  const at = search.at ?? await place(channel, time, search.from, search.to, signal);
  const { messages, through, more } = await peek(channel, at, enough, signal);
  return { at: through, seen: 0, ended: !more, ...added(search, messages) };
};

/** Find is the search, in place of the list of messages. */
export function Find({ channel, clock, oldest }) {
  const [by, setBy] = useState("text");
  const [wanted, setWanted] = useState("");
  const { state: s, start, goOn, halt, clear } = useFind(channel);
  const box = useRef();
  const id = useId();
  useEffect(() => box.current.querySelector("input").focus(), []);
  const from = oldest === undefined ? clock : before(oldest, 1);
  const action = { busy: s?.busy, run: () => start(by, wanted, from, clock) };
  const change = (value, way = by) => {
    setBy(way);
    setWanted(value);
    clear();
  };
  return html`<div class="content stack" ref=${box}>
    <${Form} action=${action} className="lookup" role="search">
      <${Choice} label="Search by" value=${by} of=${ways} onValue=${(way) => change("", way)} />
      <${Text} key=${by} label=${ways.find(([name]) => name === by)[1]} value=${wanted} onValue=${change}
        aria-describedby=${id} type=${by === "time" ? "datetime-local" : "search"} step="1" />
      <button class="primary" disabled=${!wanted || s?.busy}>Search</button>
    <//>
    <p class="hint" id=${id}>${hints[by]}</p>
    ${s && html`<div class="row-of" role="status"><span>${said(s)}</span>
      ${s.busy ? html`<button type="button" onClick=${halt}>Stop</button>`
        : !s.ended && html`<button type="button" onClick=${goOn}>
          ${s.by === "time" ? "Later messages" : "Search on"}</button>`}
    </div>`}
    ${s?.error && html`<${Failure} error=${s.error} />`}
  </div>
  ${s?.found.length > 0 && html`<ul class="messages bounded topped" tabindex="0"
    aria-label=${`Found messages, the ${s.by === "time" ? "oldest" : "newest"} first`}>
    ${s.found.map((m) => html`<li key=${m.clock + m.id}><${Message} channel=${channel} of=${m} /></li>`)}
  </ul>`}`;
}

/** said says how far a search is. */
function said(s) {
  const found = `${plural(s.found.length, "message")} found`;
  if (s.full) return `${found}. They take so much memory that the search can’t go on.`;
  if (s.by === "time") {
    return s.found.length > 0 ? html`${found}, the oldest first, of <${Time} at=${s.found[0].publishedAt} /> and later.`
      : s.busy ? "Searching …" : "Nothing was published then or later.";
  }
  const looked = s.ended ? `all ${plural(s.all, "message")} looked at`
    : `${count(s.seen)} of ${plural(s.all, "message")} looked at, the newest first`;
  return `${found}, ${looked}${s.busy ? " …" : "."}`;
}
