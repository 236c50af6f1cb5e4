package records

import (
	"fmt"
	"slices"

	"github.com/tidemark-dev/tidemark/fault"
)

// MaxStatsNames is how many entities with statistics, and how many metrics, a site can name.
const MaxStatsNames = 100

// StatsEntity names the statistics of an entity.
type StatsEntity struct {
	Name   string   `json:"name"`
	Fields []string `json:"fields"` // nil: any
}

// StatsNames are the statistics of a site.
type StatsNames struct {
	Entities []StatsEntity // nil: any
	Metrics  []string      // nil: any
}

// Errors of statistics that the site doesn't have.
var (
	ErrNoEntity = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoKind,
		Detail: "the table of kinds has no statistics of an entity of this name"}
	ErrNoMetric = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoKind,
		Detail: "the table of kinds has no metric of this name"}
)

// Check returns an error if a name isn't allowed, or is there twice. The errors name the place, as in
// `statistics[0].name: …`.
func (n *StatsNames) Check() error {
	entities := make([]string, len(n.Entities))
	for i, e := range n.Entities {
		entities[i] = e.Name
		if at, err := checkNames(e.Fields, MaxStatsFields); err != nil {
			return fmt.Errorf("statistics[%d].fields%s: %w", i, at, err)
		}
	}
	if at, err := checkNames(entities, MaxStatsNames); err != nil {
		return fmt.Errorf("statistics%s: %w", at, err)
	}
	if at, err := checkNames(n.Metrics, MaxStatsNames); err != nil {
		return fmt.Errorf("metrics%s: %w", at, err)
	}
	return nil
}

// checkNames checks a list of names, and returns where it is wrong, such as [0].
func checkNames(list []string, limit int) (at string, err error) {
	if len(list) > limit {
		return "", fmt.Errorf("has %d names, at most %d are allowed", len(list), limit)
	}
	for i, name := range list {
		at := fmt.Sprintf("[%d]", i)
		if err := CheckID("name", name); err != nil {
			return at, err
		}
		if slices.Contains(list[:i], name) {
			return at, fmt.Errorf("%s is there twice", name)
		}
	}
	return "", nil
}

// check refuses a series that the site doesn't have, and fields that it doesn't have. Errors: ErrNoEntity, ErrNoMetric,
// invalid-id.
func (n *StatsNames) check(s Series, fields map[string]int64) error {
	if !s.Fields {
		if n.Metrics != nil && !slices.Contains(n.Metrics, s.Name) {
			return ErrNoMetric
		}
		return nil
	}
	if n.Entities == nil {
		return nil
	}
	at := slices.IndexFunc(n.Entities, func(e StatsEntity) bool { return e.Name == s.Name })
	if at < 0 {
		return ErrNoEntity
	}
	allowed := n.Entities[at].Fields
	for field := range fields {
		if allowed != nil && !slices.Contains(allowed, field) {
			return invalid(fault.SlugInvalidID, "fields", "%.64q is no field of the statistics of %s", field, s.Name)
		}
	}
	return nil
}
