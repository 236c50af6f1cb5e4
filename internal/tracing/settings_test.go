package tracing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/tracing"
)

func environment(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

func TestTracingIsOffUnlessConfigured(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		variables map[string]string
		on        bool
	}{
		{nil, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "nonsense"}, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4318"}, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a:4318/v1/traces"}, true},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4318", "OTEL_TRACES_EXPORTER": "none"}, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4318", "OTEL_SDK_DISABLED": "TRUE"}, false},
	} {
		s, err := tracing.Environment(environment(c.variables))
		require.NoError(t, err)
		require.Equal(t, c.on, s.On, "%v", c.variables)
	}
}

func TestTheAddressOfTheCollector(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, endpoint, protocol, want string }{
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "", "", "http/protobuf https://localhost"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/x/", "", "http/protobuf http://c:4318/x/v1/traces"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c/x", "", "http/protobuf https://c/x"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317", "grpc", "grpc http://c:4317"},
	} {
		s, err := tracing.Environment(environment(map[string]string{"OTEL_TRACES_EXPORTER": "otlp", c.name: c.endpoint,
			"OTEL_EXPORTER_OTLP_PROTOCOL": c.protocol}))
		require.NoError(t, err)
		require.Equal(t, c.want, s.Collector())
	}
}

func TestWrongVariablesAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, want string }{
		{"OTEL_TRACES_EXPORTER", "zipkin", `OTEL_TRACES_EXPORTER is "zipkin"; set it to otlp or none`},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", `OTEL_EXPORTER_OTLP_PROTOCOL is "http/json"; set it to grpc or http/protobuf`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "secret:4317", "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL such as http://localhost:4318, or https:// for TLS"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://c", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is not a URL such as http://localhost:4318, or https:// for TLS"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://u:secret@c", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must have no user, query or fragment; set OTEL_EXPORTER_OTLP_HEADERS for credentials"},
		{"OTEL_TRACES_SAMPLER", "jaeger_remote", `OTEL_TRACES_SAMPLER is "jaeger_remote"; set it to always_on, always_off, traceidratio, or one of these after parentbased_`},
		{"OTEL_TRACES_SAMPLER_ARG", "NaN", `OTEL_TRACES_SAMPLER_ARG is "NaN"; it must be a number from 0 to 1, such as 0.01`},
		{"OTEL_TRACES_SAMPLER_ARG", "5%", `OTEL_TRACES_SAMPLER_ARG is "5%"; it must be a number from 0 to 1, such as 0.01`},
		{"OTEL_PROPAGATORS", "tracecontext,b3", `OTEL_PROPAGATORS lists "b3"; only tracecontext is supported, or none`},
		{"OTEL_BSP_MAX_QUEUE_SIZE", "100000", "OTEL_BSP_MAX_QUEUE_SIZE is 100000; at most 65536 spans are kept"},
		{"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", `OTEL_EXPORTER_OTLP_COMPRESSION is "zstd"; set it to gzip or none`},
		{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "c.pem",
			"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY must be set together"},
		{"OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "k.pem",
			"OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY must be set together"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "-5", `OTEL_EXPORTER_OTLP_TIMEOUT is "-5"; it must be a whole number above 0`},
		{"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0",
			`OTEL_EXPORTER_OTLP_TRACES_TIMEOUT is "0"; it must be a whole number above 0`},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "10s", `OTEL_EXPORTER_OTLP_TIMEOUT is "10s"; it must be a whole number above 0`},
		{"OTEL_BSP_SCHEDULE_DELAY", "0", `OTEL_BSP_SCHEDULE_DELAY is "0"; it must be a whole number above 0`},
	} {
		variables := map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318",
			"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", c.name: c.value}
		if c.name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
			delete(variables, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
		}
		_, err := tracing.Environment(environment(variables))
		require.EqualError(t, err, c.want)
	}
}
