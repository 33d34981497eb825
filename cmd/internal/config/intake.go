package config

import (
	"net/netip"
	"slices"
	"time"

	"github.com/forebay-io/forebay/ingest"
)

// Intake bounds what deliveries may use before their signature is verified.
type Intake struct {
	Memory         Size           `yaml:"memory"`
	Small          SmallBodies    `yaml:"small"`
	BodyTimeout    Duration       `yaml:"body_timeout"`
	Pace           Pace           `yaml:"pace"`
	YieldAfter     Duration       `yaml:"yield_after"`
	PerAddress     PerAddress     `yaml:"per_address"`
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`
}

// SmallBodies says which bodies are small, and what is theirs alone.
type SmallBodies struct {
	Body   Size `yaml:"body"`
	Memory Size `yaml:"memory"`
}

// Pace is how fast a body must come.
type Pace struct {
	Bytes Size     `yaml:"bytes"`
	Grace Duration `yaml:"grace"`
}

// PerAddress bounds what comes from one address.
type PerAddress struct {
	Connections int  `yaml:"connections"`
	Bytes       Size `yaml:"bytes"`
}

// Limits returns the intake's limits as the handler has them.
func (i Intake) Limits() ingest.Limits {
	l := ingest.Limits{
		Memory: int64(i.Memory), SmallMemory: int64(i.Small.Memory), SmallBody: int64(i.Small.Body), YieldAfter: i.YieldAfter.Std(),
		Pace: int64(i.Pace.Bytes), Grace: i.Pace.Grace.Std(), AddressConnections: i.PerAddress.Connections,
		AddressBytes: int64(i.PerAddress.Bytes), TrustedProxies: i.TrustedProxies,
	}
	if l.Pace == 0 {
		l.Pace = -1 // written: however slowly
	}
	return l
}

// LargestBody returns the largest body of all sources, 1 MiB at least.
func (c *Config) LargestBody() int64 {
	largest := int64(1 << 20)
	for team, t := range c.Teams {
		for name := range t.Sources {
			largest = max(largest, c.MaxBody(team, name))
		}
	}
	return largest
}

// fillIntake sets the limits that depend on the largest body, or on each other.
func (c *Config) fillIntake() {
	l := c.Intake.Limits().WithDefaults(c.LargestBody())
	c.Intake.Memory, c.Intake.Small.Memory, c.Intake.PerAddress.Bytes = Size(l.Memory), Size(l.SmallMemory), Size(l.AddressBytes)
}

// writtenIntake returns the section without what [Config.fillIntake] has computed: a source that comes or goes may change that, and
// needs no restart.
func (c *Config) writtenIntake() Intake {
	i := c.Intake
	for path, value := range map[string]*Size{
		"intake.memory": &i.Memory, "intake.small.memory": &i.Small.Memory, "intake.per_address.bytes": &i.PerAddress.Bytes,
	} {
		if _, written := c.places[path]; !written {
			*value = 0
		}
	}
	return i
}

func (ck *checker) intake() {
	i := ck.c.Intake
	// A response may take a minute from the request's header on.
	ck.between("intake.body_timeout", i.BodyTimeout, Duration(time.Second), Duration(30*time.Second))
	ck.between("intake.pace.grace", i.Pace.Grace, Duration(time.Second), Duration(30*time.Second))
	ck.between("intake.yield_after", i.YieldAfter, Duration(100*time.Millisecond), Duration(30*time.Second))
	ck.atMost("intake.per_address.connections", i.PerAddress.Connections, 1_000_000)
	ck.sizes("intake.memory", i.Memory, 16<<20, 1<<40)
	ck.sizes("intake.small.body", i.Small.Body, 4<<10, 1<<20)
	ck.sizes("intake.pace.bytes", i.Pace.Bytes, 0, 1<<20)
	for n, p := range i.TrustedProxies {
		if path := "intake.trusted_proxies[" + itoa(n) + "]"; p.IsValid() && (p.Bits() == 0 || p.Addr().Is4In6() && p.Bits() <= 96) {
			ck.problem(path, "%s is every address: then anybody's X-Forwarded-For is believed; list the networks of your proxies", p)
		}
	}
	ck.intakeMemory(i, ck.c.LargestBody())
}

// intakeMemory reports limits that the largest body of a source does not fit into.
func (ck *checker) intakeMemory(i Intake, largest int64) {
	if slices.ContainsFunc([]string{"intake.memory", "intake.small.memory", "intake.small.body", "intake.per_address.bytes"}, ck.unresolved) {
		return
	}
	l := i.Limits()
	switch {
	case i.Small.Memory >= i.Memory:
		ck.problem("intake.small.memory", "%s is not a part of intake.memory, which is %s", i.Small.Memory, i.Memory)
	case l.LargestBody() >= largest:
	case i.PerAddress.Bytes < i.Memory-i.Small.Memory:
		ck.problem("intake.per_address.bytes", "%s is too little for a body of %s, the largest max_body of the sources; a connection takes some KiB more", i.PerAddress.Bytes, Size(largest))
	default:
		ck.problem("intake.memory", "%s without the %s of small bodies is too little for a body of %s, the largest max_body of the sources; a connection takes some KiB more",
			i.Memory, i.Small.Memory, Size(largest))
	}
}

func (ck *checker) sizes(path string, s, low, high Size) {
	if !ck.unresolved(path) && (s < low || s > high) {
		ck.problem(path, "%s is not between %s and %s", s, low, high)
	}
}
