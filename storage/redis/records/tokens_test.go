package records

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/records/tokens"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

func TestTokensPage(t *testing.T) {
	t.Parallel()
	const heading = "## Tokens"
	scripts, rows := luatest.Scripts(t, "records/tokens"), storetest.KeyRows(t, "records", heading)
	verification, current := "verification:{<user>}:<type>:<hash>", "verification_current:{<user>}:<type>"
	state, access, refresh := "oauth_state:{<hash>}", "oauth_access:{<user>}:<provider>",
		"oauth_refresh:{<user>}:<provider>"
	storetest.RequireScripts(t, "records", scripts)
	storetest.RequireUses(t, rows, scripts, map[string][]string{
		"verification": {verification}, "current": {current}, "state": {state}, "secret": {verification, state},
		"access": {access}, "refresh": {refresh},
	}, "delete")
	require.Len(t, rows, 5)
}

func TestTokensScripts(t *testing.T) {
	t.Parallel()
	storetest.RequireStatuses(t, "tokens.go", luatest.Scripts(t, "records/tokens"))
}

// No stored value has a key or argument that contains a token, and the stored data is that of Discours.io.
func TestWhatIsKept(t *testing.T) {
	t.Parallel()
	l := storetest.NewLab(t)
	s := NewTokens(l.Conn)
	v := tokens.Verification{User: "ann", Type: tokens.EmailChange, Data: []byte(`{"to":1}`)}
	for _, hash := range []string{"h1", "h2"} {
		require.NoError(t, storagetest.ErrorOf(s.Issue(t.Context(), hash, v)))
	}
	require.Equal(t, []string{"verification:{ann}:email_change:h2", "verification_current:{ann}:email_change"},
		l.Found(t))
	require.Equal(t, "h2", l.Value(t, "verification_current:{ann}:email_change"))
	fields, err := l.Node.Do(t, "HGETALL", l.Conn.Prefix()+"verification:{ann}:email_change:h2").AsStrMap()
	require.NoError(t, err)
	require.Regexp(t, `^\d{10}$`, fields["created_at"])
	delete(fields, "created_at")
	require.Equal(t, map[string]string{
		"user_id": "ann", "token_type": "verification", "verification_type": "email_change", "data": `{"to":1}`,
	}, fields)
}

// Tokens can be taken, and tokens of providers deleted, while Redis is full.
func TestTokensErrorsOfRedis(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	s := NewTokens(storetest.Connect(t, redis.Options{URL: node.URL()}))
	v, of := tokens.Verification{User: "ann", Type: tokens.PasswordReset}, tokens.Owner{User: "ann", Provider: "google"}
	issue := func(hash string) error { return storagetest.ErrorOf(s.Issue(t.Context(), hash, v)) }
	put := func() error { return storagetest.ErrorOf(s.Put(t.Context(), of, tokens.Sealed{Access: []byte("a")})) }
	require.NoError(t, issue("h1"))
	require.NoError(t, put())
	storetest.FillUp(t, node)
	storetest.RequireFull(t, issue("h2"))
	storetest.RequireFull(t, put())
	storetest.RequireFull(t, storagetest.ErrorOf(s.KeepState(t.Context(), "h3", tokens.State{})))
	require.NoError(t, storagetest.ErrorOf(s.TakeVerification(t.Context(), "h1", v, "a")))
	require.NoError(t, s.Delete(t.Context(), of))

	storetest.Set(t, node, "maxmemory", "0")
	require.NoError(t, node.Do(t, "HSET", "oauth_state:{odd}", "provider", "google", "created_at", "yesterday").Error())
	require.ErrorIs(t, storagetest.ErrorOf(s.TakeState(t.Context(), "odd", "a")), redis.ErrReply)
	require.NoError(t, node.Do(t, "HSET", "oauth_state:{python}", "created_at", "1640995200.5").Error())
	state, err := s.TakeState(t.Context(), "python", "a")
	require.NoError(t, err)
	require.Equal(t, int64(1640995200), state.Created.Unix(), "Python writes times as floats")
	require.NoError(t, node.Do(t, "SET", "oauth_state:{string}", "x").Error())
	require.Error(t, storagetest.ErrorOf(s.TakeState(t.Context(), "string", "a")))
}

// A take whose answer was lost is retried by the store, and finds the data that it took.
func TestTakeWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	storetest.EachErrorReply(t, func(t *testing.T, f storetest.Faulty, text string) {
		s, v := NewTokens(f.Conn), tokens.Verification{User: "ann", Type: tokens.PasswordReset}
		require.NoError(t, storagetest.ErrorOf(s.Issue(t.Context(), "h", v)))
		f.Fail(text, "EVALSHA", "EVAL")
		_, err := s.TakeVerification(storetest.Shortly(t), "h", v, "a")
		require.Error(t, err)
		require.NotErrorIs(t, err, tokens.ErrNoVerification)
		f.Recover(t)
		require.NoError(t, storagetest.ErrorOf(s.TakeVerification(t.Context(), "h", v, "a")))
		require.ErrorIs(t, storagetest.ErrorOf(s.TakeVerification(t.Context(), "h", v, "b")), tokens.ErrNoVerification)
	})
}

