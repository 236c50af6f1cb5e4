package fault

import "slices"

// Slug names an error for programs. It is the end of a problem's type, urn:tidemark:problem:<slug>.
type Slug string

// The slugs. [List] says what each means.
const (
	SlugInternal          Slug = "internal"
	SlugInvalidRequest    Slug = "invalid-request"
	SlugInvalidBody       Slug = "invalid-body"
	SlugInvalidQuery      Slug = "invalid-query"
	SlugBodyTooLarge      Slug = "body-too-large"
	SlugNoPath            Slug = "path-not-found"
	SlugMethod            Slug = "method-not-allowed"
	SlugCrossOrigin       Slug = "cross-origin"
	SlugUnknownHost       Slug = "unknown-host"
	SlugDraining          Slug = "draining"
	SlugOverloaded        Slug = "overloaded"
	SlugInvalidChannel    Slug = "invalid-channel-name"
	SlugInvalidSubscriber Slug = "invalid-subscriber-name"
	SlugInvalidMessageID  Slug = "invalid-message-id"
	SlugInvalidContent    Slug = "invalid-content"
	SlugContentType       Slug = "invalid-content-type"
	SlugSchema            Slug = "schema-mismatch"
	SlugInvalidBatch      Slug = "invalid-batch"
	SlugInvalidMax        Slug = "invalid-max"
	SlugInvalidWait       Slug = "invalid-wait"
	SlugInvalidFrom       Slug = "invalid-from"
	SlugInvalidPosition   Slug = "invalid-position"
	SlugOtherLife         Slug = "wrong-epoch"
	SlugInvalidSources    Slug = "invalid-sources"
	SlugInvalidPolicy     Slug = "invalid-policy"
	SlugMessageTooLarge   Slug = "message-too-large"
	SlugBatchTooLarge     Slug = "batch-too-large"
	SlugNoChannel         Slug = "channel-not-found"
	SlugInvalidHeader     Slug = "invalid-header"
	SlugOffsetGone        Slug = "offset-gone"
	SlugNotServed         Slug = "not-served"
	SlugChannelClosed     Slug = "channel-closed"
	SlugChannelExists     Slug = "channel-exists"
	SlugOtherContentType  Slug = "content-type-mismatch"
	SlugInvalidProperties Slug = "invalid-properties"
	SlugInvalidProducer   Slug = "invalid-producer"
	SlugProducerFenced    Slug = "producer-fenced"
	SlugProducerGap       Slug = "producer-gap"
	SlugProducerStart     Slug = "producer-start"
	SlugManyProducers     Slug = "too-many-producers"
	SlugOrderConflict     Slug = "order-conflict"
	SlugNoSubscriber      Slug = "subscriber-not-found"
	SlugReceiptMalformed  Slug = "receipt-malformed"
	SlugReceiptForged     Slug = "receipt-forged"
	SlugReceiptChannel    Slug = "receipt-wrong-channel"
	SlugReceiptSubscriber Slug = "receipt-wrong-subscriber"
	SlugReceiptEpoch      Slug = "receipt-wrong-epoch"
	SlugReceiptAhead      Slug = "receipt-ahead"
	SlugReceiptSuperseded Slug = "receipt-superseded"
	SlugStorageFull       Slug = "storage-full"
	SlugUnavailable       Slug = "storage-unavailable"
	SlugNotReplicated     Slug = "not-replicated"
	SlugInvalidTicket     Slug = "invalid-ticket"
	SlugInvalidQueue      Slug = "invalid-queue"
	SlugNoTicket          Slug = "ticket-not-found"
	SlugNoQueue           Slug = "queue-not-found"
	SlugNoMatch           Slug = "match-not-found"
	SlugTicketExists      Slug = "ticket-exists"
	SlugTicketMatched     Slug = "ticket-matched"
	SlugTicketTooLarge    Slug = "ticket-too-large"
	SlugQueueFull         Slug = "queue-full"
	SlugQueueFixed        Slug = "queue-configured"
	SlugQueueInUse        Slug = "queue-in-use"
	SlugTooManyQueues     Slug = "too-many-queues"
	SlugQueueDirector     Slug = "queue-director"
	SlugInvalidBackfill   Slug = "invalid-backfill"
	SlugNoBackfill        Slug = "backfill-not-found"
	SlugBackfillExpired   Slug = "backfill-expired"
	SlugBackfillTooLarge  Slug = "backfill-too-large"
	SlugManyBackfills     Slug = "too-many-backfills"
	SlugReserved          Slug = "channel-reserved"
	SlugNoCredential      Slug = "credentials-missing"
	SlugInvalidCredential Slug = "credentials-invalid"
	SlugExpiredCredential Slug = "credentials-expired"
	SlugRevokedCredential Slug = "credentials-revoked"
	SlugKeysUnavailable   Slug = "keys-unavailable"
	SlugNotGranted        Slug = "not-granted"
	SlugTokenInQuery      Slug = "token-in-query"
	SlugRateLimited       Slug = "rate-limited"
	SlugTooManyWaits      Slug = "too-many-waits"
	SlugManySubscribers   Slug = "too-many-subscribers"
	SlugNoKey             Slug = "key-not-found"
	SlugInvalidKey        Slug = "invalid-key"
	SlugInvalidRevocation Slug = "invalid-revocation"
	SlugKeyFixed          Slug = "key-configured"
	SlugTooManyKeys       Slug = "too-many-keys"
	SlugManyRevocations   Slug = "too-many-revocations"
	SlugInvalidID         Slug = "invalid-id"
	SlugInvalidLock       Slug = "invalid-lock"
	SlugLockHeld          Slug = "lock-held"
	SlugLockLost          Slug = "lock-lost"
	SlugInvalidValue      Slug = "invalid-value"
	SlugValueTooLarge     Slug = "value-too-large"
	SlugNoKind            Slug = "kind-not-found"
	SlugNotCached         Slug = "not-cached"
	SlugInvalidToken      Slug = "invalid-token-record"
	SlugNoVerification    Slug = "verification-not-found"
	SlugNoOAuthState      Slug = "oauth-state-not-found"
	SlugNoOAuthTokens     Slug = "oauth-tokens-not-found" //nolint:gosec // no credential
	SlugNoKeyset          Slug = "no-keyset"
	SlugSealed            Slug = "token-unreadable"
	SlugNoSession         Slug = "session-not-found"
	SlugInvalidSession    Slug = "invalid-session"
	SlugInvalidAmount     Slug = "invalid-amount"
	SlugCounterRange      Slug = "counter-out-of-range"
	SlugNoState           Slug = "state-not-found"
	SlugInvalidState      Slug = "invalid-state"
	SlugManyFields        Slug = "too-many-fields"
	SlugInvalidTimeframe  Slug = "invalid-timeframe"
	SlugInvalidImport     Slug = "invalid-import"
	SlugImportConflict    Slug = "import-conflict"
	SlugTagFull           Slug = "tag-full"
	SlugNoSetting         Slug = "setting-not-found"
	SlugInvalidSetting    Slug = "invalid-setting"
	SlugManySettings      Slug = "too-many-settings"
	SlugConfiguration     Slug = "invalid-configuration"
)

