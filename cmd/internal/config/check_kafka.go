package config

import kafkasink "github.com/forebay-io/forebay/sinks/kafka"

// kafkaSink checks a destination that writes to a topic.
func (ck *checker) kafkaSink(path string, d *Destination) {
	if ck.skip(path + ".topic") {
		return
	}
	if err := kafkasink.CheckTopic(d.Topic); err != nil {
		ck.problem(path+".topic", "%v", err)
	}
}
