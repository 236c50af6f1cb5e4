// The client of channels with tails, in one module.
export * from "../../../clients/typescript/dist/index.js";
export { tail } from "../../../clients/typescript/dist/tail.js";
