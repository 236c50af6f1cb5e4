package v1

import (
	"fmt"
	"strconv"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// The parameters of queries.
var (
	fetchParameters   = []string{"max", "wait", "lastReceiptHandle"}
	pageParameters    = []string{"cursor", "limit"}
	queueParameters   = []string{"queue"}
	waitingParameters = []string{"waiting"}
)

// fetchQuery reads max, wait and lastReceiptHandle.
func fetchQuery(raw string, q *channel.Query) error {
	return web.ReadQuery(raw, fetchParameters, func(name, value string) (err error) {
		switch name {
		case "max":
			q.Max, err = wire.ParseMax(value)
		case "wait":
			q.Wait, err = wire.ParseWait(value)
		default:
			q.Last = value
		}
		return err
	})
}

// pageQuery reads cursor and limit.
func pageQuery(raw string, p *channel.Page) error {
	return web.ReadQuery(raw, pageParameters, func(name, value string) error {
		if name == "cursor" {
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return web.RefuseParameter(name, fmt.Sprintf("cursor is %.64q, it must be the cursor of an answer", value))
			}
			p.Cursor = channel.Cursor(n)
			return nil
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > channel.MaxPage {
			return web.RefuseParameter(name, fmt.Sprintf("limit is %.64q, it must be from 1 to %d", value, channel.MaxPage))
		}
		p.Limit = n
		return nil
	})
}

// queueQuery reads queue.
func queueQuery(raw string) (queue string, err error) {
	err = web.ReadQuery(raw, queueParameters, func(_, value string) error {
		queue = value
		return matchmaking.CheckQueueName(value)
	})
	return queue, err
}

// waitingQuery reads waiting.
func waitingQuery(raw string) (waiting bool, err error) {
	err = web.ReadQuery(raw, waitingParameters, func(name, value string) error {
		if value != "true" && value != "false" {
			return web.RefuseParameter(name, fmt.Sprintf("waiting is %.64q, it must be true or false", value))
		}
		waiting = value == "true"
		return nil
	})
	return waiting, err
}
