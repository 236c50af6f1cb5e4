package compose_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/lifecycle"
	"github.com/tidemark-dev/tidemark/internal/program/compose"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/keyset"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/storage"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	stores "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// operations are requests, one for each operation on records. {user}, {id} and {text} are names and texts, among them
// hostile ones; {int} is a number, {time} a duration, {json} a value; {a|b} is one of these words; {token} and the like
// is the value of that member in an earlier answer, or a guess.
var operations = []string{
	`GET /v1/kinds`,

	`POST /v1/users/{user}/sessions {"username":{text},"deviceInfo":{json},"authData":{json}}`,
	`POST /v1/users/{user}/sessions {"username":{user}}`,
	`GET /v1/users/{user}/sessions`,
	`DELETE /v1/users/{user}/sessions`,
	`DELETE /v1/users/{user}/sessions/{id}`,
	`POST /v1/sessions/check {"token":{token}}`,
	`POST /v1/sessions/rotate {"token":{token},"idempotencyKey":{text}}`,
	`POST /v1/sessions/rotate {"token":{token}}`,

	`POST /v1/users/{user}/verifications {"type":{email_verification|phone_verification|password_reset|email_change|other},"data":{json}}`,
	`POST /v1/verifications/take {"type":{email_verification|phone_verification|password_reset|email_change|other},"token":{token}}`,
	`POST /v1/verifications/take {"type":{email_verification|password_reset},"token":{token},"attempt":{text}}`,
	`POST /v1/oauth-states {"provider":{google|vk|other},"redirectUri":{url},"csrfToken":{text}}`,
	`POST /v1/oauth-states/take {"state":{state},"attempt":{id}}`,
	`PUT /v1/users/{user}/oauth/{google|vk|other} {"accessToken":{text},"refreshToken":{text}}`,
	`PUT /v1/users/{user}/oauth/{google|vk|other} {"accessToken":{id}}`,
	`GET /v1/users/{user}/oauth/{google|vk|other}`,
	`DELETE /v1/users/{user}/oauth/{google|vk|other}`,

	`PUT /v1/settings/{name} {"value":{text}}`,
	`PUT /v1/settings/{name} {"value":{id},"secret":true}`,
	`PUT /v1/settings/{name} {"value":{id},"secret":false}`,
	`GET /v1/settings/{name}`,
	`DELETE /v1/settings/{name}`,
	`GET /v1/settings?category={auth|other|none}`,
	`GET /v1/settings/export`,
	`POST /v1/settings/import {"settings":[{"name":{name},"value":{text}},{"name":{name},"value":{id}}]}`,

	`PUT /v1/cache/{author|author-followers|author-follows-topics|author-follows-authors|author-follows-shouts}/{id} {json}`,
	`PUT /v1/cache/{topic|topic-slug|topic-authors|topic-followers|shouts|topic-shouts|search}/{id}?ttl={time}&tags={tag} {json}`,
	`PUT /v1/cache/{author|topic|topic-slug}/{id} {"id":7,"name":{text}}`,
	`PUT /v1/cache/{author-followers|author-follows-topics|author-follows-authors|author-follows-shouts}/{id} [7,8]`,
	`PUT /v1/cache/{topic-authors|topic-followers|shout-followers}/{id} [7,8]`,
	`PUT /v1/cache/{topic-shouts|search}/{id}?ttl=60s&tags=topic:5 []`,
	`PUT /v1/cache/shouts/limit=20:author={id} []`,
	`PUT /v1/cache/search/go:offset={int} {"results":[]}`,
	`PUT /v1/cache/author-slug/{slug} 7`,
	`PUT /v1/cache/{shouts|search|topic-shouts|session}/{text} {json}`,
	`GET /v1/cache/{author|topic|search|shouts}/{id}`,
	`POST /v1/cache/{author|topic}/get {"ids":[{id},{id}]}`,
	`POST /v1/cache/invalidate {"tags":[{tag},{text}]}`,
	`POST /v1/cache/invalidate {"kind":{author|search},"prefix":{text}}`,
	`DELETE /v1/cache/{author|topic}/{id}`,

	`POST /v1/views/{id}`,
	`POST /v1/views {"views":{{id}:{int}}}`,
	`GET /v1/views?id={id}`,
	`POST /v1/views/import {"timestamp":{int},"total":1,"views":{{id}:{int}}}`,
	`POST /v1/views/slugs {"slugs":{{text}:{id}}}`,

	`PUT /v1/locks/{op}/{id} {"ttl":{time}}`,
	`PUT /v1/locks/{op}/{id} {"token":{token},"ttl":{time}}`,
	`DELETE /v1/locks/{op}/{id} {"token":{token}}`,
	`GET /v1/locks/{op}/{id}`,

	`PATCH /v1/states/{process}/{id} {"fields":{{text}:{text}},"ttl":{time}}`,
	`PUT /v1/states/{process}/{id} {"fields":{"a":{text}}}`,
	`PATCH /v1/states/{process}/{id} {"remove":[{text},"a"]}`,
	`DELETE /v1/states/{process}/{id}`,
	`POST /v1/stats/{entity}/{hourly|daily|weekly|yearly} {"fields":{{text}:{int}},"id":{id}}`,
	`PUT /v1/stats/{entity}/{hourly|daily|weekly} {"fields":{"all":{int}}}`,
	`GET /v1/stats/{entity}/{hourly|daily}`,
	`POST /v1/metrics/{entity}/{hourly|daily} {"add":{int},"id":{id}}`,
	`PUT /v1/metrics/{entity}/{hourly|daily} {"value":{int}}`,

	`GET /v1/users/{user}/channels`,
	`POST /v1/channels/notifications:{user}/messages {"content":{json}}`,
}

