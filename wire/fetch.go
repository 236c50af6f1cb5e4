package wire

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// MaxSources is the largest number of sources of one fetch.
const MaxSources = 256

// FetchRequest is the body of a fetch from several channels.
type FetchRequest struct {
	From []Source `json:"from"`
	Max  int      `json:"max,omitempty"`  // messages of all channels together; 0: the server's default
	Wait Wait     `json:"wait,omitempty"` // 0: don't wait
}

// Source is a subscriber of a channel.
type Source struct {
	Channel       string `json:"channel"`
	Subscriber    string `json:"subscriber"`
	ReceiptHandle string `json:"receiptHandle,omitempty"` // empty: nothing to acknowledge
}

// Deliveries is the answer to a fetch from several channels.
type Deliveries struct {
	Deliveries []SourceDelivery `json:"deliveries"` // only sources with messages, or with some that expired
	Problems   []SourceProblem  `json:"problems"`   // only sources that failed
}

// SourceDelivery is the delivery of a source.
type SourceDelivery struct {
	Channel    string `json:"channel"`
	Subscriber string `json:"subscriber"`
	Delivery
}

// SourceProblem is the problem of a source that failed.
type SourceProblem struct {
	Channel    string `json:"channel"`
	Subscriber string `json:"subscriber"`
	Problem
}

// DecodeFetch decodes the body of a fetch from several channels. The error is an *InputError with SlugInvalidBody,
// SlugInvalidSources, SlugInvalidMax or SlugInvalidWait.
func DecodeFetch(body []byte) (FetchRequest, error) {
	var r FetchRequest
	found := false
	err := decode(body, fault.SlugInvalidBody, func(d *strictjson.Decoder) error {
		return d.Object(fetchMembers, func(name string) (err error) {
			switch name {
			case "from":
				found = true
				r.From, err = sources(d, bytes.Count(body, []byte("{")))
			case "max":
				r.Max, err = maxCount(d)
			case "wait":
				r.Wait, err = wait(d)
			}
			return err
		})
	})
	if err == nil && !found {
		err = missing("from", "")
	}
	return r, err
}

// sources reads a list of sources, about as many as expected, and stops at one more than MaxSources.
func sources(d *strictjson.Decoder, about int) ([]Source, error) {
	list := make([]Source, 0, min(about, MaxSources))
	err := d.Array(func() error {
		one, err := source(d)
		if err == nil && len(list) == MaxSources {
			err = d.Refuse(&InputError{
				Slug: fault.SlugInvalidSources, Detail: fmt.Sprintf("from has more than %d sources", MaxSources),
			})
		}
		list = append(list, one)
		return err
	})
	return list, err
}

func source(d *strictjson.Decoder) (Source, error) {
	var s Source
	var channel, subscriber bool
	err := d.Object(sourceMembers, func(name string) (err error) {
		switch name {
		case "channel":
			channel = true
			s.Channel, err = d.String()
		case "subscriber":
			subscriber = true
			s.Subscriber, err = d.String()
		case "receiptHandle":
			s.ReceiptHandle, err = d.String()
		}
		return err
	})
	switch {
	case err != nil:
	case !channel:
		err = d.Missing("channel")
	case !subscriber:
		err = d.Missing("subscriber")
	}
	return s, err
}

// AppendJSON appends the JSON of d, with the contents unchanged. Like the names of messages, those of the deliveries'
// channels and subscribers need no escapes; problems are encoded with them.
func (d *Deliveries) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"deliveries":[`...)
	for i := range d.Deliveries {
		one := &d.Deliveries[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"channel":"`...)
		dst = append(dst, one.Channel...)
		dst = append(dst, `","subscriber":"`...)
		dst = append(dst, one.Subscriber...)
		dst = append(dst, `",`...)
		dst = one.appendMembers(dst)
	}
	dst = append(dst, `],"problems":[`...)
	for i := range d.Problems {
		if i > 0 {
			dst = append(dst, ',')
		}
		text, err := json.Marshal(&d.Problems[i])
		if err != nil {
			panic(err) // impossible: a problem has only strings and numbers
		}
		dst = append(dst, text...)
	}
	return append(dst, `]}`...)
}

// JSONSize estimates how many bytes AppendJSON appends, a little more rather than less unless there are problems.
func (d *Deliveries) JSONSize() int {
	const frame, perSource = 64, 64
	size := frame
	for i := range d.Deliveries {
		one := &d.Deliveries[i]
		size += perSource + len(one.Channel) + len(one.Subscriber) + one.JSONSize()
	}
	return size
}
