package ledger

import "github.com/forebay-io/forebay/schemas"

// payload returns the kind of an event's payload for the lanes: empty if the subscription does not need it there.
func (n *Namespace) payload(k schemas.PayloadKind) schemas.PayloadKind {
	if !n.spec.Latest {
		return ""
	}
	return kindOfPayload(isDelta(k))
}

// isDelta reports whether a payload counts as a delta; one of unknown kind does.
func isDelta(k schemas.PayloadKind) bool { return k != schemas.Snapshot }

func kindOfPayload(delta bool) schemas.PayloadKind {
	if delta {
		return schemas.Delta
	}
	return schemas.Snapshot
}
