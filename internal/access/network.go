package access

import "net/netip"

// Network returns the network that counts as one client: the address itself for IPv4, and its /64 for IPv6, since one
// host often has all of it. The address may have a port. The result is invalid without an address, as on a Unix socket.
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

// NetworkName returns a network as text: an address, a range of addresses, or "local" without an address.
func NetworkName(n netip.Prefix) string {
	switch {
	case !n.IsValid():
		return "local"
	case n.IsSingleIP():
		return n.Addr().String()
	}
	return n.String()
}
