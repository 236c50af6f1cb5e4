// The page that asks for a key.
import { html, useState } from "./lib/preact.js";
import { Failure, Form, Text, useAction } from "./form.js";
import { asset } from "./router.js";
import { isKey, refused, signIn } from "./service.js";

export function SignIn() {
  const [key, setKey] = useState("");
  const error = refused.use();
  const text = key.trim();
  const wrong = text !== "" && !isKey(text);
  const action = useAction(() => signIn(text));
  return html`<main class="signin">
    <${Form} action=${action} className="panel">
      <img src=${asset("icon.svg")} alt="" width="40" height="40" />
      <h1>Tidemark console</h1>
      <p>This service requires a credential. The key stays in this tab, and is gone when the tab is closed.</p>
      <${Text} label="API key or token" value=${key} onValue=${setKey} type="password" autocomplete="off" autofocus
        placeholder="tmk_…" error=${wrong && "A key has only letters, digits and signs of ASCII, without spaces."} />
      ${error && !action.busy && html`<${Failure} error=${error} />`}
      <button class="primary" disabled=${action.busy || !text || wrong}>Sign in</button>
      <details>
        <summary>Where do I get a key?</summary>
        <p><code>tidemark key create</code> makes one. With the action <code>admin</code> it can do what only this
          listener offers. <code>tidemark console --token-file</code> opens this page without asking.</p>
      </details>
    <//>
  </main>`;
}
