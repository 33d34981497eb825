package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// writeBelow writes rows whose last cell, unless it is none, follows on a line of its own: a sentence, often with a command to be copied. The
// columns are those before it.
func writeBelow[T any](w io.Writer, rows [][]string, columns []column[T]) error {
	last := len(columns)
	cells := make([][]string, len(rows))
	for n, row := range rows {
		cells[n] = row[:last]
	}
	shorten(cells, columns)
	widths := widthsOf(cells)
	for n, row := range rows {
		var line strings.Builder
		for i, text := range cells[n] { // no tabwriter: a line without cells would end its columns
			line.WriteString(text + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+columnGap))
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
		if n > 0 && row[last] != none {
			if _, err := fmt.Fprintln(w, "  "+row[last]); err != nil {
				return err
			}
		}
	}
	return nil
}

// fit reports whether rows fit into tableWidth as they are.
func fit(rows [][]string) bool {
	total := -columnGap
	for _, width := range widthsOf(rows) {
		total += width + columnGap
	}
	return total <= tableWidth
}

// widthsOf returns the width of each column's widest cell.
func widthsOf(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for n, text := range row {
			widths[n] = max(widths[n], utf8.RuneCountInString(text))
		}
	}
	return widths
}
