package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/forebay-io/forebay/cmd/internal/brokers"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/embedded"
	"github.com/forebay-io/forebay/cmd/internal/topics"
)

// askers are the roles as which topics are looked at, if the brokers let them: that of commands first, where it can be had.
func (d *doctor) askers() []config.Role {
	if d.parsed == nil {
		return []config.Role{config.RoleTopics}
	}
	roles := slices.Clone(d.roles())
	slices.SortStableFunc(roles, func(a, b config.Role) int {
		return cmp.Compare(slices.Index(askOrder, a), slices.Index(askOrder, b))
	})
	return roles
}

var askOrder = []config.Role{config.RoleTopics, config.RoleIntake, config.RoleStream}

// noBrokers says why brokers cannot be asked; empty if they can.
func (d *doctor) noBrokers() []Finding {
	switch {
	case d.kafka == nil:
		return d.notRead()
	case len(d.kafka.Kafka.Brokers) == 0:
		return []Finding{unknown("", "not made: kafka.embedded is for `forebay dev`, which brings its own broker", "kafka: {brokers: [HOST:PORT]}")}
	}
	return nil
}

// notAnswered is the finding of a check that needs brokers which do not answer; nil if they do.
func (d *doctor) notAnswered() []Finding {
	if none := d.noBrokers(); none != nil {
		return none
	}
	if _, err := d.brokersAnswer(); err != nil {
		return []Finding{unknown("", "not made: the brokers do not answer, see the check brokers", "")}
	}
	return nil
}

// ping returns the first role that the brokers let look at the topics; if there is none, the first that they let in. The error says why
// they let in none.
func (d *doctor) ping(ctx context.Context) (config.Role, error) {
	var in *config.Role
	var first error
	for _, role := range d.askers() {
		err := d.pingAs(ctx, role)
		if err == nil {
			return role, nil
		}
		if _, refused := errors.AsType[*kadm.AuthError](err); refused && in == nil {
			in = &role
		}
		first = cmp.Or(first, err)
	}
	if in != nil {
		return *in, nil
	}
	return "", first
}

// pingAs asks as a role for the topics.
func (d *doctor) pingAs(ctx context.Context, role config.Role) error {
	adm, err := d.admin(role)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, d.Within/4)
	defer cancel()
	answer := make(chan error, 1)
	go func() { // a client that is connecting to a broker that hangs does not heed its context
		_, err := adm.ListTopics(kadm.WithAuthorizedOps(ctx), namesOf(d.wanted(role))...)
		answer <- err
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("as %s: %w", config.KafkaRole(role), context.DeadlineExceeded)
	}
}

// wanted are the topics that a role may look at, by the table of rights, of those that there should be.
func (d *doctor) wanted(role config.Role) []topics.Topic {
	return slices.DeleteFunc(topics.Wanted(d.kafka, d.kafka.MaxBody), func(t topics.Topic) bool {
		return role != config.RoleTopics && t.Spare || role == config.RoleStream && !strings.HasPrefix(t.Name, "events.")
	})
}

func namesOf(list []topics.Topic) (names []string) {
	for _, t := range list {
		names = append(names, t.Name)
	}
	return names
}

// asker is the client as which topics are looked at, and those that it may look at.
func (d *doctor) asker() (*kadm.Client, []topics.Topic, error) {
	role, err := d.brokersAnswer()
	if err != nil {
		return nil, nil, err
	}
	adm, err := d.admin(role)
	return adm, d.wanted(role), err
}

// brokers asks as each role whether the brokers let it in, and each broker for its version.
func (d *doctor) brokers(ctx context.Context) (found []Finding) {
	if none := d.noBrokers(); none != nil {
		return none
	}
	if _, err := d.brokersAnswer(); err != nil {
		return []Finding{problem(strings.Join(d.kafka.Kafka.Brokers, ", "), notReached(err), "kafka.brokers: write addresses (host:port) that this machine reaches; kafka.tls and kafka.sasl as their listener wants them")}
	}
	for _, role := range d.askers() {
		adm, err := d.admin(role)
		if err == nil {
			ctx, cancel := context.WithTimeout(ctx, d.Within/4)
			_, err = adm.BrokerMetadata(ctx)
			cancel()
		}
		if err != nil {
			found = append(found, problem("login of "+config.KafkaRole(role), notReached(err), "kafka.roles."+config.KafkaRole(role)+": as the listener wants it"))
		}
	}
	return append(found, d.versions(ctx)...)
}

// notReached is an error of a client in words for people.
func notReached(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time: " + err.Error()
	}
	return brokers.Explain(err).Error()
}

