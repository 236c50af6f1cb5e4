package compose

import (
	"context"

	"github.com/tidemark-dev/tidemark/internal/records"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
)

// openCache opens the cached values, and the followers that follow from them.
func (r *Records) openCache(ctx context.Context, n Needs) error {
	reads, err := tracked.Open(ctx, n.Redis.Cache, tracked.Options{Memory: n.Config.Cache.Memory})
	if err != nil {
		return err
	}
	n.Parts.OnStop(reads.Close)
	store := redisrecords.NewCaches(n.Config.Site.Table, n.Redis.Cache, n.Redis.Records, reads)
	n.Parts.OnStop(store.Close)
	through, err := throughShards(ctx, n, store)
	if err != nil {
		return err
	}
	r.API.Cache = records.NewValues(through, r.metrics)
	return r.openFollowers(ctx, n, through)
}
