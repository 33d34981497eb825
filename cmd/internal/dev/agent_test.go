package dev

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// TestSampleAgentIsTheSamples: an agent of the user's own, on this machine too, is neither replaced by the sample agent nor in its way.
func TestSampleAgentIsTheSamples(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, err := ensureConfig(dir, anywhere)
	if err != nil {
		t.Fatal(err)
	}
	sample, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(sample), "        url: http://")
	written, _, _ := strings.Cut(rest, "/")
	own, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	free, err := freeAddress("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		url     string
		started bool
		problem string
	}{
		"as it was written":             {written + samplePath, true, ""},
		"on another port":               {free + samplePath, true, ""},
		"on a port that is taken":       {own.Addr().String() + samplePath, false, "is taken by another program"},
		"the user's own, which runs":    {own.Addr().String() + "/run", false, ""},
		"the user's own, not yet there": {free + "/agent", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(strings.Replace(string(sample), written+samplePath, c.url, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			file, err := config.Load(config.Options{Path: path, Roles: roles, Embedded: true})
			if err != nil {
				t.Fatal(err)
			}
			s := &session{config: file}
			err = s.startAgent()
			defer s.close()
			if (s.agent != nil) != c.started || (err != nil) != (c.problem != "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Errorf("sample agent started: %t, want %t; error: %v", s.agent != nil, c.started, err)
			}
		})
	}
}
