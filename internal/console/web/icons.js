// Icons of 16 by 16 units, drawn with lines.
import { html } from "./lib/preact.js";

const paths = {
  overview: "M2 12.5h12M3.5 10V7M7 10V3.5M10.5 10V5.5M14 10V8",
  channels: "M2 5c2-2 4-2 6 0s4 2 6 0M2 8.5c2-2 4-2 6 0s4 2 6 0M2 12c2-2 4-2 6 0s4 2 6 0",
  queues: "M5.5 7a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM2 13c0-2.2 1.5-3.5 3.5-3.5S9 10.800 9 13" +
    "M10.500 7.500a1.750 1.750 0 1 0-.5-3.400M11.500 9.700c1.500.3 2.500 1.500 2.500 3.300",
  records: "M8 6.500c3.300 0 5.500-.9 5.500-2s-2.200-2-5.500-2-5.500.9-5.500 2 2.200 2 5.500 2z" +
    "M2.500 4.500v7c0 1.100 2.200 2 5.500 2s5.500-.9 5.500-2v-7M2.500 8c0 1.100 2.200 2 5.500 2s5.500-.9 5.500-2",
  shards: "M2.500 2.500h4.500v4.500H2.500zM9 2.500h4.500v4.500H9zM2.500 9h4.500v4.500H2.500zM9 9h4.500v4.500H9z",
  access: "M6 10.500a3.500 3.500 0 1 1 3.300-2.300L14 13v1.500h-2.500V13H10v-1.500L8.300 9.800M5 6.200h.01",
  options: "M2 4.500h7M13 4.500h1M2 11.500h1M7 11.500h7M11 6.500a2 2 0 1 0 0-4 2 2 0 0 0 0 4z" +
    "M5 13.500a2 2 0 1 0 0-4 2 2 0 0 0 0 4z",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.700 10.700 14 14",
  back: "M10 3 5 8l5 5",
  key: "M6 10.500a3.500 3.500 0 1 1 3.300-2.300L14 13v1.500h-2.500V13H10v-1.500L8.300 9.800M5 6.200h.01",
  check: "M3 8.500 6.500 12 13 4.500",
  warning: "M8 2 1.500 13.500h13zM8 6.500v3M8 11.700h.01",
  critical: "M8 14.500a6.500 6.500 0 1 0 0-13 6.500 6.500 0 0 0 0 13zM8 4.500V9M8 11.500h.01",
  close: "M3.500 3.500l9 9M12.500 3.500l-9 9",
  out: "M6.500 2.500h-4v11h4M6.500 8H14M11 5l3 3-3 3",
  play: "M4.500 2.500v11l9-5.500z",
  pause: "M5 3v10M11 3v10",
};

/** Icon draws an icon. It is decoration: the text beside it, or the label of its button, says what it means. */
export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
  <path d=${paths[name]} />
</svg>`;
