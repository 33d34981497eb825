package cli

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
)

// yesFlag is of commands that do something to all that a filter finds.
type yesFlag struct {
	Yes bool `short:"y" help:"On a terminal, do not ask before something is done to all that a filter has found. Elsewhere nothing is ever asked."`
}

var errNotConfirmed = errors.New("not confirmed: nothing was done")

// confirm asks whoever sits at the terminal. Where nobody does, what the command line says is meant.
func (e *env) confirm(question string) error {
	if e.stderr == nil || !terminal(e.stderr.to) || !terminal(e.Stdin) {
		return nil
	}
	fmt.Fprint(e.Stderr, question+" [y/N] ")
	line, err := bufio.NewReader(e.Stdin).ReadString('\n')
	if e.ctx.Err() != nil {
		return &exitError{exitInterrupt, errNotConfirmed}
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); err != nil || answer != "y" && answer != "yes" {
		return errNotConfirmed
	}
	return nil
}
