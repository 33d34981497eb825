package owner

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/forebay-io/forebay/stream/reader"
)

// State of an assigned partition.
type State string

const (
	Claiming State = "claiming"
	Running  State = "running"
	Stopped  State = "stopped" // until an operator looks; see StopError
)

// PartitionState is one assigned partition, for operators.
type PartitionState struct {
	Topic     string
	Partition int32
	State     State
	Err       error // why it does not run; *StopError where stopped
}

// status is what Ready and Partitions return. Safe for concurrent use.
type status struct {
	metrics *metrics

	mu       sync.Mutex
	starting error // what the start still waits for; nil: it is done
	joined   bool
	group    error // kgo's last error about the group, since it was last joined
	parts    map[reader.TopicPartition]PartitionState
}

var errNotStarted = errors.New("not started")

func newStatus(ms *metrics) *status {
	return &status{metrics: ms, starting: errNotStarted, parts: map[reader.TopicPartition]PartitionState{}}
}

func (s *status) setStarting(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting = err
}

func (s *status) join() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined, s.group = true, nil
}

func (s *status) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined = false
}

func (s *status) setGroupError(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.group = err
}

func (s *status) set(at reader.TopicPartition, st State, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[at] = PartitionState{Topic: at.Topic, Partition: at.Number, State: st, Err: err}
	s.count()
}

func (s *status) forget(at reader.TopicPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.parts, at)
	s.count()
}

// count sets the metric of partitions by state. The caller holds mu.
func (s *status) count() {
	n := map[State]int{}
	for _, p := range s.parts {
		n[p.State]++
	}
	for _, st := range []State{Claiming, Running, Stopped} {
		s.metrics.state.WithLabelValues(string(st)).Set(float64(n[st]))
	}
}

// ready returns nil when the begin is stored and the group is joined. A stopped partition does not count: if the process were taken out
// of service for it, the other partitions and the intake in the same process would stop, too.
func (s *status) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.starting != nil:
		return s.starting
	case !s.joined && s.group != nil:
		return fmt.Errorf("kafka group not joined: %w", s.group)
	case !s.joined:
		return errors.New("kafka group not joined yet: a member whose process is gone is taken out within seconds; for one that is frozen or cut off the brokers wait up to kafka.session_timeout")
	}
	return nil
}

// partitions returns the states of all partitions, sorted by topic and number.
func (s *status) partitions() []PartitionState {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]PartitionState, 0, len(s.parts))
	for _, p := range s.parts {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b PartitionState) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all
}
