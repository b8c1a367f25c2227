package processors

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// guard dials only addresses that a server may have.
type guard struct {
	list     allowList
	resolver *net.Resolver
}

// dial checks the address that is connected to, after the name was resolved. So
// a name that resolves to another address than before gains nothing.
func (g guard) dial(ctx context.Context, network, server string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return nil, err
	}
	exemptions := g.list.exemptions(joinServer(host, port))
	d := net.Dialer{Resolver: g.resolver, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		ip := to.Addr().Unmap()
		for _, r := range exemptions {
			if r.allows(ip) {
				return nil
			}
		}
		return &addressError{server, ip}
	}}
	return d.DialContext(ctx, network, server)
}

// addressError reports a server with an address that must not be called.
type addressError struct {
	server string
	ip     netip.Addr
}

// Error implements error.
func (e *addressError) Error() string {
	return fmt.Sprintf("%s has the address %s, which is not public and not allowed for it", e.server, e.ip)
}
