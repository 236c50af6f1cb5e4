package function

import "math/big"

// seats are the free slots of the teams of a match. They seat parties, players who stay together, in an order, each in
// the next team that has room for it. This may leave a slot that no party fits: Plan decides by the sizes of the
// parties whether a match can be filled, and how.
type seats struct {
	Remaining int   // in all teams
	free      []int // in each team
	next      int   // the team after that of the last party
}

// Seats returns the slots of an empty match.
func (m match) Seats() *seats {
	s := &seats{Remaining: m.Teams * m.Size, free: make([]int, m.Teams)}
	for i := range s.free {
		s.free[i] = m.Size
	}
	return s
}

// Largest returns the size of the largest party for which there is room.
func (s *seats) Largest() int {
	largest := 0
	for _, n := range s.free {
		largest = max(largest, n)
	}
	return largest
}

// Seat puts a party into the first team with enough free slots, beginning with the team after that of the last party.
// ok is false if there is none.
func (s *seats) Seat(players int) (team int, ok bool) {
	for i := range s.free {
		team := (s.next + i) % len(s.free)
		if s.free[team] >= players {
			s.free[team] -= players
			s.Remaining -= players
			s.next = (team + 1) % len(s.free)
			return team, true
		}
	}
	return 0, false
}

// Plan returns the sizes of the parties of each team of a full match, or nil if it finds none. The first party of the
// first team is the seed. others[n] is how many other parties of n players there are. One team after the other is
// completed, each by the largest parties with which that is possible.
//
// Whether the first team can be completed is decided exactly. A later team may lack the parties that an earlier one
// has, although the earlier one could have been completed by others. Taking the largest first leaves the smaller ones,
// which fit more easily, for the later teams. Plan takes O(Teams × Size × log Size) steps on numbers of Size bits.
func (m match) Plan(seed int, others []int) [][]int {
	players := seed
	for n, count := range others {
		players += n * count
	}
	if players < m.Teams*m.Size {
		return nil
	}
	rest := append([]int(nil), others...)
	teams := make([][]int, m.Teams)
	for i := range teams {
		want := m.Size
		if i == 0 {
			teams[0], want = []int{seed}, want-seed
		}
		sizes, ok := complete(want, rest)
		if !ok {
			return nil
		}
		for _, n := range sizes {
			rest[n]--
		}
		teams[i] = append(teams[i], sizes...)
	}
	return teams
}

// complete returns the sizes of parties that have exactly as many players as wanted, the largest first.
func complete(want int, counts []int) (sizes []int, ok bool) {
	// bit s of reach[n]: some parties of at most n players have s together
	reach := make([]big.Int, max(len(counts), 1))
	reach[0].SetBit(&reach[0], 0, 1)
	var more big.Int
	for n := 1; n < len(counts); n++ {
		reach[n].Set(&reach[n-1])
		for range min(counts[n], want/n) {
			reach[n].Or(&reach[n], more.Lsh(&reach[n], uint(n)))
		}
	}
	if want < 0 || reach[len(reach)-1].Bit(want) == 0 {
		return nil, false
	}
	for n := len(reach) - 1; n > 0; n-- {
		parties := min(counts[n], want/n)
		for reach[n-1].Bit(want-parties*n) == 0 {
			parties--
		}
		for range parties {
			sizes = append(sizes, n)
		}
		want -= parties * n
	}
	return sizes, true
}
