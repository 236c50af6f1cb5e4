package access

import "net/netip"

// Network returns the addresses that the client at an address, with or without a port, may well have all of: the
// address itself, or the /64 of IPv6. It is invalid if there is no address, as on a Unix socket.
func Network(address string) netip.Prefix {
	const subnetBits = 64
	at, err := netip.ParseAddr(address)
	if err != nil {
		withPort, _ := netip.ParseAddrPort(address)
		at = withPort.Addr()
	}
	at = at.Unmap()
	bits := at.BitLen()
	if at.Is6() {
		bits = subnetBits
	}
	network, _ := at.WithZone("").Prefix(bits) // the number of bits is valid
	return network
}
