// Package wrap breaks the text of the program's help into lines.
package wrap

import (
	"strings"
	"unicode/utf8"
)

// Lines breaks text between words into lines of at most width characters, unless a word is longer. It returns at least
// one line.
func Lines(text string, width int) []string {
	var lines []string
	line, long := "", 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		if line != "" && long+1+n > width {
			lines = append(lines, line)
			line, long = "", 0
		}
		if line != "" {
			line, long = line+" ", long+1
		}
		line, long = line+word, long+n
	}
	return append(lines, line)
}

// Paragraphs breaks each paragraph of text in the same way. Blank lines separate paragraphs, and a paragraph whose
// first line is indented stays as it is. The result ends with a newline.
func Paragraphs(text string, width int) string {
	paragraphs := strings.Split(strings.Trim(text, "\n"), "\n\n")
	for i, p := range paragraphs {
		if !strings.HasPrefix(p, " ") && !strings.HasPrefix(p, "\t") {
			paragraphs[i] = strings.Join(Lines(p, width), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n") + "\n"
}
