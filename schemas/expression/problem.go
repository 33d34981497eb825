package expression

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
)

// problem returns an error for the first of the issues, by its place in the text, on one line; nil if there are none.
func problem(issues *cel.Issues) error {
	all := issues.Errors() // not Err, whose text has each of them with the expression: half of the time
	if len(all) == 0 {
		return nil
	}
	first := slices.MinFunc(all, func(a, b *cel.Error) int {
		return cmp.Or(cmp.Compare(a.Location.Line(), b.Location.Line()), cmp.Compare(a.Location.Column(), b.Location.Column()))
	})
	message, _, _ := strings.Cut(first.Message, "\n")
	message, _, _ = strings.Cut(message, " expecting {") // a list of every token there is follows
	return fmt.Errorf("is not an expression: at %s: %s", position(first.Location.Line(), first.Location.Column()), shortened(message))
}

// shortened cuts a message that quotes a type as long as the expression.
func shortened(message string) string {
	const most = 300
	if len(message) <= most {
		return message
	}
	return strings.ToValidUTF8(message[:most], "") + "..."
}

// position returns a place in an expression for messages, columns counted from 1; CEL counts them from 0, and gives -1 for the end of an
// empty text. The line is left out if it is the first.
func position(line, column int) string {
	column = max(column, 0)
	if line > 1 {
		return fmt.Sprintf("line %d, character %d", line, column+1)
	}
	return fmt.Sprintf("character %d", column+1)
}

// remark says why values of a type are not taken, where that may surprise.
func remark(t *cel.Type) string {
	switch t.Kind() {
	case cel.DoubleKind:
		return ": decimals are not exact"
	case cel.NullTypeKind:
		return ": null is a value that is missing"
	}
	return ""
}
