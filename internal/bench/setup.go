package main

import (
	"context"

	"github.com/tidemark-dev/tidemark/internal/bench/target"
)

// setup is what is measured.
type setup struct{ *target.Target }

// start starts the setup. Its server gets further arguments of serve.
func start(ctx context.Context, s settings, args ...string) (*setup, error) {
	t, err := target.Start(ctx, s.tidemark, args...)
	if err != nil {
		return nil, err
	}
	return &setup{t}, nil
}
