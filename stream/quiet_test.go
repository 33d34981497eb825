package stream

import (
	"context"

	"github.com/forebay-io/forebay/stream/ledger"
)

// quiet is what a ledger says that has no commands, no lines to forget, no payloads to copy and no dead letters. Tests of those
// have the real one.
type quiet struct{}

func (quiet) Commands(context.Context, []*ledger.Claim, int64) ([]ledger.Command, error) {
	return nil, nil
}

func (quiet) ApplyCommand(_ context.Context, c *ledger.Claim, _ ledger.Command) (ledger.Applied, error) {
	return ledger.Applied{Claim: c}, nil
}
func (quiet) Listen(func()) (stop func())                       { return func() {} }
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
	return 0, false, nil
}

func (quiet) Unexported(context.Context, []*ledger.Claim, int) ([]ledger.DeadLetter, error) {
	return nil, nil
}
func (quiet) Exported(context.Context, []*ledger.Claim, []ledger.DeadLetter) error { return nil }
func (quiet) DeadPayload(context.Context, ledger.DeadLetter) (packed []byte, p ledger.Pointer, err error) {
	return nil, p, nil
}
