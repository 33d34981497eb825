package cli

import (
	"io"
	"maps"
	"sync"

	"github.com/forebay-io/forebay/sinks/redact"
)

// hiding is a stderr that shows nothing of what the configuration's references led to: the last line of defence, behind the
// parts that name no secret in the first place. Each Write is a line, or some.
type hiding struct {
	to io.Writer

	mu     sync.Mutex
	names  map[string]string
	redact *redact.Redactor // nil: there is nothing to hide yet
}

// hide adds what is hidden from now on. What an older configuration had stays hidden: it may still run.
func (h *hiding) hide(names map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[string]string{}
	maps.Copy(all, h.names)
	maps.Copy(all, names)
	h.names, h.redact = all, redact.Named(all)
}

// Write writes p without what is hidden, and reports that all of p is written.
func (h *hiding) Write(p []byte) (int, error) {
	h.mu.Lock()
	clean := h.redact
	h.mu.Unlock()
	text := p
	if clean != nil {
		text = clean.Bytes(p)
	}
	if _, err := h.to.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}
