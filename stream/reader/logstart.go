package reader

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/stream/ledger"
)

// outOfRange returns the [absentError] for an offset that a leader refuses. Below the log's start the record is certainly gone; above its
// end, a new leader may just not show it yet. start is the log's start as the refusal names it, negative if it does not (Apache Kafka's
// does not, the embedded broker's does): then the leader is asked.
func (c *chunkReader) outOfRange(ctx context.Context, leader int32, at ledger.Partition, offset, start int64) error {
	if start < 0 {
		var err error
		if start, err = c.start(ctx, leader, at); err != nil {
			return err
		}
	}
	if start > offset {
		return belowStart(start)
	}
	return absent("the log does not reach it")
}

// start asks the leader for the first offset of its log.
func (c *chunkReader) start(ctx context.Context, leader int32, at ledger.Partition) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = at.Topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = at.Number, atStart, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	got, err := c.cl.Broker(int(leader)).RetriableRequest(ctx, req)
	if err != nil {
		return 0, err
	}
	resp := got.(*kmsg.ListOffsetsResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("list offsets of %s/%d: the answer does not name it", at.Topic, at.Number)
	}
	return resp.Topics[0].Partitions[0].Offset, kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}
