// Package tier puts the values of package cache into the sharded read tier of package shard.
package tier
