package execsink

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/stream/sink"
)

// environment returns what the command finds; see the package comment.
func (s *Sink) environment(a sink.Action) []string {
	env := slices.Clone(s.env)
	set := func(name, value string) {
		// A NUL would end the variable; the kernel takes none.
		env = append(env, name+"="+strings.ReplaceAll(value, "\x00", "\uFFFD"))
	}
	e := a.Event
	set("FOREBAY_ACTION_ID", string(a.ID))
	set("FOREBAY_ACTION", a.Name)
	set("FOREBAY_SUBSCRIPTION", a.Subscription)
	set("FOREBAY_DESTINATION", a.Destination)
	set("FOREBAY_ATTEMPT", strconv.Itoa(a.Attempt))
	set("FOREBAY_EPOCH", strconv.FormatInt(a.Epoch, 10))
	set("FOREBAY_LATE", strconv.FormatBool(a.Late))
	set("FOREBAY_REASON", a.Reason)
	set("FOREBAY_EVENT_ID", e.ID)
	set("FOREBAY_SOURCE", e.Source)
	set("FOREBAY_TYPE", e.Type)
	set("FOREBAY_ENTITY", string(e.Entity))
	set("FOREBAY_TIME", e.Time.UTC().Format(time.RFC3339Nano))
	set("FOREBAY_CONTENT_TYPE", e.DataContentType)
	set("FOREBAY_VERSION", e.Version.Sortable())
	set("FOREBAY_VERSION_KIND", string(e.Version.Kind))
	set("FOREBAY_VERSION_CLOCK", e.Version.Clock)
	set("FOREBAY_DELETED", strconv.FormatBool(e.Deleted))
	a.Call().Headers(func(name, value string) {
		set("FOREBAY_"+strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(name, "X-"), "-", "_")), value)
	})
	parent, _ := a.Hop()
	set("TRACEPARENT", parent)
	return env
}

// ours returns variables that the configuration may not list.
func ours(name string) bool { return strings.HasPrefix(name, "FOREBAY_") || name == "TRACEPARENT" }

// path returns this process's PATH, which commands are found by.
func path() string { return "PATH=" + os.Getenv("PATH") }
