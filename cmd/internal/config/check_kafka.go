package config

import (
	"slices"
	"strings"

	kafkasink "github.com/forebay-io/forebay/sinks/kafka"
)

// kafkaSink checks a destination that writes to a topic. One that is not its team's is refused unless the main file allows
// it, or this process runs no destinations at all.
func (ck *checker) kafkaSink(path string, d *Destination) {
	if ck.skip(path + ".topic") {
		return
	}
	if err := kafkasink.CheckTopic(d.Topic); err != nil {
		ck.problem(path+".topic", "%v", err)
		return
	}
	team, _, _ := strings.Cut(strings.TrimPrefix(path, "teams."), ".")
	may := append([]string{team + "."}, ck.c.Kafka.Publish[team]...)
	if ck.options.uses(path) && !slices.ContainsFunc(may, func(prefix string) bool { return strings.HasPrefix(d.Topic, prefix) }) {
		ck.problem(path+".topic", "%s is not a topic of the team's, whose names begin with %s; where it is to write there, write kafka: {publish: {%s: [%s]}} at the top of the file",
			clip(d.Topic), strings.Join(may, " or "), team, clip(d.Topic))
	}
}

// publish checks what teams may write to beside their own topics.
func (ck *checker) publish() {
	for _, team := range keys(ck.c.Kafka.Publish) {
		for i, prefix := range ck.c.Kafka.Publish[team] {
			if at := "kafka.publish." + team + "[" + itoa(i) + "]"; prefix == "" && !ck.skip(at) {
				ck.problem(at, "is empty: write what the names of the topics begin with")
			}
		}
	}
}
