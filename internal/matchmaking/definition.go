package matchmaking

import "time"

// DefaultQueue is the queue that exists without configuration, for clients that name no queue.
const DefaultQueue = "default"

// Definition is the configuration of a queue. It has the same keys in the service's configuration, as YAML, and in PUT
// /v1/queues/{queue}, as JSON. [ParseDefinition] sets defaults.
type Definition struct {
	Name    string `json:"-"`
	RunTime bool   `json:"-"` // set at run time, perhaps not by the operator: restricted to allowed hosts
	// Director names the director of the queue; empty: the service, so that a definition for it is the same for all
	// versions of the service. If that is the user, Match, Profile, Assigner and Heartbeat are zero;
	// otherwise BackfillTTL, RegistrationInterval, ProposalCollectionInterval and MaxBackfills are.
	Director  Director `json:"director,omitempty"`
	Match     Match    `json:"match,omitzero"`
	Profile   Profile  `json:"profile"`
	Evaluator Caller   `json:"evaluator"` // kinds: decollide (the default), grpc, http
	Assigner  AssignBy `json:"assigner,omitzero"`
	// TicketTTL is the longest life of a ticket, and the default; Unlimited is allowed if the director is the user.
	TicketTTL Duration `json:"ticketTTL"`
	// PendingTimeout is the duration of a claim on tickets, and so bounds the duration of an allocation.
	PendingTimeout Duration `json:"pendingTimeout"`
	// AssignmentTTL is the time for which an assignment, or a cancelled or expired ticket, can be read. Unlimited is
	// allowed if TicketTTL is.
	AssignmentTTL Duration `json:"assignmentTTL"`
	// Heartbeat is the time that a ticket stays in the queue without a poll or watch of its player; 0: its whole life.
	Heartbeat Duration `json:"heartbeat"`
	// BackfillTTL is the life of a backfill without an acknowledgement.
	BackfillTTL Duration `json:"backfillTTL,omitzero"`
	// RegistrationInterval is how long a cycle of FetchMatches waits for further calls, and ProposalCollectionInterval
	// how long it waits for proposals after that; 0, both: it waits for no call, and for all functions to end.
	RegistrationInterval       Duration `json:"registrationInterval,omitzero"`
	ProposalCollectionInterval Duration `json:"proposalCollectionInterval,omitzero"`
	Reveal                     Reveal   `json:"reveal"`
	// Channel is whether each ticket has a channel; nil: those that are created over Open Match's API have none, nor do
	// those of a queue that is directed by its user.
	Channel *bool `json:"channel,omitempty"`
	Limits
}

// ByUser reports whether the queue is directed by its user.
func (d *Definition) ByUser() bool { return d.Director == DirectorUser }

// HasChannels reports whether tickets of the queue can have channels. Such tickets live no longer than their channels.
func (d *Definition) HasChannels() bool {
	if d.Channel != nil {
		return *d.Channel
	}
	return !d.ByUser()
}

// TicketLife returns how long a ticket can be read: it waits, and is then assigned or has ended.
func (d *Definition) TicketLife() time.Duration { return d.TicketTTL.Std() + d.AssignmentTTL.Std() }

// Reveal selects the other tickets of the match whose IDs an assignment contains.
type Reveal string

// The values of Reveal.
const (
	RevealNone      Reveal = "none"
	RevealTeammates Reveal = "teammates" // tickets of the same team
	RevealOpponents Reveal = "opponents" // tickets of the same team, and of the other teams
)

// Limits are the limits of a queue on its tickets.
type Limits struct {
	MaxTickets     int `json:"maxTickets"`     // waiting tickets; 0: no limit
	MaxTicketBytes int `json:"maxTicketBytes"` // of a ticket's Spec, or a backfill's, as the store encodes it
	// MaxBackfills is the limit of backfills of a queue that is directed by its user.
	MaxBackfills int `json:"maxBackfills,omitzero"`
}

// Match configures how matches are proposed.
type Match struct {
	Function MatchKind `json:"function"`
	Teams    int       `json:"teams"`    // of a match, unless its tickets say otherwise
	TeamSize int       `json:"teamSize"` // of a team, unless its tickets say otherwise
	// Acceptance, Weights and Widen apply to MatchCriteria.
	Acceptance Acceptance         `json:"acceptance"`
	Weights    map[string]float64 `json:"weights"`
	Widen      []Widening         `json:"widen"`
	// URL and Timeout apply to MatchHTTP and MatchGRPC.
	URL     string   `json:"url"`
	Timeout Duration `json:"timeout"`
	// FetchLimit is the maximum number of tickets of a pool in a call of MatchHTTP; 0: no limit.
	FetchLimit int `json:"fetchLimit"`
	// Debounce is the longest pause between two rounds under load, to collect tickets.
	Debounce Duration `json:"debounce"`
}

// MatchKind is the kind of a match function.
type MatchKind string

