package records

// ValueOf is what tests know of the replies of Redis that they can't bring about.
var ValueOf = valueOf
