package topics

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/forebay-io/forebay/schemas"
)

// required lists the settings that a process does not start without. With other values an acknowledged event can be lost or refused, or
// the timestamp of a record is the producer's: versions are clamped against it, and dedupe windows and retention depend on it.
var required = []string{cleanupPolicy, unclean, minInsync, maxMessage, timestampType}

// Check checks topics before a process starts: every topic except spare ones must exist, with settings that keep acknowledged events
// (P1) and the broker's append times. The error names the command to run; file is the configuration's path.
func Check(ctx context.Context, adm *kadm.Client, wanted []Topic, file string) error {
	wanted = slices.DeleteFunc(slices.Clone(wanted), func(t Topic) bool { return t.Spare })
	changes, err := Plan(ctx, adm, wanted)
	if err != nil {
		return err
	}
	var missing, wrong []string
	for _, c := range changes {
		switch {
		case c.Action == Create:
			missing = append(missing, c.Topic)
		case c.Action == Refused:
			wrong = append(wrong, c.Topic+" "+c.Detail)
		default:
			for key := range c.alter {
				if slices.Contains(required, key) {
					wrong = append(wrong, fmt.Sprintf("%s: %s", c.Topic, c.Detail))
					break
				}
			}
		}
	}
	run := fmt.Sprintf("run `forebay topics apply -c %s`", file)
	switch {
	case len(missing) > 0:
		return schemas.Errorf(schemas.NotFound, "check topics", "missing: %s; %s", strings.Join(missing, ", "), run)
	case len(wrong) > 0:
		return schemas.Errorf(schemas.Conflict, "check topics", "%s; %s", strings.Join(wrong, "; "), run)
	}
	return nil
}