// versions asks each broker for what it speaks.
func (d *doctor) versions(ctx context.Context) (found []Finding) {
	adm, _, err := d.asker()
	if err != nil {
		return []Finding{unknown("", err.Error(), "")}
	}
	cluster, err := adm.BrokerMetadata(ctx)
	if err != nil {
		return []Finding{unknown("", notReached(err), "")}
	}
	spoken, err := adm.ApiVersions(ctx)
	if err != nil && len(spoken) == 0 {
		return []Finding{unknown("", notReached(err), "")}
	}
	versions := map[string]int{}
	for _, b := range cluster.Brokers {
		v, answered := spoken[b.NodeID]
		if !answered || v.Err != nil {
			why := "it was not asked"
			if answered {
				why = notReached(v.Err)
			}
			found = append(found, problem(fmt.Sprintf("broker %d, %s:%d", b.NodeID, b.Host, b.Port), why,
				"advertised.listeners of that broker: an address that this machine reaches; or start it"))
			continue
		}
		version := "Kafka " + v.VersionGuess() // by the requests that it knows
		if cluster.Cluster == embedded.ClusterID {
			version = "embedded broker of Forebay"
		}
		versions[version]++
	}
	var texts []string
	for _, v := range sorted(versions) {
		texts = append(texts, fmt.Sprintf("%d of %d answer: %s", versions[v], len(cluster.Brokers), v))
	}
	if len(texts) > 0 {
		found = append([]Finding{ok("", "%s", strings.Join(texts, ", "))}, found...)
	}
	return found
}

// topics says what `forebay topics plan` does, by what a difference means: a missing topic, one that has grown, records that are too large
// for it, and settings with which what was acknowledged can be lost.
func (d *doctor) topics(ctx context.Context) (found []Finding) {
	if none := d.notAnswered(); none != nil {
		return none
	}
	changes, err := d.plan(ctx)
	if err != nil {
		return []Finding{unknown("", "not made: "+notReached(err), "forebay topics plan -c "+d.Path)}
	}
	known := d.knownPartitions()
	for _, c := range changes {
		found = append(found, d.topic(c, known)...)
	}
	bad := map[string]bool{}
	for _, f := range found {
		bad[f.Check] = true
	}
	for _, of := range []struct{ check, text string }{
		{"topics", "%d topics are there, with the settings of the file"}, {"partitions", "%d topics have as many partitions as the file and the ledger know"},
		{"record-size", "%d topics take records of the largest max_body"},
	} {
		if !bad[of.check] && (of.check == "topics" || !bad["topics"]) {
			f := ok("", of.text, len(changes))
			f.Check = of.check
			found = append(found, f)
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return strings.Compare(order(a.Check), order(b.Check)) })
	return found
}

// order has topics first, since what is missing has neither partitions nor sizes.
func order(check string) string {
	if check == "topics" {
		return ""
	}
	return check
}

// plan compares the topics with the file.
func (d *doctor) plan(ctx context.Context) ([]topics.Change, error) {
	adm, wanted, err := d.asker()
	if err != nil {
		return nil, err
	}
	return topics.Plan(ctx, adm, wanted)
}

// topic says what a change of a topic means.
func (d *doctor) topic(c topics.Change, known map[string]int) (found []Finding) {
	apply, plan := "forebay topics apply -c "+d.Path, "forebay topics plan -c "+d.Path
	add := func(check string, f Finding) {
		f.Check = check
		found = append(found, f)
	}
	if n, ok := known[c.Topic]; ok && c.Action != topics.Create && n != int(c.Partitions) {
		add("partitions", problem(c.Topic, fmt.Sprintf("has %d partitions, and the ledger knows it by %d: entities are in other partitions than they were, and subscriptions stop (partition_count)", c.Partitions, n),
			fmt.Sprintf("forebay topics rekey %s --partitions %d -c %s", c.Topic, c.Partitions, d.Path)))
	}
	switch {
	case c.Action == topics.Create && c.Spare():
		add("topics", warning(c.Topic, "is missing: what is meant for it waits", apply))
		return found
	case c.Action == topics.Create:
		add("topics", problem(c.Topic, "is missing", apply))
		return found
	}
	for _, s := range c.Settings {
		is := fmt.Sprintf("%s is %s, configured is %s", s.Name, s.Is, s.Want)
		fix := apply
		if !s.Set {
			fix = s.Why
		}
		switch {
		case s.Name == topics.Partitions:
			add("partitions", problem(c.Topic, fmt.Sprintf("has %s partitions, configured are %s: what has grown has its entities in other partitions", s.Is, s.Want),
				fmt.Sprintf("forebay topics rekey %s --partitions %s -c %s; or topics: {partitions: %s} for this source, if nobody has written to it since", c.Topic, s.Want, d.Path, s.Is)))
		case s.Name == topics.MaxMessage && s.Set:
			add("record-size", problem(c.Topic, is+": a delivery of max_body would be refused by the broker", fix))
		case s.Name == topics.Retention:
			add("retention", warning(c.Topic, is, fix))
		case s.Required() || c.Action == topics.Refused:
			add("topics", problem(c.Topic, is+": a process does not start with it", fix))
		case c.Action != topics.Keep:
			add("topics", warning(c.Topic, is, cmp.Or(fix, plan)))
		}
	}
	return found
}

