package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/certs"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/records/keyset"
	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

func newServe(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "serve",
		SuggestFor: []string{"start", "run", "server"},
		Short:      "Run the service",
		Args:       cli.Arguments(0, 0),
	}
	config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if isCheck, err := cmd.Flags().GetBool(config.CheckFlag); err != nil || isCheck {
			return errors.Join(err, check(cmd, t))
		}
		signals, stop := notifyReload()
		defer stop()
		return runService(cmd, t, func(b *logBuffer) error {
			c, err := loadConfig(cmd.Context(), func() (config.Config, error) { return config.Load(cmd.Flags(), t.Environ) })
			if err != nil {
				return err
			}
			return serve(cmd.Context(), c, reloads{
				read: readAgain(cmd.Flags(), t.Environ), signals: signals, limit: reloadLimit,
			}, b)
		})
	}
	cmd.SetHelpFunc(func(*cobra.Command, []string) {
		if err := config.WriteHelp(t.Stdout, t.HelpWidth()); err != nil {
			t.Report("%v", err)
		}
	})
	return cmd
}

// loadConfig reads a configuration within loadLimit, unless ctx ends before.
func loadConfig(ctx context.Context, read func() (config.Config, error)) (config.Config, error) {
	c, err := config.Within(ctx, loadLimit, read)
	if err != nil && ctx.Err() == nil && !errors.Is(err, config.ErrSlow) {
		err = &cli.UsageError{Err: err}
	}
	return c, err
}

// check prints ok, or returns all faults of the configuration and of the files that it names. It starts nothing.
func check(cmd *cobra.Command, t cli.Terminal) error {
	_, err := loadConfig(cmd.Context(), func() (config.Config, error) {
		return config.Config{}, config.Check(cmd.Flags(), t.Environ, startFaults)
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.Stdout, "ok")
	return err
}

// startFaults returns the errors with which a start would fail before it connects to Redis, except for ports in use.
// Each begins with the key of an option.
func startFaults(c config.Config) (faults []error) {
	add := func(key string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", key, err))
		}
	}
	if _, err := tracing.Environment(os.Getenv); err != nil {
		faults = append(faults, err) // its lines begin with variables
	}
	if c.TLS.Cert != "" {
		_, err := certs.Open(certs.Files(c.TLS), slog.New(slog.DiscardHandler))
		add("tlsCert", err)
	}
	if _, err := c.Redis.TLSConfig(); err != nil {
		faults = append(faults, err)
	}
	if path := c.Records.OAuth.Keyset; path != "" {
		_, err := keyset.Open(path)
		add("keyset", err)
	}
	for _, setting := range []struct {
		key     string
		options redis.Options
	}{
		{"redis", redis.Options{URL: c.Redis.Address, Sentinel: redis.Sentinel{Master: c.Redis.Sentinel.Master}}},
		{"ticketsRedis", redis.Options{URL: c.Matchmaking.Redis}},
		{"sessionsRedis", redis.Options{URL: c.Records.Sessions.Redis}},
		{"cacheRedis", redis.Options{URL: c.Records.Cache.Redis}},
	} {
		if setting.options.URL != "" {
			setting.options.Logger = slog.New(slog.DiscardHandler)
			add(setting.key, setting.options.Check())
		}
	}
	if !c.Access.Closed() && !c.Access.Insecure {
		addresses := []struct{ key, address string }{
			{"listen", c.Server.Listen}, {"adminListen", c.Server.AdminListen},
		}
		if o := c.GRPC.OpenMatch; c.Matchmaking.On { // else these aren't served
			addresses = append(addresses, struct{ key, address string }{"grpcListen", c.GRPC.Listen})
			for _, address := range []string{o.Frontend, o.Backend, o.Query} {
				addresses = append(addresses, struct{ key, address string }{"openmatchListen", address})
			}
		}
		for _, address := range addresses {
			if address.address != "" && isReachable(address.address) {
				add(address.key, fmt.Errorf("other machines can reach %s, and no credentials are required: %s", address.address,
					remedyOpen()))
			}
		}
	}
	return faults
}

// isReachable reports whether an address to listen on is certainly one that other machines can reach.
func isReachable(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false // none, or a Unix socket
	}
	at, err := netip.ParseAddr(host)
	return host == "" || err == nil && !at.IsLoopback()
}
