// Package chart tests the chart deploy/helm/tidemark: Helm's own lint, and the objects that it renders, decoded strictly
// into the types of Kubernetes and of the Prometheus operator. TIDEMARK_TEST_BINARY must accept the options of its pods.
package chart

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"
)

const dir = "../../../deploy/helm/tidemark"

const name = "web-tidemark"

// everything turns all parts of the chart on.
const everything = `
redis: {existingSecret: redis}
access: {apiKeysSecret: keys, requireCredentials: true}
tls: {existingSecret: tls}
options: {maxWait: 2m, corsOrigins: ["https://example.com"]}
env: [{name: TIDEMARK_REDIS_PASSWORD, value: secret}]
drain: {delaySeconds: 10, graceSeconds: 60}
metrics: {serviceMonitor: {enabled: true, labels: {team: chat}, tokenSecret: metrics, tlsConfig: {insecureSkipVerify: true}}}
autoscaling: {enabled: true}
networkPolicy:
  enabled: true
  clients: [{namespaceSelector: {matchLabels: {site: chat}}}]
  monitoring: [{namespaceSelector: {matchLabels: {site: monitoring}}}]
  egress: [{ports: [{port: 6379, protocol: TCP}]}]
serviceAccount: {annotations: {owner: chat}}
imagePullSecrets: [{name: registry}]
podAnnotations: {example.com/a: b}
podLabels: {team: chat}
nodeSelector: {disk: fast}
tolerations: [{key: chat, operator: Exists}]
affinity: {nodeAffinity: {}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
priorityClassName: high
service: {type: LoadBalancer, annotations: {example.com/a: b}}
`

const small = "redis: {url: 'redis://redis:6379'}\naccess: {insecure: true}\npodDisruptionBudget: {enabled: false}\n" +
	"serviceAccount: {create: false}"

// render returns the objects of the chart with values, by kind and name.
func render(t *testing.T, values string) (map[string]runtime.Object, error) {
	t.Helper()
	chart, err := loader.Load(dir)
	require.NoError(t, err)
	given, err := chartutil.ReadValues([]byte(values))
	require.NoError(t, err)
	all, err := chartutil.ToRenderValues(chart, given, chartutil.ReleaseOptions{Name: "web", Namespace: "chat"}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apps.AddToScheme, autoscaling.AddToScheme, core.AddToScheme, networking.AddToScheme, policy.AddToScheme,
		monitoring.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme,
		json.SerializerOptions{Yaml: true, Strict: true})
	objects := make(map[string]runtime.Object)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(file, ".yaml") {
			continue
		}
		for _, text := range strings.Split(files[file], "\n---\n") {
			if strings.TrimSpace(text) == "" {
				continue
			}
			object, kind, err := strict.Decode([]byte(text), nil, nil)
			require.NoError(t, err, "%s:\n%s", file, text)
			objects[fmt.Sprintf("%s", kind.Kind)+"/"+nameOf(t, text)] = object
		}
	}
	return objects, nil
}

func nameOf(t *testing.T, text string) string {
	t.Helper()
	var object struct {
		Metadata struct{ Name string }
	}
	require.NoError(t, yaml.Unmarshal([]byte(text), &object))
	return object.Metadata.Name
}

// TestLint: the chart is valid, also without values, with which nothing could be installed.
func TestLint(t *testing.T) {
	t.Parallel()
	for _, values := range []string{everything, small, ""} {
		given, err := chartutil.ReadValues([]byte(values))
		require.NoError(t, err)
		linter := lint.All(dir, given, "chat", true)
		for _, m := range linter.Messages {
			require.Less(t, m.Severity, support.WarningSev, "%s", m.Error())
		}
	}
}

