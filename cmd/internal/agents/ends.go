package agents

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas/record"
)

// askWithin is how long it is waited for the answer to a question.
const askWithin = 5 * time.Second

// seen is what the brokers say of a topic.
type seen struct {
	id [16]byte // zero: it is not there, or the broker has none
	span
	err error // why it is not known where it begins and ends
}

// look asks what topics are there, and where they begin and end: for all of them at once, since an intake may have many teams, and without kadm, of
// whose answer one topic that may not be described takes all.
func look(ctx context.Context, client *kgo.Client, topics []string) map[string]*seen {
	all := map[string]*seen{}
	for _, topic := range topics {
		all[topic] = &seen{err: kerr.UnknownTopicOrPartition}
	}
	asked, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	there, err := record.Topics(asked, client, topics)
	if err != nil {
		for _, s := range all {
			s.err = err
		}
		return all
	}
	for topic, t := range there {
		if s := all[topic]; s != nil {
			s.id, s.err = t.TopicID, kerr.ErrorForCode(t.ErrorCode)
		}
	}
	offsets(ctx, client, all, -1, func(s *seen, at int64) { s.end = at })
	offsets(ctx, client, all, -2, func(s *seen, at int64) { s.start = at })
	return all
}

// offsets asks for the offsets of the topics of which nothing is wrong yet, by a time as ListOffsets has it: -1 for the end, -2 for the start.
func offsets(ctx context.Context, client *kgo.Client, all map[string]*seen, at int64, set func(*seen, int64)) {
	r := kmsg.NewPtrListOffsetsRequest()
	for topic, s := range all {
		if s.err != nil {
			continue
		}
		s.err = kerr.UnknownTopicOrPartition // unless it is answered
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp = at
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic, t.Partitions = topic, append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
	}
	asked, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	for _, shard := range client.RequestSharded(asked, r) {
		if shard.Err != nil {
			for _, t := range shard.Req.(*kmsg.ListOffsetsRequest).Topics {
				all[t.Topic].err = shard.Err
			}
			continue
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			if s := all[t.Topic]; s != nil && len(t.Partitions) == 1 {
				s.err = kerr.ErrorForCode(t.Partitions[0].ErrorCode)
				set(s, t.Partitions[0].Offset)
			}
		}
	}
}
