// Package predecessor serves the API of the service that Tidemark replaces, so that its clients work unchanged:
// publish, subscribe, poll and acknowledge below /channel/, and the probes below /probe/.
//
// [Register] adds the routes to a router. They use the same channels and receipts as /v1, but answer in the
// predecessor's form: a duplicate is answered like the first message, all refused receipts get one code, and an error
// has a text and a code in place of a problem.
package predecessor
