package expression

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
)

// problem is the first thing that is wrong, on one line.
func problem(issues *cel.Issues) error {
	if issues.Err() == nil {
		return nil
	}
	all := issues.Errors()
	if len(all) == 0 {
		return fmt.Errorf("is not an expression: %w", issues.Err())
	}
	first := slices.MinFunc(all, func(a, b *cel.Error) int {
		return cmp.Or(cmp.Compare(a.Location.Line(), b.Location.Line()), cmp.Compare(a.Location.Column(), b.Location.Column()))
	})
	message, _, _ := strings.Cut(first.Message, "\n")
	message, _, _ = strings.Cut(message, " expecting {") // every token there is
	return fmt.Errorf("is not an expression: at %s: %s", position(first.Location.Line(), first.Location.Column()), message)
}

// position counts columns from 1, as people do; the end of an empty text has none. Expressions of one line are the rule.
func position(line, column int) string {
	column = max(column, 0)
	if line > 1 {
		return fmt.Sprintf("line %d, character %d", line, column+1)
	}
	return fmt.Sprintf("character %d", column+1)
}

func remark(t *cel.Type) string {
	switch t.Kind() {
	case cel.DoubleKind:
		return ": decimals are not exact"
	case cel.NullTypeKind:
		return ": null is a value that is missing"
	}
	return ""
}