// The match functions.
const (
	MatchFirstCome MatchKind = "first-come" // teams of n, the oldest tickets first
	MatchCriteria  MatchKind = "criteria"   // tickets that accept each other, best score first
	MatchHTTP      MatchKind = "http"       // an operator's service, called over HTTP
	MatchGRPC      MatchKind = "grpc"       // an operator's service with Open Match's MatchFunction API
)

// Acceptance selects the tickets whose criteria must hold.
type Acceptance string

// The values of Acceptance.
const (
	AcceptMutual   Acceptance = "mutual"    // two tickets must accept each other
	AcceptOneSided Acceptance = "one-sided" // one ticket of a match, of any age, must accept the others
)

// Widening widens the criteria of a ticket after a waiting time. Steps add up.
type Widening struct {
	After Duration           `json:"after"`
	By    map[string]float64 `json:"by"` // by criterion name: by how much both ends are widened
}

// Profile selects the tickets that are matched with each other. Without pools it selects all tickets of the queue.
type Profile struct {
	Name  string `json:"name"`
	Pools []Pool `json:"pools"`
}

// Pool is the tickets that pass all of its filters.
type Pool struct {
	Name          string         `json:"name"`
	DoubleRanges  []DoubleRange  `json:"doubleRangeFilters"`
	StringEquals  []StringEquals `json:"stringEqualsFilters"`
	TagsPresent   []TagPresent   `json:"tagPresentFilters"`
	CreatedBefore time.Time      `json:"createdBefore,omitzero"`
	CreatedAfter  time.Time      `json:"createdAfter,omitzero"`
}

// DoubleRange is a filter for tickets with a number in a range. No range contains NaN.
type DoubleRange struct {
	DoubleArg string  `json:"doubleArg"`
	Min       float64 `json:"min"`
	Max       float64 `json:"max"`
	Exclude   Exclude `json:"exclude"`
}

// Exclude selects the ends that are excluded from a range.
type Exclude string

// The values of Exclude. The empty value is ExcludeNone.
const (
	ExcludeNone Exclude = "NONE"
	ExcludeMin  Exclude = "MIN"
	ExcludeMax  Exclude = "MAX"
	ExcludeBoth Exclude = "BOTH"
)

// StringEquals is a filter for tickets with a string field of a given value.
type StringEquals struct {
	StringArg string `json:"stringArg"`
	Value     string `json:"value"`
}

// TagPresent is a filter for tickets with a tag.
type TagPresent struct {
	Tag string `json:"tag"`
}

// Caller is a part of a queue that may be an operator's service.
type Caller struct {
	Kind    string   `json:"kind"`
	URL     string   `json:"url"`
	Timeout Duration `json:"timeout"`
}

// AssignBy configures the allocation of game servers for a queue's matches.
type AssignBy struct {
	Kind AssignerKind `json:"kind"`
	// Connection is the template for AssignStatic, in which {match} and {queue} are replaced.
	Connection string `json:"connection"`
	// URL applies to AssignWebhook and AssignAgones.
	URL string `json:"url"`
	// Secret signs the calls of AssignWebhook; SecretFile is the name of a file that contains it. At most one is set.
	Secret     string `json:"secret"`
	SecretFile string `json:"secretFile"`
	// Timeout limits one call; an allocation is retried until the claim's deadline is near.
	Timeout Duration `json:"timeout"`
	// Namespace, Selector and TokenFile apply to AssignAgones.
	Namespace string            `json:"namespace"`
	Selector  map[string]string `json:"selector"`
	TokenFile string            `json:"tokenFile"`
}

// AssignerKind is the kind of an assigner.
type AssignerKind string

// The assigners.
const (
	AssignStatic  AssignerKind = "static"
	AssignWebhook AssignerKind = "webhook"
	AssignAgones  AssignerKind = "agones"
)

// Defaults of a definition.
const (
	DefaultTicketTTL      = 10 * time.Minute
	DefaultPendingTimeout = time.Minute
	DefaultAssignmentTTL  = time.Minute
	DefaultDebounce       = 5 * time.Millisecond
	DefaultFetchLimit     = 10_000 // tickets
	DefaultCallTimeout    = 5 * time.Second
	DefaultMaxTickets     = 100_000
	DefaultMaxBackfills   = 100_000
	DefaultMaxTicketBytes = 1 << 20
	MinLifetime           = 200 * time.Millisecond // of each lifetime in a definition
)

// Parts are the parts that a definition configures, built for one director.
type Parts struct {
	Matcher   Matcher
	Evaluator Evaluator
	Assigner  Assigner
	// Fields are the ticket fields that these parts read, FieldsMatching or more: a director keeps only these in
	// memory. Zero: FieldsAll.
	Fields Fields
}

// Build builds the parts of a queue. It is called to validate each definition that is put or configured, and again for
// each director. Errors: fault.SlugInvalidQueue.
type Build func(d Definition) (Parts, error)
