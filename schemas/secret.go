package schemas

import (
	"fmt"
	"io"
	"log/slog"
	"unique"
)

const redacted = "<redacted>"

// Secret is text that never prints: not by fmt with any verb, slog, JSON or YAML. Only [Secret.Reveal] gives it away.
// Secrets of equal text are equal.
//
// The text is behind a pointer because fmt calls no method on a Secret in an unexported field: it would print the text itself.
type Secret struct{ text unique.Handle[string] }

// NewSecret wraps text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{unique.Make(text)}
}

// Reveal returns the text itself.
func (s Secret) Reveal() string {
	if s.IsZero() {
		return ""
	}
	return s.text.Value()
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s == Secret{} }

// Format prints the placeholder for every verb and flag.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

func (s Secret) String() string               { return redacted }
func (s Secret) GoString() string             { return redacted }
func (s Secret) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (s Secret) MarshalYAML() (any, error)    { return redacted, nil }
