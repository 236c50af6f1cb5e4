package cli

import (
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/internal/wrap"
)

const (
	tableGap    = 2 // spaces between columns
	leastColumn = 8 // the width that a column isn't made narrower than
)

// WriteTable writes rows, whose cells are separated by tabs, with aligned columns. Characters of cells that can't be
// printed are escaped. If w is a terminal and the table is wider than that, cells are broken into several lines.
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

// columnWidths returns the widths of the columns. While their sum is beyond width, the widest one gets narrower.
func columnWidths(cells [][]string, width int) []int {
	var widths []int
	for _, row := range cells {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	sum := tableGap * (len(widths) - 1)
	for _, n := range widths {
		sum += n
	}
	for ; width > 0 && sum > width; sum-- {
		widest := slices.Index(widths, slices.Max(widths))
		if widths[widest] <= leastColumn {
			break
		}
		widths[widest]--
	}
	return widths
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

// split separates the parts of words that are longer than width by spaces.
func split(text string, width int) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		switch {
		case r == ' ':
			n = 0
		case n == width:
			b.WriteByte(' ')
			n = 1
		default:
			n++
		}
		b.WriteRune(r)
	}
	return b.String()
}
