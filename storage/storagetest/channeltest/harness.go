package channeltest

import "github.com/tidemark-dev/tidemark/storage/storagetest/channeltest/internal/subject"

// Harness is a store that no other case uses, and direct access to its data. Several goroutines may call its methods at
// the same time. It is closed at the end of the test that it was made for.
type Harness = subject.Harness

// Part is one item that a store keeps of a channel, with its own life.
type Part = subject.Part

// PartKind is the kind of a Part.
type PartKind = subject.PartKind

// The kinds of parts.
const (
	PartClock       = subject.PartClock
	PartEpoch       = subject.PartEpoch
	PartSubscribers = subject.PartSubscribers
	PartMark        = subject.PartMark
	PartMessage     = subject.PartMessage
	PartRecord      = subject.PartRecord
)
