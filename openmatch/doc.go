// Package openmatch is Open Match's public API, version 1.8, generated from our own .proto files. It holds no logic:
// `make generate` writes it, package [github.com/tidemark-dev/tidemark/internal/openmatch/convert] turns its messages
// into values of package matchmaking.
//
// The names and numbers are Open Match's, so that its clients, match functions and evaluators work unchanged. A
// program can link only one Go package for a protobuf name: this one, or Open Match's own (open-match.dev), but not
// both.
//
// Its exported names are public API, which changes incompatibly only in a release that says so: docs/api.txt.
package openmatch
