package overview

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// Rules find problems in the metrics of this server, with the conditions of deploy/prometheus/rules.yaml where a server
// alone can know them. One goroutine uses it.
type Rules struct {
	history *History
	to      *Problems
	// directors returns the queues that servers direct, and whether it knows all.
	directors func() (queues map[string]bool, all bool)

	began          map[problem]time.Time // when the condition of a rule with a delay began to hold
	counts         map[problem][]counted // recent increases
	values, before map[problem]float64   // of counters, now and in the sample before
	matched        map[string]lastMatch  // by queue
}

// counted is an increase of a counter.
type counted struct {
	at time.Time
	by float64
}

// lastMatch is when a queue's number of matches was last seen to rise, or it had no tickets.
type lastMatch struct {
	at      time.Time
	matches float64
}

// NewRules returns rules that report to to. directors may be nil.
func NewRules(h *History, to *Problems, directors func() (map[string]bool, bool)) *Rules {
	return &Rules{history: h, to: to, directors: directors, began: map[problem]time.Time{},
		counts: map[problem][]counted{}, matched: map[string]lastMatch{}}
}

// rising is a counter that should stand still.
type rising struct {
	code, metric string
	text         string        // %s is the values of its labels, if it has any
	about        []string      // labels
	label, value string        // only these metrics
	within       time.Duration // 0: 5 minutes
	more         float64       // than so many increases; 0: any
}

var risingRules = []rising{
	{code: "TidemarkConnectionsRefused", metric: "tidemark_http_connections_refused_total",
		text: "Connections are refused, because too many are open."},
	{code: "TidemarkAnswersRefused", metric: "tidemark_unread_answers_total", label: "outcome",
		value: "refused", text: "Answers are refused, because clients don't read theirs.", within: 10 * time.Minute},
	{code: "TidemarkLogLinesLost", metric: "tidemark_log_lines_lost_total",
		text: "Lines of the log are lost.", within: 10 * time.Minute},
	{code: "TidemarkReloadRefused", metric: "tidemark_reloads_total", label: "result", value: "refused",
		text: "The server refused to reload its configuration.", within: 15 * time.Minute},
	{code: "TidemarkTokenKeyFilesFail", metric: "tidemark_jwt_key_failures_total",
		about: []string{"source"}, text: "The keys that verify users' tokens cannot be read from %s.",
		within: 10 * time.Minute},
	{code: "TidemarkMessagesExpire", metric: "tidemark_messages_expired_total",
		text: "Messages expired before a subscriber fetched them.", within: 10 * time.Minute},
	{code: "TidemarkMessagesDamaged", metric: "tidemark_messages_damaged_total",
		text: "Stored messages can't be read any more, and subscribers skip them.", within: 10 * time.Minute},
	{code: "TidemarkStreamsCut", metric: "tidemark_streams_cut_total", about: []string{"transport"},
		text: "Streams (%s) are cut off, because their clients read too slowly.", within: 10 * time.Minute, more: 10},
	{code: "TidemarkRedisFull", metric: "tidemark_redis_failures_total", about: []string{"redis"},
		label: "code", value: "OOM", text: "The Redis of %s is full: publishes fail with 507."},
	{code: "TidemarkRedisFails", metric: "tidemark_redis_failures_total",
		about: []string{"redis", "code"}, text: "Operations on Redis fail: %s."},
	{code: "TidemarkRedisUnsteady", metric: "tidemark_redis_listen_interruptions_total",
		about: []string{"redis"}, text: "Subscriptions to the Redis of %s are interrupted again and again.",
		within: 10 * time.Minute, more: 5},
	{code: "TidemarkReceiptKeysLost", metric: "tidemark_redis_receipt_key_changes_total",
		label: "change", value: "restored", text: "The receipt keys were missing in Redis.", within: 15 * time.Minute},
	{code: "TidemarkAllocationsFail", metric: "tidemark_allocation_errors_total",
		about: []string{"queue"}, text: "No game server is found for matches of the queue %s."},
	{code: "TidemarkMatchFunctionFails", metric: "tidemark_match_function_errors_total",
		about: []string{"queue"}, text: "The match function or evaluator of the queue %s fails."},
	{code: "TidemarkMatchFunctionFails", metric: "tidemark_proposals_refused_total",
		about: []string{"queue"}, text: "Proposals of the match function or evaluator of the queue %s are refused."},
	{code: "TidemarkShardReadsFail", metric: "tidemark_shard_reads_total", about: []string{"cache"},
		label: "outcome", value: "failed", text: "Nodes don't answer reads of the cache %s in time, which go to Redis."},
}

// above is a gauge that should not exceed a limit.
type above struct {
	code, metric string
	text         string
	about        []string
	limit        float64
}

