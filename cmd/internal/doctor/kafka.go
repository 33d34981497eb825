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
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/brokers"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/schemas/record"
)

// login is what the brokers say to a role that asks for its topics.
type login struct {
	role config.Role
	cl   *kgo.Client
	err  error // it is not let in
	seen int   // topics that it may look at, of those that it uses
}

// loginAll asks the brokers as each role, side by side: one that is not let in waits for the end of its retries.
func (d *doctor) loginAll(ctx context.Context) []login {
	roles := d.roles()
	list := make([]login, len(roles))
	var all sync.WaitGroup
	for i, role := range roles {
		all.Go(func() {
			cl, err := kgo.NewClient(app.KafkaOptions(d.file, role)...)
			if list[i] = (login{role: role, cl: cl, err: err}); err != nil {
				return
			}
			d.mu.Lock()
			d.clients = append(d.clients, cl)
			d.mu.Unlock()
			answer := bounded(ctx, d.Within/4, login{err: context.DeadlineExceeded}, func(ctx context.Context) (of login) {
				var found map[string]kmsg.MetadataResponseTopic
				found, of.err = record.Topics(ctx, cl, namesOf(d.wanted(role)))
				for _, t := range found {
					if t.ErrorCode != kerr.TopicAuthorizationFailed.Code {
						of.seen++
					}
				}
				return of
			})
			list[i].err, list[i].seen = answer.err, answer.seen
		})
	}
	all.Wait()
	return list
}

// noBrokers says why brokers cannot be asked; empty if they can.
func (d *doctor) noBrokers() string {
	if len(d.file.Kafka.Brokers) == 0 {
		return "kafka.embedded is for `forebay dev`, which brings its own broker"
	}
	return ""
}

// noAnswer says why a check that needs an answer of the brokers cannot be made; empty if it can.
func (d *doctor) noAnswer() string {
	if none := d.noBrokers(); none != "" {
		return none
	}
	if cl, _ := d.asker(); cl == nil {
		return "the brokers do not answer, see the check brokers"
	}
	return ""
}

// asker is the client that may look at most topics, and those that it uses; nil if the brokers let nobody in. Commands' role is the first.
func (d *doctor) asker() (*kgo.Client, []topics.Topic) {
	in := slices.DeleteFunc(slices.Clone(d.logins()), func(l login) bool { return l.err != nil })
	if len(in) == 0 {
		return nil, nil
	}
	most := slices.MaxFunc(in, func(a, b login) int { return cmp.Compare(a.seen, b.seen) })
	return most.cl, d.wanted(most.role)
}

// wanted are the topics that a role may look at, by the table of rights, of those that there should be.
func (d *doctor) wanted(role config.Role) []topics.Topic {
	return slices.DeleteFunc(topics.Wanted(d.file, d.file.MaxBody), func(t topics.Topic) bool {
		return role != config.RoleTopics && t.Spare || role == config.RoleStream && !strings.HasPrefix(t.Name, "events.")
	})
}

func namesOf(list []topics.Topic) (names []string) {
	for _, t := range list {
		names = append(names, t.Name)
	}
	return names
}

// notReached is an error of a client in words for people.
func notReached(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time: " + err.Error()
	}
	return brokers.Explain(err).Error()
}

// brokers says which roles are let in, and asks each broker for its version.
func (d *doctor) brokers(ctx context.Context) (found []Finding) {
	cl, _ := d.asker()
	if cl == nil {
		return []Finding{problem(strings.Join(d.file.Kafka.Brokers, ", "), notReached(d.logins()[0].err), "")}
	}
	for _, l := range d.logins() {
		if l.err != nil {
			found = append(found, problem("login of "+config.KafkaRole(l.role), notReached(l.err), "kafka.roles."+config.KafkaRole(l.role)+": as the listener wants it"))
		}
	}
	adm := kadm.NewClient(cl)
	cluster, err := adm.BrokerMetadata(ctx)
	if err != nil {
		return append(found, unknown("", notReached(err)))
	}
	spoken, err := adm.ApiVersions(ctx)
	if err != nil && len(spoken) == 0 {
		return append(found, unknown("", notReached(err)))
	}
	versions := map[string]int{}
	for _, b := range cluster.Brokers {
		v, answered := spoken[b.NodeID]
		if answered && v.Err == nil {
			versions["Kafka "+v.VersionGuess()]++ // by the requests that it knows
			continue
		}
		why := "it was not asked"
		if answered {
			why = notReached(v.Err)
		}
		found = append(found, problem(fmt.Sprintf("broker %d, %s:%d", b.NodeID, b.Host, b.Port), why, "advertised.listeners of that broker: an address that this machine reaches; or start it"))
	}
	for _, v := range sorted(versions) {
		found = append(found, ok("", "%d of %d answer: %s", versions[v], len(cluster.Brokers), v))
	}
	return found
}