// unwritten are kinds that none of them leaves behind: a claim ends with its put, and copies need a rule for channels.
var unwritten = []*records.Kind{records.CacheLoadKind, records.PendingCopiesKind}

// TestEveryKeyIsOfAKind runs random operations, and checks every key: it belongs to a kind, has the kind's type, isn't
// larger than the kind allows, and expires as the kind requires. So all temporary keys have a TTL, whatever clients do.
func TestEveryKeyIsOfAKind(t *testing.T) {
	t.Parallel()
	const rounds, limit = 24, 500 // more than rounds until every kind has been written
	operate := func(t *testing.T, r storagetest.Redis, form string) {
		t.Helper()
		seed := uint64(time.Now().UnixNano())
		t.Log("seed", seed)
		d := &draw{Rand: rand.New(rand.NewPCG(seed, seed)), seen: make(map[string][]string)}
		s := open(t, r.URL, form)
		for round := 0; round < rounds || round < limit && len(s.missing()) > 0; round++ {
			for _, pick := range d.Perm(len(operations)) {
				s.request(t, d, operations[pick])
			}
			if round%3 == 0 || round >= rounds {
				s.look(t, r)
			}
		}
		require.NoError(t, s.needs.Parts.Stop()) // what is only in memory is written
		s.look(t, r)
		require.Empty(t, s.missing(), "kinds that no operation has written")
	}
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) { operate(t, r, "braces") })
	t.Run("plain keys", func(t *testing.T) {
		t.Parallel()
		node := redistest.Standalone(t)
		operate(t, storagetest.Redis{URL: node.URL(), Client: node.Client()}, "plain")
	})
}

// service is all services of records, on one Redis.
type service struct {
	needs   compose.Needs
	conn    *redis.Conn
	handler http.Handler
	written map[*records.Kind]bool // by its operations, as far as it was seen
}

// missing returns the kinds that no operation has been seen to write.
func (s *service) missing() (names []string) {
	for _, k := range s.table().Records() {
		if !s.written[k] && !slices.ContainsFunc(unwritten, func(not *records.Kind) bool { return not.Name == k.Name }) {
			names = append(names, k.Name)
		}
	}
	return names
}

// table returns the kinds of the service.
func (s *service) table() *records.Table { return s.needs.Config.Site.Table }

