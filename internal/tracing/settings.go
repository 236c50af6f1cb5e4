package tracing

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The protocols of OTLP that are supported.
const (
	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
)

const (
	defaultQueue = 2048    // spans, as in the specification of OTEL_BSP_MAX_QUEUE_SIZE
	maxQueue     = 1 << 16 // about 100 MB of spans
)

// Settings are the values of OpenTelemetry's standard variables about traces. The zero value is off.
type Settings struct {
	On bool

	protocol  string
	endpoint  string // URL that takes traces; empty: the exporter's default
	sampling  sampling
	propagate bool // the header traceparent is read and sent
	queue     int  // spans that wait to be sent, or are being sent
}

// environment returns the value of a variable.
type environment func(name string) string

// Environment returns the settings of variables, of which get returns the values: os.Getenv. It reads what decides
// whether and where spans are sent, and checks what the SDK and its exporters would ignore without logging it. They
// read all other variables, and New logs their errors. Nothing is checked unless tracing is on.
func Environment(get func(name string) string) (Settings, error) {
	// as the SDK reads them
	variable := environment(func(name string) string { return strings.TrimSpace(get(name)) })
	on, err := variable.enabled()
	if err != nil || !on {
		return Settings{}, err
	}
	s := Settings{On: true, protocol: protocolHTTP, propagate: true, queue: defaultQueue}
	return s, errors.Join(s.readProtocol(variable), s.readEndpoint(variable), checkExporter(variable),
		s.readSampler(variable), s.readPropagators(variable), s.readNumbers(variable))
}

// Collector returns the protocol and the address of the collector.
func (s Settings) Collector() string {
	return s.protocol + " " + cmp.Or(s.endpoint, "https://localhost")
}

// exporterVariables returns the names of the variables of an OTLP exporter's option: the one for traces, which comes
// first, and the one for all signals.
func exporterVariables(option string) []string {
	return []string{"OTEL_EXPORTER_OTLP_TRACES_" + option, "OTEL_EXPORTER_OTLP_" + option}
}

// refused returns the error of a variable.
func refused(name, format string, args ...any) error {
	return fmt.Errorf("%s %s", name, fmt.Sprintf(format, args...))
}

func (variable environment) enabled() (bool, error) {
	if strings.EqualFold(variable("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch exporter := variable("OTEL_TRACES_EXPORTER"); exporter {
	case "otlp":
		return true, nil
	case "none":
		return false, nil
	case "":
		return slices.ContainsFunc(exporterVariables("ENDPOINT"), func(name string) bool { return variable(name) != "" }), nil
	default:
		return false, refused("OTEL_TRACES_EXPORTER", "is %q; set it to otlp or none", exporter)
	}
}

func (s *Settings) readProtocol(variable environment) error {
	for _, name := range exporterVariables("PROTOCOL") {
		switch value := variable(name); value {
		case "":
			continue
		case protocolGRPC, protocolHTTP:
			s.protocol = value
			return nil
		default:
			return refused(name, "is %q; set it to %s or %s", value, protocolGRPC, protocolHTTP)
		}
	}
	return nil
}

// readEndpoint reads the address of the collector. The exporters would accept "collector:4318" as a URL without a host,
// and fail only when they send, and ignore a user and a query. The error doesn't repeat it: it may contain a password.
func (s *Settings) readEndpoint(variable environment) error {
	for i, name := range exporterVariables("ENDPOINT") {
		value := variable(name)
		if value == "" {
			continue
		}
		u, err := url.Parse(value)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
			return refused(name, "is not a URL such as http://localhost:4318, or https:// for TLS")
		case u.User != nil || u.RawQuery != "" || u.Fragment != "":
			return refused(name, "must have no user, query or fragment; set OTEL_EXPORTER_OTLP_HEADERS for credentials")
		}
		if i > 0 && s.protocol == protocolHTTP { // the one for all signals
			u = u.JoinPath("v1/traces")
		}
		s.endpoint = u.String()
		return nil
	}
	return nil
}

// checkExporter checks what the exporters would ignore without logging it: half of a pair for mutual TLS, and a
// compression that they don't have.
func checkExporter(variable environment) (err error) {
	keys := exporterVariables("CLIENT_KEY")
	for i, name := range exporterVariables("CLIENT_CERTIFICATE") {
		if (variable(name) == "") != (variable(keys[i]) == "") {
			err = errors.Join(err, refused(name, "and %s must be set together", keys[i]))
		}
	}
	for _, name := range exporterVariables("COMPRESSION") {
		if value := variable(name); value != "" && value != "gzip" && value != "none" {
			err = errors.Join(err, refused(name, "is %q; set it to gzip or none", value))
		}
	}
	return err
}

// readSampler reads the sampler, which is this package's own.
func (s *Settings) readSampler(variable environment) error {
	const name, argument = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
	value := variable(name)
	root, ofParent := strings.CutPrefix(value, "parentbased_")
	s.sampling = sampling{ratio: 1, parents: ofParent || value == ""}
	switch root {
	case "", "always_on":
		return nil
	case "always_off":
		s.sampling.ratio = 0
		return nil
	case "traceidratio":
	default:
		return refused(name, "is %q; set it to always_on, always_off, traceidratio, or one of these after parentbased_",
			value)
	}
	text := variable(argument)
	if text == "" {
		return nil
	}
	ratio, err := strconv.ParseFloat(text, 64)
	if err != nil || !(ratio >= 0 && ratio <= 1) { // also if it isn't a number
		return refused(argument, "is %q; it must be a number from 0 to 1, such as 0.01", text)
	}
	s.sampling.ratio = ratio
	return nil
}

// readPropagators reads which headers carry traces; the SDK doesn't. Baggage is never read, nor sent, but may be
// listed: it is in the variable's default.
func (s *Settings) readPropagators(variable environment) error {
	const name = "OTEL_PROPAGATORS"
	value := variable(name)
	if value == "" {
		return nil
	}
	s.propagate = false
	for part := range strings.SplitSeq(value, ",") {
		switch part = strings.TrimSpace(part); part {
		case "tracecontext":
			s.propagate = true
		case "baggage", "none":
		default:
			return refused(name, "lists %q; only tracecontext is supported, or none", part)
		}
	}
	return nil
}

// readNumbers checks the numbers of the SDK's processor, and the time limit of an exporter's attempt. The SDK ignores a
// value that isn't a number without logging it, exports in a busy loop with a delay of 0, and panics on a negative
// size.
func (s *Settings) readNumbers(variable environment) (err error) {
	const queue = "OTEL_BSP_MAX_QUEUE_SIZE"
	for _, name := range append(exporterVariables("TIMEOUT"), queue, "OTEL_BSP_SCHEDULE_DELAY",
		"OTEL_BSP_EXPORT_TIMEOUT", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE") {
		text := variable(name)
		if text == "" {
			continue
		}
		switch n, failed := strconv.Atoi(text); {
		case failed != nil || n < 1:
			err = errors.Join(err, refused(name, "is %q; it must be a whole number above 0", text))
		case name == queue && n > maxQueue: // the SDK would allocate it
			err = errors.Join(err, refused(name, "is %d; at most %d spans are kept", n, maxQueue))
		case name == queue:
			s.queue = n
		}
	}
	return err
}
