// The head of a page.
import { html, useEffect, useRef } from "./lib/preact.js";
import { Icon } from "./icons.js";

/** Head is the title of a page, with what belongs beside it. back is the address of the page above. */
export function Head({ title, back, backLabel, children, className = "" }) {
  const heading = useRef();
  useEffect(() => {
    document.title = `${title} – Tidemark`;
    if (document.activeElement === document.body) heading.current.focus({ preventScroll: true });
  }, [title]);
  return html`<div class="page-head">
    ${back && html`<a class="back" rel="up" href=${back} aria-label=${backLabel}
        title=${backLabel}><${Icon} name="back" /></a>`}
    <h1 ref=${heading} tabindex="-1" class=${className}>${title}</h1>
    ${children}
  </div>`;
}
