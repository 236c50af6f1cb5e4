package commands

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/matchmaking/simulation"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

type simulateFlags struct {
	definitions []string
	tickets     string
	asJSON      bool
}

func newQueueSimulate(t cli.Terminal) *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:        "simulate --definition FILE… --tickets FILE",
		SuggestFor: []string{"replay", "try"},
		Short:      "Match recorded tickets by other definitions, and compare waits and fitness",
		Long: `Match recorded tickets by one or more definitions of a queue, in virtual time and without a service, and
print how many were matched, how long they had waited, and the fitness of the matches: the sum over a match's tickets,
lower is better.

A definition is JSON, as for "queue put" or as "queue list --json" prints it. Its match function must be first-come or
criteria. A recording has a ticket in each line, as "ticket show" prints it, or as the body that creates it with an
additional createTime. Lines of the answer to POST /v1/queryservice/tickets:query, which are the waiting tickets, can be
read, too. A recording has at most 1,000,000 tickets.

A round runs as soon as a ticket is created or criteria widen, and no ticket is cancelled: a ticket that isn't matched
expires after its ttl, or that of the definition.`,
		Example: `  tidemark queue simulate --definition now.json --definition wider.json --tickets tickets.jsonl`,
		Args:    cli.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), t)
		},
	}
	cmd.Flags().StringArrayVar(&f.definitions, "definition", nil, "`FILE` file with a definition (repeatable)")
	cmd.Flags().StringVar(&f.tickets, "tickets", "", "`FILE` file with the recorded tickets; - is standard input")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print a line of JSON for each definition, with the columns of the table")
	return cmd
}

func (f *simulateFlags) run(ctx context.Context, t cli.Terminal) error {
	if len(f.definitions) == 0 || f.tickets == "" {
		return cli.Usagef("--definition and --tickets are required")
	}
	queues := make([]simulation.Queue, len(f.definitions))
	for i, name := range f.definitions {
		text, err := cli.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read the definition: %w", err)
		}
		if queues[i], err = simulation.Parse(text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	tickets, err := f.read(t.Stdin)
	if err != nil {
		return fmt.Errorf("read the tickets: %w", err)
	}
	results := make([]simulated, len(queues))
	for i, q := range queues {
		r, err := q.Run(ctx, tickets)
		if err != nil {
			return err
		}
		results[i] = simulatedOf(f.definitions[i], r)
	}
	return f.write(t.Stdout, results)
}

func (f *simulateFlags) read(stdin io.Reader) (tickets recording, err error) {
	if f.tickets == "-" {
		return readTickets(stdin)
	}
	file, err := os.Open(f.tickets)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it is only read
	return readTickets(file)
}

// simulated is a result as it is printed.
type simulated struct {
	Definition string `json:"definition"`
	Tickets    int    `json:"tickets"`
	Matches    int    `json:"matches"`
	Matched    int    `json:"matched"`
	Unmatched  int    `json:"unmatched"`
	// WaitMs is of the tickets that were matched, Fitness of the matches. They are left out if there are none.
	WaitMs  *percentiles[int64]   `json:"waitMs,omitempty"`
	Fitness *percentiles[float64] `json:"fitness,omitempty"`
}

type percentiles[T any] struct {
	P50 T `json:"p50"`
	P90 T `json:"p90"`
	P99 T `json:"p99"`
	Max T `json:"max"`
}

func simulatedOf(definition string, r simulation.Result) simulated {
	s := simulated{Definition: definition, Tickets: r.Tickets, Matches: r.Matches, Matched: r.Matched,
		Unmatched: r.Tickets - r.Matched}
	if r.Matches > 0 {
		millis, fitness := time.Duration.Milliseconds, percentiles[float64](r.Fitness)
		s.WaitMs = &percentiles[int64]{millis(r.Waits.P50), millis(r.Waits.P90), millis(r.Waits.P99),
			millis(r.Waits.Max)}
		s.Fitness = &fitness
	}
	return s
}

func (f *simulateFlags) write(w io.Writer, results []simulated) error {
	rows := "DEFINITION\tTICKETS\tMATCHES\tMATCHED\tUNMATCHED\tWAIT P50\tP90\tP99\tMAX\tFITNESS P50\tP90\tP99\tMAX\n"
	for _, r := range results {
		if f.asJSON {
			if err := cli.WriteLine(w, r); err != nil {
				return err
			}
			continue
		}
		rows += cli.Row("%s\t%d\t%d\t%d\t%d", r.Definition, r.Tickets, r.Matches, r.Matched, r.Unmatched)
		if r.Matches == 0 {
			rows += strings.Repeat("\t-", 8)
		} else {
			wait, fit := r.WaitMs, r.Fitness
			rows += cli.Row("\t%s\t%s\t%s\t%s\t%.4g\t%.4g\t%.4g\t%.4g", ms(wait.P50), ms(wait.P90), ms(wait.P99),
				ms(wait.Max),
				fit.P50, fit.P90, fit.P99, fit.Max)
		}
		rows += "\n"
	}
	if f.asJSON {
		return nil
	}
	return cli.WriteTable(w, rows)
}
