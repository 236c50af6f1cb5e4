package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/layout"
)

// shardsStatusCommand is the command status.
type shardsStatusCommand struct {
	base
	isCheck bool
	watch   bool
	every   time.Duration
	timeout time.Duration
}

func newShardsStatus(b base) *cobra.Command {
	s := &shardsStatusCommand{base: b}
	cmd := s.prepare(&cobra.Command{
		Use:   "status",
		Short: "Show which nodes hold the shards of a cache, and what is missing",
		Long: `Show which nodes hold the shards of a cache, and a line for each problem: shards that no node holds or
that aren't loaded yet, nodes that still hold shards of an earlier layout, and data centres with a layout other than the
first one's.

With --check it exits with status 1 unless all shards of all data centres are held and loaded. With --watch and --check it
waits for that, for --timeout at most.`,
		Example: `  tidemark shards status --cache author
  tidemark shards status --cache author --check --json
  tidemark shards status --cache author --check --watch --timeout 1m`,
	}, s.check, s.run)
	cmd.Flags().BoolVar(&s.isCheck, "check", false, "exit with status 1 unless all shards are held and loaded")
	cmd.Flags().BoolVar(&s.watch, "watch", false, "repeat it until it is interrupted")
	cmd.Flags().DurationVar(&s.every, "every", time.Second, "how often --watch repeats it")
	cmd.Flags().DurationVar(&s.timeout, "timeout", 0, "end --watch after this time; 0: never")
	cmd.Flags().BoolVar(&s.json, "json", false, "print a line of JSON: cache, whole, dcs with their shards, and problems")
	return cmd
}

func (s *shardsStatusCommand) check() error {
	if s.every < 100*time.Millisecond {
		return cli.Usagef("--every: %v is shorter than 100ms", s.every)
	}
	if s.timeout < 0 {
		return cli.Usagef("--timeout: %v is negative", s.timeout)
	}
	return nil
}

var (
	errMissing      = errors.New("shards are missing")
	errStillMissing = fmt.Errorf("%w, and --timeout has passed", errMissing)
)

func (s *shardsStatusCommand) run(ctx context.Context, store shard.Layouts) error {
	if s.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.timeout, errStillMissing)
		defer cancel()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.ended(ctx)
		case <-timer.C:
		}
		all, err := store.Status(ctx, s.cache)
		switch {
		case err != nil && ctx.Err() != nil:
			return s.ended(ctx)
		case err != nil:
			return err
		}
		if len(all) == 0 {
			return errNoCache(s.cache)
		}
		missing := layout.Missing(all)
		if err := s.print(all, missing); err != nil {
			return err
		}
		switch {
		case len(missing) == 0 && s.isCheck, !s.watch && !s.isCheck:
			return nil
		case !s.watch:
			return &cli.ExitError{Status: 1, Err: errMissing}
		}
		timer.Reset(s.every)
	}
}

// ended returns the error of a command that was interrupted, or whose time is over.
func (s *shardsStatusCommand) ended(ctx context.Context) error {
	switch cause := context.Cause(ctx); {
	case !s.isCheck:
		return nil
	case errors.Is(cause, errStillMissing):
		return cause
	}
	return ctx.Err()
}

func (s *shardsStatusCommand) print(all []shard.DC, missing []string) error {
	problems := slices.Concat(missing, layout.Unsettled(all))
	if s.json {
		return cli.WriteLine(s.terminal.Stdout, statusJSON(s.cache, all, problems, len(missing) == 0))
	}
	rows := "DC\tSHARD\tFIRST KEY\tHOST\tADDRESS\tLOADED\tLEFT\tPINGED\n"
	for _, dc := range all {
		for _, h := range dc.Shards {
			rows += cli.Row("%s\t%d\t%016x\t", dc.Name, h.Shard, dc.Layout.Interval(h.Shard).First) + holder(h) + "\n"
		}
	}
	if err := cli.WriteTable(s.terminal.Stdout, rows); err != nil {
		return err
	}
	for _, line := range problems {
		if err := s.printf("! %s\n", line); err != nil {
			return err
		}
	}
	return nil
}

// holder returns the table cells for the holder of a shard.
func holder(h shard.Holder) string {
	if h.Left == 0 {
		return "-\t-\t-\t-\t" + last(h)
	}
	loaded := "no"
	if h.Loaded {
		loaded = "yes"
	}
	return cli.Row("%s\t%s\t%s\t%s\t%s", h.Host, h.Address, loaded, h.Left.Round(100*time.Millisecond), last(h))
}

func last(h shard.Holder) string {
	if h.Host == "" {
		return "never"
	}
	return h.Pinged.Format(time.RFC3339)
}

// The forms of JSON. Sharding keys are hexadecimal, since not all of them are numbers in every reader of JSON.
type (
	layoutForm struct {
		DC         string   `json:"dc"`
		Generation uint64   `json:"generation"`
		Starts     []string `json:"starts"`
	}
	holderForm struct {
		Shard       int        `json:"shard"`
		Host        string     `json:"host,omitempty"`
		Address     string     `json:"address,omitempty"`
		Incarnation uint64     `json:"incarnation,omitempty"`
		Locked      *time.Time `json:"locked,omitempty"`
		Pinged      *time.Time `json:"pinged,omitempty"`
		LeftMS      int64      `json:"leftMs"`
		Loaded      bool       `json:"loaded"`
	}
	dcForm struct {
		layoutForm
		Whole  bool         `json:"whole"`
		Shards []holderForm `json:"shards"`
		Former []holderForm `json:"former,omitempty"`
	}
	statusForm struct {
		Cache    string   `json:"cache"`
		Whole    bool     `json:"whole"`
		DCs      []dcForm `json:"dcs"`
		Problems []string `json:"problems,omitempty"`
	}
)

func layoutJSON(dc shard.DC) layoutForm {
	starts := make([]string, len(dc.Layout.Starts))
	for i, start := range dc.Layout.Starts {
		starts[i] = fmt.Sprintf("%016x", start)
	}
	return layoutForm{dc.Name, dc.Layout.Generation, starts}
}

func statusJSON(cache string, all []shard.DC, problems []string, whole bool) statusForm {
	form := statusForm{Cache: cache, Whole: whole, Problems: problems}
	for _, dc := range all {
		form.DCs = append(form.DCs, dcForm{layoutJSON(dc), dc.Whole(), holdersJSON(dc.Shards), holdersJSON(dc.Former)})
	}
	return form
}

func holdersJSON(all []shard.Holder) []holderForm {
	forms := make([]holderForm, len(all))
	for i, h := range all {
		forms[i] = holderForm{Shard: h.Shard, Host: h.Host, Address: h.Address, Incarnation: h.Incarnation,
			LeftMS: h.Left.Milliseconds(), Loaded: h.Loaded && h.Left > 0}
		if h.Host != "" {
			forms[i].Locked, forms[i].Pinged = &h.Locked, &h.Pinged
		}
	}
	return forms
}
