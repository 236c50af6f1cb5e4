// Package v1 has the handlers of the API below /v1, one file per resource: messages, subscribers, deliveries, channels,
// tickets, queues and info. docs/openapi.yaml is its contract and docs/http-api.md its manual.
//
// [Register] adds the routes to a router. Each handler decodes its request with package wire, makes one call of a
// service, and encodes the answer with package wire. Errors of the service are returned as they are: package web
// answers them. The interfaces in this package are what the handlers need of the services.
//
// Nothing here knows of reserved channels, of the limits of clients, or of the channels of tickets: the server's
// operations on channels do, which are the [Channels] of [Options].
package v1
