package records

import "time"

// Others are the kinds of keys that channels, tickets, leases, API keys, shards and the service itself have, for
// diagnostics. docs/redis describes the keys. Their stores make the keys; names in them need no encoding.
var Others = []*Kind{
	other("channel-clock", "c.{<channel>}.clock", String, ""),
	other("channel-epoch", "c.{<channel>}.epoch", String, ""),
	other("channel-mark", "c.{<channel>}.r.<subscriber>", String, ""),
	other("channel-message", "c.{<channel>}.m.<clock>", String, ""),
	other("channel-message-id", "c.{<channel>}.mid.<id>", String, ""),
	other("channel-subscribers", "c.{<channel>}.subs", Set, ""),
	other("channel-producers", "c.{<channel>}.producers", Hash, ""),
	other("channel-label", "c.{<channel>}.label", String, ""),
	other("channel-purged", "c.{<channel>}.purged", String, ""),
	other("channel-deleted", "c.{<channel>}.deleted", String, ""),
	other("receipt-key", "tidemark.receipt-key", String, "the servers share it"),
	other("configurations", "tidemark.configurations", Hash, ""),
	other("ready", "tidemark.ready.{<server>}.check", String, ""),
	other("lease", "lease.{<name>}.holder", String, ""),
	other("api-keys", "access.{registry}.keys", Hash, "an API key is accepted until it is deleted"),
	other("revocations", "access.{registry}.revocations", Hash, ""),
	other("access-ends", "access.{registry}.ends", SortedSet, "needed to remove what ends"),
	other("access-changes", "access.{registry}.changes", Stream, ""),
	other("quota", "access.quota.{<owner>}.<quota>", String, ""),
	other("queue-definitions", "mm.queues", Hash, "a queue exists until it is deleted"),
	other("queue-tickets", "mm.{<queue>}.allTickets", SortedSet, ""),
	other("queue-expiries", "mm.{<queue>}.expiries", SortedSet, ""),
	other("queue-proposed", "mm.{<queue>}.proposed_ticket_ids", SortedSet, ""),
	other("queue-claims", "mm.{<queue>}.claims", Hash, ""),
	other("queue-listening", "mm.{<queue>}.listening", Set, ""),
	other("queue-outbox", "mm.{<queue>}.outbox", Stream, ""),
	other("queue-changes", "mm.{<queue>}.changes", Stream, ""),
	other("queue-matched", "mm.{<queue>}.matched", Stream, ""),
	other("queue-stats", "mm.{<queue>}.stats", Hash, ""),
	other("queue-director", "mm.{<queue>}.director", String, ""),
	other("queue-backfills", "mm.{<queue>}.backfills", SortedSet, ""),
	other("ticket", "mm.{<queue>}.ticket.<id>", String, ""),
	other("assignment", "mm.{<queue>}.assign.<id>", String, ""),
	other("match", "mm.{<queue>}.match.<match>", String, ""),
	other("backfill", "mm.{<queue>}.backfill.<id>", Hash, ""),
	other("shard-dcs", "sc.{<cache>}.dcs", Set, "a data centre is kept until it is removed"),
	other("shard-layout", "sc.{<cache>}.layout.<dc>", Hash, "a layout is kept until its data centre is removed"),
	other("shard-holders", "sc.{<cache>}.shards.<dc>", Hash, ""),
}

// other returns a kind whose bounds are those of options. why is empty if its keys have a TTL.
func other(name, pattern string, of Type, why string) *Kind {
	k := Kind{Name: name, Pattern: pattern, Type: of, Why: why, MaxBytes: 1 << 30, Instance: Records}
	if why == "" {
		k.TTL = 20 * 365 * 24 * time.Hour // twice the longest that an option can be
	}
	return compile(k)
}
