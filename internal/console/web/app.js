// The console: the frame around its pages.
//
// How a page is added: write a module whose default export is a component, such as queues.js, and name it in `pages`
// below with its path under console/, whose parts with a colon are given to it as `params`. `label` and `icon` (of
// icons.js) put it into the navigation; `under` marks another page there as current; `allowed` says whether the
// credential may use it. The module is loaded when it is opened. A page begins with a Head (from head.js), and is
// made of these:
//
//   service.js  useAsked and usePages ask the API, and ask again; ask calls it once; may says what the key may do
//   form.js     Text, Area, Choice, Form with useAction, Dialog, Confirm (asks for a name); Asked, Empty, Failure
//   list.js     List: a table of any number of rows
//   chart.js    Chart: lines over time; history.js  LastHour: charts of the last hour; useHistory: its points
//   json.js     Json: a value that can be folded; line: the same as one line
//   text.js     count, bytes, millis, duration, Time (relative, the absolute one on hover), visible (hostile texts)
//   router.js   at makes addresses, go opens them, useQuery keeps what is searched for in the address; root is the
//               URL of the service. No address begins with a slash: a proxy may have the service below a path
//
// Texts go into the page as texts: htm never takes them for HTML, and the Content-Security-Policy forbids what would.
// All styles are in console.css. A module that all pages need is named in index.html, so that it is loaded early.
import { html, render, useEffect, useErrorBoundary, useRef, useState } from "./lib/preact.js";
import { Empty, Failure, sentence, Waiting } from "./form.js";
import { Head } from "./head.js";
import { Icon } from "./icons.js";
import { asset, at, match, place } from "./router.js";
import {
  credential, hasKey, identify, isFree, may, outage, returns, signOut, suspect, unknown,
} from "./service.js";
import { SignIn } from "./signin.js";
import { Time } from "./text.js";

const admin = () => may("admin");
const queues = () => may("queue");

const pages = [
  { path: "", label: "Overview", icon: "overview", load: () => import("./overview.js") },
  { path: "channels", label: "Channels", icon: "channels", load: () => import("./channels.js") },
  { path: "channels/:channel", under: "channels", load: () => import("./channel.js") },
  { path: "queues", label: "Queues", icon: "queues", allowed: queues, load: () => import("./queues.js") },
  { path: "queues/:queue", under: "queues", allowed: queues, load: () => import("./queue.js") },
  { path: "tickets/:ticket", under: "queues", load: () => import("./ticket.js") },
  { path: "records", label: "Records", icon: "records", allowed: () => may("read"),
    load: () => import("./records.js") },
  { path: "shards", label: "Shards", icon: "shards", allowed: admin, load: () => import("./shards.js") },
  { path: "access", label: "Access", icon: "access", allowed: admin, load: () => import("./access.js") },
  { path: "configuration", label: "Configuration", icon: "options", allowed: admin,
    load: () => import("./configuration.js") },
  { path: "call", label: "Try a call", icon: "play", load: () => import("./call.js") },
];

const loaded = new Map(); // by page

/** Page shows the page of an address, and loads its module if need be. An error of its code ends no other page. */
function Page({ page, params }) {
  const [state, set] = useState({});
  const [broken] = useErrorBoundary((error) => console.error(error));
  const Shown = loaded.get(page);
  const count = returns.use();
  useEffect(() => {
    if (loaded.has(page)) return;
    set({});
    page.load().then((module) => {
      loaded.set(page, module.default);
      set({});
    }, (error) => {
      set({ error });
      void suspect(); // when the service comes back, the page is loaded again: browsers remember that a module failed
    });
  }, [page]);
  useEffect(() => {
    if (state.error) location.reload();
  }, [count]);
  if (broken) return html`<${Broken} error=${broken} />`;
  if (Shown) return html`<${Shown} key=${JSON.stringify(params)} params=${params} />`;
  if (!state.error) return html`<${Waiting} />`;
  return html`<${Head} title="This page could not be loaded" />
    <${Failure} error=${state.error} />
    <p><button type="button" onClick=${() => location.reload()}>Try again</button></p>`;
}

const Broken = ({ error }) => html`<${Head} title="This page has failed" />
  <${Empty} title="An error in the console’s code ended this page. The service isn’t affected.">
    <${Failure} error=${error} />
    <p><button type="button" onClick=${() => location.reload()}>Reload</button></p>
  <//>`;

const Brand = () => html`
  <a class="brand" href=${at("")}><img src=${asset("icon.svg")} alt="" width="24" height="24" />
    <span>Tidemark</span></a>`;

