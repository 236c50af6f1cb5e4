// Clocks, the positions in a channel: they wrap from 2^53 - 1 to its negative.
const lastClock = 2n ** 53n - 1n; // the next one is -lastClock
const positions = 2n * lastClock + 1n;

const wrapped = (n) => n > lastClock ? n - positions : n < -lastClock ? n + positions : n;

/** before returns the clock some steps before another. */
export const before = (clock, steps) => Number(wrapped(BigInt(clock) - BigInt(steps)));

/** isAfter reports whether a clock comes after another one: it is at most half of all clocks ahead of it. */
export const isAfter = (clock, other) => wrapped(BigInt(clock) - BigInt(other)) > 0n;

/** stepsTo returns how many clocks there are from one to another that comes after it. */
export const stepsTo = (clock, other) => Number(wrapped(BigInt(other) - BigInt(clock)));

/** isClock reports whether a text is a clock. */
export const isClock = (text) => /^-?\d+$/.test(text) && Number.isSafeInteger(Number(text));
