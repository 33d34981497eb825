package record

import (
	"cmp"
	"context"
	"errors"
	"reflect"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// User is whom a Kafka client is for the brokers, such as "user forebay-intake", as a hook of its options.
type User string

// OnNewClient implements [kgo.HookNewClient]: kgo takes nothing for a hook that implements none.
func (User) OnNewClient(*kgo.Client) {}

// Right is an error of the brokers that says that a client lacks a right.
type Right struct {
	User      string // empty: the client's options do not say, see [By]
	Operation string // as `forebay acls export` has it
	Resource  string // such as "topic events.acme.github"
	Err       error
}

func (r *Right) Error() string { return r.Err.Error() }
func (r *Right) Unwrap() error { return r.Err }

// Lack says in words what is missing, such as "user readless has no right Read on topic events.acme.github".
func (r *Right) Lack() string {
	return cmp.Or(r.User, "this process's user") + " has no right " + r.Operation + " on " + r.Resource
}

// Lacks returns err as a [*Right] where the brokers have refused a client what needs an operation on a resource; any other error as it is. cl may
// be nil.
func Lacks(cl *kgo.Client, operation, resource string, err error) error {
	if !errors.Is(err, kerr.TopicAuthorizationFailed) && !errors.Is(err, kerr.GroupAuthorizationFailed) && !errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return err
	}
	if _, known := errors.AsType[*Right](err); known {
		return err
	}
	r := &Right{Operation: operation, Resource: resource, Err: err}
	if cl != nil {
		hooks := reflect.ValueOf(cl.OptValue(kgo.WithHooks)) // a slice whose type has no name outside of kgo
		for i := range hooks.Len() {
			if user, ok := hooks.Index(i).Interface().(User); ok {
				r.User = string(user)
			}
		}
	}
	return r
}

// By adds to an error that is a [*Right] whose it is, where it does not say.
func By(user User, err error) error {
	if r, ok := errors.AsType[*Right](err); ok && r.User == "" {
		r.User = string(user)
	}
	return err
}

// Topics asks the brokers for topics by name, each with its own error. kadm ends its whole answer at the first that a client may not look at: what one
// team lacks would hold up all others. Kafka refuses one that is not there as well, where there is no right to it.
func Topics(ctx context.Context, cl *kgo.Client, names []string) (map[string]kmsg.MetadataResponseTopic, error) {
	ask := kmsg.NewPtrMetadataRequest()
	ask.Topics = []kmsg.MetadataRequestTopic{} // none is none; nil would be all that the cluster has
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		ask.Topics = append(ask.Topics, t)
	}
	answer, err := ask.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	found := map[string]kmsg.MetadataResponseTopic{}
	for _, t := range answer.Topics {
		if t.Topic != nil {
			found[*t.Topic] = t
		}
	}
	return found, nil
}
