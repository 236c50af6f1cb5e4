package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/chaos/oracle"
	"github.com/tidemark-dev/tidemark/test/load"
)

// arena is a queue that is directed by its users: directors of this process fetch its matches and assign them.
const arena = "arena"

const (
	directorsCount = 2
	fetchEvery     = 100 * time.Millisecond
	rareDeath      = 16 // a director dies in each so many fetches
	oftenDeath     = 2
)

// killDirectors makes directors die in every second fetch for a while.
func killDirectors(s *stage) {
	s.deadly.Store(true)
	s.pause(8 * time.Second)
	s.deadly.Store(false)
}

// StartDirectors starts two directors and the match function that they name. They end with ctx. deadly makes them die
// often.
func (l *clients) StartDirectors(ctx context.Context, deadly *atomic.Bool) error {
	pairs, err := load.ServePairs(ctx, l.Servers.director, 0)
	if err != nil {
		return err
	}
	l.running.Go(func() {
		<-ctx.Done()
		pairs.Close()
	})
	for range directorsCount {
		d := &director{clients: l, turn: l.Servers.newTurn(), pairs: pairs}
		l.running.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				often := rareDeath
				if deadly.Load() {
					often = oftenDeath
				}
				d.direct(ctx, n, n%often == 0)
				pace.Sleep(ctx, fetchEvery)
			}
		})
	}
	return nil
}

// director fetches the matches of the arena, and assigns them.
type director struct {
	*clients
	*turn
	pairs *load.Pairs
}

// errDied ends a fetch whose director dies.
var errDied = errors.New("the director died")

// direct fetches matches once, and assigns them unless the director dies. Every second death is in the middle of the
// fetch. The next fetch repeats one that failed; the matches that it returned before are assigned.
func (d *director) direct(ctx context.Context, n int, dies bool) {
	d.n++
	attempt, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	var matches []*openmatch.Match
	_ = d.servers.director[d.servers.pick(d.n)].Fetch(attempt, arena, d.pairs, func(m *openmatch.Match) error {
		matches = append(matches, m)
		if dies && n/oftenDeath%2 == 0 {
			return errDied
		}
		return nil
	})
	if dies || len(matches) == 0 {
		return
	}
	if err := d.try(ctx, func(server int) error {
		attempt, cancel := context.WithTimeout(ctx, tryLimit)
		defer cancel()
		return d.servers.director[server].Assign(attempt, arena, matches)
	}); errors.Is(err, errRefused) {
		d.Tickets.Refused(err.Error())
	}
}

// assigned returns a player's assignment. A director names its match in the connection only.
func assigned(queue string, a *client.Assignment) oracle.Assignment {
	if queue == arena {
		return oracle.Assignment{Match: a.Connection, Connection: a.Connection}
	}
	return oracle.Assignment{Match: a.MatchID, Connection: a.Connection}
}
