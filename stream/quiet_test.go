package stream

import (
	"context"
	"errors"

	"github.com/forebay-io/forebay/stream/ledger"
)

// quiet is what a ledger says that has no commands, no lines to forget, no payloads to copy and no dead letters, and refuses what
// it has not listed. Tests of those have the real one.
type quiet struct{}

var errNotListed = errors.New("the ledger has not listed it")

func (quiet) Commands(context.Context, []*ledger.Claim, int64) ([]ledger.Command, error) {
	return nil, nil
}

func (quiet) ApplyCommand(context.Context, *ledger.Claim, ledger.Command) (ledger.Applied, error) {
	return ledger.Applied{}, errNotListed
}
func (quiet) Listen(func()) (stop func())                       { return func() {} }
func (quiet) Enter(string)                                      {}
func (quiet) Present(string) bool                               { return true }
func (quiet) Unknown(string) bool                               { return false }
func (quiet) Absent(func([]string)) (stop func())               { return func() {} }
func (quiet) Left(func()) (stop func())                         { return func() {} }
func (quiet) ForgetMember(context.Context, string) error        { return nil }
func (quiet) Tidy(context.Context, *ledger.Claim) (bool, error) { return false, nil }
func (quiet) OldLines(context.Context, *ledger.Claim) (old ledger.OldLines, err error) {
	return old, nil
}
func (quiet) ForgetLines(context.Context, *ledger.Claim, ledger.OldLines) error { return nil }
func (quiet) Leave(context.Context, []string) error                             { return nil }
func (quiet) WithoutCopy(context.Context, *ledger.Claim, int64, int64, int) (page ledger.WithoutCopyPage, err error) {
	return page, nil
}

func (quiet) Copy(context.Context, *ledger.Claim, []ledger.Copy) (stored int, fenced bool, err error) {
	return 0, false, errNotListed
}

func (quiet) Unexported(context.Context, []*ledger.Claim, int) ([]ledger.DeadLetter, error) {
	return nil, nil
}
func (quiet) Exported(context.Context, []*ledger.Claim, []ledger.DeadLetter) error {
	return errNotListed
}
func (quiet) DeadPayload(context.Context, ledger.DeadLetter) (packed []byte, p ledger.Pointer, err error) {
	return nil, p, errNotListed
}
