package reader

import (
	"context"

	"github.com/forebay-io/forebay/stream/ledger"
)

// outOfRange returns the [absentError] for an offset that a leader refuses. Below the log's start the record is certainly gone; above its
// end, a new leader may just not show it yet. start is the log's start as the refusal names it, negative if it does not (Apache Kafka's
// does not, the embedded broker's does): then the leader is asked.
func (c *chunkReader) outOfRange(ctx context.Context, leader int32, at ledger.Partition, offset, start int64) error {
	if start < 0 {
		var err error
		if start, err = listOffset(ctx, c.cl.Broker(int(leader)).RetriableRequest, At(at), atStart, false); err != nil {
			return err
		}
	}
	if start > offset {
		return belowStart(start)
	}
	return absent("the log does not reach it")
}
