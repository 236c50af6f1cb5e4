package records_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
)

// A process keeps its feature switches current, and reads them from memory.
func ExampleClient_LiveSettings() {
	service, err := client.New("http://127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	defer service.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	settings := records.New(service).LiveSettings(records.LiveOptions{Category: "features"})
	go func() {
		defer stop()
		if err := settings.Run(ctx); ctx.Err() == nil {
			log.Println("settings are no longer followed:", err)
		}
	}()
	select {
	case <-settings.Ready():
	case <-ctx.Done(): // such as without the grants
	}
	if s, ok := settings.Get("FEATURE_REGISTRATION"); ok && *s.Value == "on" {
		fmt.Println("registration is open")
	}
}

// A token from a mail is taken once, however often its link is opened.
func ExampleClient_TakeVerification() {
	service, err := client.New("http://127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	defer service.Close()
	c, ctx := records.New(service), context.Background()

	issued, err := c.IssueVerification(ctx, "ann", records.EmailChange, []byte(`{"email":"new@example.com"}`))
	if err != nil {
		log.Fatal(err)
	}
	v, err := c.TakeVerification(ctx, records.EmailChange, issued.Token)
	if err != nil {
		log.Fatal(err) // records.ErrNoVerification: ask for a new mail
	}
	fmt.Printf("%s is the address of %s\n", v.Data, v.UserID)
}
