package cli

import (
	"bytes"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Whatever text an agent has answered, -o yaml has the same as -o json.
func TestYAMLOfAnyText(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= 0xffff; r++ {
		if 0xd800 <= r && r < 0xe000 {
			continue
		}
		want := map[string]string{"error": "a" + string(r) + "b"}
		var out bytes.Buffer
		if err := printYAML(&out, want); err != nil {
			t.Fatalf("%U: %v", r, err)
		}
		var got map[string]string
		if err := yaml.Unmarshal(out.Bytes(), &got); err != nil || got["error"] != want["error"] {
			t.Errorf("%U: %q, %v: %s", r, got, err, out.Bytes())
		}
	}
}
