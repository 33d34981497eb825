package lane

import (
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// alert tells a person of an action that is dead of something that has to be mended.
func (l *Lanes) alert(e *entry, d *destination, res *ledger.Result) {
	class := sink.Class(res.Class)
	if res.Status != ledger.Dead || !class.Alerted() {
		return
	}
	d.metrics.alerts[class].Inc()
	l.log.Error("action is dead; "+class.Mend(), "event_id", e.EventID, "source", e.Source, "entity", string(e.Entity),
		"action_id", string(e.ID), "destination", e.Destination, "class", res.Class, "code", res.Code, "error", res.Error)
}
