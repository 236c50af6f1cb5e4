package entities

import (
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
)

// Caches has a cache for each kind of value. Their IDs are those of [Kind.ID]: of lists those of ListID, of searches
// those of SearchID. Lists of publications have the tags of [Kind.Tags]; lists and searches can be invalidated by a
// prefix.
type Caches struct {
	Authors             *cache.Cache[Author]
	AuthorSlugs         *cache.Cache[ID] // of the author with a slug
	AuthorFollowers     *cache.Cache[[]ID]
	AuthorFollowsTopics *cache.Cache[[]ID]
	AuthorFollows       *cache.Cache[[]ID] // the authors
	AuthorFollowsShouts *cache.Cache[[]ID]
	Topics              *cache.Cache[Topic]
	TopicSlugs          *cache.Cache[Topic]
	TopicAuthors        *cache.Cache[[]ID]
	TopicFollowers      *cache.Cache[[]ID]
	ShoutFollowers      *cache.Cache[[]ID]
	Shouts              *cache.Cache[Shouts]
	TopicShouts         *cache.Cache[Shouts]
	Searches            *cache.Cache[Results]

	close []func()
}

// CachesOptions are options of all caches of Caches.
type CachesOptions struct {
	LocalBytes int           // as in cache.Options, for each cache
	Metrics    cache.Metrics // may be nil
}

// NewCaches returns caches on a store. Close ends them.
func NewCaches(store cache.Store, o CachesOptions) *Caches {
	c := &Caches{}
	c.Authors = add[Author](c, store, o, records.Author)
	c.AuthorSlugs = add[ID](c, store, o, records.AuthorSlug)
	c.AuthorFollowers = add[[]ID](c, store, o, records.AuthorFollowers)
	c.AuthorFollowsTopics = add[[]ID](c, store, o, records.AuthorFollowsTopics)
	c.AuthorFollows = add[[]ID](c, store, o, records.AuthorFollows)
	c.AuthorFollowsShouts = add[[]ID](c, store, o, records.AuthorFollowsShouts)
	c.Topics = add[Topic](c, store, o, records.Topic)
	c.TopicSlugs = add[Topic](c, store, o, records.TopicSlug)
	c.TopicAuthors = add[[]ID](c, store, o, records.TopicAuthors)
	c.TopicFollowers = add[[]ID](c, store, o, records.TopicFollowers)
	c.ShoutFollowers = add[[]ID](c, store, o, records.ShoutFollowers)
	c.Shouts = add[Shouts](c, store, o, records.Shouts)
	c.TopicShouts = add[Shouts](c, store, o, records.TopicShouts)
	c.Searches = add[Results](c, store, o, records.Search)
	return c
}

func add[T any](c *Caches, store cache.Store, all CachesOptions, kind *records.Kind) *cache.Cache[T] {
	o := cache.Options[T]{Kind: kind, LocalBytes: all.LocalBytes, Metrics: all.Metrics}
	for i := range Kinds {
		if k := &Kinds[i]; k.Kind == kind {
			o.Prefixes = k.Prefixes()
			if k.tags != nil {
				o.Tags = func(id string, _ T) []string { return k.tags(id) }
			}
		}
	}
	if codec, ok := any(plain{}).(cache.Codec[T]); ok {
		o.Codec = codec
	}
	made := cache.New(store, o)
	c.close = append(c.close, made.Close)
	return made
}

// Close ends all loads and waits for them.
func (c *Caches) Close() {
	for _, end := range c.close {
		end()
	}
}

// plain encodes an ID as it is.
type plain struct{}

// Encode implements cache.Codec.
func (plain) Encode(id ID) ([]byte, error) { return []byte(id), nil }

// Decode implements cache.Codec.
func (plain) Decode(data []byte) (ID, error) { return ID(data), nil }
