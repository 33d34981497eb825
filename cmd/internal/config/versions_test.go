package config

import (
	"strings"
	"testing"
)

func TestEqualWords(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"apply", "first", "last"} {
		c, problems := load(strings.Replace(design, "order: version", "equal: "+word, 1), designEnv, designFiles, Options{})
		if len(problems) > 0 {
			t.Fatalf("equal: %s: %v", word, problems)
		}
		if got := c.Teams["acme"].Subscriptions["triage"].Equal; got != word {
			t.Errorf("equal is %q, want %q", got, word)
		}
	}
}
