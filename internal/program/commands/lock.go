package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

// fenceVariable is the environment variable in which a command under a lock has its fence.
const fenceVariable = "TIDEMARK_LOCK_FENCE"

// killAfter is how long a command may take to end after its lock was lost.
const killAfter = 2 * time.Second

func newLock(t cli.Terminal) *cobra.Command {
	var o records.LockOptions
	cmd := &cobra.Command{
		Use:   "lock OP ID [-- COMMAND [ARG...]]",
		Short: "Run a command while holding a lock",
		Long: `Run a command while holding the lock of an operation OP on an entity ID, and exit with the command's status.

The lock is renewed while the command runs, and released afterwards. If it is lost, the command gets SIGTERM, and SIGKILL 2 seconds
later. ` + fenceVariable + ` in its environment is a number that is higher for each new holder.

Without COMMAND the lock is acquired and printed as JSON. It ends after --ttl, or with "tidemark unlock", which reads
the printed lock.`,
		Example: `  tidemark lock resize image-7 --wait 1m -- convert image-7.png -resize 50% small-7.png
  tidemark lock import daily > lock.json && ./import.sh; tidemark unlock import daily < lock.json`,
		Args: cli.Arguments(2, maxArguments),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cli.OnlyJSON(cmd, "Lock")
	cmd.Flags().DurationVar(&o.TTL, "ttl", 30*time.Second,
		"how long the lock lasts after its last renewal, from 1s to 1h")
	cmd.Flags().DurationVar(&o.Wait, "wait", 0, "how long to wait if another holds the lock")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		locks := records.New(c)
		if len(args) == 2 {
			lock, err := locks.AcquireLock(ctx, args[0], args[1], o)
			if err != nil {
				return err
			}
			return cli.WriteLine(t.Stdout, lock)
		}
		return locks.WithLock(ctx, args[0], args[1], o, func(ctx context.Context, fence uint64) error {
			return runUnder(ctx, t, fence, args[2:])
		})
	})
	return cmd
}

const maxArguments = 1 << 16

// runUnder runs a command until it ends or ctx does.
func runUnder(ctx context.Context, t cli.Terminal, fence uint64, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // it is what the user asks for
	cmd.Stdin, cmd.Stdout, cmd.Stderr = t.Stdin, t.Stdout, t.Stderr
	cmd.Env = append(os.Environ(), fenceVariable+"="+strconv.FormatUint(fence, 10))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = killAfter
	err := cmd.Run()
	var exited *exec.ExitError
	if errors.As(err, &exited) && ctx.Err() == nil {
		return &cli.ExitError{Status: exited.ExitCode(), Err: err}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", command[0], err)
	}
	return nil
}

// maxLockText is the most that is read of what "tidemark lock" has printed.
const maxLockText = 4 << 10

func newUnlock(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unlock OP ID",
		Short: "Release a lock that \"tidemark lock\" has printed, which is read from standard input",
		Args:  cli.Arguments(2, 2),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	connection.HandleQuietly("op and id", func(ctx context.Context, c *client.Client, args []string) (any, error) {
		t.ReportInput("the lock")
		text, err := cli.ReadAll(ctx, io.LimitReader(t.Stdin, maxLockText))
		if err != nil {
			return nil, err
		}
		var lock records.Lock
		if err := json.Unmarshal(text, &lock); err != nil || lock.Token == "" {
			return nil, cli.Usagef("standard input isn't what \"tidemark lock\" has printed")
		}
		return map[string]string{"op": args[0], "id": args[1]},
			records.New(c).ReleaseLock(ctx, args[0], args[1], lock.Token)
	})
	return cmd
}
