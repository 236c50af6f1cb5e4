package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = ".."

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return string(text)
}

// shownFiles matches the code blocks that show a file: its path, and its text.
var shownFiles = regexp.MustCompile("(?s)<!-- the file (\\S+) -->\n```[a-z]+\n(.*?)```")

// TestFilesOfThePages checks that files are shown as they are.
func TestFilesOfThePages(t *testing.T) {
	t.Parallel()
	shown := shownFiles.FindAllStringSubmatch(read(t, "docs/records/kinds.md"), -1)
	require.NotEmpty(t, shown)
	for _, file := range shown {
		require.Equal(t, read(t, file[1]), file[2], file[1])
	}
}

// shellBlocks matches the code blocks that a reader pastes into a shell.
var shellBlocks = regexp.MustCompile("(?s)```sh\n(.*?)```")

// shellComments matches the comments in them.
var shellComments = regexp.MustCompile(`(?m)(?:^|\s)#(?: .*)?$`)

// TestShellComments checks that zsh doesn't wait for more after a comment: it reads one that is typed or pasted as words,
// so that a single apostrophe begins a text.
func TestShellComments(t *testing.T) {
	t.Parallel()
	comments := 0
	for _, page := range files(t, ".md") {
		for _, block := range shellBlocks.FindAllStringSubmatch(read(t, page), -1) {
			for _, comment := range shellComments.FindAllString(block[1], -1) {
				comments++
				for _, quote := range []string{"'", `"`, "`"} {
					require.Zero(t, strings.Count(comment, quote)%2, "%s: %s", page, comment)
				}
			}
		}
	}
	require.Greater(t, comments, 50)
}

// steps matches the rows of the page that name a file: its path, and the function in it, if it is Go.
var steps = regexp.MustCompile("(?m)^\\| .* \\| `([a-z0-9_/]+\\.(?:go|lua))` \\| (?:`([A-Za-z.]+)` )?\\|$")

// TestFunctionsOfThePage checks that each function that the page names is in the file that it names.
func TestFunctionsOfThePage(t *testing.T) {
	t.Parallel()
	rows := steps.FindAllStringSubmatch(read(t, "docs/architecture.md"), -1)
	require.Greater(t, len(rows), 20)
	for _, row := range rows {
		file, function := row[1], row[2]
		if !strings.HasSuffix(file, ".go") {
			require.FileExists(t, filepath.Join(root, file))
			continue
		}
		require.Contains(t, functionsOf(t, file), function, file)
	}
}

// functionsOf returns the functions of a file, with the types of their receivers.
func functionsOf(t *testing.T, file string) (names []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, declared := range parsed.Decls {
		f, ok := declared.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			receiver := f.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			switch generic := receiver.(type) {
			case *ast.IndexExpr:
				receiver = generic.X
			case *ast.IndexListExpr:
				receiver = generic.X
			}
			name = receiver.(*ast.Ident).Name + "." + name
		}
		names = append(names, name)
	}
	return names
}

// TestPackagesOfThePage checks that the page lists each package, or a package above it, and nothing else.
func TestPackagesOfThePage(t *testing.T) {
	t.Parallel()
	listed := listedPackages(t)
	for _, name := range listed {
		require.DirExists(t, filepath.Join(root, name))
	}
	for _, name := range packages(t) {
		above := name
		for above != "." && !slices.Contains(listed, above) {
			above = filepath.Dir(above)
		}
		require.NotEqual(t, ".", above, "docs/architecture.md doesn't list %s", name)
	}
}

// listedPackages returns the packages of the page's list, in order.
func listedPackages(t *testing.T) (listed []string) {
	t.Helper()
	_, list, _ := strings.Cut(read(t, "docs/architecture.md"), "\n## Packages\n")
	list, _, _ = strings.Cut(list, "\n**The import rule.**")
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?`) \\| ").FindAllStringSubmatch(list, -1) {
		for _, name := range strings.Split(row[1], ", ") {
			listed = append(listed, strings.TrimSuffix(strings.Trim(name, "`"), "/..."))
		}
	}
	return listed
}

// TestOrderOfThePage checks that packages import only packages above them in the page's list, as the page says.
func TestOrderOfThePage(t *testing.T) {
	t.Parallel()
	const module = "github.com/tidemark-dev/tidemark/"
	listed := listedPackages(t)
	place := func(name string) int { // of a package or its parent; -1: it is a small library
		for ; name != "." && filepath.Base(name) != "internal"; name = filepath.Dir(name) {
			if at := slices.Index(listed, name); at >= 0 {
				return at
			}
		}
		return -1
	}
	args := []string{"list", "-f", `{{.ImportPath}} {{join .Imports " "}}`}
	for _, name := range packages(t) {
		args = append(args, module+name)
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		name, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		own := place(strings.TrimPrefix(name, module))
		for imported := range strings.FieldsSeq(imports) {
			if local, ok := strings.CutPrefix(imported, module); ok && own >= 0 {
				require.LessOrEqual(t, place(local), own, "%s imports %s", name, imported)
			}
		}
	}
}

// packages returns the folders with Go code.
func packages(t *testing.T) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, root+"/")
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != root ||
			slices.Contains([]string{"testdata", "tools", "examples", "docs", "node_modules"},
				entry.Name())):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") &&
			!slices.Contains(names, filepath.Dir(name)):
			names = append(names, filepath.Dir(name))
		}
		return nil
	}))
	return names
}

