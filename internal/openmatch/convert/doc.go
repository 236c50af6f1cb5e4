// Package convert converts messages of package openmatch to values of package matchmaking, and back, for the gRPC
// services and the call-outs to match functions.
//
// The To functions read messages. Messages come from clients, so these functions can fail: the error is a *fault.Error
// of kind Invalid that names the field. The From functions make messages and always succeed. All functions may be
// called by several goroutines at the same time.
//
// # Tickets
//
// [ToSpec] keeps the message of a ticket's creator in matchmaking.Spec.Sent, and [FromTicket] returns it as it was.
// [WithExtensions] converts it to the JSON for the HTTP API, match functions and assigners.
//
// # Extensions
//
// Extensions are protobuf Anys in messages, and JSON elsewhere. An Any of a well-known type (protobuf's wrappers,
// Value, Struct, ListValue, Duration, Timestamp and Empty, and DefaultEvaluationCriteria) is converted by protobuf's
// JSON mapping, for example to
//
//	{"@type": "type.googleapis.com/google.protobuf.StringValue", "value": "eu"}
//
// An Any of any other type becomes {"@type": <type URL>, "value": <bytes in base64>}, so that its bytes are preserved;
// so does one that JSON can't represent, such as a NaN in a google.protobuf.Value. JSON that has neither form becomes
// an Any of google.protobuf.Value. In backfills and assignments of directors, an Any whose bytes JSON doesn't preserve
// becomes {"@type": <type URL>, "@bytes": <bytes in base64>}.
package convert
