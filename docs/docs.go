// Package docs has the descriptions of the API, which the service serves.
package docs

import _ "embed"

// OpenAPI is docs/openapi.yaml: the HTTP API.
//
//go:embed openapi.yaml
var OpenAPI []byte

// AsyncAPI is docs/asyncapi.yaml: the frames of WebSockets.
//
//go:embed asyncapi.yaml
var AsyncAPI []byte
