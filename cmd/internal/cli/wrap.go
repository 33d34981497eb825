package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// writeWrapped writes a table in which nothing is cut off: if its lines are too long, the cells of the widest columns go over several lines.
func writeWrapped[T any](w io.Writer, items []T, form tableForm, columns []column[T]) error {
	rows, shown := tableRows(items, form, columns)
	if form.wide {
		return writeRows(w, rows)
	}
	widths, _ := fittingWidths(rows, shown)
	for _, row := range rows {
		for _, line := range wrapRow(row, widths) {
			var text strings.Builder
			for n, part := range line { // no tabwriter: it would leave the empty cells at the end of a line out of their columns
				text.WriteString(part + strings.Repeat(" ", widths[n]-utf8.RuneCountInString(part)+columnGap))
			}
			if _, err := fmt.Fprintln(w, strings.TrimRight(text.String(), " ")); err != nil {
				return err
			}
		}
	}
	return nil
}

// wrapRow returns the lines of a row whose cells are wrapped.
func wrapRow(row []string, widths []int) (lines [][]string) {
	for n, text := range row {
		for i, part := range wrap(text, widths[n]) {
			if i == len(lines) {
				lines = append(lines, make([]string, len(row)))
			}
			lines[i][n] = part
		}
	}
	return lines
}

// wrap returns the lines of a text that has at most width characters in a line. It is divided at spaces, and words
// that are longer behind a mark, or anywhere.
func wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for line = word; utf8.RuneCountInString(line) > width; {
			part := string([]rune(line)[:width])
			if at := strings.LastIndexAny(part, "/_.:-"); at > 0 {
				part = part[:at+1]
			}
			lines, line = append(lines, part), line[len(part):]
		}
	}
	return append(lines, line)
}