func open(t *testing.T, url, form string) *service {
	t.Helper()
	c, err := config.Load(pflag.NewFlagSet("serve", pflag.ContinueOnError), []string{"TIDEMARK_RECORDS_KEYS=" + form})
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	conn, err := redis.Connect(t.Context(), redis.Options{URL: url, KeyPrefix: redistest.Prefix(t), Logger: log,
		PlainKeys: c.Records.PlainKeys})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	store, err := channels.New(conn, channels.Options{})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	policies, err := channel.NewPolicies(c.Channel, c.ChannelRules())
	require.NoError(t, err)
	key, err := receipt.GenerateKey()
	require.NoError(t, err)
	ring, err := receipt.NewKeyring(key)
	require.NoError(t, err)
	published, err := channel.NewService(channel.Options{Store: store, Receipts: ring, Policies: policies,
		Limits: c.Limits, Logger: log})
	require.NoError(t, err)
	parts := lifecycle.New(t.Context())
	parts.Run(t.Context(), "channels", published.Run)
	s := &service{conn: conn, written: make(map[*records.Kind]bool), needs: compose.Needs{
		Config: c.Records, Redis: stores.Instances{Records: conn, Sessions: conn, Cache: conn}, Channels: published,
		Parts: parts,
		Log:   log, Metrics: prometheus.NewRegistry(),
	}}
	s.needs.Config.OAuth.Keyset = filepath.Join(t.TempDir(), "keyset.json")
	require.NoError(t, keyset.Create(s.needs.Config.OAuth.Keyset))
	kept, err := compose.Open(t.Context(), s.needs)
	require.NoError(t, err)
	s.handler = server.New(server.Options{
		Service: published, Records: &kept.API, Logger: log, Ready: conn.Ready,
		Storage: func() storage.Description { return storage.Description{} },
		Limits:  server.Limits{MaxBodyBytes: 8 << 20},
	}).AdminHandler()
	return s
}

// request sends one of the operations. The service must not fail, whatever the request contains.
func (s *service) request(t *testing.T, d *draw, operation string) {
	t.Helper()
	method, rest, _ := strings.Cut(operation, " ")
	path, body, _ := strings.Cut(rest, " ")
	path = d.fill(path, url.PathEscape)
	body = d.fill(body, func(text string) string {
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		return string(quoted)
	})
	r := httptest.NewRequestWithContext(t.Context(), method, onLoopback+path, strings.NewReader(body))
	answer := httptest.NewRecorder()
	s.handler.ServeHTTP(answer, r)
	require.Less(t, answer.Code, http.StatusInternalServerError, "%.300s %.300s: %s", path, body, answer.Body)
	d.remember(answer.Body.Bytes())
}

// draw runs random operations.
type draw struct {
	*rand.Rand
	seen map[string][]string // members of answers, by name
}

// hostile are texts that imitate other keys, or try to break parsers.
var hostile = []string{
	"{", "}", "{}", "a}b{c", "ann}:x", "%7D", "%", "a:b", "a:b:c", ":", "a/b", "../a", "..", " ", "a b", "a\u00a0b",
	"\n", "\x00", "\x7f", "\u0085", "é", "\u202e",
	"\"", "\\", "*", "?", "[a-z]", "notifications:ann", "env_vars", strings.Repeat("x", 128), strings.Repeat("x", 129),
	strings.Repeat("{", 64), strings.Repeat("y", 600), "",
}

// texts are values of {text}, and values those of {json}. The last ones are too large.
var (
	texts  = append(slices.Clone(hostile), "plain", strings.Repeat("t", 100<<10))
	values = []string{`null`, `1`, `"x"`, `{}`, `[]`, `[1,2]`, `{"a":{"b":[1]}}`, `{"id":7,"name":"ann"}`,
		`"` + strings.Repeat("z", 2<<20) + `"`}
)

func (d *draw) pick(list []string) string { return list[d.IntN(len(list))] }

var blank = regexp.MustCompile(`\{([a-zA-Z][a-zA-Z0-9_|:.-]*)\}`)

