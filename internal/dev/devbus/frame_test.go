package devbus

import (
	"bytes"
	"testing"
)

func FuzzFrameReader(f *testing.F) {
	for _, p := range []body{
		openFrame{container: "c", maxFrame: 512}, beginFrame{nextOutgoing: 1}, endFrame{}, closeFrame{refusal(condInternal, "x")},
		attachFrame{name: "l", source: terminus{true, "q"}, sessions: sessionFilter{present: true, id: "s"}, properties: mapping{{symbol("k"), uint32(1)}}},
		flowFrame{hasHandle: true, handle: 1, credit: 2}, transferFrame{hasID: true, tag: []byte{1}}, detachFrame{1, refusal(condNotFound, "x")},
		dispositionFrame{receives: true, last: 3, state: rejected(refusal(condLockLost, "x"))}, dispositionFrame{state: accepted},
	} {
		f.Add(appendFrame(nil, frameAMQP, 1, p, []byte("payload")))
	}
	f.Add(append(emptyFrame, emptyFrame...))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newFrameReader(bytes.NewReader(b))
		for {
			fr, err := r.next()
			if err != nil {
				return
			}
			for _, p := range []interface{ read(*fields) }{
				&openFrame{}, &beginFrame{}, &attachFrame{}, &flowFrame{}, &transferFrame{}, &dispositionFrame{},
			} {
				again := fr.fields
				p.read(&again)
			}
		}
	})
}
