package wire

import "github.com/tidemark-dev/tidemark/client/records"

// StatsChange is the body that adds to, or sets, counters of an entity in the present window.
type StatsChange struct {
	Fields map[string]int64 `json:"fields"`
	ID     string           `json:"id,omitempty"` // names an addition: one with the same ID isn't made again for an hour
}

// MetricAddition is the body that adds to a metric in the present window.
type MetricAddition struct {
	Add *int64 `json:"add"`          // required
	ID  string `json:"id,omitempty"` // names the addition, as in StatsChange
}

// MetricValue is the body that sets a metric in the present window.
type MetricValue struct {
	Value *int64 `json:"value"` // required
}

// StatsRange is the windows of an entity that have values, the oldest first.
type StatsRange struct {
	Windows []records.StatsWindow `json:"windows"`
}

// MetricRange is the windows of a metric that have a value, the oldest first.
type MetricRange struct {
	Windows []records.MetricWindow `json:"windows"`
}
