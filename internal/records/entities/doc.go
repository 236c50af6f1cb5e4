// Package entities has the entities of a community site and how they are cached: authors, topics, lists of
// publications, follow lists and results of searches.
//
// [SearchID] and [ListID] make the IDs of searches and lists, so that equal queries have one key. [Find] returns the
// description of a kind of value: the form of its IDs and of its values.
package entities
