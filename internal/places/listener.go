package places

import "net"

// Listener is a listener whose connections, of the type *Conn, have places. It closes those for which there is none.
type Listener struct {
	net.Listener
	Limit   *Limit
	Refused func() // called for each connection for which there is no place; nil: nothing is
}

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if place := l.Limit.Take(conn); place != nil {
			return &Conn{Conn: conn, Place: place}, nil
		}
		Cut(conn)
		if l.Refused != nil {
			l.Refused()
		}
	}
}

// Conn is a connection of a Listener.
type Conn struct {
	net.Conn
	Place *Place
}

// NetConn returns the connection in which c reads and writes.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Close closes the connection, and frees its place.
func (c *Conn) Close() error {
	c.Place.Release()
	return c.Conn.Close()
}
