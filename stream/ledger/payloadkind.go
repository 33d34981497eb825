package ledger

import "github.com/forebay-io/forebay/schemas"

// payload is the kind of an event's payload as its row tells it: empty where lanes do not ask for it.
func (n *Namespace) payload(k schemas.PayloadKind) schemas.PayloadKind {
	if !n.spec.Latest {
		return ""
	}
	return kindOfPayload(isDelta(k))
}

// isDelta: one of unknown kind goes as a delta.
func isDelta(k schemas.PayloadKind) bool { return k != schemas.Snapshot }

func kindOfPayload(delta bool) schemas.PayloadKind {
	if delta {
		return schemas.Delta
	}
	return schemas.Snapshot
}
