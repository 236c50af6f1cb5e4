// Parts of forms, and what a page shows while it asks, when it has failed, and when there is nothing.
import { html, useCallback, useEffect, useId, useRef, useState } from "./lib/preact.js";
import { Icon } from "./icons.js";
import { visible } from "./text.js";

/** Field is a labelled control, with a hint or an error below it. control is called with its properties. */
export function Field({ label, hint, error, control, className = "" }) {
  const id = useId();
  const described = hint || error ? id + "-about" : undefined;
  return html`<div class=${"field " + className}>
    <label for=${id}>${label}</label>
    ${control({ id, "aria-describedby": described, "aria-invalid": error ? "true" : undefined })}
    ${described && html`<p id=${described} class=${error ? "wrong" : "hint"}>${error ?? hint}</p>`}
  </div>`;
}

/** Text is a field of one line. */
export const Text = ({ label, hint, error, className, value, onValue, ...rest }) => html`<${Field}
  label=${label} hint=${hint} error=${error} className=${className}
  control=${(of) => html`<input ...${of} type="text" autocomplete="off" spellcheck=${false} value=${value}
    onInput=${(e) => onValue(e.currentTarget.value)} ...${rest} />`} />`;

const sendKeys = /Mac|iP/.test(navigator.platform) ? "⌘+Enter" : "Ctrl+Enter";

/** isSend reports whether a key sends the form of the text area in which it was pressed. */
const isSend = (e) => e.key === "Enter" && (e.ctrlKey || e.metaKey) && e.target.tagName === "TEXTAREA";

/** Area is a field of several lines, from which Ctrl+Enter or ⌘+Enter sends the form. */
export const Area = ({ label, hint = "", error, className, value, onValue, ...rest }) => html`<${Field}
  label=${label} hint=${`${hint} ${sendKeys} sends the form.`} error=${error} className=${className}
  control=${(of) => html`<textarea ...${of} spellcheck=${false} value=${value}
    onInput=${(e) => onValue(e.currentTarget.value)} ...${rest}></textarea>`} />`;

/** Choice is a field with some values: pairs of a value and a text. */
export const Choice = ({ label, hint, error, className, value, onValue, of: values, ...rest }) => html`<${Field}
  label=${label} hint=${hint} error=${error} className=${className}
  control=${(of) => html`<select ...${of} value=${value} onChange=${(e) => onValue(e.currentTarget.value)} ...${rest}>
    ${values.map(([v, text]) => html`<option key=${v} value=${v}>${text}</option>`)}
  </select>`} />`;

/** Checks is a group of boxes, of which any may be checked: pairs of a value and what it means. */
export function Checks({ label, value, onValue, of: values }) {
  const id = useId();
  return html`<fieldset class="checks">
    <legend>${label}</legend>
    ${values.map(([v, meaning]) => html`<div key=${v}>
      <label><input type="checkbox" checked=${value.includes(v)} aria-describedby=${id + v}
        onChange=${(e) => onValue(e.currentTarget.checked ? [...value, v] : value.filter((one) => one !== v))} />
        ${v}</label>
      <span id=${id + v} class="hint">${meaning}</span>
    </div>`)}
  </fieldset>`;
}

/** useAction returns a function that does something, and whether it is being done, has failed, or is done. */
export function useAction(action) {
  const [state, set] = useState({});
  const current = useRef(action);
  current.current = action;
  const run = useCallback(async (...args) => {
    set({ busy: true });
    try {
      const result = await current.current(...args);
      set({ done: true, result });
      return result;
    } catch (error) {
      set({ error });
      return undefined;
    }
  }, []);
  return { ...state, run, clear: useCallback(() => set({}), []) };
}

/** Form runs the action when it is sent, and shows its error. Keys that send it do what its button does. */
export const Form = ({ action, children, className = "", ...rest }) =>
  html`<form class=${className} novalidate ...${rest}
  onKeyDown=${(e) => isSend(e) && e.currentTarget.querySelector("button:not([type])")?.click()}
  onSubmit=${(e) => {
    e.preventDefault();
    if (!action.busy) void action.run();
  }}>
  ${children}
  ${action.error && html`<${Failure} error=${action.error} />`}
</form>`;

/** Dialog is a modal window, while it is rendered. Escape and its close button call onClose. */
export function Dialog({ title, onClose, children, className = "" }) {
  const element = useRef();
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`<dialog ref=${element} class=${className} aria-labelledby=${id}
    onCancel=${(e) => { e.preventDefault(); onClose(); }}
    onClick=${(e) => e.target === element.current && onClose()}>
    <div class="dialog">
      <header>
        <h2 id=${id}>${title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button>
      </header>
      ${children}
    </div>
  </dialog>`;
}

/** Confirm asks before something is done for good. With a name, the person has to type it, as it is or is shown. */
export function Confirm({ title, verb, name, children, onConfirm, onClose }) {
  const [typed, setTyped] = useState("");
  const action = useAction(async () => {
    await onConfirm();
    onClose();
  });
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <${Form} action=${action}>
      <div class="prose">${children}</div>
      ${name !== undefined &&
        html`<${Text} label=${html`Type <b class="name">${visible(name)}</b> to confirm`} value=${typed}
        onValue=${setTyped} autofocus />`}
      <div class="actions">
        <button type="button" onClick=${onClose}>Cancel</button>
        <button class="danger" disabled=${action.busy || name !== undefined && typed !== name &&
            typed !== visible(name)}>${verb}</button>
      </div>
    <//>
  <//>`;
}

/** Failure shows an error of the service. */
export const Failure = ({ error }) =>
  html`<p class="failure" role="alert"><${Icon} name="critical" /> <span>${visible(sentence(error))}</span></p>`;

/** sentence returns the message of an error, as a sentence without the status. */
export function sentence(error) {
  const text = (error?.message ?? String(error)).replace(/ \(\d+ [\w-]*\)$/, "");
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

/** Empty says that there is nothing, and what to do next. */
export const Empty = ({ title, children }) => html`<div class="empty"><p class="title">${title}</p>${children}</div>`;

/** Waiting holds the place of what is being asked for. */
export const Waiting = ({ rows = 3 }) => html`<div class="waiting" role="status" aria-label="Loading">
  ${Array.from({ length: rows }, (_, i) => html`<i key=${i}></i>`)}
</div>`;

/** Asked shows an answer of useAsked or usePages: the wait for it, its error, or what show returns for its data. */
export function Asked({ of, rows, show }) {
  const data = of.data ?? of.rows;
  const failure = of.error && html`<${Failure} error=${of.error} />
    ${of.retry && html`<p class="content"><button type="button" onClick=${of.retry}>Try again</button></p>`}`;
  if (data !== undefined && !(of.error && of.rows?.length === 0)) {
    return html`${of.error?.status !== 0 && failure}${show(data)}`;
  }
  return failure ?? html`<${Waiting} rows=${rows} />`;
}

/** Copy is a button that copies a text, which a function can return. */
export function Copy({ text, label = "Copy" }) {
  const [copied, setCopied] = useState(false);
  return html`<button type="button" onClick=${async () => {
    await navigator.clipboard?.writeText(typeof text === "function" ? text() : text);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  }}>${copied ? "Copied" : label}</button>`;
}
