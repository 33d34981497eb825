package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas/short"
)

// TestRights has a broker with users: the intake's has all rights of the table, the stream's lacks one, the admin's has none, and one user's
// password is wrong.
func TestRights(t *testing.T) {
	t.Parallel()
	short.NeedsServer(t, "a broker")
	allow := func(kind kmsg.ACLResourceType, name string, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: kind, Name: name, Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: op, Allow: true}
	}
	topic, group := kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeGroup
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "root-secret"),
		kfake.SeedTopics(3, "events.acme.github"), kfake.SeedTopics(1, "quarantine.acme.github", "dead.acme.triage"),
		kfake.User("PLAIN", "taker", "pencil", allow(topic, "events.acme.", kmsg.ACLOperationWrite), allow(topic, "events.acme.", kmsg.ACLOperationDescribeConfigs),
			allow(topic, "quarantine.acme.", kmsg.ACLOperationRead), allow(topic, "quarantine.acme.", kmsg.ACLOperationWrite), allow(topic, "quarantine.acme.", kmsg.ACLOperationDescribeConfigs)),
		kfake.User("PLAIN", "runner", "pencil", allow(topic, "events.acme.", kmsg.ACLOperationRead), allow(topic, "events.acme.", kmsg.ACLOperationDescribeConfigs),
			allow(topic, "events.acme.", kmsg.ACLOperationWrite), allow(topic, "quarantine.acme.", kmsg.ACLOperationRead), allow(group, "acme.", kmsg.ACLOperationRead)),
		kfake.User("PLAIN", "boss", "pencil"),
		kfake.User("PLAIN", "half", "pencil", allow(topic, "events.acme.", kmsg.ACLOperationAlterConfigs), allow(topic, "events.acme.", kmsg.ACLOperationDescribe), allow(topic, "dead.acme.", kmsg.ACLOperationDescribe)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	i := &installation{t: t, dbURL: "postgres://u:p@" + rig.FreeAddress(t) + "/x?sslmode=disable", path: t.TempDir() + "/forebay.yaml"}
	login := func(user, password string) string {
		return `{sasl: {mechanism: PLAIN, user: ` + user + `, password: ` + password + `}}`
	}
	i.text = strings.NewReplacer(`"BROKERS"]`, `"`+cluster.ListenAddrs()[0]+`"], roles: {intake: `+login("taker", "pencil")+`, stream: `+login("runner", "pencil")+`, admin: `+login("boss", "pencil")+`}`,
		"POSTGRES", i.dbURL, "SCHEMA", "forebay", "${file:SECRET}", "a-secret-of-the-sender").Replace(sound)
	cfg := i.config()
	cfg.Within = 20 * time.Second // a quarter of which a wrong password takes: this broker does not say why
	i.write()
	r := Run(t.Context(), cfg)
	want(t, r, "rights", OK, "intake", "all that the role needs", "")
	want(t, r, "rights", Problem, "stream", "may not Write topic dead.acme.triage", "forebay acls export -c "+i.path)
	want(t, r, "topics", Problem, "events.acme.github", "message.timestamp.type", "forebay topics apply -c ") // asked as the intake: admin may not look
	want(t, r, "rights", Problem, "admin", "may not Create topic events.acme.github", "")

	i.replace("user: boss", "user: half") // may not look at one topic, nor at the settings of another: of the third it hears all the same
	i.write()
	r = Run(t.Context(), cfg)
	want(t, r, "topics", Unknown, "quarantine.acme.github", "user half has no right Describe on topic quarantine.acme.github", "")
	want(t, r, "topics", Unknown, "dead.acme.triage", "user half has no right DescribeConfigs on topic dead.acme.triage", "")
	want(t, r, "topics", Problem, "events.acme.github", "message.timestamp.type", "forebay topics apply -c ")
	want(t, r, "copies", Unknown, "quarantine.acme.github", "user half has no right Describe on topic quarantine.acme.github", "")
	want(t, r, "rights", Problem, "admin", "", "")
	i.replace("user: runner, password: pencil", "user: runner, password: pen")
	i.write()
	r = Run(t.Context(), cfg)
	want(t, r, "brokers", Problem, "login of stream", "", "kafka.roles.stream") // a broker of Apache says why, this one ends the connection
	want(t, r, "rights", Unknown, "stream", "not made: the brokers do not let it in", "")
	if strings.Contains(told(r), "pencil") {
		t.Error("a password is shown")
	}
}
