package topics

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// signs are what a topic's line begins with, by what is done with it.
var signs = map[Verb]string{Create: "+", Alter: "~", Keep: "=", Differs: "!", Refused: "!", Unknown: "?", Denied: "!"}

// words are what is done with a topic, for people.
var words = map[Verb]string{Create: "create", Alter: "change", Keep: "leave: it is as configured", Differs: "leave: it differs", Refused: "leave: it breaks a promise, and must be fixed", Unknown: "leave", Denied: "not looked at"}

// Write writes a plan as a difference: a line for each topic, below it one for each setting that is set or that stays as it should not be.
func Write(w io.Writer, changes []Change) {
	for _, c := range changes {
		fmt.Fprintf(w, "%s %s  %s\n", signs[c.Action], c.Topic, words[c.Action])
		if c.Action == Unknown || c.Action == Denied {
			fmt.Fprintf(w, "    %s\n", c.Detail)
		}
		for _, s := range c.Settings {
			switch {
			case s.Set && s.Is == "":
				fmt.Fprintf(w, "    + %-32s %s\n", s.Name, forPeople(s.Name, s.Want))
			case s.Set:
				fmt.Fprintf(w, "    ~ %-32s %s -> %s\n", s.Name, forPeople(s.Name, s.Is), forPeople(s.Name, s.Want))
			default:
				fmt.Fprintf(w, "    ! %-32s %s, configured is %s: %s\n", s.Name, forPeople(s.Name, s.Is), forPeople(s.Name, s.Want), s.Why)
			}
		}
	}
	fmt.Fprintln(w, "\n"+Summary(changes))
}

// Summary counts the topics by what is done with them.
func Summary(changes []Change) string {
	counts := map[Verb]int{}
	for _, c := range changes {
		counts[c.Action]++
	}
	var parts []string
	for _, p := range []struct {
		verb Verb
		text string
	}{{Create, "to create"}, {Alter, "to change"}, {Keep, "as configured"}, {Differs, "left although different"}, {Refused, "to be fixed"}, {Denied, "not looked at"}, {Unknown, "not in the configuration"}} {
		if n := counts[p.verb]; n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+p.text)
		}
	}
	if len(parts) == 0 {
		return "no topics"
	}
	return strings.Join(parts, ", ")
}

// Different reports whether the cluster has not what the configuration says. Topics that are not in it are no difference.
func Different(changes []Change) bool {
	for _, c := range changes {
		if c.Action != Keep && c.Action != Unknown {
			return true
		}
	}
	return false
}

// forPeople adds to a setting's value what it is in other units.
func forPeople(name, value string) string {
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil || n <= 0:
		return value
	case strings.HasSuffix(name, ".ms"):
		return value + " (" + config.Duration(time.Duration(n)*time.Millisecond).String() + ")"
	case name == maxMessage:
		return value + " (" + config.Size(n).String() + ")"
	}
	return value
}
