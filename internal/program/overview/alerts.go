package overview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/client"
)

// alert is a condition that an operator has to know of. This table has all of them: Prometheus evaluates expressions
// over all servers (TestAlerts writes deploy/prometheus/rules.yaml), a server evaluates the parts of it that it can
// know on its own metrics, and shows what it finds as problems. docs/runbook.md has a section for each, whose head
// TestRunbookHeads writes.
type alert struct {
	name     string
	severity client.Severity
	lasts    time.Duration // how long the condition must hold; 0: not at all
	summary  string

	// A server checks what has rising or above; the code of Rules checks the others, if any.
	rising []rising // counters that should stand still
	above  *above
	// expr is the condition for Prometheus, of alerts without rising and above.
	expr string
}

// rising is a counter that should stand still.
type rising struct {
	metric string
	text   string   // %s is the values of its labels, if it has any
	remedy string   // a sentence that follows the text
	about  []string // labels
	only   matcher  // only these metrics
	unless string   // not those that have such a metric with the same labels, too
	within time.Duration
	more   float64 // than so many increases; 0: any
	shared bool    // what it is about isn't a server's own: increases of all servers are added up
}

// above is a gauge that should not exceed a limit.
type above struct {
	metric string
	text   string
	about  []string
	limit  float64
}

// matcher selects metrics by a label.
type matcher struct {
	label  string
	values []string
	not    bool // those with another value
}

func (m matcher) selects(value string) bool {
	return m.label == "" || slices.Contains(m.values, value) != m.not
}

func (m matcher) String() string {
	if m.label == "" {
		return ""
	}
	operator := "="
	switch several := len(m.values) > 1; {
	case m.not && several:
		operator = "!~"
	case m.not:
		operator = "!="
	case several:
		operator = "=~"
	}
	return fmt.Sprintf("{%s%s%q}", m.label, operator, strings.Join(m.values, "|"))
}

// CertificateNotice is how long before its end a certificate has to be renewed.
const CertificateNotice = 14 * 24 * time.Hour

// The limits that a server's checks and expressions share.
const (
	tokenKeysAge      = time.Hour
	accessAge         = time.Minute
	lossShown         = time.Hour // an operator has to learn of a loss, and can't repair it
	failedShare       = .05
	expiredShare      = .2
	ticketsWaitMax    = 5 * time.Minute
	directorMissing   = time.Minute
	unready           = 2 * time.Minute // also how long a critical problem without an alert must last
	expiredWithin     = 15 * time.Minute
	requestsWithin    = 5 * time.Minute
	ticketsSeenWithin = 2 * time.Minute
)

const (
	warning  = client.SeverityWarning
	critical = client.SeverityCritical
)

// alerts has all alerts, by their groups in Prometheus.
var alerts = []struct {
	group  string
	alerts []alert
}{
	{"service", serviceAlerts}, {"channels", channelAlerts}, {"redis", redisAlerts},
	{"matchmaking", matchmakingAlerts}, {"shards", shardAlerts},
}

// eachAlert calls do with each alert.
func eachAlert(do func(alert)) {
	for _, g := range alerts {
		for _, a := range g.alerts {
			do(a)
		}
	}
}