var aboveRules = []above{
	{code: "TidemarkConfigurationsDiffer", metric: "tidemark_configuration_differences",
		about: []string{"of"}, text: "Servers on this Redis are configured differently: their %s."},
	{code: "TidemarkSubscriberLags", metric: "tidemark_subscriber_lag_messages",
		about: []string{"channel", "subscriber"}, limit: 1000, text: "A subscriber is more than 1,000 messages behind: %s."},
	{code: "TidemarkLagsIncomplete", metric: "tidemark_subscriber_lag_incomplete",
		text: "The lag of some subscribers is not measured."},
	{code: "TidemarkCopiesLate", metric: "tidemark_copies_lag_seconds", limit: 60,
		text: "Messages wait for more than a minute to be copied to followers."},
	{code: "TidemarkKeysWithoutTTL", metric: "tidemark_keys_without_ttl",
		about: []string{"redis", "kind"}, text: "Temporary keys have no TTL: %s."},
}

// Check reports the problems of a sample.
func (r *Rules) Check(s Sample) {
	var found []Problem
	r.before, r.values = r.values, map[problem]float64{}
	for _, rule := range risingRules {
		found = append(found, r.rising(s, rule)...)
	}
	for _, rule := range aboveRules {
		for _, m := range s.families[rule.metric] {
			if valueOf(m) > rule.limit {
				about := aboutOf(m, rule.about)
				found = append(found, Problem{Code: rule.code, About: about,
					Text: textOf(rule.text, about)})
			}
		}
	}
	found = append(found, times(s)...)
	found = append(found, r.requests()...)
	found = append(found, r.queues(s)...)
	r.to.Report("metrics", s.At, found)
}

// aboutOf returns the values of labels.
func aboutOf(m *dto.Metric, labels []string) string {
	values := make([]string, len(labels))
	for i, l := range labels {
		values[i] = labelOf(m, l)
	}
	return strings.Join(values, " ")
}

func textOf(text, about string) string { return strings.Replace(text, "%s", about, 1) }

func (r *Rules) rising(s Sample, rule rising) (found []Problem) {
	within := rule.within
	if within == 0 {
		within = 5 * time.Minute
	}
	for _, m := range s.families[rule.metric] {
		if rule.label != "" && labelOf(m, rule.label) != rule.value ||
			rule.code == "TidemarkRedisFails" && labelOf(m, "code") == "OOM" {
			continue
		}
		key, now := problem{rule.metric, rule.code, aboutOf(m, rule.about)}, valueOf(m)
		before, known := r.before[key]
		r.values[key] = now
		events := r.counts[key]
		if now > before && (known || r.history.count() > 0) {
			events = append(events, counted{at: s.At, by: now - before})
		}
		events = slices.DeleteFunc(events, func(c counted) bool { return s.At.Sub(c.at) > within })
		if r.counts[key] = events; len(events) == 0 {
			delete(r.counts, key)
			continue
		}
		sum := 0.0
		for _, e := range events {
			sum += e.by
		}
		if sum > rule.more {
			found = append(found, Problem{Code: rule.code, About: key.about,
				Text: fmt.Sprintf("%s (%.0f in the last %d minutes)", strings.TrimSuffix(textOf(rule.text, key.about), "."),
					sum, int(within.Minutes())), Since: events[0].at})
		}
	}
	return found
}

// times finds what is too old, or ends soon.
func times(s Sample) (found []Problem) {
	at := func(m *dto.Metric) time.Time { return time.Unix(int64(valueOf(m)), 0) }
	for _, m := range s.families["tidemark_certificate_not_after_timestamp_seconds"] {
		if left := at(m).Sub(s.At); left < 14*24*time.Hour {
			p := Problem{Code: "TidemarkCertificateExpires", About: labelOf(m, "file")}
			if p.Text = fmt.Sprintf("The certificate %s expires on %s.", p.About, at(m).UTC().Format(time.DateTime)); left <= 0 {
				p.Text = fmt.Sprintf("The certificate %s expired on %s.", p.About, at(m).UTC().Format(time.DateTime))
			}
			if left < 3*24*time.Hour {
				p.Critical = true
			}
			found = append(found, p)
		}
	}
	for _, m := range s.families["tidemark_jwt_keys_fetched_timestamp_seconds"] {
		if s.At.Sub(at(m)) > time.Hour {
			about := labelOf(m, "source")
			found = append(found, Problem{Code: "TidemarkTokenKeysOld", About: about,
				Text: "The keys of users' tokens could not be fetched for an hour: " + about + "."})
		}
	}
	for _, m := range s.families["tidemark_access_current_timestamp_seconds"] {
		if s.At.Sub(at(m)) > time.Minute {
			found = append(found, Problem{Code: "TidemarkAccessOld",
				Text: "The server doesn't see new API keys and revocations."})
		}
	}
	return append(found, losses(s)...)
}

