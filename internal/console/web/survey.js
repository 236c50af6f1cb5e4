// The survey of keys: how many of each kind there are, and how large they are. It is made when a person asks.
import { html } from "./lib/preact.js";
import { Failure, useAction } from "./form.js";
import { ask, may, useAsked } from "./service.js";
import { bytes, count, duration, plural, Time, visible } from "./text.js";

/** useSurvey returns the last survey of the server, and what starts and cancels one. */
export function useSurvey() {
  const of = useAsked(may("admin") ? ["survey"] : null, { every: (s) => s?.state === "running" ? 1000 : undefined });
  const survey = of.data;
  const start = useAction(async () => {
    await ask(["survey"], { method: "POST" });
    of.reload();
  });
  const cancel = useAction(async () => {
    await ask(["survey"], { method: "DELETE" });
    of.reload();
  });
  return { survey, error: of.error ?? start.error ?? cancel.error, busy: start.busy || cancel.busy, start: start.run,
    cancel: cancel.run };
}

/** totalsOf returns the numbers of keys and bytes of each kind, of all Redis servers. */
export function totalsOf(survey) {
  const totals = new Map();
  for (const k of survey?.redis.flatMap((r) => r.kinds ?? []) ?? []) {
    const all = totals.get(k.kind) ?? { keys: 0, bytes: 0, problems: 0, parts: [] };
    all.keys += k.keys;
    all.bytes += k.bytes;
    all.problems += Object.values(k.problems ?? {}).reduce((a, b) => a + b, 0);
    all.parts.push(k);
    totals.set(k.kind, all);
  }
  return totals;
}

/** Progress says how far the survey is, or when it was made. */
export function Progress({ of: { survey: s, error, busy, start, cancel } }) {
  if (error) return html`<${Failure} error=${error} />`;
  if (!s) return null;
  const part = s.total ? Math.min(1, s.seen / s.total) : 0;
  return html`<div class="survey" role="status">
    ${s.state === "running" ? html`<span>Counting: ${count(s.seen)} of about ${plural(s.total, "key")}</span>
        <progress value=${part} aria-label="Progress of the survey"></progress>
        <button type="button" disabled=${busy} onClick=${cancel}>Cancel</button>`
      : html`<span class=${s.state === "failed" ? "bad" : "dim"}>
        ${s.state === "none" ? "Keys have not been counted since this server started."
          : s.state === "failed" ? `The survey failed: ${visible(s.error ?? "")}`
            : html`${plural(s.seen, "key")} counted${s.state === "canceled" ? " before it was cancelled" : ""}${" "}
              <${Time} at=${s.endedAt} />${
              ", in "}${duration(Date.parse(s.endedAt) - Date.parse(s.startedAt))}`}</span>
        <button type="button" disabled=${busy} onClick=${start}
          title="At most 20,000 keys a second are examined">${s.state === "none" ? "Count the keys" : "Count again"}
          </button>`}
  </div>`;
}

const spans = [["1m", "1 min"], ["1h", "1 h"], ["1d", "1 d"], ["30d", "30 d"], ["longer", "longer"],
  ["permanent", "permanent"]];
const problems = { noTTL: "without the TTL that they should have", longTTL: "with a longer TTL than they should have",
  type: "of another type", unknown: "of no known kind" };

/** Surveyed shows what was found of a kind. */
export const Surveyed = ({ of: parts }) => parts.map((k, i) => html`<div key=${i} class="stack">
  <dl class="facts even">
    <dt>Keys</dt><dd>${count(k.keys)}</dd>
    <dt>Memory</dt><dd>${bytes(k.bytes)} <span class="dim">by ${plural(k.measured, "measured key")}</span></dd>
    <dt>End within</dt><dd>${spans.filter(([name]) => k.ttl[name]).map(
          ([name, text]) => html`<span key=${name} class="tag">${text}: ${count(k.ttl[name])}</span> `)}</dd>
    ${k.problems && html`<dt>Problems</dt>
      <dd>${Object.entries(k.problems).map(
          ([name, n]) => html`<div key=${name}
            class="warn">${plural(n, "key")} ${problems[name] ?? visible(name)}</div>`)}</dd>`}
  </dl>
  ${k.largest?.length > 0 &&
    html`<div class="scroll bounded" tabindex="0" role="region"
      aria-label="Largest keys">
      <table><thead><tr><th scope="col">Largest keys</th><th scope="col" class="end">Memory</th></tr></thead>
    <tbody>${k.largest.map((l) =>
          html`<tr key=${l.key}><td class="name long">${visible(l.key)}</td><td class="end">${bytes(l.bytes)}</td>
          </tr>`)}</tbody></table></div>`}
</div>`);
