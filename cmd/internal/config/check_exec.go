package config

import "strings"

// execSink checks a destination that runs a command. It is refused where it is not enabled, unless this process runs no
// destinations at all.
func (ck *checker) execSink(path string, d *Destination) {
	if !ck.c.Exec.Enabled && !ck.skip("exec.enabled") && ck.options.uses(path) {
		ck.problem(path+".type", "exec is off: it runs programs on this machine. Where that is wanted, write exec: {enabled: true} at the top of the file")
	}
	if len(d.Command) == 0 && !ck.skip(path+".command") {
		ck.problem(path+".command", "is missing: the program and its arguments, as a list")
	}
	for name := range d.Env {
		if at := path + ".env." + name; strings.HasPrefix(name, "FOREBAY_") || name == "PATH" || name == "TRACEPARENT" {
			ck.problem(at, "is set by forebay")
		}
	}
}
