package shard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/shard"
)

// names is a cache of names by ID. The hash of an ID selects its shard.
var names = shard.Description[string, string, string]{
	Cache:       "names",
	ShardingKey: shard.HashString,
	EntryID:     func(id string) string { return id },
	Keys:        shard.JSON[[]string](),
	Values:      shard.JSON[[]shard.Entry[string, string]](),
}

// nodes answer in this process, by address: each for one interval. A Node answers so, too; package rpc calls it over
// the network.
type nodes map[string]shard.Interval

func (n nodes) Retain([]string) {}

func (n nodes) Call(_ context.Context, address string, r *shard.Request) (shard.Response, error) {
	interval, up := n[address]
	if !up {
		return shard.Response{}, shard.ErrUnavailable
	}
	for _, key := range r.Keys {
		if !interval.Contains(key) {
			return shard.Response{Assigned: true, Shard: interval}, nil
		}
	}
	var ids []string
	if len(r.Keys) > 0 {
		if err := json.Unmarshal(r.Payload, &ids); err != nil {
			return shard.Response{}, shard.ErrUndecodable
		}
	}
	var found []shard.Entry[string, string]
	for _, id := range ids {
		if name, ok := map[string]string{"1": "Ada", "2": "Bob", "3": "Cy"}[id]; ok {
			found = append(found, shard.Entry[string, string]{ID: id, Value: name})
		}
	}
	payload, err := names.Values.Append(nil, found)
	return shard.Response{Assigned: true, Shard: interval, AllMatched: true, Payload: payload}, err
}

// A client reads from two data centres. One of them fails, and then a node of the other one.
func ExampleClient() {
	layout := shard.Layout{Generation: 1, Starts: shard.Even(2)}
	all := nodes{"a0:7100": layout.Interval(0), "a1:7100": layout.Interval(1), "b0:7100": layout.Interval(0),
		"b1:7100": layout.Interval(1)}
	get := func(up nodes) {
		client, err := shard.NewClient(names, shard.ClientOptions{
			Hosts: shard.StaticHosts{{Address: "a0:7100", DC: "a"}, {Address: "a1:7100", DC: "a"},
				{Address: "b0:7100", DC: "b"}, {Address: "b1:7100", DC: "b"}},
			Transport: up,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		go func() { _ = client.Run(ctx) }()
		found, err := client.Get(ctx, []string{"1", "2", "3", "none"})
		fmt.Println(found)
		if unanswered, ok := errors.AsType[*shard.UnansweredError[string]](err); ok {
			fmt.Println("no answer for", unanswered.Keys)
		}
	}
	get(all)
	get(nodes{"b0:7100": all["b0:7100"], "b1:7100": all["b1:7100"]})
	get(nodes{"b1:7100": all["b1:7100"]})
	// Output:
	// map[1:Ada 2:Bob 3:Cy]
	// map[1:Ada 2:Bob 3:Cy]
	// map[1:Ada]
	// no answer for [none 3 2]
}
