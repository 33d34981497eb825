package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rights"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/stream/deadletter"
)

// tableRoles are the roles of the table of rights, by ours.
var tableRoles = map[config.Role]rights.Role{config.RoleIntake: rights.Intake, config.RoleStream: rights.Stream, config.RoleTopics: rights.Admin}

// rights asks as each role what the brokers let it do, and holds that against the table of `forebay acls export`. Nothing is tried.
func (d *doctor) rights(ctx context.Context) []Finding {
	if none := d.notAnswered(); none != nil {
		return none
	}
	if d.parsed == nil {
		return d.notRead()
	}
	roles := d.roles()
	of := make([][]Finding, len(roles))
	var all sync.WaitGroup
	for i, role := range roles { // side by side: one that is not let in waits for the end of its retries
		all.Go(func() { of[i] = d.rightsOf(ctx, role) })
	}
	all.Wait()
	return slices.Concat(of...)
}

func (d *doctor) rightsOf(ctx context.Context, role config.Role) []Finding {
	name := config.KafkaRole(role)
	cl, err := d.client(role)
	if err != nil {
		return []Finding{unknown(name, err.Error(), "")}
	}
	table := rights.Of(d.parsed, []rights.Role{tableRoles[role]}, func(r rights.Role, _ string) string { return d.Principal(d.parsed, r) })
	may, err := d.may(ctx, cl, role, table)
	if err != nil {
		return []Finding{unknown(name, "not made: "+notReached(err), "forebay acls export -c "+d.Path)}
	}
	var lacks []rights.Right
	var texts []string
	checked := 0
	for _, r := range table {
		for _, m := range may {
			if m.kind != r.Kind || !(m.name == r.Name || r.Prefixed && strings.HasPrefix(m.name, r.Name)) || m.operations == nil {
				continue
			}
			if checked++; !allowed(m.operations, r.Operation) {
				if !slices.Contains(lacks, r) {
					lacks = append(lacks, r)
				}
				texts = append(texts, r.Operation+" "+string(m.kind)+" "+m.name)
			}
		}
	}
	switch {
	case len(lacks) > 0:
		shown := texts
		if len(shown) > 5 {
			shown = append(slices.Clone(texts[:5]), fmt.Sprintf("and %d more", len(texts)-5))
		}
		return []Finding{problem(name, "its user may not "+strings.Join(shown, ", "), grants(lacks))}
	case checked == 0:
		return []Finding{unknown(name, "not made: the brokers do not say what this user may do", "forebay acls export -c "+d.Path)}
	}
	return []Finding{ok(name, "%d rights on %d topics and groups: all that the role needs", checked, len(may))}
}

// grants are the commands that give rights, one for each resource.
func grants(lacks []rights.Right) string {
	var lines []string
	for line := range strings.Lines(rights.Kafka(lacks)) {
		if strings.HasPrefix(line, "kafka-acls.sh ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "; ")
}

// resource is a topic or a group with the operations that are allowed on it; nil where nobody says.
type resource struct {
	kind       rights.Kind
	name       string
	operations []kmsg.ACLOperation
}

// may asks what a role may do with the topics and groups that it uses. It does not ask through kadm, whose calls fail as a whole at the first
// topic that may not be looked at.
func (d *doctor) may(ctx context.Context, cl *kgo.Client, role config.Role, table []rights.Right) (list []resource, err error) {
	ask := kmsg.NewPtrMetadataRequest()
	ask.IncludeTopicAuthorizedOperations = true
	for _, name := range d.topicsOf(role, table) {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		ask.Topics = append(ask.Topics, t)
	}
	if len(ask.Topics) == 0 { // no list would ask for all topics
		ask.Topics = []kmsg.MetadataRequestTopic{}
	}
	answer, err := ask.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	for _, t := range answer.Topics {
		list = append(list, resource{rights.Topic, *t.Topic, operations(t.ErrorCode, kerr.TopicAuthorizationFailed, t.AuthorizedOperations)})
	}
	if role != config.RoleStream {
		return list, nil
	}
	groups, err := groupsMay(ctx, cl, d.groups())
	return append(list, groups...), err
}

// groupsMay asks what may be done with groups. Where one of them may not be looked at, all of the answer may be that, so it asks for each.
func groupsMay(ctx context.Context, cl *kgo.Client, names []string) (list []resource, err error) {
	ask := kmsg.NewPtrDescribeGroupsRequest()
	ask.Groups, ask.IncludeAuthorizedOperations = names, true
	answer, err := ask.RequestWith(ctx, cl)
	switch {
	case errors.Is(err, kerr.GroupAuthorizationFailed) && len(names) == 1:
		return []resource{{rights.Group, names[0], []kmsg.ACLOperation{}}}, nil
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		for _, name := range names {
			one, err := groupsMay(ctx, cl, []string{name})
			if list = append(list, one...); err != nil {
				return list, err
			}
		}
		return list, nil
	case err != nil:
		return nil, err
	}
	for _, g := range answer.Groups {
		list = append(list, resource{rights.Group, g.Group, operations(g.ErrorCode, kerr.GroupAuthorizationFailed, g.AuthorizedOperations)})
	}
	return list, nil
}

// operations are those that an answer allows: none with the error that refuses even to describe, and nil where it does not say.
func operations(code int16, refused *kerr.Error, bits int32) []kmsg.ACLOperation {
	switch {
	case code == refused.Code:
		return []kmsg.ACLOperation{}
	case code != 0 || bits == math.MinInt32: // the broker leaves them out
		return nil
	}
	return append([]kmsg.ACLOperation{}, kadm.DecodeACLOperations(bits)...)
}

// topicsOf lists the topics that a role uses: those of the file, and those that destinations write to.
func (d *doctor) topicsOf(role config.Role, table []rights.Right) (names []string) {
	for _, t := range topics.Wanted(d.parsed, d.parsed.MaxBody) {
		if role != config.RoleIntake || !strings.HasPrefix(t.Name, deadletter.Topic("")) {
			names = append(names, t.Name)
		}
	}
	for _, r := range table {
		if r.Kind == rights.Topic && !r.Prefixed && !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	return names
}

// groups are those of the subscriptions.
func (d *doctor) groups() (names []string) {
	for _, team := range sorted(d.parsed.Teams) {
		for _, name := range sorted(d.parsed.Teams[team].Subscriptions) {
			names = append(names, team+"."+name)
		}
	}
	return names
}

// implied are operations that others allow, too.
var implied = map[string][]kmsg.ACLOperation{
	"Describe":        {kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDelete, kmsg.ACLOperationAlter},
	"DescribeConfigs": {kmsg.ACLOperationAlterConfigs},
}

// allowed reports whether operations allow one by its name in the table.
func allowed(have []kmsg.ACLOperation, name string) bool {
	op, err := kmsg.ParseACLOperation(name)
	if err != nil {
		return false
	}
	return slices.Contains(have, op) || slices.Contains(have, kmsg.ACLOperationAll) ||
		slices.ContainsFunc(implied[name], func(o kmsg.ACLOperation) bool { return slices.Contains(have, o) })
}
