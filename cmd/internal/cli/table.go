package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// column is one column of a table. It has either value or at.
type column[T any] struct {
	name  string
	wide  bool // the column is shown with -o wide only
	value func(T) string
	at    func(T) *time.Time // a time, nil where there is none
	whole bool               // its cells are never shortened: they are copied into the next command
	wrap  bool               // its cells are sentences: the table's cells go over several lines and are not shortened
	below bool               // of the last column: where the lines would be too long, its cells stand whole on a line of their own below
	tail  bool               // shortened cells keep their end, which tells more than their beginning
}

// tableForm is how tables look: what -o and --time ask for.
type tableForm struct {
	wide, iso bool
	now       time.Time
}

const (
	tableWidth  = 100 // characters that a line of a table has at most, unless -o wide asks for all
	leastColumn = 6   // characters that shortening leaves of a column
	columnGap   = 2
)

// writeTable writes a line of column names and a line for each item. If the lines are too long, the widest columns are shortened.
func writeTable[T any](w io.Writer, items []T, form tableForm, columns []column[T]) error {
	if slices.ContainsFunc(columns, func(c column[T]) bool { return c.wrap }) {
		return writeWrapped(w, items, form, columns)
	}
	rows, shown := tableRows(items, form, columns)
	if form.wide {
		return writeRows(w, rows)
	}
	if last := len(shown) - 1; shown[last].below && !fit(rows) {
		return writeBelow(w, rows, shown[:last])
	}
	shorten(rows, shown)
	return writeRows(w, rows)
}

// tableRows returns the cells of a table, its head first, and the columns that it shows.
func tableRows[T any](items []T, form tableForm, columns []column[T]) (rows [][]string, shown []column[T]) {
	rows = make([][]string, 1+len(items))
	for _, c := range columns {
		if c.wide && !form.wide {
			continue
		}
		shown = append(shown, c)
		rows[0] = append(rows[0], strings.ToUpper(c.name))
		for i, item := range items {
			rows[i+1] = append(rows[i+1], cell(c.text(item, form)))
		}
	}
	return rows, shown
}

// writeRows writes rows of cells, each column as wide as its widest cell.
func writeRows(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 4, columnGap, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(tw, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	return tw.Flush()
}

// text returns the text of an item's cell.
func (c column[T]) text(item T, form tableForm) string {
	if c.at == nil {
		return c.value(item)
	}
	return form.time(c.at(item))
}

// shorten shortens cells until every row fits into tableWidth.
func shorten[T any](rows [][]string, columns []column[T]) {
	widths, fits := fittingWidths(rows, columns)
	if !fits { // what must be whole is too long: then the rest may as well be
		return
	}
	for _, row := range rows {
		for n, c := range columns {
			row[n] = clip(row[n], widths[n], c.tail)
		}
	}
}

// fittingWidths returns how wide columns may be for every row to fit into tableWidth: the widest give way first, to leastColumn or their
// names at the shortest. fits is false if the columns that stay whole are too wide for that.
func fittingWidths[T any](rows [][]string, columns []column[T]) (widths []int, fits bool) {
	total := columnGap * (len(columns) - 1)
	widths = make([]int, len(columns))
	for n := range columns {
		for _, row := range rows {
			widths[n] = max(widths[n], utf8.RuneCountInString(row[n]))
		}
		total += widths[n]
	}
	for ; total > tableWidth; total-- {
		widest := -1
		for n, c := range columns {
			if !c.whole && c.at == nil && widths[n] > max(leastColumn, utf8.RuneCountInString(c.name)) && (widest < 0 || widths[n] > widths[widest]) {
				widest = n
			}
		}
		if widest < 0 {
			return widths, false
		}
		widths[widest]--
	}
	return widths, true
}

// clip returns s in at most width characters, with an ellipsis in the place of what is left out.
func clip(s string, width int, tail bool) string {
	all := []rune(s)
	switch {
	case len(all) <= width:
		return s
	case tail:
		return "…" + string(all[len(all)-width+1:])
	}
	return string(all[:width-1]) + "…"
}

// time returns a time as a cell: how long ago it was, or will be, or with --time iso when in UTC. It is empty if t is nil or zero.
func (f tableForm) time(t *time.Time) string {
	switch {
	case t == nil || t.IsZero():
		return ""
	case f.iso:
		return t.UTC().Format(time.RFC3339)
	}
	if d := f.now.Sub(*t); d >= 0 {
		return api.DurationText(d) + " ago"
	}
	return "in " + api.DurationText(t.Sub(f.now))
}

// version returns a version as a cell of a table, which is read by people: without the zeros that make it sort. -o wide keeps them.
func (e *env) version(sortable string) string {
	if e.output == "wide" {
		return sortable
	}
	epoch, value, ok := strings.Cut(sortable, ":")
	if n, numbered := strings.CutPrefix(epoch, "e"); ok && numbered && isDigits(n) {
		epoch = "e" + unpadded(n) + ":"
	} else {
		epoch, value = "", sortable
	}
	if strings.HasPrefix(value, "=") { // a text of the provider's
		return epoch + value
	}
	value, sub, ok := strings.Cut(value, "+")
	if ok {
		sub = "+" + unpadded(sub)
	}
	if fraction := strings.LastIndexByte(value, '.'); fraction > 0 { // a time
		value = strings.TrimRight(strings.TrimRight(strings.TrimSuffix(value, "Z"), "0"), ".") + "Z"
	} else if isDigits(value) {
		value = unpadded(value)
	}
	return epoch + value + sub
}

// unpadded returns a number without leading zeros.
func unpadded(digits string) string {
	return strings.TrimLeft(digits[:max(0, len(digits)-1)], "0") + digits[max(0, len(digits)-1):]
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
