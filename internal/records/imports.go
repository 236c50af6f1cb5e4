package records

import (
	"cmp"
	"context"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
)

// Bounds of imports.
const (
	MaxImportPart = 5_000         // records of a part
	MaxImport     = 500_000       // records of an import
	maxSlugs      = MaxImportPart // of a call
)

// The fields of migrated views other than IDs.
const (
	ImportTimestamp = "_timestamp"
	ImportTotal     = "_total"
)

// ImportPart is some records of an import: the views of IDs that another system has counted until a time. An import is
// complete, and read from then on in place of earlier ones, when all its records are there. Parts can come in any
// order, and repeatedly.
type ImportPart struct {
	At    int64            // when they were counted, in seconds since 1970: the import's name
	Total int              // the records of all parts
	Views map[string]int64 // by ID
}

// Import is the state of an import.
type Import struct {
	Records  int  // so far
	Complete bool // all are there
	Current  bool // and no later import is complete
}

// Import adds a part of an import. Errors: invalid-id, invalid-import, ErrImportConflict.
func (v *Views) Import(ctx context.Context, p ImportPart) (Import, error) {
	if err := p.Check(); err != nil {
		return Import{}, err
	}
	return v.store.Import(ctx, p)
}

// Check checks a part. Errors: invalid-id, invalid-import.
func (p *ImportPart) Check() error {
	switch {
	case p.At < 1 || p.At > time.Now().Add(24*time.Hour).Unix():
		return invalid(fault.SlugInvalidImport, "timestamp",
			"the timestamp is %d, which isn't a time until now in seconds since 1970", p.At)
	case p.Total < 1 || p.Total > MaxImport:
		return invalid(fault.SlugInvalidImport, "total", "the total is %d, 1 to %d are allowed", p.Total, MaxImport)
	case len(p.Views) == 0 || len(p.Views) > MaxImportPart:
		return invalid(fault.SlugInvalidImport, "views", "%d records, 1 to %d are allowed", len(p.Views), MaxImportPart)
	case len(p.Views) > p.Total:
		return invalid(fault.SlugInvalidImport, "total", "the total is %d, but there are %d records", p.Total,
			len(p.Views))
	}
	for id, views := range p.Views {
		if err := CheckViewID("views", id); err != nil {
			return err
		}
		if views < 0 || views > MaxCounter {
			return invalid(fault.SlugInvalidImport, "views", "%q has %d views, 0 to %d are allowed", id, views,
				int64(MaxCounter))
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
	return cmp.Or(CheckID("slugs", slug), CheckViewID("slugs", id))
}
