// The form that asks for a record by its name.
import { html, useState } from "./lib/preact.js";
import { Form, Text, useAction } from "./form.js";
import { useQuery } from "./router.js";

/** Lookup asks for the parts of a record's name, which are kept in the address: [name, label, example] each. */
export function Lookup({ parts, verb = "Show", children }) {
  const kept = parts.map(([name]) => useQuery(name));
  const [typed, setTyped] = useState(kept.map(([value]) => value));
  const action = useAction(async () => kept.forEach(([, set], i) => set(typed[i].trim())));
  return html`<${Form} action=${action} className="lookup" role="search">
    ${parts.map(([name, label, example], i) =>
        html`<${Text} key=${name} label=${label} value=${typed[i]} placeholder=${example} maxlength="1024"
      onValue=${(value) => setTyped(typed.map((t, j) => (j === i ? value : t)))} />`)}
    ${children}
    <button class="primary" disabled=${typed.some((t) => !t.trim())}>${verb}</button>
  <//>`;
}
