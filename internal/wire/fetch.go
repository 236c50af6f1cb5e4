package wire

import (
	"encoding/json"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
)

// FetchRequest is the body of a fetch from several channels.
type FetchRequest struct {
	From []client.Source `json:"from"`
	Max  int             `json:"max,omitempty"`  // messages of all channels together; 0: the server's default
	Wait Wait            `json:"wait,omitempty"` // 0: don't wait
}

// Deliveries is the answer to a fetch from several channels.
type Deliveries struct {
	Deliveries []SourceDelivery // only sources with messages, or with some that expired
	Problems   []SourceProblem  // only sources that failed
}

// SourceDelivery is the delivery from a source, a client.SourceDelivery.
type SourceDelivery struct {
	Channel    string
	Subscriber string // of a tail there is none
	channel.Delivery
}

// SourceProblem is the problem of a source that failed.
type SourceProblem struct {
	Channel    string `json:"channel"`
	Subscriber string `json:"subscriber,omitempty"` // of a tail there is none
	client.Problem
}

// AppendJSON appends the JSON of d, with the contents unchanged. Like the names of messages, those of the deliveries'
// channels and subscribers need no escapes; problems are encoded with them.
func (d *Deliveries) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"deliveries":[`...)
	for i := range d.Deliveries {
		delivery := &d.Deliveries[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"channel":"`...)
		dst = append(dst, delivery.Channel...)
		dst = append(dst, `","subscriber":"`...)
		dst = append(dst, delivery.Subscriber...)
		dst = append(dst, `",`...)
		dst = appendDeliveryMembers(dst, &delivery.Delivery)
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

// JSONSize estimates how many bytes AppendJSON appends, a little more rather than less unless the text of a problem
// needs escapes.
func (d *Deliveries) JSONSize() int {
	const frame, perSource, perProblem = 64, 64, 256
	size := frame
	for i := range d.Problems {
		p := &d.Problems[i]
		size += perProblem + len(p.Channel) + len(p.Subscriber) + len(p.Type) + len(p.Title) + len(p.Detail) + len(p.Field)
	}
	for i := range d.Deliveries {
		delivery := &d.Deliveries[i]
		size += perSource + len(delivery.Channel) + len(delivery.Subscriber) + DeliverySize(&delivery.Delivery)
	}
	return size
}
