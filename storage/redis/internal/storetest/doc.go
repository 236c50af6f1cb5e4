// Package storetest has the common parts of the tests of the stores in Redis:
//
//   - connections to a Redis (connect.go), of which a [Lab] also reads the keys, a [Meter] counts the commands, a
//     [Faulty] answers with errors, and [TwoNodes] moves slots;
//   - calls that must all fail in the same way (calls.go), and replies of scripts to decode (replies.go);
//   - the tables of docs/redis (page.go), and the rules of keys (keys.go).
package storetest