// lossShown is how long a loss is a problem: an operator has to learn of it, and can't repair it.
const lossShown = time.Hour

// losses finds failovers that may have lost writes.
func losses(s Sample) (found []Problem) {
	since := s.Values("tidemark_redis_lost_since_timestamp_seconds", "redis")
	for of, until := range s.Values("tidemark_redis_lost_until_timestamp_seconds", "redis") {
		from, to := time.Unix(int64(since[of]), 0).UTC(), time.Unix(int64(until), 0).UTC()
		if s.At.Sub(to) < lossShown {
			found = append(found, Problem{Code: "TidemarkRedisLostWrites", About: of, Since: to, Text: fmt.Sprintf(
				"The Redis of %s failed over, and may have lost writes that were answered between %s and %s UTC.", of,
				from.Format(time.DateTime), to.Format(time.DateTime))})
		}
	}
	return found
}

// The numbers of points that rules look at.
const (
	pointsMinute = int(time.Minute / Interval)
	points5      = 5 * pointsMinute
	points15     = 15 * pointsMinute
)

// requests finds that requests fail, or are refused, more often than usual.
func (r *Rules) requests() (found []Problem) {
	failed := 0.0
	for _, code := range []string{"500", "502", "503", "504", "507"} {
		failed += r.history.SumErrors(code, points5)
	}
	if all := r.history.SumService("requests", points5); failed >= 10 && failed > .05*all {
		found = append(found, Problem{Code: "TidemarkRequestsFail",
			Text: fmt.Sprintf("%.0f of %.0f requests failed in the last 5 minutes.", failed, all)})
	}
	if refused := r.history.SumErrors("401", points5); refused > 300 {
		found = append(found, Problem{Code: "CredentialsRefused", Page: "security.md#limits",
			Text: fmt.Sprintf("%.0f requests had no valid credential in the last 5 minutes.", refused)})
	}
	return found
}

// queues finds queues without a director, with tickets that wait long, and whose tickets expire.
func (r *Rules) queues(s Sample) (found []Problem) {
	var directors map[string]bool
	all := false
	if r.directors != nil {
		directors, all = r.directors()
	}
	own, waiting, matches := s.Values("tidemark_director", "queue"), s.Values("tidemark_tickets", "queue"),
		s.Values("tidemark_matches_total", "queue")
	known := s.Values("tidemark_tickets_created_total", "queue")
	maps.DeleteFunc(r.matched, func(queue string, _ lastMatch) bool { return !has(known, queue) })
	maps.DeleteFunc(r.began, func(p problem, _ time.Time) bool { return !has(known, p.about) })
	for queue := range known {
		key := problem{"", "TidemarkNoDirector", queue}
		if !all || own[queue] > 0 || directors[queue] || r.history.Sum(queue, "tickets", 2*pointsMinute) == 0 {
			delete(r.began, key)
		} else if _, known := r.began[key]; !known {
			r.began[key] = s.At
		} else if s.At.Sub(r.began[key]) >= time.Minute {
			found = append(found, Problem{Code: key.code, About: queue, Since: r.began[key],
				Text: "Tickets are created in the queue " + queue + ", and no server directs it."})
		}
		created, expired := r.history.Sum(queue, "tickets", points15), r.history.Sum(queue, "expired", points15)
		if expired >= 5 && expired > .2*created {
			found = append(found, Problem{Code: "TidemarkTicketsExpire", About: queue, Text: fmt.Sprintf(
				"%.0f tickets of the queue %s expired without a match in 15 minutes, in which %.0f were created.",
				expired, queue, created)})
		}
		last := r.matched[queue]
		if own[queue] == 0 || waiting[queue] < 2 || matches[queue] != last.matches || last.at.IsZero() {
			r.matched[queue] = lastMatch{at: s.At, matches: matches[queue]}
		} else if s.At.Sub(last.at) >= 5*time.Minute {
			found = append(found, Problem{Code: "TidemarkTicketsWait", About: queue, Since: last.at,
				Text: fmt.Sprintf("%.0f tickets wait in the queue %s, which has had no match for %d minutes.", waiting[queue],
					queue, int(s.At.Sub(last.at).Minutes()))})
		}
	}
	return found
}

func has(known map[string]float64, name string) bool {
	_, ok := known[name]
	return ok
}

// Values returns the sums of the metrics of a name by the value of a label.
func (s Sample) Values(name, label string) map[string]float64 {
	all := map[string]float64{}
	for _, m := range s.families[name] {
		all[labelOf(m, label)] += valueOf(m)
	}
	return all
}
