package wire

// ViewCount is the body that counts views of one ID. It may be left out.
type ViewCount struct {
	Views int64 `json:"views,omitempty"` // 0: 1
}

// ViewCounts is the body that counts views of many IDs, and the answer to it and to ViewCount.
type ViewCounts struct {
	Views map[string]int64 `json:"views"` // by ID
}

// Views are the views of an ID.
type Views struct {
	ID       string `json:"id"`
	Slug     string `json:"slug,omitempty"` // by which it was asked for, if it was
	Total    int64  `json:"total"`          // both of these
	Counted  int64  `json:"counted"`        // by this service, and written
	Migrated int64  `json:"migrated"`       // by the last import that is complete
}

// ViewsList are the views of many IDs.
type ViewsList struct {
	Views []Views `json:"views"`
}

// ViewsPart is the body that adds a part of an import.
type ViewsPart struct {
	Timestamp int64            `json:"timestamp"` // when they were counted, in seconds since 1970
	Total     int              `json:"total"`     // IDs of all parts
	Views     map[string]int64 `json:"views"`     // by ID
}

// ViewsImport is the state of an import.
type ViewsImport struct {
	IDs      int  `json:"ids"`      // that are there
	Complete bool `json:"complete"` // all are
	Current  bool `json:"current"`  // and no later import is complete
}

// ViewsSlugs is the body that adds slugs.
type ViewsSlugs struct {
	Slugs map[string]string `json:"slugs"` // IDs by slug
}
