package devbus

import (
	"slices"
)

// shelf holds messages in the order of their sequence numbers. As queues need,
// it is fast at and near both ends.
type shelf []*message

func (s shelf) find(sequence int64) (int, bool) {
	return slices.BinarySearchFunc(s, sequence, func(m *message, sequence int64) int {
		switch {
		case m.sequence < sequence:
			return -1
		case m.sequence > sequence:
			return 1
		}
		return 0
	})
}

// get returns the message with a sequence number, or nil.
func (s shelf) get(sequence int64) *message {
	if i, found := s.find(sequence); found {
		return s[i]
	}
	return nil
}

func (s *shelf) add(m *message) {
	if n := len(*s); n == 0 || (*s)[n-1].sequence < m.sequence {
		*s = append(*s, m)
		return
	}
	i, _ := s.find(m.sequence)
	*s = slices.Insert(*s, i, m)
}

func (s *shelf) remove(m *message) {
	i, found := s.find(m.sequence)
	if !found {
		return
	}
	if i > len(*s)/2 {
		*s = slices.Delete(*s, i, i+1)
		return
	}
	copy((*s)[1:i+1], (*s)[:i]) // moves fewer messages than Delete
	(*s)[0] = nil
	*s = (*s)[1:]
}
