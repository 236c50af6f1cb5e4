package overview

import (
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Board is the state of a server, for operators.
type Board struct {
	Points *History
	Found  *Problems
	Peers  func() wire.Servers       // nil: none are known
	Redis  func() wire.StorageStates // nil: none was examined
}

// History returns the points of the server, or of a queue, after a time in Unix milliseconds.
func (b *Board) History(since int64, queue string) wire.History { return b.Points.Since(since, queue) }

// Problems returns the problems that are there now.
func (b *Board) Problems() wire.Problems { return b.Found.Problems() }

// Servers returns the servers on the same Redis.
func (b *Board) Servers() wire.Servers {
	if b.Peers == nil {
		return wire.Servers{Servers: []client.PeerServer{}}
	}
	return b.Peers()
}

// Storage returns the state of each Redis.
func (b *Board) Storage() wire.StorageStates {
	if b.Redis == nil {
		return wire.StorageStates{Redis: []wire.RedisState{}}
	}
	return b.Redis()
}
