// Preact with its hooks and htm, in one module.
import htm from "htm";
import { h } from "preact";

export { createContext, Fragment, h, render } from "preact";
export * from "preact/hooks";
export const html = htm.bind(h);
