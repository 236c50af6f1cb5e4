package records

// ValueOf lets tests decode replies of Redis that they can't cause.
var ValueOf = valueOf
