package producer

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// replaceAfter is how long a client is kept at least: while brokers refuse its producer id, it costs a login a second and no more.
const replaceAfter = time.Second

// idTry is how long a record that has failed waits for the answer whether its client has a producer id.
const idTry = time.Second

// checkID returns an error if a client has no producer id, without which it sends nothing. It asks the brokers where it has not asked yet.
// kgo keeps a refusal for good and fails every record with it, whatever rights its user has got since; so checkID replaces such a client.
func (p *Producer) checkID(ctx context.Context, client *kgo.Client) error {
	const op = "get a producer id"
	_, _, err := client.ProducerID(ctx)
	if err == nil {
		return nil
	}
	if answer, ok := errors.AsType[*kerr.Error](err); ok && !answer.Retriable {
		p.replace(client)
	}
	if errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return schemas.Errorf(schemas.Unavailable, op, "this process's user may not write to any topic: it needs Write on topics events.TEAM.* (before Kafka 2.8 also IdempotentWrite on the cluster): %w",
			record.Lacks(client, "Write", "topics events.TEAM.*", err))
	}
	return schemas.Errorf(schemas.Unavailable, op, "%w", err)
}

// replace makes a new client in place of one that has no producer id. Records that the old one still has fail; if it had an id before, some may
// be in the log all the same, as those that were given up.
func (p *Producer) replace(client *kgo.Client) {
	if p.client.Load() == client && p.exchange(client) {
		client.Close()
	}
}

// exchange puts a new client in the place of another, unless somebody has, or it is too early, or the producer is closed.
func (p *Producer) exchange(client *kgo.Client) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.client.Load() != client || time.Since(p.replaced) < replaceAfter {
		return false
	}
	fresh, err := kgo.NewClient(p.options...)
	if err != nil { // these options have made a client before
		return false
	}
	p.replaced = time.Now()
	p.client.Store(fresh)
	p.ids.Clear()
	return true
}

// failed maps the error of a record of that size that a client was given. Where the client has no producer id, it says that instead. What the client
// itself does not send for its size is not [kerr.MessageTooLarge], though TooLarge: the topic was not asked.
func (p *Producer) failed(ctx context.Context, client *kgo.Client, topic string, size int64, err error) error {
	if err == nil {
		p.noteID(ctx, client, topic)
		return nil
	}
	if limit := p.limit(topic); errors.Is(err, kerr.MessageTooLarge) && size > limit {
		return schemas.Errorf(schemas.TooLarge, "produce to "+topic, "not sent: %d bytes are more than the %d of this process, until it starts again", size, limit)
	}
	mapped := mapError(topic, record.Lacks(client, "Write", "topic "+topic, err))
	if errors.Is(err, kerr.UnknownTopicID) {
		p.createdAgain(ctx, client, topic)
	}
	if schemas.KindOf(mapped) != schemas.Internal {
		return mapped
	}
	if p.askedLately(topic) { // kgo has no name for the error of what was in the client when it forgot the topic
		return schemas.Errorf(schemas.Unavailable, "produce to "+topic, "%w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), idTry) // a record that has failed has mostly asked before
	defer cancel()
	if err := p.checkID(ctx, client); err != nil {
		return schemas.Errorf(schemas.KindOf(err), "produce to "+topic, "%w", err)
	}
	return mapped
}
