package storetest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// FreePort returns a port of 127.0.0.1 on which nothing listens, for a program
// that a test starts. It is below the ports that systems give to connections
// and to listeners on port 0, so that none of those takes it before the program
// does.
func FreePort() (int, error) {
	const first, count, tries = 20000, 10000, 100
	var last error
	for range tries {
		port := first + rand.IntN(count)
		listener, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return port, listener.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("find a free port: %w", last)
}
