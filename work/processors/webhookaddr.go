package processors

import (
	"net/netip"
)

// exemption is which addresses besides public ones may be dialled for a server.
type exemption struct {
	literal  netip.Addr // the server's own address, if its name is one
	loopback bool       // the server is localhost
	private  bool
}

func (r exemption) allows(ip netip.Addr) bool {
	return isPublic(ip) || ip == r.literal || r.loopback && ip.IsLoopback() || r.private && isPrivate(ip)
}

// special lists the blocks of addresses that are not public: those that the IANA
// registries of special-purpose addresses mark as not globally reachable, those
// that carry an IPv4 address to another place (6to4, Teredo), and the platform's
// own. IPv6 is public only in 2000::/3, which leaves out NAT64, unique-local,
// link-local and multicast addresses.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's agent, DNS and health probes
	netip.MustParsePrefix("169.254.0.0/16"),   // has the metadata service
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("224.0.0.0/3"), // multicast, reserved, broadcast
	netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("3fff::/20"),
}

var publicIPv6 = netip.MustParsePrefix("2000::/3")

// isPublic and isPrivate expect an address that is not IPv4 in IPv6.
func isPublic(ip netip.Addr) bool {
	if !ip.Is4() && !publicIPv6.Contains(ip) {
		return false
	}
	for _, block := range special {
		if block.Contains(ip) {
			return false
		}
	}
	return true
}

var sharedAddresses = netip.MustParsePrefix("100.64.0.0/10")

// isPrivate reports whether a virtual network can have the address.
func isPrivate(ip netip.Addr) bool { return ip.IsPrivate() || sharedAddresses.Contains(ip) }
