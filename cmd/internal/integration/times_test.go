package integration

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestTopicOfProducersTimesIsRefused: where producers say when a record was appended, a process does not start, and the command
// that it names mends the topic.
func TestTopicOfProducersTimesIsRefused(t *testing.T) {
	t.Parallel()
	b := rig.SharedKafka(t)
	r := deploy(t, b, options{})
	value := "CreateTime"
	set := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "message.timestamp.type", Value: &value}}
	if _, err := admin(t, b).AlterTopicConfigs(t.Context(), set, "events."+r.team+".github"); err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"intake", "stream"} {
		p := r.start(role)
		<-p.gone
		if !containsAll(p.output(), "events."+r.team+".github: message.timestamp.type CreateTime -> LogAppendTime", "run `forebay topics apply -c "+r.config+"`") {
			t.Errorf("%s: %s", role, p.output())
		}
	}
	r.command("topics", "apply", "-c", r.config)
	r.serve("intake,stream").stop()
}
