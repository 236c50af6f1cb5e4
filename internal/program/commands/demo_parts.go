package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
)

// demoUsers is how many people are in the community.
const demoUsers = 40

var demoNames = []string{"ann", "ben", "cid", "dora", "eli", "fay", "gus", "hana", "ivo", "jun"}

var demoTexts = []string{"gg", "anyone for a duel?", "that was close", "brb", "who has the new map?", "nice one!",
	"lag again", "3 wins in a row", "good night", "where is the patch list?"}

func (d *demo) user(n int) string {
	return fmt.Sprintf("%s-%s-%d", d.prefix, demoNames[n%len(demoNames)], n/len(demoNames))
}

// chat publishes messages in the lobbies: a few of them are busy.
func (d *demo) chat(ctx context.Context) error {
	return each(ctx, d.rate, func(int) error {
		lobby := rand.IntN(d.channels)      //nolint:gosec // it is a demo
		if lobby > 2 && rand.IntN(2) == 0 { //nolint:gosec // it is a demo
			lobby %= 3
		}
		return d.say(ctx, d.lobby(lobby), map[string]any{"user": d.user(rand.IntN(demoUsers)), //nolint:gosec // a demo
			"text": demoTexts[rand.IntN(len(demoTexts))], "level": 1 + rand.IntN(60)}) //nolint:gosec // it is a demo
	})
}

// say publishes a message.
func (d *demo) say(ctx context.Context, channel string, content any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // a page must escape it
	err := encoder.Encode(content)
	if err != nil {
		return err
	}
	if _, err = d.service.Publish(ctx, channel, client.Draft{Content: text.Bytes()}); err == nil {
		d.messages.Add(1)
	}
	return err
}

// readers read the lobbies: a page keeps up, a bot lags behind, and an archive has stopped.
func (d *demo) readers(ctx context.Context) error {
	for n := range d.channels {
		for _, name := range []string{"page", "bot", "archive"} {
			if _, err := d.service.Subscribe(ctx, d.lobby(n), d.prefix+"-"+name, client.Earliest); err != nil {
				return err
			}
		}
	}
	return each(ctx, 2*float64(d.channels), func(n int) error {
		name, length := "-page", 1000
		if n/d.channels%10 == 9 {
			name, length = "-bot", 5
		}
		got, err := d.service.Fetch(ctx, d.lobby(n), d.prefix+name, client.FetchOptions{Max: length})
		if err != nil || got.ReceiptHandle == "" {
			return err
		}
		return d.service.Ack(ctx, d.lobby(n), d.prefix+name, got.ReceiptHandle)
	})
}

// demoConnections are the connections that the queues assign, by queue. They identify the queues of a demo.
var demoConnections = map[string]string{"duel": "game.example.com:7777", "teams": "game.example.com:7778"}

// Definitions of the queues. Players of about the same skill meet at once, and others after a while.
var demoQueues = map[string]string{
	"duel": `{"match":{"function":"criteria","teams":2,"teamSize":1,"weights":{"skill":1},
		"widen":[{"after":"10s","by":{"skill":150}},{"after":"30s","by":{"skill":1000}}]},
		"assigner":{"connection":"game.example.com:7777"},"ticketTTL":"2m","assignmentTTL":"5m"}`,
	"teams": `{"match":{"function":"criteria","teams":2,"teamSize":2,"weights":{"skill":1},
		"widen":[{"after":"5s","by":{"skill":300}},{"after":"15s","by":{"skill":2000}}]},
		"assigner":{"connection":"game.example.com:7778"},"ticketTTL":"2m","assignmentTTL":"5m"}`,
}

// minTeamPlayers is how many players there must be for a third of them to play in teams: fewer can't fill a match.
const minTeamPlayers = 15

