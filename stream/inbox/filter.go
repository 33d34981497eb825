package inbox

import (
	"strconv"
	"strings"
)

// filter builds a WHERE clause. Values are always parameters.
type filter struct {
	conditions []string
	args       []any
}

// add adds a condition, which has a ? for each of its values.
func (f *filter) add(condition string, values ...any) {
	for _, v := range values {
		f.args = append(f.args, v)
		condition = strings.Replace(condition, "?", "$"+strconv.Itoa(len(f.args)), 1)
	}
	f.conditions = append(f.conditions, condition)
}

// text adds a condition on a text, unless the text is empty.
func (f *filter) text(condition, value string) {
	if value != "" {
		f.add(condition, value)
	}
}

// where returns the conditions, joined by AND; true if there are none.
func (f *filter) where() string {
	return strings.Join(append([]string{"true"}, f.conditions...), "\n  AND ")
}
