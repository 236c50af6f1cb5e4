package wire

// Slugs name errors for programs. A problem's type is TypePrefix and the slug.
const (
	SlugInternal          = "internal"
	SlugInvalidChannel    = "invalid-channel-name"
	SlugInvalidSubscriber = "invalid-subscriber-name"
	SlugInvalidMessageID  = "invalid-message-id"
	SlugInvalidContent    = "invalid-content"
	SlugInvalidBatch      = "invalid-batch"
	SlugInvalidMax        = "invalid-max"
	SlugInvalidWait       = "invalid-wait"
	SlugInvalidFrom       = "invalid-from"
	SlugInvalidPolicy     = "invalid-policy"
	SlugInvalidBody       = "invalid-body"
	SlugInvalidQuery      = "invalid-query"
	SlugMessageTooLarge   = "message-too-large"
	SlugBatchTooLarge     = "batch-too-large"
	SlugBodyTooLarge      = "body-too-large"
	SlugNoPath            = "path-not-found"
	SlugMethod            = "method-not-allowed"
	SlugNoChannel         = "channel-not-found"
	SlugNoSubscriber      = "subscriber-not-found"
	SlugReceiptMalformed  = "receipt-malformed"
	SlugReceiptForged     = "receipt-forged"
	SlugReceiptChannel    = "receipt-wrong-channel"
	SlugReceiptSubscriber = "receipt-wrong-subscriber"
	SlugReceiptEpoch      = "receipt-wrong-epoch"
	SlugReceiptAhead      = "receipt-ahead"
	SlugReceiptSuperseded = "receipt-superseded"
	SlugStorageFull       = "storage-full"
	SlugUnavailable       = "storage-unavailable"
	SlugNotReplicated     = "not-replicated"
	SlugDraining          = "draining"
	SlugOverloaded        = "overloaded"
	SlugInvalidRequest    = "invalid-request"
	SlugCrossOrigin       = "cross-origin"
	SlugUnknownHost       = "unknown-host"
	SlugInvalidTicket     = "invalid-ticket"
	SlugInvalidQueue      = "invalid-queue"
	SlugNoTicket          = "ticket-not-found"
	SlugNoQueue           = "queue-not-found"
	SlugTicketExists      = "ticket-exists"
	SlugTicketMatched     = "ticket-matched"
	SlugTicketTooLarge    = "ticket-too-large"
	SlugQueueFull         = "queue-full"
	SlugQueueFixed        = "queue-configured"
	SlugQueueInUse        = "queue-in-use"
	SlugTooManyQueues     = "too-many-queues"
	SlugReserved          = "channel-reserved"
)

// titles are the summaries of the slugs. They don't change from one occurrence to the next.
var titles = map[string]string{
	SlugInternal:          "Internal error",
	SlugInvalidChannel:    "Invalid channel name",
	SlugInvalidSubscriber: "Invalid subscriber name",
	SlugInvalidMessageID:  "Invalid message ID",
	SlugInvalidContent:    "Invalid message content",
	SlugInvalidBatch:      "Invalid batch",
	SlugInvalidMax:        "Invalid max",
	SlugInvalidWait:       "Invalid wait",
	SlugInvalidFrom:       "Invalid starting point",
	SlugInvalidPolicy:     "No valid policy for the channel",
	SlugInvalidBody:       "Invalid body",
	SlugInvalidQuery:      "Invalid query parameter",
	SlugMessageTooLarge:   "Message too large",
	SlugBatchTooLarge:     "Too many messages in a batch",
	SlugBodyTooLarge:      "Body too large",
	SlugNoPath:            "No such path",
	SlugMethod:            "Method not allowed",
	SlugNoChannel:         "Channel not found",
	SlugNoSubscriber:      "Subscriber not found",
	SlugReceiptMalformed:  "Malformed receipt handle",
	SlugReceiptForged:     "Forged receipt handle",
	SlugReceiptChannel:    "Receipt handle of another channel",
	SlugReceiptSubscriber: "Receipt handle of another subscriber",
	SlugReceiptEpoch:      "Receipt handle of an earlier life of the channel",
	SlugReceiptAhead:      "Receipt handle ahead of the channel",
	SlugReceiptSuperseded: "Receipt handle superseded",
	SlugStorageFull:       "Storage full",
	SlugUnavailable:       "Storage unavailable",
	SlugNotReplicated:     "Not replicated",
	SlugDraining:          "Shutting down",
	SlugOverloaded:        "Overloaded",
	SlugInvalidRequest:    "Invalid request",
	SlugCrossOrigin:       "Cross-origin request refused",
	SlugUnknownHost:       "Unknown host name",
	SlugInvalidTicket:     "Invalid ticket",
	SlugInvalidQueue:      "Invalid queue",
	SlugNoTicket:          "Ticket not found",
	SlugNoQueue:           "Queue not found",
	SlugTicketExists:      "Ticket of another queue",
	SlugTicketMatched:     "Ticket matched",
	SlugTicketTooLarge:    "Ticket too large",
	SlugQueueFull:         "Queue full",
	SlugQueueFixed:        "Queue of the configuration",
	SlugQueueInUse:        "Queue in use",
	SlugTooManyQueues:     "Too many queues",
	SlugReserved:          "Channel of the service",
}

// Slugs gives every slug that the API answers with, in no particular order.
func Slugs() []string {
	slugs := make([]string, 0, len(titles))
	for slug := range titles {
		slugs = append(slugs, slug)
	}
	return slugs
}

// Title gives the summary of a slug for people, or "" for a slug that isn't one of Slugs.
func Title(slug string) string { return titles[slug] }
