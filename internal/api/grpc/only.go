package grpc

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// openMatchServices are the services that can have a listener of their own, by the name that operators give them.
var openMatchServices = map[string]string{
	"frontend": openmatch.FrontendService_ServiceDesc.ServiceName,
	"backend":  openmatch.BackendService_ServiceDesc.ServiceName,
	"query":    openmatch.QueryService_ServiceDesc.ServiceName,
}

// onlyKey is the context key of the service of Only.
type onlyKey struct{}

// Only returns a handler for a listener of one service of Open Match, by its name: frontend, backend or query. It
// serves the service's procedures and JSON paths, health checks, reflection and the probes.
func (s *Services) Only(name string) http.Handler {
	service := openMatchServices[name]
	_, short, _ := strings.Cut(service, ".")
	prefixes := []string{
		"/" + service + "/", "/v1/" + strings.ToLower(short) + "/", "/" + grpc_health_v1.Health_ServiceDesc.ServiceName + "/",
		"/" + reflectionv1.ServerReflection_ServiceDesc.ServiceName + "/",
		"/" + reflectionv1alpha.ServerReflection_ServiceDesc.ServiceName + "/",
	}
	other := *web.ErrNoPath
	other.Detail = fmt.Sprintf("this port serves %s only; openmatch-listen has the ports of other services", service)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if !slices.Contains(web.Probes, path) &&
			!slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(path, p) }) {
			s.router.Refuse(w, r, &other)
			return
		}
		s.router.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), onlyKey{}, service)))
	})
}

// listenerService returns the only service of the listener of a call, or "" if it has all.
func listenerService(ctx context.Context) string {
	service, _ := ctx.Value(onlyKey{}).(string)
	return service
}

// reflector is reflection: of all services, by "", and of a listener of one service, by its name.
type reflector[S interface{ Context() context.Context }] map[string]interface{ ServerReflectionInfo(stream S) error }

// ServerReflectionInfo answers the questions of a client.
func (r reflector[S]) ServerReflectionInfo(stream S) error {
	return r[listenerService(stream.Context())].ServerReflectionInfo(stream)
}

// newReflector returns the reflection of a version.
func newReflector[S interface{ Context() context.Context }, R interface{ ServerReflectionInfo(stream S) error }](
	s *Services, newServer func(reflection.ServerOptions) R,
) reflector[S] {
	r := reflector[S]{"": newServer(reflection.ServerOptions{Services: s})}
	for _, service := range openMatchServices {
		r[service] = newServer(reflection.ServerOptions{Services: onlyInfo{s, service}})
	}
	return r
}

// onlyInfo has the names of the services of a listener of one service.
type onlyInfo struct {
	*Services
	service string
}

// GetServiceInfo returns the names of the services. It is for reflection.
func (o onlyInfo) GetServiceInfo() map[string]grpc.ServiceInfo {
	infos := o.Services.GetServiceInfo()
	for _, service := range openMatchServices {
		if service != o.service {
			delete(infos, service)
		}
	}
	return infos
}
