package matchmaking

import "context"

// Work is work that follows from the creation of tickets.
type Work struct {
	// Name is "round" of the match function, "match": of one match until it is assigned, "assign": a call for several;
	// "fetch" of a call of FetchMatches that another server has handed over, "evaluate" of one or several of such calls.
	Name    string
	Queue   string
	MatchID string   // of a match
	Traces  []string // Spec.Trace of the tickets or calls that have one, or what Follow has returned for their matches
}

// Follow begins to trace work. It returns the work's context, a trace as Spec.Trace, which may be empty, and the
// function that ends it with the error of the work. nil: nothing is traced. Many goroutines may call it.
type Follow func(ctx context.Context, w Work) (following context.Context, trace string, end func(error))

// Begin calls Follow, unless it is nil, or no tickets were traced.
func (f Follow) Begin(ctx context.Context, w Work) (context.Context, string, func(error)) {
	if f == nil || len(w.Traces) == 0 {
		return ctx, "", func(error) {}
	}
	return f(ctx, w)
}

// TracesOf returns the traces of the tickets that have one.
func TracesOf(tickets []*Ticket) (traces []string) {
	for _, t := range tickets {
		if t.Trace != "" {
			traces = append(traces, t.Trace)
		}
	}
	return traces
}
