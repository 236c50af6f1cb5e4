package grpc

import (
	"encoding/json"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// jsonError is the error of a JSON path, as grpc-gateway 1 writes it in Open Match.
type jsonError struct {
	Error   string            `json:"error,omitempty"` // the message
	Code    codes.Code        `json:"code"`
	Message string            `json:"message,omitempty"`
	Details []json.RawMessage `json:"details,omitempty"`
}

// jsonErrorLine is the error of a JSON path whose answer is a stream, as grpc-gateway 1 writes it in Open Match.
type jsonErrorLine struct {
	Error jsonStreamError `json:"error"`
}

type jsonStreamError struct {
	GRPCCode   codes.Code        `json:"grpc_code"`
	HTTPCode   int               `json:"http_code"`
	Message    string            `json:"message,omitempty"`
	HTTPStatus string            `json:"http_status,omitempty"` // the name of HTTPCode
	Details    []json.RawMessage `json:"details,omitempty"`
}

// jsonStatus returns the HTTP status of the error of a call whose answer isn't a stream, as grpc-gateway has it.
func jsonStatus(code codes.Code) int {
	switch code {
	case codes.FailedPrecondition:
		return http.StatusBadRequest
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	default:
		return statusOfCode(code)
	}
}

// newJSONError returns the error of a call.
func newJSONError(clientErr *status.Status) jsonError {
	return jsonError{Error: clientErr.Message(), Code: clientErr.Code(), Message: clientErr.Message(), Details: jsonDetails(clientErr)}
}

// newJSONErrorLine returns the error of a call with an HTTP status.
func newJSONErrorLine(code int, clientErr *status.Status) jsonErrorLine {
	return jsonErrorLine{jsonStreamError{
		GRPCCode: clientErr.Code(), HTTPCode: code, Message: clientErr.Message(), HTTPStatus: http.StatusText(code),
		Details: jsonDetails(clientErr),
	}}
}

// jsonDetails returns the details of an error, without those that JSON can't represent.
func jsonDetails(clientErr *status.Status) (all []json.RawMessage) {
	for _, detail := range clientErr.Proto().GetDetails() {
		if text, err := jsonOut.Marshal(detail); err == nil {
			all = append(all, text)
		}
	}
	return all
}
