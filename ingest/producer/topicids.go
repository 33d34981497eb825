package producer

import (
	"context"

	"github.com/forebay-io/forebay/schemas"
)

// TopicIDs asks the brokers for the ids of topics, which a topic that is created again has not. Those that do not exist, and all of brokers
// before Kafka 2.8, are left out. An error is Unavailable.
func (p *Producer) TopicIDs(ctx context.Context, topics ...string) (map[string][16]byte, error) {
	resp, err := metadataOf(topics).RequestWith(ctx, p.client.Load())
	if err != nil {
		return nil, schemas.Errorf(schemas.Unavailable, "ask for the ids of topics", "%w", err)
	}
	ids := map[string][16]byte{}
	for _, t := range resp.Topics {
		if t.Topic != nil && t.ErrorCode == 0 && t.TopicID != [16]byte{} {
			ids[*t.Topic] = t.TopicID
		}
	}
	return ids, nil
}
