package counters

import (
	"cmp"
	"context"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
)

// Bounds of imports.
const (
	MaxPart    = 5_000   // records of a part
	MaxMigrate = 500_000 // records of an import
	maxSlugs   = MaxPart // of a call
)

// The fields of migrated views other than IDs.
const (
	FieldTimestamp = "_timestamp"
	FieldTotal     = "_total"
)

// Part is some records of an import: the views of IDs that another system has counted until a time. An import is
// complete, and read from then on in place of earlier ones, when all its records are there. Parts can come in any
// order, and repeatedly.
type Part struct {
	At    int64            // when they were counted, in seconds since 1970: the import's name
	Total int              // the records of all parts
	Views map[string]int64 // by ID
}

// Imported is the state of an import.
type Imported struct {
	Records  int  // so far
	Complete bool // all are there
	Current  bool // and no later import is complete
}

// Import adds a part of an import. Errors: invalid-id, invalid-import, ErrImport.
func (v *Views) Import(ctx context.Context, p Part) (Imported, error) {
	if err := p.Check(); err != nil {
		return Imported{}, err
	}
	return v.store.Import(ctx, p)
}

// Check checks a part. Errors: invalid-id, invalid-import.
func (p *Part) Check() error {
	switch {
	case p.At < 1 || p.At > time.Now().Add(24*time.Hour).Unix():
		return invalid(fault.SlugInvalidImport, "timestamp",
			"the timestamp is %d, which isn't a time until now in seconds since 1970", p.At)
	case p.Total < 1 || p.Total > MaxMigrate:
		return invalid(fault.SlugInvalidImport, "total", "the total is %d, 1 to %d are allowed", p.Total, MaxMigrate)
	case len(p.Views) == 0 || len(p.Views) > MaxPart:
		return invalid(fault.SlugInvalidImport, "views", "%d records, 1 to %d are allowed", len(p.Views), MaxPart)
	case len(p.Views) > p.Total:
		return invalid(fault.SlugInvalidImport, "total", "the total is %d, but there are %d records", p.Total,
			len(p.Views))
	}
	for id, views := range p.Views {
		if err := CheckID("views", id); err != nil {
			return err
		}
		if views < 0 || views > MaxValue {
			return invalid(fault.SlugInvalidImport, "views", "%q has %d views, 0 to %d are allowed", id, views,
				int64(MaxValue))
		}
	}
	return nil
}

// AddSlugs adds slugs, each with the ID that it stands for. Errors: invalid-id, invalid-import.
func (v *Views) AddSlugs(ctx context.Context, slugs map[string]string) error {
	if len(slugs) == 0 || len(slugs) > maxSlugs {
		return invalid(fault.SlugInvalidImport, "slugs", "%d slugs, 1 to %d are allowed", len(slugs), maxSlugs)
	}
	for slug, id := range slugs {
		if err := CheckSlug(slug, id); err != nil {
			return err
		}
	}
	return v.store.AddSlugs(ctx, slugs)
}

// CheckSlug checks a slug and the ID that it stands for. Errors: invalid-id.
func CheckSlug(slug, id string) error {
	return cmp.Or(records.CheckID("slugs", slug), CheckID("slugs", id))
}
