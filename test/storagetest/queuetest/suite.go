// Package queuetest is the conformance suite of matchmaking.Store. It uses only the interface, so that it applies to
// any store. Start from [Run]; [Queue] has shortcuts for a store's own tests too.
package queuetest

import (
	"testing"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// Run runs all cases as parallel subtests of t. open is called once for each, and returns an empty store, which is used
// until the subtest ends.
func Run(t *testing.T, open func(t *testing.T) matchmaking.Store) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &Queue{Store: open(t), Name: "duel"})
		})
	}
}

var cases = map[string]func(t *testing.T, q *Queue){
	"a ticket is created once":                          create,
	"tickets are created at once":                       createAtOnce,
	"a create finds a ticket in every status":           createFindsATicketInEveryStatus,
	"a full queue takes no more":                        full,
	"a ticket is cancelled":                             cancel,
	"a ticket is deindexed":                             deindex,
	"a ticket is deleted":                               deleteTicket,
	"a match is read":                                   matchRecord,
	"what has expired stays expired":                    renewDoesNotRevive,
	"an attempt is undone":                              undo,
	"an undo comes before its attempt":                  undoComesFirst,
	"a late attempt is undone":                          undoOfALateAttempt,
	"an undo leaves what has ended":                     undoLeavesWhatHasEnded,
	"attempts of an epoch are undone":                   epochs,
	"tickets are claimed":                               claim,
	"the oldest tickets are claimed":                    claimOfTheOldest,
	"a claim ends by itself":                            claimIsTakenOver,
	"a claim is released":                               release,
	"expired tickets are swept":                         sweep,
	"the direction has one holder":                      directorsLease,
	"earlier directors' claims are taken over":          takeOver,
	"a match is assigned once":                          assign,
	"a match is assigned whole or not at all":           assignConflicts,
	"matches are independent of each other":             assignOfManyMatches,
	"the holder of the lease needs no claims":           assignUnderTheLease,
	"two directors assign":                              assignOfTwoDirectors,
	"players leave while they are matched":              cancelAgainstAssign,
	"changes are read in order":                         changes,
	"a follower gets all changes":                       follow,
	"a watch is called about changes":                   watch,
	"a direction is taken if there is something to do":  campaign,
	"a snapshot has all tickets":                        snapshot,
	"a release is a change":                             releaseIsAChange,
	"waiting tickets are read in parts":                 waiting,
	"those who wait are notified of removed tickets":    removedIsNotified,
	"tickets that are assigned are notified":            assignedIsNotified,
	"states of tickets are read":                        states,
	"assignments stay in the outbox until delivered":    outbox,
	"assignments are sent to tickets with channels":     quiet,
	"a queue is described":                              describe,
	"definitions are kept":                              definitions,
	"a backfill is created, changed and deleted":        backfills,
	"a backfill ends":                                   backfillsEnd,
	"matches are handed out":                            handOut,
	"a ticket goes into one match of a request":         handOutOnce,
	"matches change backfills":                          handOutBackfills,
	"a backfill has a ticket once":                      handOutAgain,
	"a hand-out that nobody got is released alone":      handOutReleased,
	"an update releases the backfill's tickets":         updateReleases,
	"a backfill's tickets are bounded":                  backfillsAreBounded,
	"an acknowledgement assigns the backfill's tickets": acknowledge,
	"tickets that were handed out are assigned":         assignAny,
	"tickets that were handed out are released":         releaseFetched,
	"backfills are read in parts":                       manyBackfills,
	"large backfills are read a few at a time":          largeBackfills,
	"a queue with a backfill has a director":            backfillsKeepAQueue,
	"hand-outs race":                                    handOutsRace,
}
