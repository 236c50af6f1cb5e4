package cache_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/leases"
	rediscache "github.com/tidemark-dev/tidemark/storage/redis/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
)

// Topic is a row of a table.
type Topic struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

// The three strategies of a cache in front of a table.
func Example() {
	ctx := context.Background()
	var db *sql.DB
	conn, err := redis.Connect(ctx, redis.Options{URL: "redis://127.0.0.1:6379", Logger: slog.Default()})
	if err != nil {
		return
	}
	defer conn.Close()
	reads, err := tracked.Open(ctx, conn, tracked.Options{})
	if err != nil {
		return
	}
	defer reads.Close()
	store := rediscache.New(conn, conn, reads)
	defer store.Close()
	topics := cache.New(store, cache.Options[Topic]{Kind: records.Topic})
	defer topics.Close()

	// Cache-aside: one process loads what is missing.
	topic, err := topics.Load(ctx, "5", func(ctx context.Context) (t Topic, err error) {
		t.ID = "5"
		err = db.QueryRowContext(ctx, "SELECT title FROM topics WHERE id = 5").Scan(&t.Title)
		if errors.Is(err, sql.ErrNoRows) {
			err = cache.ErrNotFound
		}
		return t, err
	})
	if err != nil {
		return
	}

	// Write-through: the table, and then the cache.
	topic.Title = "Another title"
	if err := topics.Write(ctx, topic.ID, topic, func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, "UPDATE topics SET title = ? WHERE id = ?", topic.Title, topic.ID)
		return err
	}); err != nil {
		return
	}

	// Write-behind: the cache, and later the table.
	manager, err := lease.NewManager(leases.New(conn), lease.Options{})
	if err != nil {
		return
	}
	behind := cache.NewWriteBehind(topics, rediscache.NewQueue(conn), manager,
		func(ctx context.Context, w cache.Write[Topic]) error {
			_, err := db.ExecContext(ctx, "UPDATE topics SET title = ?, fence = ? WHERE id = ? AND fence <= ?",
				w.Value.Title, w.Fence, w.ID, w.Fence)
			return err
		})
	go behind.Run(ctx)
	_ = behind.Write(ctx, topic.ID, topic)
	_ = behind.Flush(ctx) // at shutdown, before Run ends
}
