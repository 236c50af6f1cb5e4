// Package layout tests that docs/architecture.md and README.md describe the source tree as it is. It has no other content.
package layout
