package matchmaking

import "time"

// DefaultQueue is the queue that exists without configuration, for clients that name no queue.
const DefaultQueue = "default"

// Definition is what a queue does. It has the same keys in the service's configuration, as YAML, and in
// PUT /v1/queues/{queue}, as JSON. [ParseDefinition] sets defaults.
type Definition struct {
	Name      string   `json:"-"`
	RunTime   bool     `json:"-"` // it was put at run time, perhaps not by the operator: only hosts that the operator allows are called
	Match     Match    `json:"match"`
	Profile   Profile  `json:"profile"`
	Evaluator Caller   `json:"evaluator"` // kinds: decollide (the default), grpc, http
	Assigner  AssignBy `json:"assigner"`
	TicketTTL Duration `json:"ticketTTL"` // the longest life of a ticket, and the default
	// PendingTimeout is how long a claim holds tickets, which bounds how long an allocation can take.
	PendingTimeout Duration `json:"pendingTimeout"`
	// AssignmentTTL is how long an assignment, and a ticket that was cancelled or has expired, can be read.
	AssignmentTTL Duration `json:"assignmentTTL"`
	// Heartbeat is how long a ticket stays in the queue while its player doesn't poll or watch; 0: for its whole life.
	Heartbeat Duration `json:"heartbeat"`
	Reveal    Reveal   `json:"reveal"`
	Limits
}

// Reveal is which other tickets of the match an assignment contains, by their IDs.
type Reveal string

// The choices of Reveal.
const (
	RevealNone      Reveal = "none"
	RevealTeammates Reveal = "teammates" // those of the team
	RevealOpponents Reveal = "opponents" // those of the team, and those of the other teams
)

// Limits bounds what a queue accepts.
type Limits struct {
	MaxTickets     int `json:"maxTickets"`     // that wait at a time; 0: no limit
	MaxTicketBytes int `json:"maxTicketBytes"` // of a ticket's Spec, as the store encodes it
}

// Match is how matches are proposed.
type Match struct {
	Function MatchKind `json:"function"`
	Teams    int       `json:"teams"`    // of a match, unless its tickets say otherwise
	TeamSize int       `json:"teamSize"` // of a team, unless its tickets say otherwise
	// Acceptance, Weights and Widen are for MatchCriteria.
	Acceptance Acceptance         `json:"acceptance"`
	Weights    map[string]float64 `json:"weights"`
	Widen      []Widening         `json:"widen"`
	// URL and Timeout are for MatchHTTP and MatchGRPC.
	URL     string   `json:"url"`
	Timeout Duration `json:"timeout"`
	// FetchLimit is how many tickets of a pool MatchHTTP is given at most; 0: no limit.
	FetchLimit int `json:"fetchLimit"`
	// Debounce is the longest pause between two rounds under load, in which tickets gather.
	Debounce Duration `json:"debounce"`
}

// MatchKind is the kind of a match function.
type MatchKind string

// The match functions.
const (
	MatchFirstCome MatchKind = "first-come" // teams of n, the oldest tickets first
	MatchCriteria  MatchKind = "criteria"   // tickets that accept each other, the fittest first
	MatchHTTP      MatchKind = "http"       // a service of the operator's, called over HTTP
	MatchGRPC      MatchKind = "grpc"       // a service of the operator's, with Open Match's MatchFunction API
)

// Acceptance is whose criteria must hold.
type Acceptance string

// The acceptances.
const (
	AcceptMutual   Acceptance = "mutual"    // two tickets must accept each other
	AcceptOneSided Acceptance = "one-sided" // the oldest ticket of a match must accept the others
)

// Widening widens the criteria of a ticket that has waited. Steps add up.
type Widening struct {
	After Duration           `json:"after"`
	By    map[string]float64 `json:"by"` // how far both ends of a criterion move outwards, by its name
}

// Profile is which tickets are matched with each other. Without pools all tickets of the queue are.
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

// DoubleRange is a filter for tickets with a number in a range. NaN is in none.
type DoubleRange struct {
	DoubleArg string  `json:"doubleArg"`
	Min       float64 `json:"min"`
	Max       float64 `json:"max"`
	Exclude   Exclude `json:"exclude"`
}

// Exclude is which ends of a range aren't part of it.
type Exclude string

// The exclusions. The empty one is ExcludeNone.
const (
	ExcludeNone Exclude = "NONE"
	ExcludeMin  Exclude = "MIN"
	ExcludeMax  Exclude = "MAX"
	ExcludeBoth Exclude = "BOTH"
)

// StringEquals is a filter for tickets with a text.
type StringEquals struct {
	StringArg string `json:"stringArg"`
	Value     string `json:"value"`
}

// TagPresent is a filter for tickets with a tag.
type TagPresent struct {
	Tag string `json:"tag"`
}

// Caller is a part of a queue that may be a service of the operator's.
type Caller struct {
	Kind    string   `json:"kind"`
	URL     string   `json:"url"`
	Timeout Duration `json:"timeout"`
}

// AssignBy is how game servers are allocated for a queue's matches.
type AssignBy struct {
	Kind AssignerKind `json:"kind"`
	// Connection is for AssignStatic: text in which {match} and {queue} are replaced.
	Connection string `json:"connection"`
	// URL is for AssignWebhook and AssignAgones.
	URL string `json:"url"`
	// Secret signs the calls of AssignWebhook; SecretFile is a file that contains it. At most one is set.
	Secret     string `json:"secret"`
	SecretFile string `json:"secretFile"`
	// Timeout is for one call; an allocation is retried until the claim's deadline is near.
	Timeout Duration `json:"timeout"`
	// Namespace, Selector and TokenFile are for AssignAgones.
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
	DefaultMaxTicketBytes = 1 << 20
	MinLifetime           = 200 * time.Millisecond // of each lifetime in a definition
)

// Parts is what a definition names, built for one director.
type Parts struct {
	Matcher   Matcher
	Evaluator Evaluator
	Assigner  Assigner
	// Fields is which fields of tickets these parts read, FieldsMatching or more: a director keeps no others in memory.
	// Zero: FieldsAll.
	Fields Fields
}

// Build builds the parts of a queue. It is called for each definition that is put or configured, to validate it, and
// again for each director. Errors: fault.SlugInvalidQueue.
type Build func(d Definition) (Parts, error)
