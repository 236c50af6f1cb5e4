package admin

import (
	"fmt"
	"io"
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// recording records data of the process for a duration.
type recording struct {
	usual, longest time.Duration
	start          func(io.Writer) error
	stop           func()
}

var (
	cpuProfile = recording{usual: 30 * time.Second, longest: time.Minute, start: pprof.StartCPUProfile,
		stop: pprof.StopCPUProfile}
	executionTrace = recording{usual: time.Second, longest: 10 * time.Second, start: trace.Start, stop: trace.Stop}
)

// profiles serves the data for go tool pprof and go tool trace.
type profiles struct {
	stopping  <-chan struct{}
	recording chan struct{} // buffered (capacity 1); holds a value during a recording
	showing   chan struct{} // likewise, while another profile is written
}

func newProfiles(stopping <-chan struct{}) *profiles {
	return &profiles{stopping: stopping, recording: make(chan struct{}, 1), showing: make(chan struct{}, 1)}
}

// list is GET /debug/pprof/.
func (p *profiles) list(c *web.Call) error {
	names := []string{"profile", "trace"}
	for _, profile := range pprof.Profiles() {
		names = append(names, profile.Name())
	}
	return c.Value(http.StatusOK, map[string][]string{"profiles": names})
}

// show is GET /debug/pprof/{profile}, for one client at a time. The parameter debug selects a readable form.
func (p *profiles) show(c *web.Call) error {
	profile := pprof.Lookup(c.Param(0))
	if profile == nil {
		return web.ErrNoPath
	}
	if c.Request().URL.Query().Has(secondsParameter) {
		return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidQuery, Field: secondsParameter,
			Detail: "this profile is of the present: it has no duration"}
	}
	select {
	case p.showing <- struct{}{}:
		defer func() { <-p.showing }()
	default:
		return errRecording
	}
	debug, kind := 0, mediaBinary
	if text := c.Request().URL.Query().Get("debug"); text == "1" || text == "2" {
		debug, kind = int(text[0]-'0'), "text/plain; charset=utf-8"
	}
	begin(c, kind)
	c.SetOutcome(http.StatusOK, profile.WriteTo(c.Response(), debug))
	return nil
}

const secondsParameter = "seconds"

const mediaBinary = "application/octet-stream"

var errRecording = &fault.Error{
	Kind: fault.Unavailable, Slug: fault.SlugOverloaded,
	Detail: "a profile or trace is being recorded for another client; trying again is safe",
}

// record returns a handler that records for the number of seconds in the parameter, for one client at a time. It ends
// early when the client disconnects or the server shuts down.
func (p *profiles) record(r recording) web.Handler {
	return func(c *web.Call) error {
		duration, err := r.duration(c)
		if err != nil {
			return err
		}
		select {
		case p.recording <- struct{}{}:
			defer func() { <-p.recording }()
		default:
			return errRecording
		}
		begin(c, mediaBinary)
		if err := r.start(c.Response()); err != nil {
			return errRecording.WithCause(err)
		}
		defer r.stop()
		timer := time.NewTimer(duration)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.stopping:
		case <-c.Context().Done():
		}
		c.SetOutcome(http.StatusOK, nil)
		return nil
	}
}

// duration returns the recording time that the client requests.
func (r recording) duration(c *web.Call) (time.Duration, error) {
	text := c.Request().URL.Query().Get(secondsParameter)
	if text == "" {
		return r.usual, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(0 < seconds && seconds <= r.longest.Seconds()) {
		return 0, &fault.Error{
			Kind: fault.Invalid, Slug: fault.SlugInvalidQuery, Field: secondsParameter,
			Detail: fmt.Sprintf("seconds must be more than 0 and at most %g", r.longest.Seconds()),
		}
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// begin sets the headers of an answer that isn't JSON.
func begin(c *web.Call, kind string) {
	c.Response().Header().Set("Content-Type", kind)
	c.SetHeaders()
}
