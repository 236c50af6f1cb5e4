// Package admin serves what only the admin listener shows: the metrics and the profiles of the process.
//
// Start at [Register], which lists the routes.
package admin
