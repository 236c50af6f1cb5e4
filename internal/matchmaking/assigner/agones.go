package assigner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
)

// Labels and annotations of game servers.
const (
	LabelMatch      = "tidemark.dev/match"    // a label, and an annotation, since not every ID is a valid label
	LabelReleased   = "tidemark.dev/released" // a label, "true" if the match failed
	AnnotationQueue = "tidemark.dev/queue"
)

const (
	agonesPath       = "gameserverallocation"
	agonesNamespace  = "default"
	stateAllocated   = "ALLOCATED" // AllocationRequest's enum; READY is the default
	extensionServer  = "gameServerName"
	extensionPorts   = "ports"
	digestLabelBytes = 16
)

// labelValue matches the values that Kubernetes allows for a label.
var labelValue = regexp.MustCompile(`^[0-9A-Za-z]([0-9A-Za-z_.-]{0,61}[0-9A-Za-z])?$`)

// agones calls the allocator of Agones.
type agones struct {
	client    *jsonhttp.Client
	url       string
	queue     string
	namespace string
	selector  map[string]string
	tokenFile string // empty: no token
}

func newAgones(d matchmaking.Definition, targets *jsonhttp.Targets) (*agones, error) {
	client, err := newClient(d, targets)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(d.Assigner.URL)
	if err != nil {
		return nil, matchmaking.InvalidKey("assigner.url", err)
	}
	if !strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/"+agonesPath) {
		u = u.JoinPath(agonesPath)
	}
	a := &agones{
		client: client, url: u.String(), queue: d.Name,
		namespace: d.Assigner.Namespace, selector: d.Assigner.Selector, tokenFile: d.Assigner.TokenFile,
	}
	if a.namespace == "" {
		a.namespace = agonesNamespace
	}
	if a.tokenFile != "" {
		if _, err := readSecret(a.tokenFile); err != nil {
			return nil, matchmaking.InvalidKey("assigner.tokenFile", err)
		}
	}
	return a, nil
}

// The types below are the JSON forms of AllocationRequest and AllocationResponse of Agones's allocation service.

type agonesRequest struct {
	Namespace string           `json:"namespace"`
	Selectors []agonesSelector `json:"gameServerSelectors"`
	Metadata  agonesMetadata   `json:"metadata"`
}

type agonesSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
	State       string            `json:"gameServerState,omitempty"`
}

type agonesMetadata struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type agonesResponse struct {
	GameServerName string       `json:"gameServerName"`
	Ports          []agonesPort `json:"ports"`
	Address        string       `json:"address"`
}

type agonesPort struct {
	Name string `json:"name"`
	Port uint16 `json:"port"`
}

// Allocate repeats the request until there is a game server, or the context's deadline is near.
func (a *agones) Allocate(ctx context.Context, p matchmaking.Proposal) (matchmaking.Allocation, error) {
	answer, err := a.post(ctx, agonesRequest{
		Namespace: a.namespace,
		Selectors: []agonesSelector{a.allocated(p.ID), {MatchLabels: a.labels()}},
		Metadata: agonesMetadata{
			Labels:      map[string]string{LabelMatch: matchLabel(p.ID)},
			Annotations: map[string]string{LabelMatch: p.ID, AnnotationQueue: a.queue},
		},
	}, scarce)
	if err != nil {
		return matchmaking.Allocation{}, fmt.Errorf("allocate match %s by agones: %w", p.ID, err)
	}
	found, err := readAgones(answer.Body)
	if err != nil {
		return matchmaking.Allocation{}, fmt.Errorf("allocate match %s by agones: %w", p.ID, err)
	}
	return found, nil
}

// Release sets the released label of the match's game server. It does nothing if there is no such game server.
func (a *agones) Release(ctx context.Context, matchID string, given matchmaking.Allocation) error {
	_, err := a.post(ctx, agonesRequest{
		Namespace: a.namespace,
		Selectors: []agonesSelector{a.allocated(matchID)},
		Metadata:  agonesMetadata{Labels: map[string]string{LabelReleased: "true"}},
	}, notNone)
	switch {
	case err == nil || none(err):
		return nil
	case given.Token == "":
		return fmt.Errorf("mark a game server that match %s may have got as released: %w", matchID, err)
	}
	return fmt.Errorf("mark game server %s of match %s as released: %w", given.Token, matchID, err)
}

