package records

// ValueOf decodes a reply, so that tests can use replies that they can't cause.
var ValueOf = valueOf
