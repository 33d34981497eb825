package bench

import "errors"

// ServeCommand is the hidden first argument with which forebay-bench starts itself as one of the intake scenario's
// servers, so that the server's processor time is its own.
const ServeCommand = "_serve"

// Serve runs a server of the intake scenario until its standard input is closed.
func Serve(kind, settings string) error { return errors.New("being written") }
