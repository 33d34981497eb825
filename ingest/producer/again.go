package producer

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// noteID keeps, with the first record of a topic that is acknowledged, the id under which the client writes: mostly out of what the client knows.
func (p *Producer) noteID(ctx context.Context, client *kgo.Client, topic string) {
	if _, known := p.ids.Load(topic); known || !p.mayAsk(topic) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), idTry)
	defer cancel()
	resp, err := client.RequestCachedMetadata(ctx, metadataOf([]string{topic}), time.Hour)
	if err == nil && len(resp.Topics) == 1 && resp.Topics[0].ErrorCode == 0 {
		p.ids.Store(topic, resp.Topics[0].TopicID)
	}
}

// createdAgain has the client forget a topic that was deleted and created again, after a record of it has failed: kgo keeps the first id of a
// topic, and fails every record under it for good. A topic that has its id still is not forgotten: its numbers would begin again, and the brokers
// take a record whose number they know for one that they have. Where nobody knows the id, a client with another producer id comes in its place.
func (p *Producer) createdAgain(ctx context.Context, client *kgo.Client, topic string) {
	if !p.mayAsk(topic) {
		return
	}
	was, known := p.ids.Load(topic)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), idTry)
	defer cancel()
	ids, err := p.TopicIDs(ctx, topic)
	if is, there := ids[topic]; err != nil || !there || known && was == is {
		return
	}
	if !known {
		p.replace(client)
		return
	}
	client.PurgeTopicsFromProducing(topic)
	p.ids.Delete(topic)
}

// mayAsk reports whether the brokers may be asked for the id of a topic: once a second.
func (p *Producer) mayAsk(topic string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.asked[topic]) < replaceAfter {
		return false
	}
	p.asked[topic] = time.Now()
	return true
}

// askedLately reports whether that was so within the last second.
func (p *Producer) askedLately(topic string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.asked[topic]) < replaceAfter
}
