package wire

import "github.com/tidemark-dev/tidemark/client/records"

// ViewCount is the body that counts views of one ID. It may be left out.
type ViewCount struct {
	Views int64 `json:"views,omitempty"` // 0: 1
}

// ViewCounts is the body that counts views of many IDs, and the answer to it and to ViewCount.
type ViewCounts struct {
	Views map[string]int64 `json:"views"` // by ID
}

// ViewsList are the views of many IDs.
type ViewsList struct {
	Views []records.Views `json:"views"`
}

// ViewsPart is the body that adds a part of an import.
type ViewsPart struct {
	Timestamp int64            `json:"timestamp"` // when they were counted, in seconds since 1970
	Total     int              `json:"total"`     // IDs of all parts
	Views     map[string]int64 `json:"views"`     // by ID
}

// ViewsSlugs is the body that adds slugs.
type ViewsSlugs struct {
	Slugs map[string]string `json:"slugs"` // IDs by slug
}
