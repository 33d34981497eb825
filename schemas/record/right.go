package record

import (
	"cmp"
	"errors"
	"reflect"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
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
