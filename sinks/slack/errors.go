package slack

import (
	"maps"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
)

// classes are what the errors of Slack's API mean that are not rejected: a channel that is not there, a text that is too
// long, blocks that are none. The names are those of the methods' references and of docs.slack.dev/apis/web-api.
var classes = map[string]sink.Class{
	// More than Slack takes. It has not posted.
	"ratelimited":            sink.ClassThrottled,
	"rate_limited":           sink.ClassThrottled,
	"message_limit_exceeded": sink.ClassThrottled,

	// The token, or what it may do: nothing of this destination works until somebody mends it.
	"access_denied":                  sink.ClassDenied,
	"account_inactive":               sink.ClassDenied,
	"ekm_access_denied":              sink.ClassDenied,
	"enterprise_is_restricted":       sink.ClassDenied,
	"invalid_auth":                   sink.ClassDenied,
	"missing_scope":                  sink.ClassDenied,
	"no_permission":                  sink.ClassDenied,
	"not_allowed_token_type":         sink.ClassDenied,
	"not_authed":                     sink.ClassDenied,
	"org_login_required":             sink.ClassDenied,
	"team_access_not_granted":        sink.ClassDenied,
	"token_expired":                  sink.ClassDenied,
	"token_revoked":                  sink.ClassDenied,
	"two_factor_setup_required":      sink.ClassDenied,
	"restricted_action_app_disabled": sink.ClassDenied,

	// Slack's own trouble. It may have posted.
	"fatal_error":         sink.ClassBusy,
	"internal_error":      sink.ClassBusy,
	"request_timeout":     sink.ClassBusy,
	"service_unavailable": sink.ClassBusy,
	"invalid_cursor":      sink.ClassBusy, // of a look that was cut short long ago: it begins again
	"team_added_to_org":   sink.ClassBusy, // the workspace is being moved
}

func classOf(name string) sink.Class {
	if class, ok := classes[name]; ok {
		return class
	}
	return sink.ClassRejected
}

// answers tells the table for the documentation.
func answers() (list []spec.Answer) {
	for _, class := range []sink.Class{sink.ClassThrottled, sink.ClassDenied, sink.ClassBusy} {
		names := slices.Sorted(maps.Keys(classes))
		names = slices.DeleteFunc(names, func(name string) bool { return classes[name] != class })
		a := spec.Answer{What: "`" + strings.Join(names, "`, `") + "` with 200", Class: class}
		if class == sink.ClassThrottled {
			a.Then = "waits as long as `Retry-After` says, else a minute"
		}
		list = append(list, a)
	}
	return append(list, spec.Answer{What: "any other `error` with 200", Class: sink.ClassRejected}, spec.Answer{What: "2xx that is not Slack's JSON", Class: sink.ClassBusy})
}
