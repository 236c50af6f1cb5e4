package docs_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const apiPage = "api.txt"

// TestPublicAPI compares the exported names of the stable packages with api.txt, so that a change of what programs are
// written against is seen in a review.
func TestPublicAPI(t *testing.T) {
	t.Parallel()
	var api strings.Builder
	for _, name := range stablePackages(t) {
		api.WriteString("package " + name + "\n\n" + exportedBy(t, name) + "\n")
	}
	if *update {
		require.NoError(t, os.WriteFile(apiPage, []byte(api.String()), 0o600))
	}
	page, err := os.ReadFile(apiPage)
	require.NoError(t, err)
	require.Equal(t, string(page), api.String(), "go test ./docs -run PublicAPI -update writes it")
}

// stablePackages returns the packages that docs/architecture.md calls stable, in order.
func stablePackages(t *testing.T) (names []string) {
	t.Helper()
	for line := range strings.Lines(read(t, "docs/architecture.md")) {
		if row := strings.Split(line, " | "); strings.HasSuffix(line, " | stable |\n") && strings.HasPrefix(line, "| `") {
			for _, name := range strings.Split(strings.TrimPrefix(row[0], "| "), ", ") {
				names = append(names, strings.Trim(name, "`"))
			}
		}
	}
	require.NotEmpty(t, names)
	return names
}

// exportedBy returns the exported declarations of a package without comments and bodies, sorted.
func exportedBy(t *testing.T, name string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, name, "*.go"))
	require.NoError(t, err)
	var declared []string
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") {
			continue
		}
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.FileExports(file)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				f.Body = nil
			}
			if g, ok := d.(*ast.GenDecl); ok && (g.Tok == token.IMPORT || len(g.Specs) == 0) {
				continue
			}
			var text bytes.Buffer
			require.NoError(t, printer.Fprint(&text, positions, d))
			declared = append(declared, text.String()+"\n")
		}
	}
	slices.Sort(declared)
	return strings.Join(declared, "")
}
