// Package agenda orders items by the time at which each is due. An agenda has no lock, no goroutine and no clock: its
// owner passes the time, and waits until the first item is due.
package agenda

import (
	"container/heap"
	"time"
)

// Slot is the place of an item on an agenda, and the time at which the item is due. Items embed it. The zero value is
// on no agenda. An item is on one agenda at most.
type Slot struct {
	due   time.Time
	place int32 // on the agenda, counted from 1; 0: on none
}

// Planned reports whether the item is on an agenda.
func (s *Slot) Planned() bool { return s.place > 0 }

// Due returns the time at which the item is due, or was when it was last on an agenda.
func (s *Slot) Due() time.Time { return s.due }

func (s *Slot) slot() *Slot { return s }

// Item is a pointer to a struct that embeds a Slot.
type Item interface{ slot() *Slot }

// Agenda is items by the time at which they are due. The zero value is empty.
type Agenda[T Item] struct{ items queue[T] }

// Len returns the number of items.
func (a *Agenda[T]) Len() int { return len(a.items) }

// First returns the item that is due first. ok is false if the agenda is empty.
func (a *Agenda[T]) First() (item T, ok bool) {
	if len(a.items) == 0 {
		return item, false
	}
	return a.items[0], true
}

// Plan adds an item, or changes when it is due. It reports whether the item is the first one now.
func (a *Agenda[T]) Plan(item T, due time.Time) (first bool) {
	s := item.slot()
	s.due = due
	if s.Planned() {
		heap.Fix(&a.items, int(s.place)-1)
	} else {
		heap.Push(&a.items, item)
	}
	return s.place == 1
}

// PlanAll makes all items due at the same time.
func (a *Agenda[T]) PlanAll(due time.Time) {
	for _, item := range a.items {
		item.slot().due = due // any order of equal times is a heap
	}
}

// Remove removes an item, if it is on the agenda.
func (a *Agenda[T]) Remove(item T) {
	if s := item.slot(); s.Planned() {
		heap.Remove(&a.items, int(s.place)-1)
	}
}

// Take removes and returns the items that are due at a time, up to a limit, the first one first.
func (a *Agenda[T]) Take(now time.Time, limit int) (due []T) {
	for len(a.items) > 0 && len(due) < limit && !a.items[0].slot().due.After(now) {
		item := a.items[0]
		a.Remove(item)
		due = append(due, item)
	}
	return due
}

// queue implements heap.Interface.
type queue[T Item] []T

func (q queue[T]) Len() int           { return len(q) }
func (q queue[T]) Less(i, j int) bool { return q[i].slot().due.Before(q[j].slot().due) }
func (q queue[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].slot().place, q[j].slot().place = int32(i)+1, int32(j)+1
}

// Push implements heap.Interface.
func (q *queue[T]) Push(x any) {
	item, _ := x.(T)
	*q = append(*q, item)
	item.slot().place = int32(len(*q))
}

// Pop implements heap.Interface.
func (q *queue[T]) Pop() any {
	last := len(*q) - 1
	item := (*q)[last]
	clear((*q)[last:])
	*q = (*q)[:last]
	item.slot().place = 0
	return item
}
