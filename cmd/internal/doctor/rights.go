package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

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
func (d *doctor) rights(ctx context.Context) (found []Finding) {
	for _, l := range d.logins() {
		name := config.KafkaRole(l.role)
		if l.err != nil {
			found = append(found, unknown(name, "the brokers do not let it in, see the check brokers"))
			continue
		}
		table := rights.Of(d.file, []rights.Role{tableRoles[l.role]}, func(rights.Role, string) string { return "" })
		may, err := d.may(ctx, l, table)
		if err != nil {
			found = append(found, unknown(name, notReached(err)))
			continue
		}
		checked := 0
		var lacks []string
		for _, r := range table {
			for _, m := range may {
				if m.kind != r.Kind || m.name != r.Name && !(r.Prefixed && strings.HasPrefix(m.name, r.Name)) || m.operations == nil {
					continue
				}
				if checked++; !allowed(m.operations, r.Operation) {
					lacks = append(lacks, r.Operation+" "+string(m.kind)+" "+m.name)
				}
			}
		}
		switch n := len(lacks); {
		case n > 5:
			lacks = append(lacks[:5], fmt.Sprintf("and %d more", n-5))
			fallthrough
		case n > 0:
			found = append(found, problem(name, "its user may not "+strings.Join(lacks, ", "), ""))
		case checked == 0:
			found = append(found, unknown(name, "the brokers do not say what this user may do"))
		default:
			found = append(found, ok(name, "%d rights on %d topics and groups: all that the role needs", checked, len(may)))
		}
	}
	return found
}

// resource is a topic or a group with the operations that are allowed on it; nil where nobody says.
type resource struct {
	kind       rights.Kind
	name       string
	operations []kmsg.ACLOperation
}

// may asks what a role may do with the topics and groups that it uses. It does not ask through kadm, whose calls fail as a whole at the first
// topic that may not be looked at.
func (d *doctor) may(ctx context.Context, l login, table []rights.Right) (list []resource, err error) {
	ask := kmsg.NewPtrMetadataRequest()
	ask.IncludeTopicAuthorizedOperations, ask.Topics = true, []kmsg.MetadataRequestTopic{} // no list would ask for all topics
	for _, name := range d.topicsOf(l.role, table) {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		ask.Topics = append(ask.Topics, t)
	}
	answer, err := ask.RequestWith(ctx, l.cl)
	if err != nil {
		return nil, err
	}
	for _, t := range answer.Topics {
		list = append(list, resource{rights.Topic, *t.Topic, operations(t.ErrorCode, kerr.TopicAuthorizationFailed, t.AuthorizedOperations)})
	}
	if l.role != config.RoleStream {
		return list, nil
	}
	for _, team := range sorted(d.file.Teams) {
		for _, name := range sorted(d.file.Teams[team].Subscriptions) {
			of, err := groupMay(ctx, l.cl, team+"."+name)
			if err != nil {
				return nil, err
			}
			list = append(list, of)
		}
	}
	return list, nil
}

// groupMay asks what may be done with a group. Of more at once, all of the answer may be that one of them may not be looked at.
func groupMay(ctx context.Context, cl *kgo.Client, name string) (resource, error) {
	ask := kmsg.NewPtrDescribeGroupsRequest()
	ask.Groups, ask.IncludeAuthorizedOperations = []string{name}, true
	answer, err := ask.RequestWith(ctx, cl)
	of := resource{kind: rights.Group, name: name}
	switch {
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		of.operations = []kmsg.ACLOperation{}
	case err != nil:
		return of, err
	case len(answer.Groups) == 1:
		of.operations = operations(answer.Groups[0].ErrorCode, kerr.GroupAuthorizationFailed, answer.Groups[0].AuthorizedOperations)
	}
	return of, nil
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
	for _, t := range topics.Wanted(d.file, d.file.MaxBody) {
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
	return slices.ContainsFunc(have, func(o kmsg.ACLOperation) bool {
		return o == op || o == kmsg.ACLOperationAll || slices.Contains(implied[name], o)
	})
}
