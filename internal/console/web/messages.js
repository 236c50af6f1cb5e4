// The last messages of a channel, earlier ones on demand, and new ones as they come.
import { html, useCallback, useEffect, useRef, useState } from "./lib/preact.js";
import { before, isAfter, stepsTo } from "./clocks.js";
import { decoded, sizeOf as measured } from "./content.js";
import { Empty, Failure, Waiting } from "./form.js";
import { Find } from "./find.js";
import { Message } from "./message.js";
import { ask, follow, may, returns } from "./service.js";
import { plural, visible } from "./text.js";

const firstMessages = 30;
const moreMessages = 100;
const kept = 500; // messages that are shown at most
const keptSize = 32 << 20; // characters of their contents

/**
 * read returns the messages before a clock, and with those after it only up to the end, the last of them: fewer if they
 * are large.
 */
async function read(channel, end, size, signal) {
  for (;; size = Math.ceil(size / 4)) {
    let messages = [];
    let query = [["after", String(before(end, size))]];
    for (let page = 0; page < 8; page++) { // large messages come in several pages
      const answer = await ask(["channels", channel, "messages"], { query: [...query, ["max", String(size)]], signal });
      messages = [...messages, ...answer.messages.map(decoded)].filter((m) => !isAfter(m.clock, end)).slice(-size);
      if (!answer.more || !isAfter(end, answer.through)) return messages;
      query = [["after", String(answer.through)]];
    }
    if (size === 1) return messages;
  }
}

const sizes = new WeakMap(); // by message: characters of its content

function sizeOf(message) {
  if (!sizes.has(message)) sizes.set(message, measured(message));
  return sizes.get(message);
}

/** bounded returns the first of some messages that are shown at a time: at most so many, and of so many characters. */
function bounded(messages) {
  let size = 0;
  const end = messages.findIndex((m, i) => i === kept || (size += sizeOf(m)) > keptSize && i > 0);
  return end < 0 ? messages : messages.slice(0, end);
}

/** last returns the last of some messages, likewise. */
const last = (messages) => bounded([...messages].reverse()).reverse();

export function Messages({ channel, clock, oldest }) {
  const [shown, setShown] = useState(undefined); // oldest first
  const [error, setError] = useState();
  const [live, setLive] = useState(false);
  const [state, setState] = useState(undefined); // of the tail
  const newest = useRef(undefined);
  const [past, setPast] = useState(false); // whether newer messages than the newest shown were left out
  const [finding, setFinding] = useState(false);
  const comebacks = returns.use();
  const started = clock !== undefined;

  const add = useCallback((items) => setShown((had = []) => {
    const newest = had.findLast((m) => m.clock !== undefined)?.clock;
    return last([...had, ...items.filter((m) => m.gap || newest === undefined || isAfter(m.clock, newest))]);
  }), []);

  useEffect(() => { // what there is, and what is published while the page is open but not live
    if (!started || live || past) return undefined;
    const stop = new AbortController();
    const from = newest.current;
    if (from !== undefined && !isAfter(clock, from)) return undefined; // a tail was ahead of the description
    newest.current = clock;
    const gap = from === undefined ? Infinity : stepsTo(from, clock);
    let done = false;
    read(channel, clock, Math.min(firstMessages, gap), stop.signal).then((messages) => {
      done = true;
      if (gap > firstMessages) setShown(last(messages));
      else add(messages.map((m) => ({ ...m, fresh: true })));
      setError(undefined);
    }, (e) => stop.signal.aborted || setError(e));
    return () => {
      stop.abort();
      if (!done) newest.current = from; // it is read by the next call, or by the tail
    };
  }, [channel, clock, started, live, past, comebacks]);

  useEffect(() => {
    if (!live) return undefined;
    const stop = new AbortController();
    let arrived = [];
    let frame = 0;
    const arrive = (item) => {
      arrived.push(item);
      if (arrived.length > kept) arrived.shift();
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        add(arrived);
        arrived = [];
      });
    };
    const options = {
      signal: stop.signal,
      from: newest.current ?? "latest",
      onState: (e) => setState(e ?? "open"),
      onGap: (g) => arrive({ gap: g, key: Math.random() }),
    };
    void (async () => {
      try {
        for await (const m of follow(channel, options)) {
          newest.current = m.clock;
          arrive({ ...decoded(m), publishedAt: m.publishedAt?.toISOString(), fresh: true });
        }
      } catch (e) {
        setError(e);
        setLive(false);
      }
    })();
    return () => {
      stop.abort();
      cancelAnimationFrame(frame);
      setState(undefined);
    };
  }, [live, channel]);

  const first = shown?.find((m) => m.clock !== undefined)?.clock;
  const [earlier, setEarlier] = useState({});
  const toNewest = () => {
    newest.current = undefined;
    setShown(undefined);
    setEarlier({});
    setPast(false);
  };
  const more = async () => {
    setEarlier({ busy: true });
    try {
      const found = await read(channel, before(first, 1), moreMessages);
      setShown((now) => {
        const all = [...found, ...now];
        const fit = bounded(all);
        if (fit.length < all.length) setPast(true);
        return fit;
      });
      setEarlier({ none: found.length === 0 });
    } catch (e) {
      setEarlier({ error: e });
    }
  };

  return html`<section class="panel" aria-labelledby="messages">
    <header><h2 id="messages">Messages</h2>
      <span class="dim">${finding ? "" : past ? "earlier ones, newest first" : "newest first"}</span>
      <span class="space"></span>
      <button type="button" disabled=${!started} onClick=${() => setFinding(!finding)}>
        ${finding ? "Close the search" : "Search"}</button>
      ${past && !finding && html`<button type="button" onClick=${toNewest}>Newest messages</button>`}
      ${live && html`<span class=${"live " + (state === "open" ? "on" : state ? "off" : "")} role="status">
        ${state === "open" ? "live" : state ? "reconnecting" : "connecting"}</span>`}
      ${may("subscribe", channel) && !past && !finding &&
        html`<button type="button" aria-pressed=${live} disabled=${shown === undefined} onClick=${() => setLive(!live)}>
        ${live ? "Stop" : "Live tail"}</button>`}
    </header>
    ${error && html`<${Failure} error=${error} />`}
    ${finding ? html`<${Find} channel=${channel} clock=${clock} oldest=${oldest} />`
      : shown === undefined ? !error && html`<${Waiting} rows=${6} />` : shown.length === 0 ? html`
        <${Empty} title="There are no messages."><p>They were purged or have expired, or none was published.</p><//>`
        : html`<ul class="messages bounded" tabindex="0" aria-label="Messages, the newest first">
            ${[...shown].reverse().map((m) => m.gap
              ? html`<li key=${m.key} class="gap">${gapText(m.gap)}</li>`
              : html`<li key=${m.clock + m.id}><${Message} channel=${channel} of=${m} /></li>`)}
            ${first !== undefined && !live && !earlier.none && first !== oldest && html`<li class="content">
              <button type="button" disabled=${earlier.busy} onClick=${more}>Earlier messages</button>
              ${earlier.error && html`<${Failure} error=${earlier.error} />`}</li>`}
          </ul>`}
  </section>`;
}

const reasons = {
  expired: "expired before they could be read", purged: "were purged",
  damaged: "can't be read any more: they are damaged", slow: "were left out: this page was too slow",
};

const gapText = ({ reason, count: n }) => reasons[reason]
  ? `${plural(n, "message")} ${reasons[reason]}.`
  : reason === "lost" ? "Redis lost writes in a fail-over, or the channel began another life."
    : `Gap: ${visible(reason)}.`;
