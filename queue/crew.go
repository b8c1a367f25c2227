package queue

// crew runs functions in goroutines that it keeps for the next function: a new
// goroutine for each message and each handler would spend much of its time on
// growing its stack. Its callers wait for their functions.
type crew chan func()

// run runs f at once.
func (c crew) run(f func()) {
	select {
	case c <- f: // an idle goroutine has it
	default:
		go func() {
			for ok := true; ok; f, ok = <-c {
				f()
			}
		}()
	}
}

// dismiss ends the idle goroutines now, and the others when their function
// returns. No function may be run afterwards.
func (c crew) dismiss() { close(c) }
