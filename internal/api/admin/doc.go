// Package admin serves the routes of the admin listener only, such as the metrics and the profiles of the process.
//
// Start at [Register], which lists the routes.
package admin
