package lane

import "errors"

var (
	errStopped = errors.New("lanes stop")
	errClosed  = errors.New("claim is given up")
	errFenced  = errors.New("claim has lost its fence")
	errTimeout = errors.New("destination's timeout")
)