// TestGoOfTheREADME compiles the README's Go code.
func TestGoOfTheREADME(t *testing.T) {
	t.Parallel()
	_, code, found := strings.Cut(read(t, "README.md"), "```go\n")
	require.True(t, found)
	code, _, _ = strings.Cut(code, "```")
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(code), 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "vet", file).CombinedOutput() // as a package of this module
	require.NoError(t, err, "%s", out)
}

var rounded = regexp.MustCompile(`<rect [^>]*x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" rx=`)

// TestBoxesOfPictures: of two boxes in a picture, one contains the other, or they don't touch.
func TestBoxesOfPictures(t *testing.T) {
	t.Parallel()
	pictures, err := filepath.Glob("*.svg")
	require.NoError(t, err)
	require.NotEmpty(t, pictures)
	type box struct{ left, top, right, bottom float64 }
	contains := func(a, b box) bool {
		return a.left < b.left && a.top < b.top && a.right > b.right && a.bottom > b.bottom
	}
	for _, picture := range pictures {
		var boxes []box
		for _, m := range rounded.FindAllStringSubmatch(read(t, "docs/"+picture), -1) {
			var n [4]float64
			for i := range n {
				n[i], err = strconv.ParseFloat(m[1+i], 64)
				require.NoError(t, err)
			}
			boxes = append(boxes, box{n[0], n[1], n[0] + n[2], n[1] + n[3]})
		}
		require.NotEmpty(t, boxes, picture)
		for i, a := range boxes {
			for _, b := range boxes[:i] {
				apart := a.right < b.left || b.right < a.left || a.bottom < b.top || b.bottom < a.top
				require.True(t, apart || contains(a, b) || contains(b, a), "%s: %v and %v", picture, a, b)
			}
		}
	}
}

var (
	fenced    = regexp.MustCompile("(?ms)^```.*?^```$")
	headings  = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)
	links     = regexp.MustCompile(`\]\(([^)\s#]*)(?:#([^)\s]+))?\)`)
	elsewhere = regexp.MustCompile(`^[a-z]+:`)
	unslugged = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinksOfPages checks that the files and headings exist that pages link to, and the descriptions of the API.
func TestLinksOfPages(t *testing.T) {
	t.Parallel()
	anchors := anchorsOfPages(t)
	for _, page := range files(t, ".md", ".yaml") {
		for _, m := range links.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, page), ""), -1) {
			target := page
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			if elsewhere.MatchString(m[1]) {
				continue
			}
			_, err := os.Stat(filepath.Join(root, target))
			require.NoError(t, err, page)
			if m[2] != "" && filepath.Ext(target) == ".md" {
				require.Contains(t, anchors[target], m[2], "%s links to %s", page, target)
			}
		}
	}
}

// TestListsOfPages checks that the lists of pages have all of them.
func TestListsOfPages(t *testing.T) {
	t.Parallel()
	lists := map[string]string{
		"docs": "docs/README.md", "docs/tutorials": "docs/README.md", "docs/redis": "docs/redis-internals.md",
		"docs/records": "docs/records.md",
	}
	for _, page := range files(t, ".md") {
		list, isListed := lists[filepath.Dir(page)]
		if !isListed || page == list {
			continue
		}
		link, err := filepath.Rel(filepath.Dir(list), page)
		require.NoError(t, err)
		require.True(t, strings.Contains(read(t, list), "]("+link+")"), "%s doesn't list %s", list, page)
	}
}

// mentions matches a page or another file of the documentation, named from the root, and a heading of it.
var mentions = regexp.MustCompile(`\bdocs/([\w/-]+\.(?:md|yaml|svg))(?:#([\w-]+))?`)

// TestMentionsOfPages checks that the pages and headings exist that code, messages and other pages name.
func TestMentionsOfPages(t *testing.T) {
	t.Parallel()
	anchors := anchorsOfPages(t)
	found := 0
	for _, file := range files(t, ".go", ".lua", ".md", ".yaml", ".proto", ".sh", ".ts", ".html", ".txtar") {
		if file == "CHANGELOG.md" { // names the pages of its time
			continue
		}
		for _, m := range mentions.FindAllStringSubmatch(read(t, file), -1) {
			found++
			page := "docs/" + m[1]
			require.FileExists(t, filepath.Join(root, page), file)
			if m[2] != "" {
				require.Contains(t, anchors[page], m[2], "%s names %s", file, m[0])
			}
		}
	}
	require.Greater(t, found, 100)
}

// anchorsOfPages returns the anchors of the headings of all pages. GitHub numbers those that a page has twice.
func anchorsOfPages(t *testing.T) map[string][]string {
	t.Helper()
	anchors := map[string][]string{}
	for _, page := range files(t, ".md") {
		times := map[string]int{}
		for _, m := range headings.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, page), ""), -1) {
			slug := unslugged.ReplaceAllString(strings.ToLower(links.ReplaceAllString(m[1], "")), "")
			slug = strings.ReplaceAll(slug, " ", "-")
			if times[slug]++; times[slug] > 1 {
				slug += "-" + strconv.Itoa(times[slug]-1)
			}
			anchors[page] = append(anchors[page], slug)
		}
	}
	return anchors
}

// files returns the paths of all files with one of the endings.
func files(t *testing.T, endings ...string) (found []string) {
	t.Helper()
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := entry.IsDir() && len(path) > 1 && strings.HasPrefix(entry.Name(), ".")
		if hidden || entry.Name() == "node_modules" {
			return fs.SkipDir
		}
		if slices.Contains(endings, filepath.Ext(path)) {
			found = append(found, path)
		}
		return nil
	}))
	return found
}
