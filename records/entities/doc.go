// Package entities has the entities of a community site and how they are cached: authors, topics, lists of
// publications, follow lists and results of searches.
//
// [SearchID] and [ListID] make the IDs of searches and lists, so that the same question has one key. [Find] returns
// what is known about a kind of value: which IDs it has, and what its values look like.
package entities
