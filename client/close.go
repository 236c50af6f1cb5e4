package client

import "github.com/tidemark-dev/tidemark/clock"

// Created is the answer of creating a channel.
type Created struct {
	Channel string      `json:"channel"`
	Created bool        `json:"created"` // false: it existed, with the same properties
	Epoch   string      `json:"epoch"`
	Clock   clock.Clock `json:"clock"` // of the last message
}

// Closed is the answer of closing a channel.
type Closed struct {
	Channel string      `json:"channel"`
	Epoch   string      `json:"epoch"`
	Clock   clock.Clock `json:"clock"` // of the last message
}
