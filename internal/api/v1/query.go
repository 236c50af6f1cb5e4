package v1

import (
	"fmt"
	"strconv"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
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
	publishParameters = []string{"producer", "epoch", "sequence", "order", "close"}
	closeParameters   = publishParameters[:3]
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

// publishQuery reads what a publish has besides its messages, and closeQuery what the end of a channel has.
func publishQuery(raw string, r *channel.PublishRequest) error {
	if raw == "" {
		return nil
	}
	var p producerQuery
	err := web.ReadQuery(raw, publishParameters, func(name, value string) (err error) {
		switch name {
		case "order":
			if r.Order = value; value == "" {
				err = web.RefuseParameter(name, "order is empty")
			}
		case "close":
			r.Close, err = boolean(name, value)
		default:
			err = p.read(name, value)
		}
		return err
	})
	if err == nil {
		r.Producer, err = p.producer()
	}
	return err
}

func closeQuery(raw string, r *channel.CloseRequest) error {
	var p producerQuery
	err := web.ReadQuery(raw, closeParameters, p.read)
	if err == nil {
		r.Producer, err = p.producer()
	}
	return err
}

// producerQuery has the parameters of a producer: all of them, or none.
type producerQuery struct {
	parsed channel.Producer
	count  int // parameters that were sent
}

func (p *producerQuery) read(name, value string) (err error) {
	p.count++
	switch name {
	case "producer":
		p.parsed.ID = value
	case "epoch":
		p.parsed.Epoch, err = counted(name, value)
	default:
		p.parsed.Sequence, err = counted(name, value)
	}
	return err
}

// producer returns the producer; nil if there is none.
func (p *producerQuery) producer() (*channel.Producer, error) {
	switch p.count {
	case 0:
		return nil, nil //nolint:nilnil // a publish without a producer
	case len(closeParameters):
		return &p.parsed, nil
	default:
		return nil, web.RefuseParameter("producer", "producer, epoch and sequence go together: one of them is missing")
	}
}

// counted parses a number of a producer.
func counted(name, value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n > int64(clock.Max) || strconv.FormatInt(n, 10) != value {
		return 0, web.RefuseParameter(name, fmt.Sprintf("%s is %.64q, it must be a whole number from 0 to %d", name,
			value, clock.Max))
	}
	return n, nil
}

func boolean(name, value string) (bool, error) {
	if value != "true" && value != "false" {
		return false, web.RefuseParameter(name, fmt.Sprintf("%s is %.64q, it must be true or false", name, value))
	}
	return value == "true", nil
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
		waiting, err = boolean(name, value)
		return err
	})
	return waiting, err
}
