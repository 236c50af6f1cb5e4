// The conformance suite of the Durable Streams protocol, as it is, against the service at TIDEMARK_TEST_URL.
import { runConformanceTests } from "@durable-streams/server-conformance-tests";

runConformanceTests({ baseUrl: process.env.TIDEMARK_TEST_URL });
