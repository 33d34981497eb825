package stream

import (
	"github.com/forebay-io/forebay/stream/batch"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/owner"
)

// Lanes runs the actions of claimed partitions; stream/lane implements it. All methods are safe for concurrent use;
// Open, Add and Close of one claim are called in that order.
type Lanes interface {
	owner.Lanes
	batch.Lanes
}

var _ Lanes = (*lane.Lanes)(nil)
