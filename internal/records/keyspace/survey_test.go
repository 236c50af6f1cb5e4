package keyspace_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/keyspace"
	"github.com/tidemark-dev/tidemark/internal/records/site"
)

// source is an in-memory source, which returns keys in pages. It returns Bytes as the memory of a key if that is
// wanted.
type source struct {
	keys []keyspace.Key
	page int
}

func (s source) Count(context.Context) (int64, error) { return int64(len(s.keys)), nil }

func (s source) Walk(ctx context.Context, v keyspace.Visitor) error {
	for from := 0; from < len(s.keys); from += s.page {
		if err := v.Wait(ctx, s.page); err != nil {
			return err
		}
		var page []keyspace.Key
		seen := s.keys[from:min(from+s.page, len(s.keys))]
		for _, key := range seen {
			look, measure := v.Wants(key.Name)
			if !measure {
				key.Bytes = 0
			}
			if look {
				page = append(page, key)
			}
		}
		v.Visit(page, len(seen))
	}
	return nil
}

func TestReport(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	found := func(name string, of records.Type, ttl time.Duration, bytes int64) keyspace.Key {
		return keyspace.Key{Name: name, Type: of, TTL: ttl, Bytes: bytes}
	}
	s := source{page: 3, keys: []keyspace.Key{
		found("zzz", "list", -1, 70), found("\xff\x00\n"+strings.Repeat("é", 200), "module", time.Hour, 80),
		found("x:eyJhbGci.eyJi.c-d:y", records.String, -1, 90),
		found("session:{ann}:"+id(0), records.Hash, 30*day, 200), found("session:{ann}:"+id(1), records.Hash, -1, 100),
		found("session:{bob}:eyJhbGci.eyJi.c", records.String, 31*day, 300),
		found("session:{bob}:"+id(3), records.Hash, time.Minute, 0), found("session:7:eyJhbGci.eyJi.c", records.Hash,
			time.Hour, 500),
		found("viewed:{7}", records.String, -1, 60), found("c.{lobby}.clock", records.String, day, 60),
	}}
	report, err := keyspace.Run(t.Context(), s, keyspace.Options{Table: table, Largest: 3})
	require.NoError(t, err)
	var lines []string
	for _, k := range report.Kinds {
		lines = append(lines, fmt.Sprint(k.Name, " ", k.Keys, " ", k.Bytes, " ", k.Measured, " ", k.TTL, " ", k.Largest,
			" ", k.Texts()))
	}
	require.Equal(t, []string{
		"session 4 800 3 {1 0 0 1 1 1} [{session:{bob}:<token> 300} {session:{ann}:" + id(0) + " 200} {session:{ann}:" +
			id(1) + " 100}] [session: 1 without a TTL, although the kind is temporary: something else has written them " +
			"session: 1 with a longer TTL than the kind allows session: 1 of another type than the kind's]",
		"viewed 1 60 1 {0 0 0 0 0 1} [{viewed:{7} 60}] []",
		"channel-clock 1 60 1 {0 0 1 0 0 0} [{c.{lobby}.clock 60}] []",
		"unknown 4 740 4 {0 2 0 0 0 2} [{session:7:<token> 500} {x:<token>:y 90} {\\xff\\x00\\n" +
			strings.Repeat("é", 58) + "… 80}] [unknown: 4 of no kind: another application's, or of another version]",
	}, lines)

	report, err = keyspace.Run(t.Context(), s,
		keyspace.Options{Table: table, Kinds: []string{"viewed", records.Unknown}})
	require.NoError(t, err)
	require.Len(t, report.Kinds, 2)
	require.Empty(t, report.Kinds[0].Largest)
}

var table = site.Community().Table

// id returns the ID of a session.
func id(n int) string { return fmt.Sprintf("%064x", n) }

// TestTokensInPlainKeys: an application that writes plain keys itself has tokens in them.
func TestTokensInPlainKeys(t *testing.T) {
	t.Parallel()
	plain, err := table.Plain()
	require.NoError(t, err)
	for key, want := range map[string]string{
		"session:7:eyJhbGci.eyJi.c":            "session:7:<token>",
		"session:7:" + id(1):                   "session:7:" + id(1),
		"oauth_state:a1b2c3d4e5f6":             "oauth_state:<token>",
		"verification:7:password_reset:qwerty": "verification:7:password_reset:<token>",
		"author:slug:eyJhbGci":                 "author:slug:eyJhbGci",
	} {
		s := source{page: 1, keys: []keyspace.Key{{Name: key, Type: records.Hash, Bytes: 1}}}
		report, err := keyspace.Run(t.Context(), s, keyspace.Options{Table: plain, Largest: 1})
		require.NoError(t, err)
		require.Equal(t, want, report.Kinds[0].Largest[0].Key)
	}
}

// TestSample: the memory of the first keys of a kind is measured, and of a sample of the others.
func TestSample(t *testing.T) {
	t.Parallel()
	s := source{page: 250}
	for i := range 11_000 {
		s.keys = append(s.keys, keyspace.Key{Name: fmt.Sprintf("viewed:{%d}", i), Type: records.String, TTL: -1,
			Bytes: 100})
	}
	report, err := keyspace.Run(t.Context(), s,
		keyspace.Options{Table: table, Rate: 1 << 30, Sample: 10, Largest: 1 << 20})
	require.NoError(t, err)
	viewed := report.Kinds[0]
	require.Equal(t, []int64{11_000, 2_000, 1_100_000}, []int64{viewed.Keys, viewed.Measured, viewed.Bytes})
	require.Len(t, viewed.Largest, keyspace.MaxLargest)
}

// TestRate: the number of keys per second stays within the rate, and progress is reported.
func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := source{page: 250}
		for range 30_000 {
			s.keys = append(s.keys, keyspace.Key{Name: "viewed:{7}"})
		}
		var progress []int64
		began := time.Now()
		_, err := keyspace.Run(t.Context(), s,
			keyspace.Options{Table: table, Rate: 1000,
				Progress: func(seen, total int64) { progress = append(progress, seen, total) }})
		require.NoError(t, err)
		require.Equal(t, 20*time.Second, time.Since(began), "10,000 at once")
		require.Equal(t, []int64{0, 30_000, 250, 30_000}, progress[:4])
		require.Equal(t, []int64{30_000, 30_000}, progress[len(progress)-2:])

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = keyspace.Run(ctx, s, keyspace.Options{Table: table, Rate: 1000})
		require.Error(t, err)
	})
}
