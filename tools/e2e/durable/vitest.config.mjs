export default { test: { include: ["conformance.test.mjs"], testTimeout: 60_000, hookTimeout: 60_000 } };
