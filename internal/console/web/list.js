// A table of many rows, of which only those in view are in the document.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./lib/preact.js";
import { entry } from "./router.js";

const overscan = 8; // rows beyond those in view

/**
 * List shows rows in columns: {name, label, width, end, from, cell}. width is that of a grid's track; end aligns
 * numbers; from is how wide the list must be for the column, in pixels; cell returns the content for a row. sort is the
 * name of the column by which the rows are sorted, if onSort is given; columns with `sortable` have a button then.
 * Up, Down, Home, End, Page Up and Page Down move among rows, Enter follows the first link of a row or calls onOpen.
 * In a plain list rows have no links. onEnd is called when the last row comes into view. Who goes back to the list
 * finds it scrolled as it was.
 */
export function List({ label, rows, columns, rowKey, rowHeight = 34, sort, onSort, onEnd, onOpen, plain,
    className = "" }) {
  const box = useRef();
  const [view, setView] = useState({ top: 0, height: 600, width: 1000 });
  const [active, setActive] = useState(0);
  const focus = useRef(false);

  useLayoutEffect(() => {
    const element = box.current;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight, width: element.clientWidth });
    const memory = entry();
    const kept = "scrolled " + label;
    if (memory[kept]) element.scrollTop = memory[kept];
    measure();
    const size = new ResizeObserver(measure);
    size.observe(element);
    let frame = 0;
    const scrolled = () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(measure);
      memory[kept] = element.scrollTop;
    };
    element.addEventListener("scroll", scrolled, { passive: true });
    return () => {
      size.disconnect();
      cancelAnimationFrame(frame);
      element.removeEventListener("scroll", scrolled);
    };
  }, []);

  const head = rowHeight; // the header's height
  const first = Math.max(0, Math.floor(view.top / rowHeight) - overscan);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / rowHeight) + overscan);
  useEffect(() => {
    if (onEnd && last === rows.length) onEnd();
  }, [last, rows.length]);

  useEffect(() => {
    if (!focus.current) return;
    focus.current = false;
    const row = box.current.querySelector(`[data-index="${active}"]`);
    (row?.querySelector("a, button") ?? row)?.focus({ preventScroll: true });
  });

  const shown = columns.filter((c) => !c.from || view.width >= c.from);
  const grid = { gridTemplateColumns: shown.map((c) => c.width).join(" ") };

  const move = (to) => {
    const index = Math.max(0, Math.min(rows.length - 1, to));
    const element = box.current;
    const top = index * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + view.height - head) element.scrollTop = top +
      rowHeight - view.height + head;
    focus.current = true;
    setActive(index);
    setView((v) => ({ ...v, top: element.scrollTop }));
  };
  const page = Math.max(1, Math.floor((view.height - head) / rowHeight) - 1);
  const keys = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  const pressed = (event) => {
    const step = keys[event.key];
    if (step === undefined || event.target.closest("input, select, textarea, .head")) return;
    event.preventDefault();
    move(active + step);
  };

  const current = Math.min(active, rows.length - 1);
  return html`<div class=${"list " + className} ref=${box} role="table" aria-label=${label}
    aria-rowcount=${rows.length + 1}
    tabindex=${plain ? 0 : -1} onKeyDown=${pressed}>
    <div class="head" role="row" aria-rowindex="1" style=${{ ...grid, height: head + "px" }}>
      ${shown.map((c) => html`<div key=${c.name} role="columnheader" class=${c.end ? "end" : ""}
        aria-sort=${onSort && c.sortable ? (sort === c.name ? c.ascending ? "ascending" : "descending" : "none")
          : undefined}>
        ${onSort && c.sortable
          ? html`<button type="button" class="sort" onClick=${() => onSort(c.name)}>${c.label}</button>`
          : c.label}
      </div>`)}
    </div>
    <div class="rows" role="rowgroup" style=${{ height: rows.length * rowHeight + "px" }}>
      ${rows.slice(first, last).map((row, i) => {
        const index = first + i;
        return html`<div key=${rowKey(row)} class="row" role="row" aria-rowindex=${index + 2} data-index=${index}
          tabindex=${onOpen ? (index === current ? 0 : -1) : plain ? -1 : undefined}
          onFocusIn=${() => index === active || setActive(index)}
          onClick=${onOpen && (() => onOpen(row))}
          onKeyDown=${onOpen && ((e) => e.key === "Enter" && e.target === e.currentTarget && onOpen(row))}
          style=${{ ...grid, height: rowHeight + "px", transform: `translateY(${index * rowHeight}px)` }}>
          ${shown.map((c) => html`
              <div key=${c.name} role="cell" class=${c.end ? "end" : ""}>${c.cell(row, index)}</div>`)}
        </div>`;
      })}
    </div>
  </div>`;
}
