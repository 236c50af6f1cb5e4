package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/client"
)

// connect returns the client of an example. A long-running program creates one client and keeps it.
func connect() *client.Client {
	c, err := client.New(newWorld()) // such as http://127.0.0.1:8080
	if err != nil {
		panic(err)
	}
	return c
}

func Example() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	if _, err := c.Subscribe(ctx, "lobby", "ann", client.Latest); err != nil {
		panic(err)
	}
	if _, err := c.Publish(ctx, "lobby", client.Draft{Content: []byte(`{"text":"hello"}`)}); err != nil {
		panic(err)
	}
	delivery, err := c.Fetch(ctx, "lobby", "ann", client.FetchOptions{Wait: 20 * time.Second})
	if err != nil {
		panic(err)
	}
	for _, m := range delivery.Messages {
		fmt.Printf("%s: %s\n", m.Clock, m.Content)
	}
	if err := c.Ack(ctx, "lobby", "ann", delivery.ReceiptHandle); err != nil {
		panic(err)
	}
	// Output:
	// 1: {"text":"hello"}
}

func ExampleNew() {
	c, err := client.New("http://127.0.0.1:8080",
		client.WithHTTPClient(&http.Client{}),
		client.WithUserAgent("game-server/1.4"),
		client.WithTimeout(5*time.Second),
		client.WithRetry(client.RetryPolicy{
			MaxElapsed: time.Minute,
			Notify:     func(err error, _ time.Duration) { fmt.Println("trying again:", err) },
		}),
	)
	if err != nil {
		panic(err)
	}
	defer c.Close()
	// Output:
}

func ExampleClient_Publish() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	order := client.Draft{ID: "order-17", Content: []byte(`{"item":"tea"}`)}
	for range 2 { // the second time changes nothing
		p, err := c.Publish(ctx, "orders", order)
		if err != nil {
			panic(err)
		}
		fmt.Println(p.ID, p.Clock, p.Duplicate)
	}
	// Output:
	// order-17 1 false
	// order-17 1 true
}

// A content that isn't JSON is published as bytes with their media type.
func ExampleDraft_SetBytes() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	if _, err := c.Subscribe(ctx, "images", "ann", client.Latest); err != nil {
		panic(err)
	}
	var image client.Draft
	image.SetBytes("image/png", []byte("\x89PNG\r\n\x1a\n"))
	var caption client.Draft
	caption.SetBytes("application/json; charset=utf-8", []byte(`"a caption"`))
	if _, err := c.PublishBatch(ctx, "images", []client.Draft{image, caption}); err != nil {
		panic(err)
	}
	delivery, err := c.Fetch(ctx, "images", "ann", client.FetchOptions{})
	if err != nil {
		panic(err)
	}
	for _, m := range delivery.Messages {
		content, err := m.Bytes()
		fmt.Printf("%q %s %q %v\n", m.ContentType, m.Content, content, err)
	}
	image.SetBytes("png", nil)
	_, err = c.Publish(ctx, "images", image)
	fmt.Println(errors.Is(err, client.ErrContentType))
	// Output:
	// "image/png" "iVBORw0KGgo=" "\x89PNG\r\n\x1a\n" <nil>
	// "" "a caption" "\"a caption\"" <nil>
	// true
}

func ExampleClient_PublishBatch() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	published, err := c.PublishBatch(ctx, "moves", []client.Draft{
		{Content: []byte(`"e2e4"`)},
		{Content: []byte(`"e7e5"`)},
	})
	if err != nil {
		panic(err)
	}
	for _, p := range published {
		fmt.Println(p.Clock)
	}
	// Output:
	// 1
	// 2
}

func ExampleClient_Subscribe() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	if _, err := c.Publish(ctx, "news", client.Draft{Content: []byte(`"old"`)}); err != nil {
		panic(err)
	}
	for i, from := range []client.From{client.Latest, client.Earliest, client.After(0)} {
		s, err := c.Subscribe(ctx, "news", "reader-"+fmt.Sprint(i), from)
		if err != nil {
			panic(err)
		}
		fmt.Println(s.Created, s.Mark)
	}
	again, err := c.Subscribe(ctx, "news", "reader-0", client.Earliest)
	if err != nil {
		panic(err)
	}
	fmt.Println(again.Created, again.Mark)
	// Output:
	// true 1
	// true 0
	// true 0
	// false 1
}

func ExampleClient_Unsubscribe() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	if _, err := c.Subscribe(ctx, "visitors", "ann", client.Latest); err != nil {
		panic(err)
	}
	if err := c.Unsubscribe(ctx, "visitors", "ann"); err != nil {
		panic(err)
	}
	_, err := c.Fetch(ctx, "visitors", "ann", client.FetchOptions{})
	fmt.Println(errors.Is(err, client.ErrNoSubscriber))
	// Output:
	// true
}

