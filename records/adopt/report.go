package adopt

import "github.com/tidemark-dev/tidemark/records/keyspace"

// Report is the result of a run: the kinds that Discours.io has, in the order in which they are declared.
type Report struct {
	Kinds []Kind `json:"kinds"`
}

// Kind is the result of a run for one kind.
type Kind struct {
	Name     string    `json:"kind"`
	Keys     int64     `json:"keys"`              // of Discours.io
	Adopted  int64     `json:"adopted"`           // written; without Apply: would be written
	Present  int64     `json:"present"`           // were taken over before, or are the same in the service
	Refused  int64     `json:"refused"`           // can't be taken over
	Removed  int64     `json:"removed,omitzero"`  // keys of Discours.io
	Note     string    `json:"note,omitempty"`    // why no record of the kind is taken over
	Refusals []Refusal `json:"refusals,omitzero"` // the first ones
}

// Refusal is why a record can't be taken over.
type Refusal struct {
	Key    string `json:"key"` // shortened, and with secrets removed
	Reason string `json:"reason"`
}

// count returns the result for a kind.
func (r *run) count(k *kind) *Kind {
	found := r.found[k]
	if found == nil {
		found = &Kind{Name: k.of.Name, Note: k.note}
		r.found[k] = found
	}
	return found
}

func (r *run) report() Report {
	report := Report{Kinds: []Kind{}}
	for _, k := range r.kinds {
		if found := r.found[k]; found != nil {
			report.Kinds = append(report.Kinds, *found)
		}
	}
	return report
}

func (k *Kind) refuse(key string, reason error) {
	k.Keys++
	if k.Refused++; len(k.Refusals) < maxRefusals {
		k.Refusals = append(k.Refusals, Refusal{Key: keyspace.Shown(key), Reason: reason.Error()})
	}
}
