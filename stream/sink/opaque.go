package sink

import (
	"fmt"
	"io"
	"log/slog"
)

// Opaque is embedded in what holds secrets: it is all that is printed of it, so that no %v and no log ever shows one.
type Opaque string

// Format prints o, whatever the verb.
func (o Opaque) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, string(o)) }

// LogValue does the same for slog.
func (o Opaque) LogValue() slog.Value { return slog.StringValue(string(o)) }