// topics says what `forebay topics plan` does, and which topics have other partitions than the ledger knows.
func (d *doctor) topics(ctx context.Context) (found []Finding) {
	cl, wanted := d.asker()
	changes, err := topics.Plan(ctx, cl, wanted)
	if err != nil {
		return []Finding{unknown("", notReached(err))}
	}
	known := map[string]int{}
	for _, x := range d.examine() {
		if x.found != nil {
			maps.Copy(known, x.found.Topics)
		}
	}
	for _, c := range changes {
		if c.Action == topics.Denied { // the check rights has it as a problem
			found = append(found, unknown(c.Topic, c.Detail))
			continue
		}
		if n, ok := known[c.Topic]; ok && c.Action != topics.Create && n != int(c.Partitions) {
			// The plan, which knows no ledger, would have the number written into the file. rekey leaves the topic, with what else differs in it.
			found = append(found, problem(c.Topic, fmt.Sprintf("has %d partitions, and the ledger knows it by %d: entities are in other partitions than they were, and subscriptions stop (partition_count)", c.Partitions, n),
				fmt.Sprintf("forebay topics rekey %s --partitions %d -c %s", c.Topic, c.Partitions, d.Path)))
			continue
		}
		text, fix := c.Detail, ""
		switch {
		case c.Action == topics.Create:
			text = "is missing: " + c.Detail
		case c.Action == topics.Refused || c.Action == topics.Differs:
			fix = "forebay topics plan -c " + d.Path
		}
		switch {
		case c.Stops():
			found = append(found, problem(c.Topic, text+": a process does not start", fix))
		case c.Action != topics.Keep:
			found = append(found, warning(c.Topic, text, fix))
		}
	}
	return found
}

// copies looks at whether acknowledged events survive a broker now: which replicas are in sync, and how many min.insync.replicas wants.
func (d *doctor) copies(ctx context.Context) (found []Finding) {
	cl, wanted := d.asker()
	details, err := record.Topics(ctx, cl, namesOf(wanted))
	if err != nil {
		return []Finding{unknown("", notReached(err))}
	}
	single := 0
	for _, w := range wanted {
		if w.Replication == 1 {
			single++
		}
		least, _ := strconv.Atoi(w.Configs[topics.MinInsync])
		var leaderless, below, behind []string
		if right, ok := errors.AsType[*record.Right](record.Lacks(cl, "Describe", "topic "+w.Name, kerr.ErrorForCode(details[w.Name].ErrorCode))); ok {
			found = append(found, unknown(w.Name, right.Lack()))
			continue
		}
		all := details[w.Name].Partitions
		slices.SortFunc(all, func(a, b kmsg.MetadataResponseTopicPartition) int { return cmp.Compare(a.Partition, b.Partition) })
		for _, p := range all {
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
		if len(leaderless) > 0 {
			found = append(found, problem(w.Name, "partitions "+strings.Join(leaderless, ", ")+" have no leader: they can be neither read nor written", ""))
		}
		if len(below) > 0 {
			found = append(found, problem(w.Name, fmt.Sprintf("partitions %s have fewer than %d in-sync replicas (min.insync.replicas): deliveries are refused", strings.Join(below, ", "), least), ""))
		}
		if len(behind) > 0 {
			found = append(found, warning(w.Name, "partitions "+strings.Join(behind, ", ")+" have replicas that are not in sync", ""))
		}
	}
	if single > 0 {
		found = append(found, warning("topics.replication", fmt.Sprintf("%d topics have one replica: what was acknowledged is lost with the disk of one broker", single),
			"topics: {replication: 3, min_insync: 2}, on 3 brokers"))
	}
	return found
}