func TestEverything(t *testing.T) {
	t.Parallel()
	objects, err := render(t, everything)
	require.NoError(t, err)
	require.Equal(t, []string{
		"ConfigMap/" + name, "Deployment/" + name, "HorizontalPodAutoscaler/" + name, "NetworkPolicy/" + name,
		"PodDisruptionBudget/" + name, "Service/" + name, "Service/" + name + "-admin", "ServiceAccount/" + name,
		"ServiceMonitor/" + name,
	}, slices.Sorted(maps.Keys(objects)))
	deployment := objects["Deployment/"+name].(*apps.Deployment)
	pod := deployment.Spec.Template
	require.Nil(t, deployment.Spec.Replicas, "the autoscaler decides")
	require.Greater(t, *pod.Spec.TerminationGracePeriodSeconds, int64(60), "requests have the whole grace")
	for key, value := range deployment.Spec.Selector.MatchLabels {
		require.Equal(t, value, pod.Labels[key])
		require.Equal(t, value, objects["Service/"+name].(*core.Service).Spec.Selector[key])
	}
	admin := objects["Service/"+name+"-admin"].(*core.Service)
	for key, value := range objects["ServiceMonitor/"+name].(*monitoring.ServiceMonitor).Spec.Selector.MatchLabels {
		require.Equal(t, value, admin.Labels[key])
	}
	container := pod.Spec.Containers[0]
	require.True(t, *container.SecurityContext.ReadOnlyRootFilesystem)
	require.Equal(t, core.URISchemeHTTPS, container.ReadinessProbe.HTTPGet.Scheme)
	ports := make(map[string]bool)
	for _, p := range container.Ports {
		ports[p.Name] = true
	}
	for _, service := range []string{name, name + "-admin"} {
		for _, p := range objects["Service/"+service].(*core.Service).Spec.Ports {
			require.True(t, ports[p.TargetPort.StrVal], "%s: the pods have no port %s", service, p.TargetPort.StrVal)
		}
	}
}

// TestPodsStart: the service accepts the options of the pods, with files where the pods mount them.
func TestPodsStart(t *testing.T) {
	t.Parallel()
	binary := os.Getenv("TIDEMARK_TEST_BINARY")
	require.NotEmpty(t, binary, "scripts/deploy-check.sh sets TIDEMARK_TEST_BINARY")
	for _, values := range []string{everything, small} {
		objects, err := render(t, values)
		require.NoError(t, err)
		mounted := t.TempDir()
		if options, ok := objects["ConfigMap/"+name].(*core.ConfigMap); ok {
			require.NoError(t, os.WriteFile(filepath.Join(mounted, "tidemark.yaml"), []byte(options.Data["tidemark.yaml"]), 0o600))
		}
		cmd := exec.CommandContext(t.Context(), binary, "health", "--timeout", "1s")
		for _, v := range objects["Deployment/"+name].(*apps.Deployment).Spec.Template.Spec.Containers[0].Env {
			switch {
			case v.ValueFrom != nil:
				v.Value = "redis://redis:6379"
			case v.Name == "TIDEMARK_CONFIG":
				v.Value = filepath.Join(mounted, filepath.Base(v.Value))
			case v.Name == "TIDEMARK_LISTEN":
				v.Value = "127.0.0.1:1" // nothing answers there
			case strings.HasPrefix(v.Name, "TIDEMARK_TLS_"), v.Name == "TIDEMARK_API_KEYS":
				require.True(t, strings.HasPrefix(v.Value, "/etc/tidemark/"))
				continue // the files don't exist here
			}
			cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
		}
		var text bytes.Buffer
		cmd.Stderr = &text
		require.Error(t, cmd.Run())
		require.Equal(t, 1, cmd.ProcessState.ExitCode(), "the options are refused: %s", text.String())
	}
}

// TestNames: pods that need no credentials answer under the names of the Service, and the given ones.
func TestNames(t *testing.T) {
	t.Parallel()
	const own = name + "," + name + ".chat," + name + ".chat.svc," + name + ".chat.svc.cluster.local"
	for values, want := range map[string]string{
		small: own,
		"redis: {url: 'redis://redis:6379'}\naccess: {insecure: true, allowHosts: [play.example.com]}": own +
			",play.example.com",
		small + "\noptions: {allowHosts: [play.example.com]}":                    "", // the file has them
		"redis: {url: 'redis://redis:6379'}\naccess: {requireCredentials: true}": "",
	} {
		objects, err := render(t, values)
		require.NoError(t, err)
		got := ""
		for _, v := range objects["Deployment/"+name].(*apps.Deployment).Spec.Template.Spec.Containers[0].Env {
			if v.Name == "TIDEMARK_ALLOW_HOSTS" {
				got = v.Value
			}
		}
		require.Equal(t, want, got, values)
	}
}

// TestRefusedValues: a mistake is reported before anything is installed.
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"":                                   "redis: set url, or existingSecret",
		"access: {insecure: true}":           "redis: set url, or existingSecret",
		"redis: {url: 'redis://redis:6379'}": "access: set apiKeysSecret or requireCredentials",
		"redis: {url: 'redis://user:secret@redis:6379'}":      "url",
		small + "\nreplica: 3":                                "replica",
		small + "\nservice: {port: 0}":                        "port",
		small + "\nmetrics: {serviceMonitor: {enable: true}}": "enable",
	} {
		_, err := render(t, values)
		require.ErrorContains(t, err, want, values)
	}
}