var serviceAlerts = []alert{
	{name: "TidemarkDown", severity: critical, lasts: 2 * time.Minute,
		summary: "Prometheus cannot scrape a server", expr: `up{job=~"tidemark.*"} == 0`},
	{name: "TidemarkRequestsFail", severity: critical, lasts: 5 * time.Minute,
		summary: "More than 5 % of a server's requests fail",
		expr: fmt.Sprintf(`sum by (instance, job) (rate(tidemark_http_requests_total`+
			`{code=~"5..",code!="501",route!~"/readyz|/healthz"}[%[1]s]))
  / sum by (instance, job) (rate(tidemark_http_requests_total[%[1]s])) > %[2]v`, promDuration(requestsWithin), failedShare)},
	{name: "TidemarkNotReady", severity: critical, lasts: unready,
		summary: "A server has been unready for longer than a failover takes",
		expr:    `sum by (instance, job) (rate(tidemark_http_requests_total{route="/readyz",code="503"}[2m])) > 0`},
	{name: "TidemarkConnectionsRefused", severity: warning,
		summary: "A server refuses connections, or closes those that are not in use",
		rising: []rising{{metric: "tidemark_http_connections_refused_total", within: 5 * time.Minute,
			text: "Connections are refused, because too many are open."}}},
	{name: "TidemarkAnswersRefused", severity: warning, lasts: 5 * time.Minute,
		summary: "Answers are refused because clients don't read theirs",
		rising: []rising{{metric: "tidemark_unread_answers_total",
			only: matcher{label: "outcome", values: []string{"refused"}}, within: 10 * time.Minute,
			text: "Answers are refused, because clients don't read theirs."}}},
	{name: "TidemarkLogLinesLost", severity: warning, summary: "Lines of the log are lost",
		rising: []rising{{metric: "tidemark_log_lines_lost_total", within: 10 * time.Minute,
			text: "Lines of the log are lost."}}},
	{name: "TidemarkConfigurationsDiffer", severity: warning, lasts: 10 * time.Minute,
		summary: "Servers on one Redis are configured differently",
		above: &above{metric: "tidemark_configuration_differences", about: []string{"of"},
			text: "Servers on this Redis are configured differently: their %s."}},
	{name: "TidemarkReloadRefused", severity: warning,
		summary: "A server refused to reload its configuration",
		rising: []rising{{metric: "tidemark_reloads_total",
			only: matcher{label: "result", values: []string{"refused"}}, within: 15 * time.Minute,
			text: "The server refused to reload its configuration."}}},
	{name: "TidemarkVersionsDiffer", severity: warning, lasts: time.Hour,
		summary: "Servers have had different versions for an hour",
		expr:    `count by (job) (count by (job, version) (tidemark_build_info)) > 1`},
	{name: "TidemarkCertificateExpires", severity: warning, lasts: time.Hour,
		summary: "A server's certificate expires within 14 days",
		expr: fmt.Sprintf("tidemark_certificate_not_after_timestamp_seconds - time() < %.0f",
			CertificateNotice.Seconds())},
	{name: "TidemarkTokenKeysOld", severity: warning, lasts: 5 * time.Minute,
		summary: "The keys of users' tokens could not be fetched for an hour",
		expr:    fmt.Sprintf("time() - %s > %.0f", keysFetched, tokenKeysAge.Seconds())},
	{name: "TidemarkTokenKeyFilesFail", severity: warning,
		summary: "A changed file of keys of tokens cannot be read",
		rising: []rising{{metric: "tidemark_jwt_key_failures_total", about: []string{"source"}, within: 15 * time.Minute,
			unless: keysFetched, text: "The keys that verify users' tokens cannot be read from %s."}}},
	{name: "TidemarkAccessOld", severity: critical, lasts: 2 * time.Minute,
		summary: "A server does not see new API keys and revocations",
		expr:    fmt.Sprintf("time() - tidemark_access_current_timestamp_seconds > %.0f", accessAge.Seconds())},
}

// keysFetched is a metric of each URL of keys, and of no file.
const keysFetched = "tidemark_jwt_keys_fetched_timestamp_seconds"

var channelAlerts = []alert{
	{name: "TidemarkMessagesExpire", severity: warning, lasts: 5 * time.Minute,
		summary: "Messages expire before a subscriber fetches them",
		rising: []rising{{metric: "tidemark_messages_expired_total", within: 10 * time.Minute,
			text: "Messages expired before a subscriber fetched them."}}},
	{name: "TidemarkMessagesDamaged", severity: critical,
		summary: "Stored messages cannot be read any more",
		rising: []rising{{metric: "tidemark_messages_damaged_total", within: 10 * time.Minute,
			text: "Stored messages can't be read any more, and subscribers skip them."}}},
	{name: "TidemarkSubscriberLags", severity: warning, lasts: 10 * time.Minute,
		summary: "A subscriber is more than 1,000 messages behind",
		above: &above{metric: "tidemark_subscriber_lag_messages", about: []string{"channel", "subscriber"}, limit: 1000,
			text: "A subscriber is more than 1,000 messages behind: %s."}},
	{name: "TidemarkLagsIncomplete", severity: warning, lasts: 30 * time.Minute,
		summary: "The lag of some subscribers is not measured",
		above: &above{metric: "tidemark_subscriber_lag_incomplete",
			text: "The lag of some subscribers is not measured."}},
	{name: "TidemarkStreamsCut", severity: warning, lasts: 5 * time.Minute,
		summary: "Streams are cut off because clients read too slowly",
		rising: []rising{{metric: "tidemark_streams_cut_total", about: []string{"transport"}, within: 10 * time.Minute,
			more: 10, text: "Streams (%s) are cut off, because their clients read too slowly."}}},
	{name: "TidemarkCopiesLate", severity: warning, lasts: 5 * time.Minute,
		summary: "Messages wait for more than a minute to be copied to followers",
		above: &above{metric: "tidemark_copies_lag_seconds", limit: 60,
			text: "Messages wait for more than a minute to be copied to followers."}},
}

