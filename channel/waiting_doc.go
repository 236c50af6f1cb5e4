// Package waiting wakes the fetches that wait for messages.
//
// Start from [Hub]. A fetch that waits, on one channel or on several, calls [Hub.Wait], which calls its Read until that
// has found something. In between it sleeps at the positions that Read found:
//
//	join ─► prepare ─► read ─► sleep ─┬─► messages   each the next one after a position
//	           ▲                      ├─► woken      anything else that is new, and every confirmation
//	           └──────────────────────┘              only the channels concerned are read again
//	                                  └─► nothing    the time is over, the context ended, or the hub drained
//
// On each channel the fetch is a member of the channel's topic. The store calls the topic with the channel's events,
// and the topic wakes the members that an event concerns, usually with the message itself (topic.publish). What happens
// between prepare and sleep counts as if the member had slept already, so no wake-up is lost. Only what happened since
// its prepare wakes a member, so a fetch never spins. After each confirmation every member is read once, from a later
// prepare: so the fetch finds whatever it missed before, be it a message, a removal or a fail-over.

package channel
