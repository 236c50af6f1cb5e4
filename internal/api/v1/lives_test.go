package v1_test

import (
	"testing"

	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestLivesOfChannels creates channels with properties, publishes as producers and in an order, and closes channels.
func TestLivesOfChannels(t *testing.T) {
	t.Parallel()
	const messages = "/v1/channels/c/messages"
	servertest.Start(t).Play(
		servertest.Exchange{Call: `PUT /v1/channels/c {"ttl":"1h"}`, Status: 201,
			Answer: `{"channel":"c","created":true,"epoch":"*","clock":0}`},
		servertest.Exchange{Call: `PUT /v1/channels/c {"ttl":"60m"}`, Status: 200,
			Answer: `{"channel":"c","created":false,"epoch":"*","clock":0}`},
		servertest.Exchange{Call: `PUT /v1/channels/c`, Status: 409, Answer: "channel-exists"},
		servertest.Exchange{Call: `PUT /v1/channels/exact {"ttl":"1h0.9us"}`, Status: 201,
			Answer: `{"channel":"exact","created":true,"epoch":"*","clock":0}`},
		servertest.Exchange{Call: `PUT /v1/channels/exact {"ttl":"1h0.9us"}`, Status: 200,
			Answer: `{"channel":"exact","created":false,"epoch":"*","clock":0}`},
		servertest.Exchange{Call: `PUT /v1/channels/typed {"contentType":"text/plain"}`, Status: 201,
			Answer: `{"channel":"typed","created":true,"epoch":"*","clock":0}`},
		servertest.Exchange{Call: `PUT /v1/channels/x {"contentType":"text"}`, Status: 400, Answer: "invalid-content-type"},
		servertest.Exchange{Call: `PUT /v1/channels/x {"contentType":"a/b\n"}`, Status: 400, Answer: "invalid-content-type"},
		servertest.Exchange{Call: `PUT /v1/channels/x {"ttl":"1ms"}`, Status: 400, Answer: "invalid-properties"},
		servertest.Exchange{Call: `PUT /v1/channels/x {"ttl":"-1s"}`, Status: 400, Answer: "invalid-body"},
		servertest.Exchange{Call: `PUT /v1/channels/x {"ttl":"1h","ends":"2100-01-01T00:00:00Z"}`, Status: 400,
			Answer: "invalid-properties"},
		servertest.Exchange{Call: `PUT /v1/channels/x {"ends":"2000-01-01T00:00:00Z"}`, Status: 400, Answer: "invalid-properties"},
		servertest.Exchange{Call: `PUT /v1/channels/x {"ends":"9000-01-01T00:00:00Z"}`, Status: 400, Answer: "invalid-properties"},
		servertest.Exchange{Call: `GET /v1/channels/x`, Status: 404, Answer: "channel-not-found"},
		servertest.Exchange{Call: `POST /v1/channels/typed/messages {"content":1}`, Status: 409, Answer: "content-type-mismatch"},

		servertest.Exchange{Call: `POST ` + messages + `?producer=p&epoch=0&sequence=0 {"content":1}`, Status: 201,
			Answer: `{"channel":"c","id":"CSG6TRNHURGRTZLM3GXBUVKL.0.0.0","clock":1,"duplicate":false}`},
		servertest.Exchange{Call: `POST ` + messages + `?producer=p&epoch=0&sequence=0 {"content":1}`, Status: 200,
			Answer: `{"channel":"c","id":"CSG6TRNHURGRTZLM3GXBUVKL.0.0.0","clock":1,"duplicate":true}`},
		servertest.Exchange{Call: `POST ` + messages + `?producer=p&epoch=0&sequence=2 {"content":1}`, Status: 409,
			Answer: "producer-gap"},
		servertest.Exchange{Call: `POST ` + messages + `?producer=p&epoch=2&sequence=2 {"content":1}`, Status: 400,
			Answer: "producer-start"},
		servertest.Exchange{Call: `POST ` + messages + `?producer=p&epoch=2&sequence=0 [{"content":1},{"content":2}]`, Status: 201,
			Answer: `[{"channel":"c","id":"CSG6TRNHURGRTZLM3GXBUVKL.2.0.0","clock":2,"duplicate":false},{"channel":"c","id":"CSG6TRNHURGRTZLM3GXBUVKL.2.0.1","clock":3,"duplicate":false}]`},
		servertest.Exchange{Call: `POST ` + messages + `?producer=p&epoch=1&sequence=0 {"content":1}`, Status: 403,
			Answer: "producer-fenced"},
		servertest.Exchange{Call: `POST ` + messages + `?producer=p&sequence=0 {"content":1}`, Status: 400,
			Answer: "invalid-query"},
		servertest.Exchange{Call: `POST ` + messages + `?producer=p&epoch=-1&sequence=0 {"content":1}`, Status: 400,
			Answer: "invalid-query"},
		servertest.Exchange{Call: `POST ` + messages + `?producer=p&epoch=9007199254740992&sequence=0 {"content":1}`, Status: 400,
			Answer: "invalid-query"},
		servertest.Exchange{Call: `POST ` + messages + `?producer=&epoch=1&sequence=0 {"content":1}`, Status: 400,
			Answer: "invalid-producer"},
		servertest.Exchange{Call: `POST ` + messages + `?order=b {"id":"b","content":1}`, Status: 201,
			Answer: `{"channel":"c","id":"b","clock":4,"duplicate":false}`},
		servertest.Exchange{Call: `POST ` + messages + `?order=a {"content":1}`, Status: 409, Answer: "order-conflict"},
		servertest.Exchange{Call: `POST ` + messages + `?order= {"content":1}`, Status: 400, Answer: "invalid-query"},
		servertest.Exchange{Call: `POST ` + messages + `?order=%FE {"content":1}`, Status: 400, Answer: "invalid-producer"},
		servertest.Exchange{Call: `POST ` + messages + `?close=yes {"content":1}`, Status: 400, Answer: "invalid-query"},

		servertest.Exchange{Call: `PUT ` + messages + `/last?close=true 5`, Status: 201,
			Answer: `{"channel":"c","id":"last","clock":5,"duplicate":false}`},
		servertest.Exchange{Call: `PUT ` + messages + `/last?close=true 5`, Status: 200,
			Answer: `{"channel":"c","id":"last","clock":5,"duplicate":true}`},
		servertest.Exchange{Call: `POST ` + messages + ` {"content":1}`, Status: 409, Answer: "channel-closed"},
		servertest.Exchange{Call: `POST /v1/channels/c/close`, Status: 200, Answer: `{"channel":"c","epoch":"*","clock":5}`},
		servertest.Exchange{Call: `POST /v1/channels/c/close?producer=p&epoch=2&sequence=1`, Status: 409, Answer: "channel-closed"},
		servertest.Exchange{Call: `POST /v1/channels/none/close`, Status: 404, Answer: "channel-not-found"},
		servertest.Exchange{Call: `PUT /v1/channels/c {"ttl":"1h"}`, Status: 409, Answer: "channel-exists"},
	)
}