func TestTokensDecoding(t *testing.T) {
	t.Parallel()
	storetest.RequireDecoded(t, map[string]func(redis.Reply) error{
		"issue": func(r redis.Reply) error { return storagetest.ErrorOf(endOf(r)) },
		"take":  func(r redis.Reply) error { return storagetest.ErrorOf(fieldsOf(r)) },
		"put":   func(r redis.Reply) error { return storagetest.ErrorOf(endsOf(r)) },
		"get":   func(r redis.Reply) error { return storagetest.ErrorOf(sealedOf(r)) },
	}, map[string][]string{
		"issue": {`{'OK', '1'}`}, "take": {`{'NONE'}`, `{'OK', 'a', 'b'}`}, "put": {`{'OK', '0', '1'}`},
		"get": {`{'OK', '', -2, 'a', 1}`},
	}, map[string][]string{
		"issue": {`{'OK'}`, `{'OK', 'x'}`, `{'OK', '1', '2'}`}, "take": {`{'NONE', 'x'}`, `{'OK', 'a'}`},
		"put": {`{'OK', '1'}`, `{'OK', '1', 'x'}`}, "get": {`{'OK', '', -2}`, `{'OK', '', 'x', '', 1}`},
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	l := storetest.NewLab(t)
	s := NewTokens(l.Conn)
	for _, key := range s.providerKeys(tokens.Owner{User: "}{", Provider: "vk"}) {
		require.Equal(t, "%7D%7B", storetest.HashTag(strings.TrimPrefix(key, l.Conn.Prefix())))
	}
}

// TestTokensHalfMovedSlot: while the keys of a user are on two nodes, operations on one key run, and others wait for
// the end of the move.
func TestTokensHalfMovedSlot(t *testing.T) {
	t.Parallel()
	c := storetest.StartTwoNodes(t)
	s := NewTokens(c.Connect(t, redis.Options{Timeout: time.Minute}))
	v, of := tokens.Verification{User: "ann", Type: tokens.PasswordReset}, tokens.Owner{User: "ann", Provider: "google"}
	require.NoError(t, storagetest.ErrorOf(s.Issue(t.Context(), "h1", v)))
	require.NoError(t,
		storagetest.ErrorOf(s.Put(t.Context(), of, tokens.Sealed{Access: []byte("a"), Refresh: []byte("r")})))
	move := c.OpenMove(t, "ann")
	move.MoveKey(t, "verification_current:{ann}:password_reset")
	move.MoveKey(t, "oauth_access:{ann}:google")
	calls := []storetest.Call{
		{Name: "issue", Do: func(ctx context.Context) error { return storagetest.ErrorOf(s.Issue(ctx, "h2", v)) }},
		{Name: "put", Do: func(ctx context.Context) error {
			return storagetest.ErrorOf(s.Put(ctx, of, tokens.Sealed{Access: []byte("b")}))
		}},
		{Name: "get", Do: func(ctx context.Context) error { return storagetest.ErrorOf(s.Get(ctx, of)) }},
		{Name: "delete",
			Do: func(ctx context.Context) error { return s.Delete(ctx, tokens.Owner{User: "ann", Provider: "vk"}) }},
	}
	storetest.RequireEach(storetest.Shortly(t), t, calls[:3], storetest.RequireUnavailable)
	require.NoError(t, storagetest.ErrorOf(s.TakeVerification(t.Context(), "h1", v, "a")))
	done := make(chan []error, 1)
	go func() { done <- storetest.AtOnce(calls, func(c storetest.Call) error { return c.Do(t.Context()) }) }()
	move.CloseSlot(t)
	for i, err := range <-done {
		require.NoError(t, err, calls[i].Name)
	}
	require.NoError(t, storagetest.ErrorOf(s.TakeVerification(t.Context(), "h2", v, "a")))
	found, err := s.Get(t.Context(), of)
	require.NoError(t, err)
	require.Equal(t, "b r", string(found.Access)+" "+string(found.Refresh))
}

// TestSwitchover: while replicas take over, each state is taken by exactly one of the racing attempts.
func TestSwitchover(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{})
	s := NewTokens(storetest.Connect(t, redis.Options{URL: strings.Join(c.Addrs(), ","), Timeout: time.Minute}))
	raced, stop := make(chan struct{}, 1<<20), make(chan struct{})
	race := func(hash string) error {
		if _, err := s.KeepState(t.Context(), hash, tokens.State{Provider: "google"}); err != nil {
			return err
		}
		errs := storetest.AtOnce([]string{"a", "b", "c", "d"}, func(attempt string) error {
			return storagetest.ErrorOf(s.TakeState(t.Context(), hash, attempt))
		})
		won := slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, tokens.ErrNoState) })
		raced <- struct{}{}
		if len(won) != 1 || won[0] != nil {
			return fmt.Errorf("not one has taken %s: %v", hash, won)
		}
		return nil
	}
	var g errgroup.Group
	for racer := range 4 {
		g.Go(func() error {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return nil
				default:
				}
				if err := race(fmt.Sprint(racer, "-", n)); err != nil {
					return err
				}
			}
		})
	}
	<-raced
	before := len(raced)
	c.Switchover(t, c.Slot("{0-0}"))
	during := len(raced) - before
	close(stop)
	require.NoError(t, g.Wait())
	require.Positive(t, during)
}
