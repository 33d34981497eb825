package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// terminalWidth returns how many columns w has; 0 if it is no terminal.
func terminalWidth(w io.Writer) int {
	f, ok := under(w).(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// writeFitting writes a table. If w is a terminal with less than tableWidth columns and would wrap a line of the table, it writes a block of
// lines for each item instead.
func writeFitting[T any](w io.Writer, items []T, form tableForm, columns []column[T]) error {
	var table strings.Builder
	if err := writeTable(&table, items, form, columns); err != nil {
		return err
	}
	if wraps(w, table.String()) {
		return writeBlocks(w, items, form, columns)
	}
	_, err := io.WriteString(w, table.String())
	return err
}

// wraps reports whether w is a terminal with less than tableWidth columns that would wrap a line of a table.
func wraps(w io.Writer, table string) bool {
	width := terminalWidth(w)
	if width == 0 || width >= tableWidth {
		return false
	}
	for line := range strings.Lines(table) {
		if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > width {
			return true
		}
	}
	return false
}

// writeBlocks writes a line for each column of an item that is not empty, nothing shortened, and an empty line between items.
func writeBlocks[T any](w io.Writer, items []T, form tableForm, columns []column[T]) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for i, item := range items {
		if i > 0 {
			fmt.Fprintln(tw)
		}
		for _, c := range columns {
			if value := c.text(item, form); value != "" && (form.wide || !c.wide) {
				fmt.Fprintf(tw, "%s\t%s\n", strings.ToUpper(c.name), cell(value))
			}
		}
	}
	return tw.Flush()
}
