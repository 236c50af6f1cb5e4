package redis

import "github.com/tidemark-dev/tidemark/storage/redis/lua"

// The scripts of channels.
var (
	publishScript     = lua.Must("channels/publish")
	subscribeScript   = lua.Must("channels/subscribe")
	openScript        = lua.Must("channels/open")
	unsubscribeScript = lua.Must("channels/unsubscribe")
	fetchScript       = lua.Must("channels/fetch")
	ackScript         = lua.Must("channels/ack")
	nextScript        = lua.Must("channels/next")
	describeScript    = lua.Must("channels/describe")
)

// The scripts of queues.
var (
	createScript   = lua.Must("queues/create")
	findScript     = lua.Must("queues/find")
	ticketScript   = lua.Must("queues/ticket")
	undoScript     = lua.Must("queues/undo")
	cancelScript   = lua.Must("queues/cancel")
	renewScript    = lua.Must("queues/renew")
	claimScript    = lua.Must("queues/claim")
	assignScript   = lua.Must("queues/assign")
	releaseScript  = lua.Must("queues/release")
	takeoverScript = lua.Must("queues/takeover")
	sweepScript    = lua.Must("queues/sweep")
	leaseScript    = lua.Must("queues/lease")
	campaignScript = lua.Must("queues/campaign")
	resignScript   = lua.Must("queues/resign")
	snapshotScript = lua.Must("queues/snapshot")
	changesScript  = lua.Must("queues/changes")
	outgoingScript = lua.Must("queues/outgoing")
	defineScript   = lua.Must("queues/define")
	queueScript    = lua.Must("queues/queue")
)
