package durable

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/streams"
	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// DefaultPrefix is the default of Options.Prefix.
const DefaultPrefix = "/v1/stream/"

// DefaultAge is the default of Options.Age, which the protocol recommends so that proxies can share connections.
const DefaultAge = time.Minute

// Channels are the operations on streams.
type Channels interface {
	Create(ctx context.Context, r channel.CreateRequest) (channel.Created, error)
	Publish(ctx context.Context, r channel.PublishRequest) ([]channel.Published, error)
	CloseChannel(ctx context.Context, r channel.CloseRequest) (channel.Life, error)
	Life(ctx context.Context, name string) (channel.Life, error)
	Read(ctx context.Context, q channel.ReadQuery) (channel.Reading, error)
	Delete(ctx context.Context, name string) error
	OpenStream(ctx context.Context, q channel.StreamQuery) (streams.Stream, error)
}

// Options configures the API. All fields but Age are required.
type Options struct {
	Channels Channels
	Limits   func() channel.Limits
	Prefix   string        // of the paths of streams; it ends with a slash
	Age      time.Duration // of an answer of server-sent events; 0: DefaultAge
	Metrics  *prometheus.Registry
}

// api serves the protocol.
type api struct {
	channels Channels
	limits   func() channel.Limits
	prefix   string
	age      time.Duration
	counts   counts
}

// Register adds the routes of the protocol. It registers its metrics, so it must be called once per registry.
func Register(r *web.Router, o Options) {
	if o.Age == 0 {
		o.Age = DefaultAge
	}
	d := &api{channels: o.Channels, limits: o.Limits, prefix: o.Prefix, age: o.Age, counts: newCounts(o.Metrics)}
	a := web.API{Router: r, Fail: fail}
	path := strings.ReplaceAll(o.Prefix, ":", `\:`) + "*"
	for _, route := range []web.Route{
		{Method: http.MethodPut, Action: access.Publish, Of: web.Channel, Handle: d.create},
		{Method: http.MethodPost, Action: access.Publish, Of: web.Channel, Handle: d.append},
		{Method: http.MethodDelete, Action: access.Publish, Of: web.Channel, Handle: d.remove},
		{Method: http.MethodHead, Action: access.Subscribe, Of: tailOf, Handle: d.head},
		{Method: http.MethodGet, Action: access.Subscribe, Of: tailOf, Waits: true, Handle: d.read},
	} {
		route.Path, route.Query = path, web.QueryIgnored // the protocol has servers ignore parameters that they don't know
		a.Add(route)
	}
}

func tailOf(c *web.Call) access.Resource { return access.Resource{Channel: c.Param(0), Tail: true} }

// reservedSegment is the first segment of paths that aren't streams.
const reservedSegment = "__ds"

var (
	errSubscriptions = &fault.Error{Kind: fault.Unsupported, Slug: fault.SlugNotServed,
		Detail: "paths whose first segment is " + reservedSegment + " are those of subscriptions, which aren't served"}
	errForks = &fault.Error{Kind: fault.Unsupported, Slug: fault.SlugNotServed, Field: forkedFrom,
		Detail: "forks of streams aren't served"}
	errEscapedSlash = &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidChannel, Field: "channel",
		Detail: "the path of a stream has its slashes as they are, not as %2F"}
)

// name returns the name of the channel that is the stream of a call.
func (d *api) name(c *web.Call) (string, error) {
	name := c.Param(0)
	if name == "" {
		return "", web.ErrNoPath
	}
	if first, _, _ := strings.Cut(name, "/"); first == reservedSegment {
		return "", errSubscriptions
	}
	if err := channel.CheckChannel(name); err != nil {
		return "", err
	}
	if escaped := c.Request().URL.RawPath; strings.Contains(strings.ToLower(escaped), "%2f") {
		return "", errEscapedSlash
	}
	return name, nil
}

// isJSON reports whether the messages of a channel are JSON: those of a channel that was made by a publish or a
// subscribe are.
func isJSON(life *channel.Life) bool {
	return life.ContentType == "" || mediaOf(life.ContentType) == mediaJSON
}

// typeOf returns the content type of a stream.
func typeOf(life *channel.Life) string {
	if life.ContentType == "" {
		return mediaJSON
	}
	return life.ContentType
}

// The media types that the protocol mentions.
const (
	mediaJSON  = "application/json"
	mediaBytes = "application/octet-stream"
)

// mediaOf returns a media type without its parameters, in lower case.
func mediaOf(text string) string {
	media, _, _ := strings.Cut(text, ";")
	return strings.ToLower(strings.TrimSpace(media))
}