// play lets the players wait for matches.
func (d *demo) play(ctx context.Context) error {
	if d.players == 0 {
		return nil
	}
	for name, definition := range demoQueues {
		if _, err := d.service.PutQueue(ctx, d.name(name), []byte(definition)); err != nil {
			return err
		}
	}
	var playing sync.WaitGroup
	for n := range d.players {
		playing.Go(func() {
			d.keepOn(ctx, "player "+d.user(n), func(ctx context.Context) error {
				for wait(ctx, time.Duration(rand.IntN(8000))*time.Millisecond) { //nolint:gosec // it is a demo
					if err := d.playOnce(ctx, n); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	playing.Wait()
	return nil
}

// playOnce lets a player wait for a match. One in ten gives up.
func (d *demo) playOnce(ctx context.Context, n int) error {
	skill := 1200 + rand.NormFloat64()*300 //nolint:gosec // it is a demo
	queue, ticket := "duel", client.NewTicket{TTL: 2 * time.Minute}
	if d.players >= minTeamPlayers && n%3 == 2 {
		queue = "teams"
	}
	ticket.Queue = d.name(queue)
	ticket.Statistics = []client.Statistic{{Name: "skill", Value: skill}}
	ticket.Criteria = []client.Criterion{{Name: "skill", MinValue: skill - 150, MaxValue: skill + 150}}
	ticket.SearchFields = client.SearchFields{StringArgs: map[string]string{"mode": queue, "player": d.user(n)},
		Tags: []string{"demo"}}
	created, err := d.service.CreateTicket(ctx, ticket)
	if err != nil {
		return err
	}
	d.tickets.Add(1)
	patience := 2 * time.Minute
	if rand.IntN(10) == 0 { //nolint:gosec // it is a demo
		patience = 5 * time.Second
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err = d.service.AwaitAssignment(limited, created.ID)
	switch {
	case err == nil:
		d.matches.Add(1)
		return nil
	case limited.Err() == nil:
		var clientErr *client.Error
		if errors.As(err, &clientErr) && clientErr.Status < 500 {
			return nil // the ticket has expired
		}
		return err
	}
	ending, stop := context.WithTimeout(context.WithoutCancel(ctx), demoPause)
	defer stop()
	_ = d.service.CancelTicket(ending, created.ID) // or it has been matched meanwhile, or expires
	return nil
}

// demoSettings returns the settings by name.
func demoSettings(prefix string) map[string]string {
	name := strings.ToUpper(strings.ReplaceAll(prefix, "-", "_"))
	return map[string]string{name + "_TITLE": "The lobby", name + "_MAX_PLAYERS": "64",
		name + "_API_SECRET": "s3cret-of-the-demo", name + "_MOTD": hostileTexts[0] + " " + hostileTexts[2]}
}

// changeRecords creates sessions and settings, and changes other records.
func (d *demo) changeRecords(ctx context.Context) error {
	for n := range demoUsers {
		device := fmt.Sprintf(`{"agent":%q,"city":"Rome"}`, []string{"Firefox", "Chrome", "Game client 2.1"}[n%3])
		if _, err := d.records.CreateSession(ctx, d.user(n), records.NewSession{Username: d.user(n),
			Device: json.RawMessage(device)}); err != nil {
			return err
		}
	}
	for name, value := range demoSettings(d.prefix) {
		secret := strings.HasSuffix(name, "_SECRET")
		if _, err := d.records.PutSetting(ctx, name, value, &secret); err != nil {
			return err
		}
	}
	return each(ctx, max(1, d.rate/5), func(n int) error {
		d.changes.Add(1)
		return d.changeOne(ctx, n)
	})
}

func (d *demo) changeOne(ctx context.Context, n int) error {
	id := strconv.Itoa(1 + rand.IntN(200)) //nolint:gosec // it is a demo
	switch n % 8 {
	case 0, 1, 2: // reads hit mostly
		own := d.prefix + "-" + id
		_, err := d.records.Cached(ctx, "topic", own)
		if !errors.Is(err, records.ErrNotCached) {
			return err
		}
		return d.records.PutCached(ctx, "topic", own, fmt.Appendf(nil, `{"id":%s,"title":"Topic %s"}`, id, id),
			records.PutOptions{TTL: 5 * time.Minute, Tags: []string{d.tag()}})
	case 3:
		return d.records.PutCached(ctx, "author", d.prefix+"-"+id,
			fmt.Appendf(nil, `{"id":%s,"name":%q}`, id, d.user(n%demoUsers)),
			records.PutOptions{TTL: 5 * time.Minute, Tags: []string{d.tag()}})
	case 4:
		_, err := d.records.AddStats(ctx, "topics", "hourly", map[string]int64{"created": 1}, "")
		return err
	case 5:
		_, err := d.records.AddMetric(ctx, "cache_hits", "hourly", 3, "")
		return err
	case 6:
		return d.records.CountViews(ctx, map[string]int64{id: 1})
	}
	lock, err := d.records.AcquireLock(ctx, "edit", d.prefix+"-"+id, records.LockOptions{TTL: 20 * time.Second})
	if err == nil && n%16 != 15 { // others keep it for a while
		err = d.records.ReleaseLock(ctx, "edit", d.prefix+"-"+id, lock.Token)
	}
	if err == nil || errors.Is(err, records.ErrLockHeld) {
		_, err = d.records.PatchState(ctx, "import", d.prefix+"-"+strconv.Itoa(n%5), records.StateChange{
			Fields: map[string]string{"done": strconv.Itoa(n % 100), "of": "100"}, TTL: 10 * time.Minute})
	}
	return err
}

// fillMany publishes a message in many channels.
func (d *demo) fillMany(ctx context.Context) error {
	const together = 8
	var filling sync.WaitGroup
	failed := make(chan error, together)
	for first := range together {
		filling.Go(func() {
			for n := first; n < d.many; n += together {
				if err := d.say(ctx, d.name("many", strconv.Itoa(n)), n); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	filling.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return err
	}
	if d.many > 0 && ctx.Err() == nil {
		d.terminal.Report("filled %d further channels", d.many)
	}
	return nil
}

// hostileTexts are texts that a page must show as they are.
var hostileTexts = []string{`<script>alert("1")</script>`, `<img src=x onerror="alert('2')">`,
	"\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd \u202egnorts\u202c",
	`quotes " ' ` + "`" + ` \ and & <b>`, "line\nbreak\ttab \u0000 \u001b[31mred", "javascript:alert(3)",
	"\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \ufdfd Z\u0337\u0322\u034ea\u0336l\u0334g\u0335o\u0337",
	strings.Repeat("wide ", 300),
	`{"__proto__":{"polluted":true}}`, `</script></style><!-- -->`, `${7*7} {{7*7}} %s %n`}

// fillHostile adds contents that a page must show without harm.
func (d *demo) fillHostile(ctx context.Context) error {
	if !d.hostile {
		return nil
	}
	channel := d.name("hostile")
	for n, text := range hostileTexts {
		content := map[string]any{text: text, "list": []any{text, nil, 1e300, map[string]any{}}}
		if err := d.say(ctx, channel, content); err != nil {
			return err
		}
		device, err := json.Marshal(map[string]string{"agent": text})
		if err != nil {
			return err
		}
		name := strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return -1
			}
			return r
		}, strings.ToValidUTF8(text[:min(len(text), 100)], ""))
		if _, err := d.records.CreateSession(ctx, d.user(demoUsers+n), records.NewSession{Username: name,
			Device: device}); err != nil {
			return err
		}
		if err := d.records.PutCached(ctx, "topic", d.prefix+"-"+strconv.Itoa(n), device, records.PutOptions{TTL: time.Hour,
			Tags: []string{d.tag()}}); err != nil {
			return err
		}
	}
	about, err := d.service.Info(ctx)
	if err != nil {
		return err
	}
	for size := 1<<20 - 1024; ; size /= 2 { // as large as the channel's rule allows
		err := d.say(ctx, d.name("large"), map[string]string{"text": strings.Repeat("large text ", size/11)})
		if err == nil {
			break
		}
		if !errors.Is(err, client.ErrMessageTooLarge) && !errors.Is(err, client.ErrBodyTooLarge) {
			return err
		}
	}
	if err := d.say(ctx, d.longName(about.Limits.MaxNameBytes), "a long name"); err != nil {
		return err
	}
	if d.players > 0 {
		ticket := client.NewTicket{Queue: d.name("teams"), TTL: 2 * time.Minute}
		ticket.SearchFields = client.SearchFields{Tags: hostileTexts[:3], StringArgs: map[string]string{
			hostileTexts[0]: hostileTexts[2]}}
		if _, err := d.service.CreateTicket(ctx, ticket); err != nil {
			return err
		}
	}
	d.terminal.Report("added hostile contents: the channels %s and %s, sessions, cached values and a ticket", channel,
		d.name("large"))
	return nil
}