function Navigation({ current }) {
  const element = useRef();
  useEffect(() => { // in a narrow window some pages are beyond an edge, which fades
    const nav = element.current;
    const fade = () => {
      nav.classList.toggle("before", nav.scrollLeft > 1);
      nav.classList.toggle("after", nav.scrollLeft + nav.clientWidth < nav.scrollWidth - 1);
    };
    const size = new ResizeObserver(fade);
    size.observe(nav);
    nav.addEventListener("scroll", fade, { passive: true });
    return () => {
      size.disconnect();
      nav.removeEventListener("scroll", fade);
    };
  }, []);
  useEffect(() => {
    element.current.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [current]);
  const shown = pages.filter((p) => p.label && (!p.allowed || p.allowed()));
  return html`<nav aria-label="Pages" ref=${element}>
    ${shown.map((p) => html`
        <a key=${p.path} href=${at(p.path)} title=${p.label} aria-current=${p.path === current ? "page" : undefined}>
      <${Icon} name=${p.icon} /><span>${p.label}</span>
    </a>`)}
  </nav>`;
}

/** Outage says that the service doesn't answer, since when, and that the page tries again. */
function Outage() {
  const out = outage.use();
  if (!out) return null;
  const what = out.error.status === 0 ? "The service doesn’t answer"
    : "The service can’t serve: " + sentence(out.error);
  return html`<div class="outage" role="alert">
    <${Icon} name="critical" /> <b>${what}</b> <span>for <${Time} at=${out.since} since />. Trying again every second.
    Until it answers, the page shows the last values that it got.</span>
  </div>`;
}

const identifyPause = 3000; // ms

/** Unknown says why it isn't known what this tab may do, and asks again. */
function Unknown({ error }) {
  useEffect(() => {
    const timer = setInterval(() => document.hidden || outage.get() || identify(), identifyPause);
    return () => clearInterval(timer);
  }, []);
  return html`<${Head} title="The console can’t start" />
    <${Empty} title="The service hasn’t said what this tab may do. It is asked again every three seconds.">
      <${Failure} error=${error} />
      <p class="row-of"><button type="button" class="primary" onClick=${identify}>Try again</button>
        ${hasKey() && html`<button type="button" onClick=${signOut}>Use another key</button>`}</p>
    <//>`;
}

function Frame() {
  const who = credential.use();
  const fault = unknown.use();
  const now = place.use();
  if (who === null) return html`<${Outage} /><${SignIn} />`;
  if (who === undefined) return html`<header class="bar"><${Brand} /></header>
    <div class="body"><${Outage} />
      <main>${fault ? html`<${Unknown} error=${fault} />` : html`<${Waiting} />`}</main></div>`;
  const found = match(pages, now);
  const nothing = !isFree(who) && !who.grants.length;
  return html`
    <a class="skip" href="#content"
      onClick=${(e) => { e.preventDefault(); document.querySelector("h1")?.focus(); }}>Skip to the content</a>
    <header class="bar">
      <${Brand} />
      <${Navigation} current=${found?.page.under ?? found?.page.path} />
      <div class="who">
        ${who.kind === "open" ? html`<span class="tag" title="Everybody who can connect may do everything">open</span>`
          : html`<span class="name" title="The credential of this tab">${who.principal ?? "no rights"}</span>`}
        ${hasKey() && who.kind !== "open" &&
          html`<button type="button" class="quiet" onClick=${signOut} aria-label="Sign out"
            title="Sign out"><${Icon} name="out" /></button>`}
      </div>
    </header>
    <div class="body">
      <${Outage} />
      <main id="content">
        ${nothing ? html`<${Nothing} />`
          : !found ? html`<${Missing} />`
            : found.page.allowed && !found.page.allowed() ? html`<${NotAllowed} />`
              : html`<${Page} key=${JSON.stringify([found.page.path, found.params])} ...${found} />`}
      </main>
    </div>`;
}

const Missing = () => html`<${Head} title="There is no such page" />
  <${Empty} title="This page doesn’t exist."><p><a href=${at("")}>Go to the overview</a></p><//>`;

const NotAllowed = () => html`<${Head} title="Not allowed" />
  <${Empty} title="This key’s grants don’t allow what this page does.">
    <p>Sign out, and use a key whose grants allow it; <code>tidemark key create --grants</code> makes one.</p>
  <//>`;

const Nothing = () => html`<${Head} title="This key has no rights" />
  <${Empty} title="The service knows the key, but none of its grants allows anything.">
    <p>Sign out and use another key, or let an administrator create one with grants.</p>
    <p><button type="button" onClick=${signOut}>Sign out</button></p>
  <//>`;

// the icon is looked up again on each page; relative addresses are those of the first one
document.querySelector("link[rel=icon]").href = asset("icon.svg");
void identify();
match(pages, place.get())?.page.load().catch(() => {}); // Page shows the error
document.body.replaceChildren(); // what index.html has for the first paint
render(html`<${Frame} />`, document.body);