func ExampleClient_Fetch() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	if _, err := c.Publish(ctx, "letters", client.Draft{Content: []byte(`"a"`)}); err != nil {
		panic(err)
	}
	if _, err := c.Subscribe(ctx, "letters", "ann", client.Earliest); err != nil {
		panic(err)
	}
	for range 2 { // what isn't acknowledged comes again
		d, err := c.Fetch(ctx, "letters", "ann", client.FetchOptions{Max: 10, Wait: 20 * time.Second})
		if err != nil {
			panic(err)
		}
		fmt.Println(len(d.Messages), string(d.Messages[0].Content), d.More)
	}
	// Output:
	// 1 "a" false
	// 1 "a" false
}

func ExampleClient_Ack() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	if _, err := c.Publish(ctx, "jobs", client.Draft{Content: []byte(`"sweep"`)}); err != nil {
		panic(err)
	}
	if _, err := c.Subscribe(ctx, "jobs", "ann", client.Earliest); err != nil {
		panic(err)
	}
	d, err := c.Fetch(ctx, "jobs", "ann", client.FetchOptions{})
	if err != nil {
		panic(err)
	}
	for range 2 { // the second time changes nothing
		if err := c.Ack(ctx, "jobs", "ann", d.ReceiptHandle); err != nil {
			panic(err)
		}
	}
	d, err = c.Fetch(ctx, "jobs", "ann", client.FetchOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println(len(d.Messages))
	// Output:
	// 0
}

func ExampleClient_Next() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	if _, err := c.PublishBatch(ctx, "steps",
		[]client.Draft{{Content: []byte(`1`)}, {Content: []byte(`2`)}}); err != nil {
		panic(err)
	}
	if _, err := c.Subscribe(ctx, "steps", "ann", client.Earliest); err != nil {
		panic(err)
	}
	receipt := ""
	for range 2 { // each request acknowledges the messages of the one before
		d, err := c.Next(ctx, "steps", "ann", receipt, client.FetchOptions{Max: 1})
		if err != nil {
			panic(err)
		}
		fmt.Println(string(d.Messages[0].Content), d.More)
		receipt = d.ReceiptHandle
	}
	// Output:
	// 1 true
	// 2 false
}

func ExampleClient_Consume() {
	ctx := context.Background() // ends when the program is told to
	c := connect()
	defer c.Close()

	if _, err := c.PublishBatch(ctx, "tasks", []client.Draft{{Content: []byte(`"wash"`)},
		{Content: []byte(`"dry"`)}}); err != nil {
		panic(err)
	}
	if _, err := c.Subscribe(ctx, "tasks", "ann", client.Earliest); err != nil {
		panic(err)
	}
	err := c.Consume(ctx, client.Consumer{
		Channel:    "tasks",
		Subscriber: "ann",
		Handle: func(_ context.Context, m client.Message) error {
			fmt.Println(string(m.Content))
			if m.Clock == 2 {
				return client.ErrStop
			}
			return nil // it is acknowledged now
		},
		Gap: func(gap client.Gap) { fmt.Println("messages are missing:", gap.Reason, gap.Count) },
	})
	fmt.Println(err)
	// Output:
	// "wash"
	// "dry"
	// <nil>
}

func ExampleClient_Stream() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	if _, err := c.Subscribe(ctx, "scores", "ann", client.Latest); err != nil {
		panic(err)
	}
	if _, err := c.PublishBatch(ctx, "scores",
		[]client.Draft{{Content: []byte(`"1:0"`)}, {Content: []byte(`"1:1"`)}}); err != nil {
		panic(err)
	}
	from := []client.Source{{Channel: "scores", Subscriber: "ann"}}
	receipt := ""
	for a, err := range c.Stream(ctx, from, client.StreamOptions{}) {
		if err != nil {
			panic(err) // or open another one
		}
		if a.Gap != nil {
			fmt.Println("some messages are missing:", a.Gap.Reason)
			continue
		}
		fmt.Println(string(a.Message.Content))
		receipt = a.ReceiptHandle
		if a.Message.Clock == 2 {
			break
		}
	}
	if err := c.Ack(ctx, "scores", "ann", receipt); err != nil { // both of them
		panic(err)
	}
	// Output:
	// "1:0"
	// "1:1"
}

func ExampleClient_Describe() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	if _, err := c.Subscribe(ctx, "lounge", "ann", client.Latest); err != nil {
		panic(err)
	}
	if _, err := c.Publish(ctx, "lounge", client.Draft{Content: []byte(`1`)}); err != nil {
		panic(err)
	}
	d, err := c.Describe(ctx, "lounge")
	if err != nil {
		panic(err)
	}
	fmt.Println("clock", d.Clock)
	for _, s := range d.Subscribers {
		fmt.Println(s.Name, "is behind by", s.Lag)
	}
	// Output:
	// clock 1
	// ann is behind by 1
}

func ExampleClient_Info() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	info, err := c.Info(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(info.Storage.Kind, info.Limits.MaxNameBytes)
	// Output:
	// standalone 128
}

func ExampleError() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	_, err := c.Fetch(ctx, "attic", "nobody", client.FetchOptions{})
	var refused *client.Error
	switch {
	case errors.Is(err, client.ErrNoSubscriber):
		fmt.Println("subscribe first")
	case errors.As(err, &refused):
		fmt.Println(refused.Status, refused.Problem.Detail)
	}
	// Output:
	// subscribe first
}
