// Package metrics registers the metrics of the program's parts with Prometheus. Each part has a file, which begins with
// the function that registers them. A part knows only the interface that it calls.
//
// Labels are names of kinds, queues, caches, data centres and outcomes, never of hosts, channels or users, so that
// there are few series; only the lags that a rule chooses name channels, and are bounded. Where only one of several servers can know a number, only that server shows it: the sum over
// all servers is right.
package metrics