// fill draws values for the blanks of a part of an operation. quote quotes texts.
func (d *draw) fill(text string, quote func(string) string) string {
	return blank.ReplaceAllStringFunc(text, func(found string) string {
		name := strings.Trim(found, "{}")
		switch {
		case strings.Contains(name, "|"):
			return quote(d.pick(strings.Split(name, "|")))
		case name == "int":
			return d.pick([]string{"0", "1", "7", "1000", "-1", "9007199254740991", "1e3", "9223372036854775807"})
		case name == "time":
			return quote(d.pick([]string{"1s", "30s", "5m", "1h", "24h", "720h", "0s", "-1s", "99999h", "1ms", "never"}))
		case name == "json":
			return d.pick(values)
		case name == "text":
			return quote(d.pick(texts))
		}
		if seen := d.seen[name]; len(seen) > 0 && d.IntN(3) > 0 {
			return quote(d.pick(seen))
		}
		if d.IntN(3) == 0 {
			return quote(d.pick(hostile))
		}
		return quote(fmt.Sprint(name, d.IntN(4)))
	})
}

// remember stores the texts of an answer for later operations.
func (d *draw) remember(answer []byte) {
	var members map[string]any
	if json.NewDecoder(bytes.NewReader(answer)).Decode(&members) != nil {
		return
	}
	for name, value := range members {
		if text, ok := value.(string); ok {
			d.seen[name] = append(d.seen[name], text)
		}
	}
}

// look checks every key of the service.
func (s *service) look(t *testing.T, r storagetest.Redis) {
	t.Helper()
	do := func(args ...string) any {
		value, err := r.Client.Do(t.Context(),
			r.Client.B().Arbitrary(args[0]).Keys(args[1]).Args(args[2:]...).Build()).ToAny()
		var none interface{ IsNil() bool }
		require.True(t, err == nil || errors.As(err, &none) && none.IsNil(), "%s: %v", args, err)
		return value
	}
	for _, key := range s.keys(t, r) {
		k := s.table().Of(strings.TrimPrefix(key, s.conn.Prefix()))
		require.NotNil(t, k, "%q is of no kind", key)
		s.written[k] = true
		require.Contains(t, []any{string(k.Type), "none"}, do("TYPE", key), key) // none: it has ended since
		remaining := time.Duration(do("PTTL", key).(int64)) * time.Millisecond
		if k.TTL == 0 {
			require.True(t, remaining < 0 || k.Instance == records.Cache,
				"%s: the keys of %s are permanent, but for values that are cached with a TTL", key, k.Name)
		} else {
			require.NotEqual(t, -time.Millisecond, remaining, "%s has no TTL", key)
			require.LessOrEqual(t, remaining, k.TTL, "%s outlives its kind", key)
		}
		require.LessOrEqual(t, bytesIn(do(slices.Insert(slices.Clone(reads[k.Type]), 1, key)...)), k.MaxBytes,
			"%s is larger than its kind", key)
	}
}

// reads are the commands that read the whole of a value.
var reads = map[records.Type][]string{
	records.String: {"GET"}, records.Hash: {"HGETALL"}, records.Set: {"SMEMBERS"},
	records.SortedSet: {"ZRANGE", "0", "-1"}, records.Stream: {"XRANGE", "-", "+"},
}

// keys returns all keys of the service, on all nodes.
func (s *service) keys(t *testing.T, r storagetest.Redis) (keys []string) {
	t.Helper()
	for _, node := range r.Client.Nodes() {
		for cursor := uint64(0); ; {
			page, err := node.Do(t.Context(), node.B().Scan().Cursor(cursor).Match(s.conn.Prefix()+"*").Count(
				1000).Build()).AsScanEntry()
			require.NoError(t, err)
			keys = append(keys, page.Elements...)
			if cursor = page.Cursor; cursor == 0 {
				break
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// bytesIn returns how long the texts of a reply are together.
func bytesIn(reply any) (n int) {
	switch reply := reply.(type) {
	case string:
		return len(reply)
	case []any:
		for _, item := range reply {
			n += bytesIn(item)
		}
	case map[string]any:
		for field, item := range reply {
			n += len(field) + bytesIn(item)
		}
	}
	return n
}

func TestMain(m *testing.M) { redistest.Main(m) }
