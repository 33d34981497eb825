package cli

import (
	"io"
	"sync"
)

// stdout is Options.Stdout as commands get it. It keeps the first error, so that no command ends well whose answer was lost, on a full disk
// for example, whichever of its writes did not look.
type stdout struct {
	io.Writer

	mu  sync.Mutex
	err error
}

func (s *stdout) Write(p []byte) (int, error) {
	n, err := s.Writer.Write(p)
	return n, s.keep(err)
}

// keep keeps the error of a write, if it is the first, and returns it.
func (s *stdout) keep(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	return err
}

// or returns a command's own error, or else the one of its output.
func (s *stdout) or(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		return s.err
	}
	return err
}

// under returns what is written to, or read, in the end: a terminal is one, whatever is in front of it.
func under(w any) any {
	for {
		switch front := w.(type) {
		case *stdout:
			w = front.Writer
		case *screen:
			w = front.Writer
		case *stdin:
			w = front.Reader
		default:
			return w
		}
	}
}