// knownPartitions are the numbers of partitions by which the ledgers know topics.
func (d *doctor) knownPartitions() map[string]int {
	known := map[string]int{}
	for _, x := range d.examine() {
		if x.found == nil {
			continue
		}
		maps.Copy(known, x.found.Topics)
	}
	return known
}

// copies looks at whether acknowledged events survive a broker now: how many copies there are, and how many min.insync.replicas wants.
func (d *doctor) copies(ctx context.Context) (found []Finding) {
	if none := d.notAnswered(); none != nil {
		return none
	}
	adm, wanted, err := d.asker()
	if err != nil {
		return []Finding{unknown("", err.Error(), "")}
	}
	details, err := adm.ListTopics(kadm.WithAuthorizedOps(ctx), namesOf(wanted)...)
	if err != nil {
		return []Finding{unknown("", "not made: "+notReached(err), "")}
	}
	cluster, err := adm.BrokerMetadata(ctx)
	if err != nil {
		return []Finding{unknown("", "not made: "+notReached(err), "")}
	}
	single := 0
	for _, w := range wanted {
		if w.Replication == 1 {
			single++
		}
		t := details[w.Name]
		switch {
		case t.Err == nil:
			found = append(found, insync(w, t)...)
		case int(w.Replication) > len(cluster.Brokers): // a broker that is down is none of them
			found = append(found, problem(w.Name, fmt.Sprintf("is to have %d replicas, and the cluster has %d brokers", w.Replication, len(cluster.Brokers)),
				fmt.Sprintf("start the brokers that are down; where there are no more, topics: {replication: %d}", len(cluster.Brokers))))
		}
	}
	if w := d.kafka.Topics; single > 0 {
		found = append(found, warning("topics.replication", fmt.Sprintf("%d topics have one replica: what was acknowledged is lost with the disk of one broker", single),
			"topics: {replication: 3, min_insync: 2}, on 3 brokers"))
	} else if w.MinInsync == w.Replication {
		found = append(found, warning("topics.min_insync", fmt.Sprintf("is %d, as replication: while one broker is down, partitions with a replica on it take no delivery", w.MinInsync),
			fmt.Sprintf("topics: {replication: %d, min_insync: %d}", w.Replication+1, w.MinInsync)))
	}
	if len(found) == 0 {
		found = append(found, ok("", "%d topics have all their replicas in sync, and acknowledge what %d of %d have", len(wanted), d.kafka.Topics.MinInsync, d.kafka.Topics.Replication))
	}
	return found
}

// insync says which copies of a topic's partitions are not in sync.
func insync(w topics.Topic, t kadm.TopicDetail) (found []Finding) {
	least, err := strconv.Atoi(w.Configs[topics.MinInsync])
	if err != nil {
		least = 1
	}
	var leaderless, below, behind []string
	for _, p := range t.Partitions.Sorted() {
		n := strconv.Itoa(int(p.Partition))
		switch {
		case p.Leader < 0:
			leaderless = append(leaderless, n)
		case len(p.ISR) < least:
			below = append(below, n)
		case len(p.ISR) < len(p.Replicas):
			behind = append(behind, n)
		}
	}
	const fix = "start the brokers that are down; kafka-topics.sh --bootstrap-server BROKER --describe --under-replicated-partitions"
	if len(leaderless) > 0 {
		found = append(found, problem(w.Name, "partitions "+strings.Join(leaderless, ", ")+" have no leader: they can be neither read nor written", fix))
	}
	if len(below) > 0 {
		found = append(found, problem(w.Name, fmt.Sprintf("partitions %s have fewer than %d in-sync replicas (min.insync.replicas): deliveries are refused", strings.Join(below, ", "), least), fix))
	}
	if len(behind) > 0 {
		found = append(found, warning(w.Name, "partitions "+strings.Join(behind, ", ")+" have replicas that are not in sync", fix))
	}
	return found
}
