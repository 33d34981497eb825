package samples

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestEverySampleIsJSONAndNamed(t *testing.T) {
	t.Parallel()
	names := Names()
	if len(names) < 10 {
		t.Fatalf("only %d samples: %v", len(names), names)
	}
	for _, name := range names {
		s, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(s.Body) {
			t.Errorf("%s is not JSON", name)
		}
		if s.Provider+"/"+s.Name != name {
			t.Errorf("%s came back as %s/%s", name, s.Provider, s.Name)
		}
		if s.Provider == "github" && !strings.HasPrefix(s.Name, s.Headers["X-GitHub-Event"]) {
			t.Errorf("%s has event %q", name, s.Headers["X-GitHub-Event"])
		}
	}
}

func TestUnknownSampleNamesTheOthers(t *testing.T) {
	t.Parallel()
	if _, err := Lookup("github/none"); err == nil || !strings.Contains(err.Error(), "github/push") {
		t.Errorf("Lookup of an unknown sample: %v", err)
	}
}
