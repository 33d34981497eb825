package slack

import "github.com/forebay-io/forebay/stream/sink"

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
