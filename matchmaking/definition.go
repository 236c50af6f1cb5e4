package matchmaking

import "time"

// DefaultQueue is the queue that exists without configuration. Open Match clients that name no queue get it.
const DefaultQueue = "default"

// Definition says what a queue does. It is the same in the service's configuration, where it is YAML, and in
// PUT /v1/queues/{queue}, where it is JSON. [ParseDefinition] fills in what is left out.
type Definition struct {
	Name      string   `json:"-"`
	RunTime   bool     `json:"-"` // it was put at run time, perhaps not by the operator: it can't call any host
	Match     Match    `json:"match"`
	Profile   Profile  `json:"profile"`
	Evaluator Caller   `json:"evaluator"` // kinds: decollide (the default), grpc, http
	Assigner  AssignBy `json:"assigner"`
	TicketTTL Duration `json:"ticketTTL"` // life of a ticket at most, and where it names none
	// PendingTimeout is how long a claim holds tickets: how long an allocation may take.
	PendingTimeout Duration `json:"pendingTimeout"`
	// AssignmentTTL is how long an assignment, and a ticket that has ended, can be read.
	AssignmentTTL Duration `json:"assignmentTTL"`
	// Heartbeat makes a ticket drop out whose player hasn't polled or watched for so long; 0: players needn't.
	Heartbeat Duration `json:"heartbeat"`
	Teammates bool     `json:"teammates"` // assignments contain the IDs of the team's other tickets
	Limits
}

// Limits bounds what a queue accepts.
type Limits struct {
	MaxTickets     int `json:"maxTickets"`     // that wait at a time; 0: no limit
	MaxTicketBytes int `json:"maxTicketBytes"` // of a ticket's fields as JSON
}

// Match is how a queue's matches are formed.
type Match struct {
	Function MatchKind `json:"function"`
	Teams    int       `json:"teams"`    // of a match, where its tickets don't say
	TeamSize int       `json:"teamSize"` // of a team, where its tickets don't say
	// Acceptance, Weights and Widen are of the function criteria.
	Acceptance Acceptance         `json:"acceptance"`
	Weights    map[string]float64 `json:"weights"`
	Widen      []Widening         `json:"widen"`
	// URL and Timeout are of the functions that are called: http and grpc.
	URL     string   `json:"url"`
	Timeout Duration `json:"timeout"`
	// Debounce is how long to wait for more tickets at most before matches are formed, while rounds follow each other.
	Debounce Duration `json:"debounce"`
}

// MatchKind is a match function.
type MatchKind string

// The match functions.
const (
	MatchFirstCome MatchKind = "first-come" // teams of n, the oldest tickets first
	MatchCriteria  MatchKind = "criteria"   // tickets that accept each other, the fittest first
	MatchHTTP      MatchKind = "http"       // your own, called over HTTP
	MatchGRPC      MatchKind = "grpc"       // your own, Open Match's MatchFunction service
)

// Acceptance says whose criteria count.
type Acceptance string

// The acceptances.
const (
	AcceptMutual   Acceptance = "mutual"    // two tickets must accept each other
	AcceptOneSided Acceptance = "one-sided" // the oldest ticket of a match must accept the others
)

// Widening widens criteria of a ticket that has waited: each step that has come holds, and they add up.
type Widening struct {
	After Duration           `json:"after"`
	By    map[string]float64 `json:"by"` // by how much both ends of a criterion move outwards, by its name
}

// Profile is which tickets a match function sees. Without pools it is all of the queue's.
type Profile struct {
	Name  string `json:"name"`
	Pools []Pool `json:"pools"`
}

// Pool is tickets that pass all of its filters.
type Pool struct {
	Name          string         `json:"name"`
	DoubleRanges  []DoubleRange  `json:"doubleRangeFilters"`
	StringEquals  []StringEquals `json:"stringEqualsFilters"`
	TagsPresent   []TagPresent   `json:"tagPresentFilters"`
	CreatedBefore time.Time      `json:"createdBefore,omitzero"`
	CreatedAfter  time.Time      `json:"createdAfter,omitzero"`
}

// DoubleRange passes tickets whose number is in a range. NaN never is.
type DoubleRange struct {
	DoubleArg string  `json:"doubleArg"`
	Min       float64 `json:"min"`
	Max       float64 `json:"max"`
	Exclude   Exclude `json:"exclude"`
}

// Exclude says which ends of a range aren't part of it.
type Exclude string

// The exclusions. The empty one is ExcludeNone.
const (
	ExcludeNone Exclude = "NONE"
	ExcludeMin  Exclude = "MIN"
	ExcludeMax  Exclude = "MAX"
	ExcludeBoth Exclude = "BOTH"
)

// StringEquals passes tickets whose text is this one.
type StringEquals struct {
	StringArg string `json:"stringArg"`
	Value     string `json:"value"`
}

// TagPresent passes tickets that have a tag.
type TagPresent struct {
	Tag string `json:"tag"`
}

// Caller is a part of a queue that may be called out for.
type Caller struct {
	Kind    string   `json:"kind"`
	URL     string   `json:"url"`
	Timeout Duration `json:"timeout"`
}

// AssignBy is where a queue's matches get a place to play at.
type AssignBy struct {
	Kind AssignerKind `json:"kind"`
	// Connection is of static: text with {match}, {queue} and {region}-like placeholders, see [docs/matchmaking.md].
	Connection string `json:"connection"`
	// URL is of webhook, and of agones: the allocator's.
	URL string `json:"url"`
	// Secret signs webhook calls; SecretFile is a file that has it. At most one is set.
	Secret     string `json:"secret"`
	SecretFile string `json:"secretFile"`
	// Timeout is of one call; an allocation is tried again until the claim's deadline is near.
	Timeout Duration `json:"timeout"`
	// Namespace, Selector and TokenFile are of agones.
	Namespace string            `json:"namespace"`
	Selector  map[string]string `json:"selector"`
	TokenFile string            `json:"tokenFile"`
}

// AssignerKind is a way to find a place to play at.
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
	DefaultCallTimeout    = 5 * time.Second
	DefaultMaxTicketBytes = 16 << 10
	MinLifetime           = 200 * time.Millisecond // of all that a definition gives a lifetime
)

// Parts is what a definition is built into, for one director.
type Parts struct {
	Matcher   Matcher
	Evaluator Evaluator
	Assigner  Assigner
}

// Build makes the parts of a queue. It is called for every definition that is put or configured, so its errors are
// what is wrong with one, and again for every director. Errors: fault.SlugInvalidQueue.
type Build func(d Definition) (Parts, error)
