package record_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas/record"
)

func TestLacks(t *testing.T) {
	t.Parallel()
	cl, err := kgo.NewClient(kgo.WithHooks(record.User("user a")), record.Compressor())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	refused := fmt.Errorf("fetch: %w", kerr.TopicAuthorizationFailed)
	right, ok := errors.AsType[*record.Right](record.By("user b", fmt.Errorf("x: %w", record.Lacks(cl, "Read", "topic t", refused))))
	if !ok || right.User != "user a" || right.Operation != "Read" || right.Resource != "topic t" || !errors.Is(right, kerr.TopicAuthorizationFailed) {
		t.Errorf("%+v", right)
	}
	if right, ok := errors.AsType[*record.Right](record.By("user b", record.Lacks(nil, "Create", "topic t", refused))); !ok || right.User != "user b" {
		t.Errorf("without a client: %+v", right)
	}
	if err := record.Lacks(cl, "Read", "topic t", kerr.UnknownTopicOrPartition); err != kerr.UnknownTopicOrPartition {
		t.Errorf("another error: %v", err)
	}
}