// Entry describes a slug.
type Entry struct {
	Slug   Slug
	Kinds  []Kind // the kinds of errors that have it; the first one is the usual one
	Title  string // the slug's meaning in a few words, always the same
	Cause  string // when it occurs; may have Markdown code
	Remedy string // remedy; may have Markdown code
}

// List returns an entry for every slug: first those of any request, then those of channels, of
// matchmaking, and of access.
func List() []Entry { return slices.Clone(entries) }

// Title returns the meaning of a slug in a few words, or "" for one that isn't listed.
func (s Slug) Title() string { return titles[s] }

var entries = []Entry{
	{
		Slug: SlugInternal, Kinds: []Kind{Internal}, Title: "Internal error",
		Cause:  "A defect of the service, or data in its storage that it did not write.",
		Remedy: "Find the request's ID in the service's log and report the defect.",
	},
	{
		Slug: SlugInvalidRequest, Kinds: []Kind{Invalid}, Title: "Invalid request",
		Cause:  "The HTTP request itself is malformed, or its headers are larger than 32 KiB.",
		Remedy: "Fix the client or the proxy that sends it. The status is the one that HTTP has for the case.",
	},
	{
		Slug: SlugInvalidBody, Kinds: []Kind{Invalid, Timeout}, Title: "Invalid body",
		Cause:  "The body is not the JSON that the call takes, is compressed, was cut short, or took too long to arrive (408).",
		Remedy: "Fix the part that `field` and `offset` name. After a 408 send the body faster.",
	},
	{
		Slug: SlugInvalidQuery, Kinds: []Kind{Invalid}, Title: "Invalid query parameter",
		Cause:  "A query parameter is unknown or malformed, or the call takes none.",
		Remedy: "Fix the parameter that `field` names.",
	},
	{
		Slug: SlugBodyTooLarge, Kinds: []Kind{TooLarge}, Title: "Body too large",
		Cause:  "The body is larger than the service accepts.",
		Remedy: "Send fewer or smaller messages in a request, or raise `--max-body-bytes`.",
	},
	{
		Slug: SlugNoPath, Kinds: []Kind{NotFound}, Title: "No such path",
		Cause:  "Nothing is served at this path. Without matchmaking that includes tickets and queues.",
		Remedy: "Fix the path; the detail names one that was probably meant, or `admin-listen`, whose address has the path.",
	},
	{
		Slug: SlugMethod, Kinds: []Kind{MethodNotAllowed}, Title: "Method not allowed",
		Cause:  "The path does not have this method.",
		Remedy: "Use a method that the header `Allow` lists.",
	},
	{
		Slug: SlugCrossOrigin, Kinds: []Kind{Forbidden}, Title: "Cross-origin request refused",
		Cause:  "A web page of another origin sent the request.",
		Remedy: "Add the page's origin to `--cors-origins` if it may use the API.",
	},
	{
		Slug: SlugUnknownHost, Kinds: []Kind{Misdirected}, Title: "Unknown host name",
		Cause:  "The request's host name is none of the service's.",
		Remedy: "Add the name to `--allow-hosts`, or use the service's address.",
	},
	{
		Slug: SlugDraining, Kinds: []Kind{Unavailable}, Title: "Shutting down",
		Cause:  "The server is shutting down, or an operator has drained it.",
		Remedy: "Try again after `retryAfter` seconds; another server may answer.",
	},
	{
		Slug: SlugOverloaded, Kinds: []Kind{Unavailable}, Title: "Overloaded",
		Cause:  "The server has as many connections, bodies, queries, fetches or unread answers as it allows.",
		Remedy: "Try again after `retryAfter` seconds.",
	},
	{
		Slug: SlugInvalidChannel, Kinds: []Kind{Invalid}, Title: "Invalid channel name",
		Cause:  "The channel's name is empty, too long, or has a character that names may not have.",
		Remedy: "Use another name.",
	},
	{
		Slug: SlugInvalidSubscriber, Kinds: []Kind{Invalid}, Title: "Invalid subscriber name",
		Cause:  "The subscriber's name is empty, too long, or has a character that names may not have.",
		Remedy: "Use another name.",
	},
	{
		Slug: SlugInvalidMessageID, Kinds: []Kind{Invalid}, Title: "Invalid message ID",
		Cause:  "The message's ID is empty, too long, or has a character that IDs may not have.",
		Remedy: "Use another ID, or leave it out to have one made.",
	},
	{
		Slug: SlugInvalidContent, Kinds: []Kind{Invalid}, Title: "Invalid message content",
		Cause:  "The content is not one JSON value in UTF-8, or, of a message with a `contentType`, not base64.",
		Remedy: "Encode the content as JSON, or say what it is by `Content-Type`, or by `contentType` and base64.",
	},
	{
		Slug: SlugContentType, Kinds: []Kind{Invalid}, Title: "Invalid content type",
		Cause: "The content type of a message is not a media type, has more than 128 bytes, or has a parameter whose value " +
			"needs quotes.",
		Remedy: "Use a media type such as `text/plain` or `application/octet-stream`.",
	},
	{
		Slug: SlugSchema, Kinds: []Kind{Invalid}, Title: "Message does not match the channel's schema",
		Cause: "The content is not what the `schema` of the channel's rule asks for, or it is not JSON. Nothing of the batch " +
			"was published.",
		Remedy: "Fix the part of the content that `field` names.",
	},
	{
		Slug: SlugInvalidBatch, Kinds: []Kind{Invalid}, Title: "Invalid batch",
		Cause:  "The batch is empty.",
		Remedy: "Send at least one message.",
	},
	{
		Slug: SlugInvalidMax, Kinds: []Kind{Invalid}, Title: "Invalid max",
		Cause:  "`max` is not a number that the service allows.",
		Remedy: "Use a number within the limits that `GET /v1/info` reports.",
	},
	{
		Slug: SlugInvalidWait, Kinds: []Kind{Invalid}, Title: "Invalid wait",
		Cause:  "`wait` is not a duration that the service allows.",
		Remedy: "Use a duration within the limits that `GET /v1/info` reports.",
	},
	{
		Slug: SlugInvalidFrom, Kinds: []Kind{Invalid, Conflict}, Title: "Invalid starting point",
		Cause:  "`from` is neither `latest`, `earliest` nor a clock, or is ahead of the channel's clock (409).",
		Remedy: "Use `latest`, `earliest`, or a clock that was given out.",
	},
	{
		Slug: SlugInvalidPosition, Kinds: []Kind{Invalid, Conflict}, Title: "Invalid position in the channel",
		Cause: "Of an operator's call: `through`, `to` or `after` is none of the forms that the call takes, or is a clock " +
			"ahead of the channel's (409). Nothing was changed.",
		Remedy: "Use one of the forms that the detail lists, or a clock that was given out.",
	},
	{
		Slug: SlugOtherLife, Kinds: []Kind{Conflict}, Title: "Other life of the channel",
		Cause:  "The channel ended and began again since its `epoch` was read. Nothing was changed.",
		Remedy: "Describe the channel, and decide again.",
	},
	{
		Slug: SlugInvalidSources, Kinds: []Kind{Invalid}, Title: "Invalid list of sources",
		Cause:  "`from`, the list of channels to fetch from, is empty, is too long, or names a channel and subscriber twice.",
		Remedy: "Name each once, and split a longer list into several calls.",
	},
	{
		Slug: SlugInvalidPolicy, Kinds: []Kind{Invalid}, Title: "No valid policy for the channel",
		Cause:  "No rule of the configuration applies to the channel.",
		Remedy: "Use another channel, or add a rule for it.",
	},
	{
		Slug: SlugMessageTooLarge, Kinds: []Kind{TooLarge}, Title: "Message too large",
		Cause:  "The content is larger than the channel's policy allows.",
		Remedy: "Send less, or raise the policy's limit.",
	},
	{
		Slug: SlugBatchTooLarge, Kinds: []Kind{TooLarge}, Title: "Too many messages in a batch",
		Cause:  "The batch has more messages than the service allows.",
		Remedy: "Send several batches.",
	},
	{
		Slug: SlugNoChannel, Kinds: []Kind{NotFound}, Title: "Channel not found",
		Cause:  "The channel does not exist, or its life has ended.",
		Remedy: "Publish or subscribe to it first.",
	},
	{
		Slug: SlugInvalidHeader, Kinds: []Kind{Invalid}, Title: "Invalid header",
		Cause:  "A header of a request of the Durable Streams protocol is missing, there twice, or not what the protocol allows; `field` is its name.",
		Remedy: "Fix the header. Of Producer-Id, Producer-Epoch and Producer-Seq send all three or none.",
	},
	{
		Slug: SlugOffsetGone, Kinds: []Kind{Gone}, Title: "Offset gone",
		Cause:  "The messages after the offset have expired, or were purged; or it is of an earlier stream of this path, or of a history that the storage has lost.",
		Remedy: "Read from the beginning, by the offset -1, or from now on.",
	},
	{
		Slug: SlugNotServed, Kinds: []Kind{Unsupported}, Title: "Not served",
		Cause:  "The part of the Durable Streams protocol that the request is for, a subscription or a fork, isn't served by this service.",
		Remedy: "Read the stream instead, with long polls or as server-sent events.",
	},
	{
		Slug: SlugChannelClosed, Kinds: []Kind{Conflict}, Title: "Channel closed",
		Cause:  "The channel was closed: this life of it gets no further messages.",
		Remedy: "Publish to another channel, or delete this one first. A repeated publish is still answered as the first time.",
	},
	{
		Slug: SlugChannelExists, Kinds: []Kind{Conflict}, Title: "Channel exists",
		Cause:  "The channel exists with another content type, TTL or end, or it is closed.",
		Remedy: "Use it as it is, or another channel.",
	},
	{
		Slug: SlugOtherContentType, Kinds: []Kind{Conflict}, Title: "Content type differs from the channel's",
		Cause:  "The channel was created for messages of another content type.",
		Remedy: "Publish messages of the channel's content type.",
	},
	{
		Slug: SlugInvalidProperties, Kinds: []Kind{Invalid}, Title: "Invalid properties of a channel",
		Cause:  "The content type, the TTL or the end that the channel is to be created with is malformed or out of bounds.",
		Remedy: "Fix what `field` names. A channel has a TTL or an end, not both.",
	},
	{
		Slug: SlugInvalidProducer, Kinds: []Kind{Invalid}, Title: "Invalid producer",
		Cause:  "The producer's ID, epoch or sequence is missing, malformed or out of bounds, or the order is.",
		Remedy: "Fix what `field` names: the ID has 1 to 256 printable ASCII characters, the numbers are from 0 to 2^53-1.",
	},
	{
		Slug: SlugProducerFenced, Kinds: []Kind{Forbidden}, Title: "Producer replaced",
		Cause:  "The producer has published with a higher epoch: another process has taken its place.",
		Remedy: "Stop publishing, or take the place back with an epoch higher than the one in the answer.",
	},
	{
		Slug: SlugProducerGap, Kinds: []Kind{Conflict}, Title: "Gap in the producer's sequence",
		Cause: "A publish of the producer is missing: the sequence is more than one ahead of its last one. Or the channel " +
			"is to be closed with the sequence of a publish.",
		Remedy: "Send the publishes from the expected sequence on, in order.",
	},
	{
		Slug: SlugProducerStart, Kinds: []Kind{Invalid}, Title: "New epoch doesn't begin with 0",
		Cause:  "The first publish of a producer's epoch has a sequence other than 0.",
		Remedy: "Begin each epoch with the sequence 0.",
	},
	{
		Slug: SlugManyProducers, Kinds: []Kind{Conflict}, Title: "Too many producers",
		Cause:  "The channel has 1,000 producers, and keeps what each has published.",
		Remedy: "Use the ID of a producer that the channel has, with a higher epoch.",
	},
	{
		Slug: SlugOrderConflict, Kinds: []Kind{Conflict}, Title: "Order isn't greater",
		Cause:  "The publish has an order that isn't after the last one, compared byte by byte.",
		Remedy: "Read what was published since, and publish with a greater order.",
	},
	{
		Slug: SlugNoSubscriber, Kinds: []Kind{NotFound}, Title: "Subscriber not found",
		Cause:  "The subscriber does not exist: it never subscribed, was removed, or was idle for longer than its life.",
		Remedy: "Subscribe again.",
	},
	{
		Slug: SlugReceiptMalformed, Kinds: []Kind{Invalid}, Title: "Malformed receipt handle",
		Cause:  "The text is not a receipt handle.",
		Remedy: "Send the handle as it was received.",
	},
	{
		Slug: SlugReceiptForged, Kinds: []Kind{Invalid}, Title: "Forged receipt handle",
		Cause:  "The handle was not signed by this service.",
		Remedy: "Fetch again for a new handle. If this repeats, the servers do not share their storage.",
	},
	{
		Slug: SlugReceiptChannel, Kinds: []Kind{Invalid}, Title: "Receipt handle of another channel",
		Cause:  "The handle belongs to another channel.",
		Remedy: "Send it to the channel that it came from.",
	},
	{
		Slug: SlugReceiptSubscriber, Kinds: []Kind{Invalid}, Title: "Receipt handle of another subscriber",
		Cause:  "The handle belongs to another subscriber.",
		Remedy: "Send it for the subscriber that received it.",
	},
	{
		Slug: SlugReceiptEpoch, Kinds: []Kind{Conflict}, Title: "Receipt handle of an earlier life of the channel",
		Cause:  "The channel ended and began again since the fetch. Nothing was acknowledged.",
		Remedy: "Fetch again.",
	},
	{
		Slug: SlugReceiptAhead, Kinds: []Kind{Conflict}, Title: "Receipt handle ahead of the channel",
		Cause:  "The storage lost the message that the handle stands for, as after a fail-over. Nothing was acknowledged.",
		Remedy: "Fetch again.",
	},
	{
		Slug: SlugReceiptSuperseded, Kinds: []Kind{Conflict}, Title: "Receipt handle superseded",
		Cause:  "The storage lost the message that the handle stands for, and another one has its clock. Nothing was acknowledged.",
		Remedy: "Fetch again.",
	},
	{
		Slug: SlugStorageFull, Kinds: []Kind{StorageFull}, Title: "Storage full",
		Cause:  "Redis has no memory left. Nothing was written. Acknowledging, cancelling and unsubscribing still work.",
		Remedy: "Give Redis more memory, or let messages expire sooner.",
	},
	{
		Slug: SlugUnavailable, Kinds: []Kind{Unavailable}, Title: "Storage unavailable",
		Cause: "Redis cannot serve the request now: it is down, failing over, loading or read-only. Or it refuses the " +
			"service: its user lacks a right, the password or a certificate is wrong, or Redis lacks a command.",
		Remedy: "Try again after `retryAfter` seconds. If Redis refuses the service, as `detail` says then, trying again " +
			"doesn't help until an operator has made the change that the service's log and `tidemark doctor` name.",
	},
	{
		Slug: SlugNotReplicated, Kinds: []Kind{Unavailable}, Title: "Not replicated",
		Cause:  "The write, or the assignment that was to be read, is stored, but not yet on as many replicas as were asked for.",
		Remedy: "Try again: a message with the same ID is not published twice.",
	},
	{
		Slug: SlugInvalidTicket, Kinds: []Kind{Invalid}, Title: "Invalid ticket",
		Cause:  "A part of the ticket is not allowed.",
		Remedy: "Fix the part that `field` names.",
	},
	{
		Slug: SlugInvalidQueue, Kinds: []Kind{Invalid}, Title: "Invalid queue",
		Cause:  "The queue's name or a part of its definition is not allowed.",
		Remedy: "Fix the part that `field` names.",
	},
	{
		Slug: SlugNoTicket, Kinds: []Kind{NotFound}, Title: "Ticket not found",
		Cause:  "The ticket does not exist, or its life has ended.",
		Remedy: "Create it again.",
	},
	{
		Slug: SlugNoQueue, Kinds: []Kind{NotFound}, Title: "Queue not found",
		Cause:  "The queue does not exist.",
		Remedy: "Create it, or use another queue.",
	},
	{
		Slug: SlugNoMatch, Kinds: []Kind{NotFound}, Title: "Match not found",
		Cause:  "No match of the queue has the ID, or its record is not kept any more.",
		Remedy: "Use the `matchId` and the queue of an assignment, within the queue's `assignmentTTL`.",
	},
	{
		Slug: SlugTicketExists, Kinds: []Kind{Conflict}, Title: "Ticket of another queue or owner",
		Cause:  "A ticket of another queue, or of another owner, has the ID.",
		Remedy: "Use another ID, or cancel the other ticket.",
	},
	{
		Slug: SlugTicketMatched, Kinds: []Kind{Conflict}, Title: "Ticket matched",
		Cause:  "The ticket is in a match already, so it can't be cancelled.",
		Remedy: "Read its assignment.",
	},
	{
		Slug: SlugTicketTooLarge, Kinds: []Kind{TooLarge}, Title: "Ticket too large",
		Cause:  "The ticket is larger than the service allows.",
		Remedy: "Send fewer or shorter fields.",
	},
	{
		Slug: SlugQueueFull, Kinds: []Kind{Unavailable}, Title: "Queue full",
		Cause:  "As many tickets wait in the queue as its definition allows.",
		Remedy: "Try again after `retryAfter` seconds.",
	},
	{
		Slug: SlugQueueFixed, Kinds: []Kind{Conflict}, Title: "Queue of the configuration",
		Cause:  "The queue is part of the service's configuration.",
		Remedy: "Change the configuration.",
	},
	{
		Slug: SlugQueueInUse, Kinds: []Kind{Conflict}, Title: "Queue in use",
		Cause:  "Tickets wait in the queue, or assignments are being delivered.",
		Remedy: "Let them be matched, cancelled or expire first.",
	},
	{
		Slug: SlugTooManyQueues, Kinds: []Kind{Conflict}, Title: "Too many queues",
		Cause:  "There are as many queues as the service allows.",
		Remedy: "Delete one, or raise `--max-queues`.",
	},
	{
		Slug: SlugQueueDirector, Kinds: []Kind{Conflict}, Title: "The queue is not directed by its user",
		Cause:  "The call is for queues with `director: user`, and the service directs this one.",
		Remedy: "Define the queue with `director: user`: [open-match.md](open-match.md).",
	},
	{
		Slug: SlugInvalidBackfill, Kinds: []Kind{Invalid}, Title: "Invalid backfill",
		Cause:  "A part of the backfill, or of the call about one, is missing or not allowed.",
		Remedy: "Fix the part that `field` names.",
	},
	{
		Slug: SlugNoBackfill, Kinds: []Kind{NotFound}, Title: "Backfill not found",
		Cause:  "The backfill never existed, was deleted, or has expired.",
		Remedy: "Create another one if the game still has room.",
	},
	{
		Slug: SlugBackfillExpired, Kinds: []Kind{Conflict}, Title: "Backfill expired",
		Cause:  "The backfill was not acknowledged for the queue's `backfillTTL`: its tickets wait again.",
		Remedy: "Create another one, and acknowledge it more often.",
	},
	{
		Slug: SlugBackfillTooLarge, Kinds: []Kind{TooLarge}, Title: "Backfill too large",
		Cause:  "The backfill has more bytes as protobuf than the queue's `maxTicketBytes`.",
		Remedy: "Send less in `extensions` and `persistentField`, or raise the limit in the queue's definition.",
	},
	{
		Slug: SlugManyBackfills, Kinds: []Kind{Unavailable}, Title: "Too many backfills",
		Cause:  "The queue has `maxBackfills` backfills.",
		Remedy: "Delete those of games that are over or full, or raise the limit in the queue's definition.",
	},
	{
		Slug: SlugReserved, Kinds: []Kind{Forbidden}, Title: "Channel of the service",
		Cause:  "Only the service writes to the channels of tickets (`ticket.…`), and with `cache-shards` to those of changes of the cache (`cache:…`), and changes their subscribers. Only it fetches from the latter, and acknowledges. Only it reads as the subscriber `copies` of a channel whose rule has `deliver: copies`.",
		Remedy: "Use another channel, or another subscriber. Fetching from the channel of a ticket is allowed.",
	},
	{
		Slug: SlugNoCredential, Kinds: []Kind{Unauthenticated}, Title: "No credentials",
		Cause: "The request has no credentials, and the service requires them for it. A wait ends with this when a reload " +
			"of the rules withdraws what they allowed to everybody.",
		Remedy: "Send an API key or a token in the header `Authorization: Bearer …`.",
	},
	{
		Slug: SlugInvalidCredential, Kinds: []Kind{Unauthenticated}, Title: "Invalid credentials",
		Cause:  "The API key is unknown, or the token is malformed, has a wrong signature, is not valid yet, or is for another service.",
		Remedy: "Use valid credentials. The service's log says what is wrong, under the request's ID. With `Retry-After` the token becomes valid then.",
	},
	{
		Slug: SlugExpiredCredential, Kinds: []Kind{Unauthenticated}, Title: "Expired credentials",
		Cause:  "The credentials have expired. A wait ends with this when it happens.",
		Remedy: "Get a new token, and try again.",
	},
	{
		Slug: SlugRevokedCredential, Kinds: []Kind{Unauthenticated}, Title: "Revoked credentials",
		Cause:  "The credentials were revoked. A wait ends with this when it happens.",
		Remedy: "Use other credentials.",
	},
	{
		Slug: SlugKeysUnavailable, Kinds: []Kind{Unavailable}, Title: "Keys unavailable",
		Cause:  "The token can't be verified now, since the set of keys of its issuer (`--jwt-keys`) can't be fetched.",
		Remedy: "Try again after `retryAfter` seconds. The service's log says why it can't be fetched.",
	},
	{
		Slug: SlugNotGranted, Kinds: []Kind{Forbidden}, Title: "Not granted",
		Cause: "The credentials are valid, but do not grant this action on this channel, subscriber, ticket or queue. A " +
			"wait ends with this when a reload of the rules of channels withdraws what they allowed.",
		Remedy: "Use other credentials, or have the action granted: [security.md](security.md).",
	},
	{
		Slug: SlugTokenInQuery, Kinds: []Kind{Invalid}, Title: "Token in the query",
		Cause:  "The query has `access_token`, which no channel rule allows here, or the request has credentials in its header too.",
		Remedy: "Send the token in the header `Authorization`, or allow it with `queryToken` in a rule of `channels`.",
	},
	{
		Slug: SlugRateLimited, Kinds: []Kind{Limited}, Title: "Too many requests",
		Cause: "The caller, or its address, has used up a limit, has not read its answers, or sends too many large " +
			"bodies at a time.",
		Remedy: "Try again after `retryAfter` seconds.",
	},
	{
		Slug: SlugTooManyWaits, Kinds: []Kind{Limited}, Title: "Too many waits",
		Cause:  "The caller, or its address, has as many requests waiting, and streams and WebSockets open, as it may have.",
		Remedy: "Let one of them end first.",
	},
	{
		Slug: SlugManySubscribers, Kinds: []Kind{Conflict}, Title: "Too many subscribers",
		Cause:  "The channel has as many subscribers as its policy allows.",
		Remedy: "Remove one, or raise `maxSubscribers` of the channel's rule.",
	},
	{
		Slug: SlugNoKey, Kinds: []Kind{NotFound}, Title: "API key not found",
		Cause:  "No API key has the ID.",
		Remedy: "List the keys with `tidemark key list`.",
	},
	{
		Slug: SlugInvalidKey, Kinds: []Kind{Invalid}, Title: "Invalid API key",
		Cause:  "A part of the key that is to be created is not allowed.",
		Remedy: "Fix the part that `field` names.",
	},
	{
		Slug: SlugInvalidRevocation, Kinds: []Kind{Invalid}, Title: "Invalid revocation",
		Cause:  "The revocation names nothing that can be revoked, or a part of it is not allowed.",
		Remedy: "Fix the part that `field` names.",
	},
	{
		Slug: SlugKeyFixed, Kinds: []Kind{Conflict}, Title: "API key of the configuration",
		Cause:  "The API key is from the file of `--api-keys`.",
		Remedy: "Remove it from the file.",
	},
	{
		Slug: SlugTooManyKeys, Kinds: []Kind{Conflict}, Title: "Too many API keys",
		Cause:  "There are 10,000 API keys.",
		Remedy: "Delete some, or use tokens.",
	},
	{
		Slug: SlugManyRevocations, Kinds: []Kind{Conflict}, Title: "Too many revocations",
		Cause:  "There are 100,000 revocations.",
		Remedy: "Let some of them end; give each token's own end as `until`, or revoke the subject.",
	},
	{
		Slug: SlugConfiguration, Kinds: []Kind{Conflict}, Title: "Invalid configuration",
		Cause: "A reload found faults in the configuration, couldn't read it, or found a change that needs a restart. " +
			"Nothing was changed.",
		Remedy: "Fix what the detail names; `tidemark serve --check` finds faults before a reload.",
	},
	{
		Slug: SlugInvalidID, Kinds: []Kind{Invalid}, Title: "Invalid ID",
		Cause:  "A user, or the ID or name of a record, is empty, too long (128 bytes; 512 for queries), or has control characters.",
		Remedy: "Fix the part that `field` names.",
	},
	{
		Slug: SlugInvalidLock, Kinds: []Kind{Invalid}, Title: "Invalid lock",
		Cause:  "The time to live of the lock, or its token, is not allowed.",
		Remedy: "Fix the part that `field` names.",
	},
	{
		Slug: SlugLockHeld, Kinds: []Kind{Conflict}, Title: "Lock held",
		Cause:  "Another holder has the lock.",
		Remedy: "Try again after `retryAfter` seconds, or send `wait`.",
	},
	{
		Slug: SlugLockLost, Kinds: []Kind{Conflict}, Title: "Lock lost",
		Cause:  "The token does not hold the lock: its time has passed, it was released, or another holder has it.",
		Remedy: "Stop what the lock protects. Acquire it again if it is still needed.",
	},
	{
		Slug: SlugInvalidToken, Kinds: []Kind{Invalid}, Title: "Invalid token record",
		Cause:  "A part of a verification, an OAuth state or OAuth tokens is not allowed: the type, the data, the provider, the URL.",
		Remedy: "Fix the part that `field` names. Providers are those of `--oauth-providers`.",
	},
	{
		Slug: SlugNoVerification, Kinds: []Kind{NotFound}, Title: "Verification token not found",
		Cause:  "No verification token of this type is valid that is equal to the one sent: it was never issued, was taken or replaced, or has ended.",
		Remedy: "Issue a new one.",
	},
	{
		Slug: SlugNoOAuthState, Kinds: []Kind{NotFound}, Title: "OAuth state not found",
		Cause:  "The OAuth state was never made, was taken, or has ended.",
		Remedy: "Begin the login again.",
	},
	{
		Slug: SlugNoOAuthTokens, Kinds: []Kind{NotFound}, Title: "OAuth tokens not found",
		Cause:  "No token of this provider is stored for the user, or they have ended.",
		Remedy: "Have the user log in with the provider again.",
	},
	{
		Slug: SlugNoKeyset, Kinds: []Kind{Unsupported}, Title: "No keyset",
		Cause:  "The service was started without `--keyset`, so it has nothing to encrypt OAuth tokens with.",
		Remedy: "Make a keyset with `tidemark oauth keyset create`, and start the service with it.",
	},
	{
		Slug: SlugSealed, Kinds: []Kind{Unsupported}, Title: "Token unreadable",
		Cause:  "A stored OAuth token can't be decrypted: its key is not in the keyset, or the value was changed or copied from another key.",
		Remedy: "Put the key back into the keyset, or store the user's tokens again. The service's log says which of them it is.",
	},
	{
		Slug: SlugInvalidValue, Kinds: []Kind{Invalid}, Title: "Invalid value",
		Cause:  "The value doesn't have the form of its kind, such as an author that isn't a JSON object.",
		Remedy: "Fix the value as `detail` says; [caches.md](records/caches.md) has the forms.",
	},
	{
		Slug: SlugValueTooLarge, Kinds: []Kind{TooLarge}, Title: "Value too large",
		Cause:  "The value is larger than values of its kind may be: [records.md](records.md) has the sizes.",
		Remedy: "Store less, or parts of it under several IDs.",
	},
	{
		Slug: SlugNoKind, Kinds: []Kind{NotFound}, Title: "No such kind",
		Cause:  "The table of kinds has no such kind of cached values, operation of locks, or statistics.",
		Remedy: "Use one of the table of kinds: [kinds.md](records/kinds.md) describes it.",
	},
	{
		Slug: SlugNotCached, Kinds: []Kind{NotFound}, Title: "Not cached",
		Cause:  "The cache doesn't have the value: it was never stored, has expired, or was invalidated or evicted.",
		Remedy: "Read the value from where it comes from, and store it.",
	},
	{
		Slug: SlugNoSession, Kinds: []Kind{NotFound}, Title: "No such session",
		Cause:  "No session has this token: it was revoked or rotated, has expired, or never was one.",
		Remedy: "Let the user log in again, and create a session.",
	},
	{
		Slug: SlugInvalidSession, Kinds: []Kind{Invalid}, Title: "Invalid session",
		Cause:  "The username, the device info, the auth data, or the idempotency key is missing, too long, or not what it must be.",
		Remedy: "Fix the part that `field` names.",
	},
	{
		Slug: SlugInvalidAmount, Kinds: []Kind{Invalid}, Title: "Invalid amount",
		Cause:  "A number of views isn't between 1 and 1,000,000, an amount is beyond 2^53-1, or a call has none or too many of them.",
		Remedy: "Fix the part that `field` names, or divide the call.",
	},
	{
		Slug: SlugCounterRange, Kinds: []Kind{Conflict}, Title: "Counter out of range",
		Cause:  "The counter would be beyond 2^53-1. Nothing was changed.",
		Remedy: "Count less at once, or set the counter.",
	},
	{
		Slug: SlugNoState, Kinds: []Kind{NotFound}, Title: "State not found",
		Cause:  "The process has no such state, or it has ended.",
		Remedy: "Write the state again; give it a longer `ttl` if it ended too early.",
	},
	{
		Slug: SlugInvalidState, Kinds: []Kind{Invalid}, Title: "Invalid state",
		Cause:  "A `ttl` isn't between 1 minute and 1 hour, a value is too large, or there is nothing to change.",
		Remedy: "Fix the part that `field` names.",
	},
	{
		Slug: SlugManyFields, Kinds: []Kind{TooLarge}, Title: "Too many fields",
		Cause:  "A state or a window of statistics would have more than 64 fields, or a state more than 64 KiB. Nothing was changed.",
		Remedy: "Use fewer fields, or several records.",
	},
	{
		Slug: SlugInvalidTimeframe, Kinds: []Kind{Invalid}, Title: "Invalid timeframe",
		Cause:  "A timeframe or period is none of `hourly`, `daily` and `weekly`.",
		Remedy: "Use one of these.",
	},
	{
		Slug: SlugInvalidImport, Kinds: []Kind{Invalid}, Title: "Invalid import",
		Cause:  "An import of views has a wrong timestamp, a total that isn't its number of records, or a part without records or with too many.",
		Remedy: "Fix the part that `field` names.",
	},
	{
		Slug: SlugImportConflict, Kinds: []Kind{Conflict}, Title: "Import conflict",
		Cause:  "Another import has the timestamp: its total differs, or the parts together have more records than the total.",
		Remedy: "Import the file that was imported first, or give the other one a timestamp of its own.",
	},
	{
		Slug: SlugTagFull, Kinds: []Kind{Conflict}, Title: "Too many values of a tag",
		Cause:  "The tag, or the kind of lists or searches, has 100,000 values. The value wasn't cached.",
		Remedy: "Use narrower tags, or invalidate the tag.",
	},
	{
		Slug: SlugNoSetting, Kinds: []Kind{NotFound}, Title: "Setting not found",
		Cause:  "There is no setting of this name.",
		Remedy: "Put it, or fix the name.",
	},
	{
		Slug: SlugInvalidSetting, Kinds: []Kind{Invalid}, Title: "Invalid setting",
		Cause:  "The value of a setting is longer than 16 KiB, or more than 100 settings are imported in one call.",
		Remedy: "Fix the part that `field` names.",
	},
	{
		Slug: SlugManySettings, Kinds: []Kind{Conflict}, Title: "Too many settings",
		Cause:  "There are 10,000 settings.",
		Remedy: "Delete some.",
	},
}

var titles = func() map[Slug]string {
	m := make(map[Slug]string, len(entries))
	for _, e := range entries {
		m[e.Slug] = e.Title
	}
	return m
}()
