package storetest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// ports are the ports that Port has returned.
var ports struct {
	mu     sync.Mutex
	guards []net.Listener // kept open until the process ends
}

// Port returns a free port of the loopback address for a program that a test
// starts. No other call returns it, also not one of another test process: each
// port has a guard, a second port that the caller's process occupies. Both are
// outside the ports that systems give to connections, and that the local host
// returns.
func Port() (int, error) {
	const first, count, tries = 15000, 2500, 200
	ports.mu.Lock()
	defer ports.mu.Unlock()
	var last error
	for range tries {
		port := first + rand.IntN(count)
		guard, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port+count))
		if err != nil {
			last = err
			continue
		}
		ports.guards = append(ports.guards, guard)
		listener, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return port, listener.Close()
		}
		last = err
	}
	return 0, last
}
