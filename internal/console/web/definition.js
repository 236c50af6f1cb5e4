// The editor of a queue's definition.
import { html, useEffect, useState } from "./lib/preact.js";
import { Area, Dialog, Failure, Form, Text, useAction } from "./form.js";
import { Icon } from "./icons.js";
import { jsonFault, line } from "./json.js";
import { ask, askAbout } from "./service.js";
import { count, millis, plural, visible } from "./text.js";

const example = { match: { function: "first-come", teams: 2, teamSize: 1 },
  assigner: { kind: "static", connection: "" } };
const validName = /^[0-9A-Za-z][0-9A-Za-z_.:-]{0,89}$/;
const shownChanges = 30;
const pause = 300; // ms without a key pressed, after which a definition is checked

/** Definition edits the definition of a queue, or makes a queue if none is given. onDone is called with its name. */
export function Definition({ of, onClose, onDone }) {
  const before = of?.definition ?? {};
  const [name, setName] = useState(of?.queue ?? "");
  const [text, setText] = useState(JSON.stringify(of?.definition ?? example, null, 2));
  const fault = faultOf(text);
  const faults = useCheck(fault || !validName.test(name) ? undefined : name, text);
  const changes = fault || !of ? [] : changesOf(before, JSON.parse(text));
  const given = changes.filter((c) => c.to !== undefined);
  const action = useAction(async () => {
    await ask(["queues", name], { method: "PUT", body: JSON.parse(text) });
    onDone(name);
    onClose();
  });
  return html`<${Dialog} className="wide" title=${of ? `Definition of ${visible(of.queue)}` : "New queue"}
    onClose=${onClose}>
    <${Form} action=${action}>
      ${!of && html`<${Text} label="Name" value=${name} onValue=${setName} autofocus
        error=${name && !validName.test(name) ? "Letters, digits and “_.:-”, at most 90, a letter or digit first."
          : undefined} />`}
      <${Area} label="Definition, in JSON" className="definition" value=${text} onValue=${setText} rows="18"
        autofocus=${Boolean(of)} error=${fault}
        hint="It replaces the whole definition; what is left out has its default. “xxxxx” keeps a secret." />
      <${Faults} of=${faults} text=${text} />
      ${of && !fault && html`<div
          role="status">${changes.length === 0 ? html`<p class="hint">Nothing is changed.</p>` : html`
        <h3>${plural(changes.length, "change")}</h3>
        <ul class="diff">${given.slice(0, shownChanges).map(
              (c) => html`<li key=${c.path}><span class="name">${visible(c.path)}</span>
          <span class="mono bad">${c.from === undefined ? "not set" : line(c.from, 60)}</span>
            <span aria-label="becomes">→</span>
          <span class="mono good">${line(c.to, 60)}</span></li>`)}
          ${given.length < changes.length &&
            html`<li>${plural(changes.length - given.length, "member is", "members are")} left out, and ${
            changes.length - given.length === 1 ? "has its default" : "have their defaults"}.</li>`}</ul>`}</div>`}
      ${of && !fault && changes.length > 0 &&
        html`<${Simulation} key=${text} queue=${of.queue} text=${text} ready=${faults.valid} />`}
      <div class="actions"><button type="button" onClick=${onClose}>Cancel</button>
        <button class="primary"
          disabled=${action.busy || fault !== undefined || faults.valid === false || !validName.test(name) || of &&
            changes.length === 0}>
          ${of ? "Replace the definition" : "Create"}</button></div>
    <//>
  <//>`;
}

function faultOf(text) {
  const fault = jsonFault(text);
  if (fault) return fault;
  const value = JSON.parse(text);
  return value === null || typeof value !== "object" || Array.isArray(value) ? "A definition is an object, such as {}."
    : undefined;
}

const isObject = (v) => v !== null && typeof v === "object" && !Array.isArray(v);

/** changesOf returns the members that differ, by their paths. */
function changesOf(a, b, path = "") {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].flatMap((name) => {
    const here = path ? `${path}.${name}` : name;
    if (isObject(a[name]) && isObject(b[name])) return changesOf(a[name], b[name], here);
    return JSON.stringify(a[name]) === JSON.stringify(b[name]) ? [] : [{ path: here, from: a[name], to: b[name] }];
  });
}