var redisAlerts = []alert{
	{name: "TidemarkRedisFails", severity: critical, lasts: 2 * time.Minute,
		summary: "Operations on Redis fail",
		rising: []rising{{metric: "tidemark_redis_failures_total", about: []string{"redis", "code"},
			only: matcher{label: "code", values: []string{"MISCONF", "OOM"}, not: true}, within: 5 * time.Minute,
			text: "Operations on Redis fail: %s."}}},
	{name: "TidemarkRedisFull", severity: critical, summary: "Redis is full: publishes fail with 507",
		rising: []rising{{metric: "tidemark_redis_failures_total", about: []string{"redis"},
			only: matcher{label: "code", values: []string{"OOM"}}, within: 5 * time.Minute,
			text:   "The Redis of %s is full: publishes fail with 507.",
			remedy: "Raise its maxmemory, or store less."}}},
	{name: "TidemarkRedisDiskFails", severity: critical, summary: "Redis cannot write to its disk: it refuses all writes",
		rising: []rising{{metric: "tidemark_redis_failures_total", about: []string{"redis"},
			only: matcher{label: "code", values: []string{"MISCONF"}}, within: 5 * time.Minute,
			text:   "The Redis of %s can't write to its disk, and refuses all writes.",
			remedy: "Free disk space, or repair its directory: its log has the cause."}}},
	{name: "TidemarkRedisUnsteady", severity: warning, lasts: 10 * time.Minute,
		summary: "Subscriptions to Redis are interrupted again and again",
		rising: []rising{{metric: "tidemark_redis_listen_interruptions_total", about: []string{"redis"},
			within: 10 * time.Minute, more: 5,
			text: "Subscriptions to the Redis of %s are interrupted again and again."}}},
	{name: "TidemarkRedisLostWrites", severity: critical,
		summary: "Redis failed over and may have lost writes that were answered",
		expr:    fmt.Sprintf("time() - tidemark_redis_lost_until_timestamp_seconds < %.0f", lossShown.Seconds())},
	{name: "TidemarkReceiptKeysLost", severity: warning,
		summary: "The receipt keys were missing in Redis",
		rising: []rising{{metric: "tidemark_redis_receipt_key_changes_total", about: []string{"redis"},
			only: matcher{label: "change", values: []string{"restored"}}, within: 15 * time.Minute,
			text: "The receipt keys were missing in the Redis of %s."}}},
	{name: "TidemarkKeysWithoutTTL", severity: warning, lasts: 30 * time.Minute,
		summary: "Temporary keys have no TTL, so Redis fills up",
		above: &above{metric: "tidemark_keys_without_ttl", about: []string{"redis", "kind"},
			text: "Temporary keys have no TTL: %s."}},
}

