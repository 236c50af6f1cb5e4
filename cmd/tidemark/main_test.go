package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){
		"tidemark": func() { os.Exit(realMain()) },
	})
}

// leakChecked fails the run if a goroutine leaks.
type leakChecked struct{ *testing.M }

func (m leakChecked) Run() int {
	// Under nohup a process and its children ignore SIGHUP, which the tests of reloads send, unless the process asks to
	// be notified of it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	code := m.M.Run()
	sleeps := goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1") // a second, also after Close
	if err := goleak.Find(sleeps); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// TestFlagsOfTheHelp: no flag's text repeats its placeholder, unless that is a number N.
func TestFlagsOfTheHelp(t *testing.T) {
	t.Parallel()
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			name, usage := pflag.UnquoteUsage(cli.Shown(f))
			words := strings.FieldsFunc(usage, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) })
			if name == strings.ToUpper(name) && !slices.Contains([]string{"", "N", "ID", "URL", "JSON"}, name) {
				require.NotContains(t, words, name, "%s --%s", cmd.CommandPath(), f.Name)
			}
			require.False(t, name != "" && strings.HasPrefix(usage, name), "%s --%s: %s", cmd.CommandPath(), f.Name, usage)
		})
		for _, below := range cmd.Commands() {
			check(below)
		}
	}
	check(newRoot(cli.Terminal{}))
}

// TestHints checks the hints for an answer of another program, or of a service that requires credentials.
func TestHints(t *testing.T) {
	t.Parallel()
	plain, admin := &cobra.Command{}, &cobra.Command{}
	admin.Flags().String(cli.AdminFlag, "", "")
	require.Equal(t, "; is --server the URL of a Tidemark service?", hint(plain, &client.Error{Status: 404}))
	require.Equal(t, "; is --server the URL of a Tidemark service, and its matchmaking on?",
		hint(plain, client.ErrNoMatchmaking))
	require.Equal(t, "; is --admin the URL of a Tidemark service's admin address?",
		hint(admin, client.ErrNoMatchmaking))
	require.Contains(t, hint(admin, client.ErrNoCredential), "TIDEMARK_TOKEN")
	require.Empty(t, hint(plain, client.ErrNoTicket))
	require.Empty(t, hint(plain, client.ErrUnreachable))
}
