package cli

import (
	"context"
	"io"
)

// stdin is Options.Stdin as commands get it. A read ends with ctx, whether or not anything comes: else the first Ctrl-C, which only ends ctx,
// would do nothing while a command waits for input.
type stdin struct {
	io.Reader
	ctx context.Context
}

func (s *stdin) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	type result struct {
		n   int
		err error
	}
	own, read := make([]byte, len(p)), make(chan result, 1)
	go func() { // nothing ends a read of a terminal: this one ends with the process, and has no hand on p
		n, err := s.Reader.Read(own)
		read <- result{n, err}
	}()
	select {
	case r := <-read:
		return copy(p, own[:r.n]), r.err
	case <-s.ctx.Done():
		return 0, context.Cause(s.ctx)
	}
}