var matchmakingAlerts = []alert{
	{name: "TidemarkNoDirector", severity: critical, lasts: directorMissing,
		summary: "Tickets are created, and no server directs their queue",
		expr: fmt.Sprintf(`sum by (job, queue) (rate(tidemark_tickets_created_total[%s])) > 0
  unless on (job, queue) sum by (job, queue) (tidemark_director) > 0`, promDuration(ticketsSeenWithin))},
	{name: "TidemarkAllocationsFail", severity: critical, lasts: 5 * time.Minute,
		summary: "No game server is found for matches",
		rising: []rising{{metric: "tidemark_allocation_errors_total", about: []string{"queue"}, shared: true,
			within: 5 * time.Minute, text: "No game server is found for matches of the queue %s."}}},
	{name: "TidemarkMatchFunctionFails", severity: warning, lasts: 5 * time.Minute,
		summary: "A match function or evaluator fails, or its proposals are refused",
		rising: []rising{
			{metric: "tidemark_match_function_errors_total", about: []string{"queue"}, shared: true,
				within: 5 * time.Minute, text: "The match function or evaluator of the queue %s fails."},
			{metric: "tidemark_proposals_refused_total", about: []string{"queue"}, shared: true,
				within: 5 * time.Minute, text: "Proposals of the match function or evaluator of the queue %s are refused."},
		}},
	{name: "TidemarkTicketsWait", severity: warning, lasts: 10 * time.Minute,
		summary: "One player in twenty waits for more than five minutes",
		expr: fmt.Sprintf("histogram_quantile(0.95, sum by (job, queue, le) "+
			"(rate(tidemark_ticket_wait_seconds_bucket[10m]))) > %.0f", ticketsWaitMax.Seconds())},
	{name: "TidemarkAssignmentsLate", severity: warning, lasts: 5 * time.Minute,
		summary: "Assignments reach the channels of their players late",
		expr: "histogram_quantile(0.99, sum by (job, queue, le) " +
			"(rate(tidemark_relay_lag_seconds_bucket[5m]))) > 5"},
	{name: "TidemarkTicketsExpire", severity: warning, lasts: 15 * time.Minute,
		summary: "More than a fifth of the tickets expire without a match",
		expr: fmt.Sprintf(`sum by (job, queue) (rate(tidemark_tickets_expired_total[%[1]s]))
  > %[2]v * sum by (job, queue) (rate(tidemark_tickets_created_total[%[1]s]))`, promDuration(expiredWithin), expiredShare)},
}

var shardAlerts = []alert{
	{name: "TidemarkShardsMissing", severity: warning, lasts: 5 * time.Minute,
		summary: "Fewer shards of a data centre are served than in the last six hours",
		expr: `sum by (job, cache, dc) (tidemark_shard_node_serving)
  < max_over_time(sum by (job, cache, dc) (tidemark_shard_node_serving)[6h:1m])`},
	{name: "TidemarkShardReadsFail", severity: warning, lasts: 10 * time.Minute,
		summary: "Nodes do not answer reads in time, which go to Redis",
		rising: []rising{{metric: "tidemark_shard_reads_total", about: []string{"cache"}, shared: true,
			only: matcher{label: "outcome", values: []string{"failed"}}, within: 5 * time.Minute,
			text: "Nodes don't answer reads of the cache %s in time, which go to Redis."}}},
	{name: "TidemarkShardNodeBehind", severity: warning, lasts: 5 * time.Minute,
		summary: "A node answers with values that are more than 30 s old",
		expr:    "tidemark_shard_node_behind_seconds > 30"},
	{name: "TidemarkShardNodeFull", severity: warning, lasts: 10 * time.Minute,
		summary: "Values of a shard do not fit into its node's memory",
		expr:    "tidemark_shard_node_entries_left_out > 0"},
}

// criticalAfter has, for each critical alert, how long its condition must hold.
var criticalAfter = func() map[string]time.Duration {
	after := map[string]time.Duration{}
	eachAlert(func(a alert) {
		if a.severity == critical {
			after[a.name] = a.lasts
		}
	})
	return after
}()

// expression returns the condition for Prometheus.
func (a alert) expression() string {
	switch {
	case a.above != nil:
		return fmt.Sprintf("max by (%s) (%s) > %v", strings.Join(append([]string{"job"}, a.above.about...), ", "),
			a.above.metric, a.above.limit)
	case len(a.rising) > 0:
		sums := make([]string, len(a.rising))
		for i, r := range a.rising {
			sums[i] = fmt.Sprintf("sum by (%s) (increase(%s%s[%s]))", r.labels(), r.metric, r.only, promDuration(r.within))
		}
		first := a.rising[0]
		expr := fmt.Sprintf("%s > %v", strings.Join(sums, " + "), first.more)
		if first.unless != "" {
			expr += fmt.Sprintf(" unless on (%s) %s", first.labels(), first.unless)
		}
		return expr
	default:
		return a.expr
	}
}

func (r rising) labels() string {
	labels := []string{"instance", "job"}
	if r.shared {
		labels = []string{"job"}
	}
	return strings.Join(append(labels, r.about...), ", ")
}

// promDuration returns a duration as PromQL and the rules' "for" write it.
func promDuration(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dm", d/time.Minute)
}
