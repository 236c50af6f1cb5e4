package overview

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// Rules find problems in the metrics of this server, with the conditions of the alerts where a server alone can know
// them. One goroutine uses it.
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

// Check reports the problems of a sample.
func (r *Rules) Check(s Sample) {
	var found []Problem
	r.before, r.values = r.values, map[problem]float64{}
	eachAlert(func(a alert) {
		for _, rule := range a.rising {
			found = append(found, r.rising(s, a.name, rule)...)
		}
		if a.above != nil {
			found = append(found, a.above.find(s, a.name)...)
		}
	})
	found = append(found, times(s)...)
	found = append(found, r.requests()...)
	found = append(found, r.queues(s)...)
	r.to.Report("metrics", s.At, found)
}

func (rule *above) find(s Sample, code string) (found []Problem) {
	for _, m := range s.families[rule.metric] {
		if valueOf(m) > rule.limit {
			about := aboutOf(m, rule.about)
			found = append(found, Problem{Code: code, About: about, Text: textOf(rule.text, about)})
		}
	}
	return found
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

func (r *Rules) rising(s Sample, code string, rule rising) (found []Problem) {
	for _, m := range s.families[rule.metric] {
		about := aboutOf(m, rule.about)
		if !rule.only.selects(labelOf(m, rule.only.label)) || s.has(rule.unless, rule.about, about) {
			continue
		}
		key, now := problem{rule.metric, code, about}, valueOf(m)
		before, ok := r.before[key]
		r.values[key] = now
		events := r.counts[key]
		if now > before && (ok || r.history.count() > 0) {
			events = append(events, counted{at: s.At, by: now - before})
		}
		events = slices.DeleteFunc(events, func(c counted) bool { return s.At.Sub(c.at) > rule.within })
		if r.counts[key] = events; len(events) == 0 {
			delete(r.counts, key)
			continue
		}
		sum := 0.0
		for _, e := range events {
			sum += e.by
		}
		if sum > rule.more {
			text := fmt.Sprintf("%s (%.0f in the last %d minutes)", strings.TrimSuffix(textOf(rule.text, about), "."), sum,
				int(rule.within.Minutes()))
			if rule.remedy != "" {
				text += ". " + rule.remedy
			}
			found = append(found, Problem{Code: code, About: about, Text: text, Since: events[0].at})
		}
	}
	return found
}

// times finds what is too old, or ends soon.
func times(s Sample) (found []Problem) {
	at := func(m *dto.Metric) time.Time { return time.Unix(int64(valueOf(m)), 0) }
	for _, m := range s.families["tidemark_certificate_not_after_timestamp_seconds"] {
		if remaining := at(m).Sub(s.At); remaining < CertificateNotice {
			p := Problem{Code: "TidemarkCertificateExpires", About: labelOf(m, "file")}
			if p.Text = fmt.Sprintf("The certificate %s expires on %s.", p.About, at(m).UTC().Format(time.DateTime)); remaining <= 0 {
				p.Text = fmt.Sprintf("The certificate %s expired on %s.", p.About, at(m).UTC().Format(time.DateTime))
			}
			if remaining < 3*24*time.Hour {
				p.Critical = true
			}
			found = append(found, p)
		}
	}
	for _, m := range s.families[keysFetched] {
		if s.At.Sub(at(m)) > tokenKeysAge {
			about := labelOf(m, "source")
			found = append(found, Problem{Code: "TidemarkTokenKeysOld", About: about,
				Text: "The keys of users' tokens could not be fetched for an hour: " + about + "."})
		}
	}
	for _, m := range s.families["tidemark_access_current_timestamp_seconds"] {
		if s.At.Sub(at(m)) > accessAge {
			found = append(found, Problem{Code: "TidemarkAccessOld",
				Text: "The server doesn't see new API keys and revocations."})
		}
	}
	return append(found, losses(s)...)
}

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

// points returns the number of points in a time.
func points(d time.Duration) int { return int(d / Interval) }

// requests finds that requests fail, or are refused, more often than usual.
func (r *Rules) requests() (found []Problem) {
	failed := 0.0
	for _, code := range []string{"500", "502", "503", "504", "507"} {
		failed += r.history.SumErrors(code, points(requestsWithin))
	}
	if all := r.history.SumService("requests", points(requestsWithin)); failed >= 10 && failed > failedShare*all {
		found = append(found, Problem{Code: "TidemarkRequestsFail",
			Text: fmt.Sprintf("%.0f of %.0f requests failed in the last 5 minutes.", failed, all)})
	}
	if refused := r.history.SumErrors("401", points(requestsWithin)); refused > 300 {
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
	queues := s.Values("tidemark_tickets_created_total", "queue")
	maps.DeleteFunc(r.matched, func(queue string, _ lastMatch) bool { return !has(queues, queue) })
	maps.DeleteFunc(r.began, func(p problem, _ time.Time) bool { return !has(queues, p.about) })
	for queue := range queues {
		key := problem{"", "TidemarkNoDirector", queue}
		if !all || own[queue] > 0 || directors[queue] || r.history.Sum(queue, "tickets", points(ticketsSeenWithin)) == 0 {
			delete(r.began, key)
		} else if _, ok := r.began[key]; !ok {
			r.began[key] = s.At
		} else if s.At.Sub(r.began[key]) >= directorMissing {
			found = append(found, Problem{Code: key.code, About: queue, Since: r.began[key],
				Text: "Tickets are created in the queue " + queue + ", and no server directs it."})
		}
		created, expired := r.history.Sum(queue, "tickets", points(expiredWithin)), r.history.Sum(queue, "expired", points(expiredWithin))
		if expired >= 5 && expired > expiredShare*created {
			found = append(found, Problem{Code: "TidemarkTicketsExpire", About: queue, Text: fmt.Sprintf(
				"%.0f tickets of the queue %s expired without a match in 15 minutes, in which %.0f were created.",
				expired, queue, created)})
		}
		last := r.matched[queue]
		if own[queue] == 0 || waiting[queue] < 2 || matches[queue] != last.matches || last.at.IsZero() {
			r.matched[queue] = lastMatch{at: s.At, matches: matches[queue]}
		} else if s.At.Sub(last.at) >= ticketsWaitMax {
			found = append(found, Problem{Code: "TidemarkTicketsWait", About: queue, Since: last.at,
				Text: fmt.Sprintf("%.0f tickets wait in the queue %s, which has had no match for %d minutes.", waiting[queue],
					queue, int(s.At.Sub(last.at).Minutes()))})
		}
	}
	return found
}

func has(queues map[string]float64, name string) bool {
	_, ok := queues[name]
	return ok
}

// has reports whether a metric has these values of labels.
func (s Sample) has(metric string, labels []string, about string) bool {
	return slices.ContainsFunc(s.families[metric], func(m *dto.Metric) bool { return aboutOf(m, labels) == about })
}

// Values returns the sums of the metrics of a name by the value of a label.
func (s Sample) Values(name, label string) map[string]float64 {
	all := map[string]float64{}
	for _, m := range s.families[name] {
		all[labelOf(m, label)] += valueOf(m)
	}
	return all
}
