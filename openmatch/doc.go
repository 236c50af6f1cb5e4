// Package openmatch is Open Match's public API, version 1.8, in our own .proto files, and what its messages are in
// package matchmaking. `make generate` writes the generated part.
//
// The names and numbers are Open Match's, so that its clients, match functions and evaluators work as they are. A
// program can have only one Go package for a protobuf name: link this one, or Open Match's own (open-match.dev), not
// both. The same holds for [github.com/tidemark-dev/tidemark/openmatch/health] and gRPC's own health package.
//
// The functions To… turn messages into values of package matchmaking. Messages come from outside: their errors are
// *fault.Error of the kind Invalid, and name the field. The functions From… turn values of package matchmaking into
// messages, and always succeed. All may be called by many goroutines.
//
// # Extensions
//
// Extensions are protobuf Anys in messages, and JSON in package matchmaking. An Any of a type that every server knows
// (protobuf's wrappers, Value, Struct, ListValue, Duration, Timestamp and Empty, and DefaultEvaluationCriteria) is
// what protobuf's JSON mapping makes of it, such as
//
//	{"@type": "type.googleapis.com/google.protobuf.StringValue", "value": "eu"}
//
// and an Any of another type is {"@type": <its URL>, "value": <its bytes in base64>}, so that it comes back byte for
// byte. JSON that is no such object becomes an Any of google.protobuf.Value.
package openmatch
