// Package v1 has the handlers of the API below /v1, one file per resource: messages, subscribers, deliveries, channels,
// tickets, queues and info. docs/openapi.yaml is its contract and docs/http-api.md its manual.
//
// [Register] adds the routes to a router. Each handler decodes its request with package wire, makes one call of a
// service, and encodes the answer with package wire. Errors of the service are returned unchanged: package web converts
// them to answers. The interfaces in this package are the parts of the services that the handlers use.
//
// Reserved channels, the limits of clients, and the channels of tickets are not handled here, but by the server's
// operations on channels and tickets, the [Channels] and [Tickets] of [Options].
package v1
