package cli

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/internal/program/wrap"
)

const (
	tableGap    = 2  // spaces between columns
	leastColumn = 8  // the width that a column isn't made narrower than
	longestWord = 64 // that isn't broken, such as an ID or an address: it is to be copied
)

// Row returns a row for WriteTable, as fmt.Sprintf does. Tabs and line ends of texts are escaped: only those of the format
// separate cells and rows.
func Row(format string, args ...any) string {
	cells := make([]any, len(args))
	for i, arg := range args {
		switch value := reflect.ValueOf(arg); {
		case value.Kind() == reflect.String:
			cells[i] = Printable(value.String())
		default:
			cells[i] = arg
		}
	}
	return fmt.Sprintf(format, cells...)
}

// WriteTable writes rows, whose cells are separated by tabs, with aligned columns. Characters of cells that can't be
// printed are escaped. If w is a terminal and the table is wider than that, cells are broken into several lines between
// words; a table whose words need more room stays wider.
func WriteTable(w io.Writer, rows string) error {
	return writeTable(w, rows, Terminal{Stdout: w}.Width())
}

// writeTable writes a table of at most that width; 0 is no limit.
func writeTable(w io.Writer, rows string, width int) error {
	var cells [][]string
	for row := range strings.SplitSeq(strings.TrimSuffix(rows, "\n"), "\n") {
		columns := strings.Split(row, "\t")
		for i := range columns {
			columns[i] = Printable(columns[i])
		}
		cells = append(cells, columns)
	}
	widths := columnWidths(cells, width)
	table := tabwriter.NewWriter(w, 0, 0, tableGap, ' ', 0)
	for _, row := range cells {
		if err := writeRow(table, row, widths); err != nil {
			return err
		}
	}
	return table.Flush()
}

// columnWidths returns the widths of the columns. While their sum is beyond width, the widest of those gets narrower
// whose cells can be broken between words.
func columnWidths(cells [][]string, width int) []int {
	var widths, words []int // the longest cell, and the longest part of one that isn't broken between words
	for _, row := range cells {
		for i, cell := range row {
			if i == len(widths) {
				widths, words = append(widths, 0), append(words, leastColumn)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			for word := range strings.FieldsSeq(strings.ReplaceAll(cell, ",", ", ")) {
				words[i] = max(words[i], min(utf8.RuneCountInString(word), longestWord))
			}
		}
	}
	sum := tableGap * (len(widths) - 1)
	for _, n := range widths {
		sum += n
	}
	for ; width > 0 && sum > width; sum-- {
		narrower := widest(widths, words)
		if narrower < 0 {
			break
		}
		widths[narrower]--
	}
	return widths
}

// widest returns the index of the widest column that is wider than its least width, or -1.
func widest(widths, least []int) int {
	found := -1
	for i, n := range widths {
		if n > least[i] && (found < 0 || n > widths[found]) {
			found = i
		}
	}
	return found
}

// writeRow writes a row, in as many lines as its longest cell needs.
func writeRow(w io.Writer, row []string, widths []int) error {
	lines := [][]string{row}
	for i, cell := range row {
		if utf8.RuneCountInString(cell) <= widths[i] {
			continue
		}
		for n, part := range wrap.Lines(split(cell, widths[i]), widths[i]) {
			if n == len(lines) {
				lines = append(lines, make([]string, len(row)))
			}
			lines[n][i] = part
		}
	}
	for _, line := range lines {
		if _, err := io.WriteString(w, strings.Join(line, "\t")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// split separates the parts of words that are longer than width by spaces: after commas, if there are any.
func split(text string, width int) string {
	var parts []string
	for word := range strings.FieldsSeq(text) {
		rest := []rune(word)
		for len(rest) > width {
			end := width
			for end > 0 && rest[end-1] != ',' {
				end--
			}
			if end == 0 {
				end = width
			}
			parts, rest = append(parts, string(rest[:end])), rest[end:]
		}
		parts = append(parts, string(rest))
	}
	return strings.Join(parts, " ")
}
