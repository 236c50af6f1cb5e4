package queues

// keys returns the keys of one queue. All have its name as their hash tag, so that they are in one slot of a cluster.
type keys struct {
	base string // "<prefix>mm.{<queue>}"
}

func keysOf(prefix, queue string) keys { return keys{base: prefix + "mm.{" + queue + "}"} }

// definitionsKey is the key of the definitions of queues that were put at run time.
func definitionsKey(prefix string) string { return prefix + "mm.queues" }

func (k keys) nudges() string              { return k.base }
func (k keys) feed() string                { return k.base + ".feed" }
func (k keys) assigned() string            { return k.base + ".assigned" }
func (k keys) waiting() string             { return k.base + ".allTickets" }
func (k keys) expiries() string            { return k.base + ".expiries" }
func (k keys) proposed() string            { return k.base + ".proposed_ticket_ids" }
func (k keys) claims() string              { return k.base + ".claims" }
func (k keys) changes() string             { return k.base + ".changes" }
func (k keys) listening() string           { return k.base + ".listening" }
func (k keys) outbox() string              { return k.base + ".outbox" }
func (k keys) matched() string             { return k.base + ".matched" }
func (k keys) stats() string               { return k.base + ".stats" }
func (k keys) director() string            { return k.base + ".director" }
func (k keys) backfills() string           { return k.base + ".backfills" }
func (k keys) backfill(id string) string   { return k.base + ".backfill." + id }
func (k keys) ticket(id string) string     { return k.base + ".ticket." + id }
func (k keys) assignment(id string) string { return k.base + ".assign." + id }
func (k keys) match(id string) string      { return k.base + ".match." + id }