/** useCheck returns what the service says of a definition, when nothing has been typed for a moment. */
function useCheck(queue, text) {
  const [state, set] = useState({});
  useEffect(() => {
    if (!queue) return undefined;
    const stop = new AbortController();
    const timer = setTimeout(() => askAbout(["queues", queue, "check"], text, stop.signal).then(
      (said) => set({ ...said, text, queue }), (error) => stop.signal.aborted || set({ error, text, queue })), pause);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [queue, text]);
  return state.text === text && state.queue === queue ? state : {};
}

/** Faults lists what is wrong, each with a way to its place in the text. */
function Faults({ of, text }) {
  if (of.error) return html`<${Failure} error=${of.error} />`;
  const select = (fault) => (e) => {
    const area = e.currentTarget.form.querySelector("textarea");
    const before = text.split("\n").slice(0, fault.line - 1).reduce((all, l) => all + l.length + 1, 0);
    area.focus();
    area.setSelectionRange(before + fault.column - 1, before + fault.column);
  };
  return html`<div role="status" class="checked">
    ${of.valid && html`<p class="good"><${Icon} name="check" /> The service accepts it.</p>`}
    ${of.valid === false &&
      html`<ul class="said" aria-label="Faults">
        ${of.faults.map((f, i) => html`<li key=${i}><span class="bad"><${Icon} name="critical" /></span>
      <span><button type="button" class="link" onClick=${select(f)}>line ${f.line}</button>${": "}${visible(f.detail)}
        </span></li>`)}</ul>`}
  </div>`;
}

/** Simulation compares how recorded tickets are matched today with how a changed definition would match them. */
function Simulation({ queue, text, ready }) {
  const action = useAction(() => ask(["queues", queue, "simulate"], { method: "POST", body: JSON.parse(text) }));
  const r = action.result;
  return html`<section class="stack" aria-label="Simulation">
    <div class="row-of"><button type="button" disabled=${action.busy || !ready} onClick=${action.run}>
        ${action.busy ? "Simulating …" : "Simulate on recorded tickets"}</button>
      <span class="hint">${r ? `${plural(r.recorded, "ticket")} that this server created in the last hour, ${count(
            r.waiting)} that wait now${r.truncated ? "; 20,000 of all were simulated" : ""}`
        : "In memory; it changes nothing. Recorded are tickets that this server created in the last hour."}</span></div>
    ${action.error && html`<${Failure} error=${action.error} />`}
    ${r && html`<div class="scroll">
        <table class="compare"><thead>
            <tr><th scope="col"><span class="spoken">Figure</span></th><th scope="col" class="end">As it is</th>
        <th scope="col" class="end">With the change</th></tr></thead>
      <tbody>${rowsOf(r).map(([label, a, b, format, lower]) =>
            html`<tr key=${label}><th scope="row">${label}</th><td class="end">${format(a)}</td>
        <td class=${"end " + judged(a, b, lower)}>${format(b)}</td></tr>`)}</tbody></table></div>`}
  </section>`;
}

const fit = (n) => n === undefined ? "–" : String(Number(n.toPrecision(4)));

/** rowsOf returns the figures of a simulation: label, today, changed, format, and whether lower is better. */
function rowsOf({ today: a, changed: b }) {
  const rows = [["Matches", a.matches, b.matches, count], ["Matched tickets", a.matched, b.matched, count, false],
    ["Unmatched tickets", a.unmatched, b.unmatched, count, true]];
  for (const p of ["p50", "p90", "p99", "max"]) rows.push([`Wait ${p}`, a.waitMs?.[p], b.waitMs?.[p], millis, true]);
  if (a.fitness || b.fitness) for (const p of ["p50", "p99"]) rows.push(
    [`Fitness ${p}, lower is better`, a.fitness?.[p], b.fitness?.[p], fit, true]);
  return rows;
}

function judged(a, b, lower) {
  if (a === b || a === undefined || b === undefined || lower === undefined) return "";
  return b < a === lower ? "good" : "bad";
}
