package inbox

import (
	"context"
	"fmt"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// HasAction reports whether an action that [Inbox.FindAction] finds is one of these teams'. What is another team's is looked for as what is
// not there is: how long that takes tells nobody which it is. Kinds: Invalid if that is no action's id, Unavailable.
func (b *Inbox) HasAction(ctx context.Context, teams []string, id schemas.ActionID) (has bool, err error) {
	op := fmt.Sprintf("find action %s", ledger.Clean(string(id), 64))
	hash, ok := id.Hash()
	if !ok {
		return false, schemas.Errorf(schemas.Invalid, op, "it is no id of an action: act_ and 26 characters")
	}
	if teams == nil {
		teams = []string{} // of none
	}
	ref, err := b.findAction(ctx, teams, hash)
	if err != nil {
		return false, ledger.Unavailable(op, err)
	}
	return ref != ActionRef{}, nil
}

// HasReplay reports whether a replay is one of these teams'. Kind: Unavailable.
func (b *Inbox) HasReplay(ctx context.Context, teams []string, id int64) (has bool, err error) {
	err = b.look.QueryRow(ctx, `SELECT EXISTS (SELECT FROM replays r JOIN subscriptions s ON s.id = r.subscription
		WHERE r.id = $1 AND split_part(s.name, '.', 1) = ANY($2))`, id, teams).Scan(&has)
	if err != nil {
		return false, ledger.Unavailable(fmt.Sprintf("find replay %d", id), err)
	}
	return has, nil
}