// allocated selects the game server of a match.
func (a *agones) allocated(matchID string) agonesSelector {
	labels := a.labels()
	labels[LabelMatch] = matchLabel(matchID)
	return agonesSelector{MatchLabels: labels, State: stateAllocated}
}

// labels returns a copy of the selector's labels.
func (a *agones) labels() map[string]string {
	labels := make(map[string]string, len(a.selector)+1)
	maps.Copy(labels, a.selector)
	return labels
}

func (a *agones) post(ctx context.Context, request agonesRequest, again func(error) bool) (jsonhttp.Response, error) {
	body, err := jsonhttp.Encode(request)
	if err != nil {
		return jsonhttp.Response{}, err
	}
	return keepTrying(ctx, call{
		try: func(ctx context.Context) (jsonhttp.Response, error) {
			header, err := a.authorization()
			if err != nil {
				return jsonhttp.Response{}, err
			}
			return a.client.Post(ctx, a.url, header, body)
		},
		again: again,
	})
}

// authorization reads the token for each call, since it may be replaced while the service runs.
func (a *agones) authorization() (http.Header, error) {
	if a.tokenFile == "" {
		return nil, nil
	}
	token, err := readSecret(a.tokenFile)
	if err != nil {
		return nil, fmt.Errorf("assigner.tokenFile: %w", err)
	}
	return http.Header{"Authorization": {"Bearer " + token}}, nil
}

// none reports whether the allocator has no such game server. The status is configurable in Agones.
func none(err error) bool {
	var status *jsonhttp.StatusError
	return errors.As(err, &status) && (status.Status == http.StatusTooManyRequests ||
		status.Status == http.StatusNotFound)
}

// scarce reports whether an allocation may succeed later. Agones responds with 409 to too many calls at a time.
func scarce(err error) bool {
	var status *jsonhttp.StatusError
	if errors.As(err, &status) && status.Status == http.StatusConflict {
		return true
	}
	return none(err) || jsonhttp.Retryable(err)
}

// notNone reports whether a release may succeed later.
func notNone(err error) bool { return scarce(err) && !none(err) }

// matchLabel returns a match's ID as the value of a label: the ID, or a digest if the ID is not valid there.
func matchLabel(matchID string) string {
	if labelValue.MatchString(matchID) {
		return matchID
	}
	digest := sha256.Sum256([]byte(matchID))
	return hex.EncodeToString(digest[:digestLabelBytes])
}

func readAgones(body []byte) (matchmaking.Allocation, error) {
	var answer agonesResponse
	if err := json.Unmarshal(body, &answer); err != nil {
		return matchmaking.Allocation{}, fmt.Errorf("read the response: %w", err)
	}
	switch {
	case answer.GameServerName == "":
		return matchmaking.Allocation{}, errors.New("the response has no gameServerName")
	case answer.Address == "":
		return matchmaking.Allocation{}, fmt.Errorf("the response has no address for game server %s",
			answer.GameServerName)
	}
	found := matchmaking.Allocation{
		Connection: answer.Address, Token: answer.GameServerName, Extensions: map[string]json.RawMessage{},
	}
	if len(answer.Ports) > 0 {
		found.Connection = net.JoinHostPort(answer.Address, strconv.Itoa(int(answer.Ports[0].Port)))
	}
	name, err := json.Marshal(answer.GameServerName)
	if err != nil {
		return matchmaking.Allocation{}, err
	}
	found.Extensions[extensionServer] = name
	if len(answer.Ports) > 1 {
		if found.Extensions[extensionPorts], err = json.Marshal(answer.Ports); err != nil {
			return matchmaking.Allocation{}, err
		}
	}
	return found, nil
}
