// Package tokens keeps verification tokens, the states of OAuth logins, and the tokens that OAuth providers issued for
// a user.
//
// Start from [New]. Verification tokens and states are random, and the store gets only their SHA-256. Of many
// concurrent takes exactly one succeeds. The tokens of providers must be read again, so they are encrypted by a
// [Sealer] before the store gets them, each for its user and provider alone: a value that is copied to another user's
// key can't be opened there.
//
// # A take whose answer was lost
//
// A take names its attempt. The same attempt may be repeated for [RepeatLife] and gets the same answer, so that a lost
// answer doesn't lose the taken data. Every other attempt finds nothing. Without a name each call is an attempt of its
// own.
package tokens
