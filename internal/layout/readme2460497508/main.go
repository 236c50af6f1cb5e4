package main

import (
	"context"
	"log"

	"github.com/tidemark-dev/tidemark/client"
)

func main() {
	ctx := context.Background()
	c, err := client.New("http://127.0.0.1:8080")
	check(err)
	_, err = c.Subscribe(ctx, "lobby", "dan", client.Latest)
	check(err)
	_, err = c.Publish(ctx, "lobby", client.Draft{Content: []byte(`{"text":"hi"}`)})
	check(err)
	check(c.Consume(ctx, client.Consumer{Channel: "lobby", Subscriber: "dan", Handle: func(_ context.Context, m client.Message) error {
		log.Printf("%s: %s", m.ID, m.Content)
		return nil // which acknowledges the message
	}}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
