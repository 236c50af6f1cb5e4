// Package topology reads which nodes a Redis has, and which of them has which slots:
//
//   - [Read] returns all primaries, as each describes itself, and whether slots are being moved. Only a node itself lists
//     slots that are being moved, in its reply to CLUSTER NODES.
//   - [ReadSlots] returns the slots of all primaries as one node sees them, also of those that don't answer. It needs
//     CLUSTER SLOTS, which any user of the service may run.
//   - [Reachable] returns the primaries that answer, with their INFO.
package topology
