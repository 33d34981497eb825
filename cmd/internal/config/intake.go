package config

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/ingest"
)

// Intake bounds what deliveries may use before their signature is verified.
type Intake struct {
	PublicURL      string         `yaml:"public_url"`
	Memory         Size           `yaml:"memory"`
	Connections    int            `yaml:"connections"`
	Small          SmallBodies    `yaml:"small"`
	BodyTimeout    Duration       `yaml:"body_timeout"`
	Pace           Pace           `yaml:"pace"`
	YieldAfter     Duration       `yaml:"yield_after"`
	PerAddress     PerAddress     `yaml:"per_address"`
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`
	StopDelay      Duration       `yaml:"stop_delay"`
	Spool          Spool          `yaml:"spool"`
}

// Spool is where deliveries wait for the brokers. See [Config.SpoolDir] for its directory.
type Spool struct {
	Dir     string `yaml:"dir"`
	MaxSize Size   `yaml:"max_size"`
}

// SpoolDir returns the directory of the spool, as it is found from here; empty if there is none.
func (c *Config) SpoolDir() string {
	if dir := c.Intake.Spool.Dir; dir == "" || filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(c.dir, c.Intake.Spool.Dir)
}

// SmallBodies says which bodies are small, and what is theirs alone.
type SmallBodies struct {
	MaxBody Size `yaml:"max_body"`
	Memory  Size `yaml:"memory"`
}

// Pace is how fast a body must come.
type Pace struct {
	Bytes Size     `yaml:"bytes"`
	Grace Duration `yaml:"grace"`
}

// PerAddress bounds what comes from one address.
type PerAddress struct {
	Connections int  `yaml:"connections"`
	Memory      Size `yaml:"memory"`
}

// Limits returns the intake's limits as the handler has them.
func (i Intake) Limits() ingest.Limits {
	l := ingest.Limits{
		Memory: int64(i.Memory), SmallMemory: int64(i.Small.Memory), SmallBody: int64(i.Small.MaxBody), YieldAfter: i.YieldAfter.Std(),
		Pace: int64(i.Pace.Bytes), Grace: i.Pace.Grace.Std(), Connections: i.Connections, AddressConnections: i.PerAddress.Connections,
		AddressBytes: int64(i.PerAddress.Memory), TrustedProxies: i.TrustedProxies,
	}
	if l.Pace == 0 {
		l.Pace = -1 // written: however slowly
	}
	return l
}

// IntakeLimits returns the limits of a listener that may have so many connections at most, with their defaults. Where these are fewer than
// the file's, one address has no more than a quarter of them, or the share that the file gives it where that is more: with all of them it
// could have others' bodies give way. A limit of the file below that holds as it is written.
func (c *Config) IntakeLimits(connections int) ingest.Limits {
	l := c.writtenIntake().Limits()
	if connections < l.Connections {
		share := (l.AddressConnections*connections + l.Connections - 1) / l.Connections
		l.AddressConnections = min(l.AddressConnections, max(share, connections/4))
		l.Connections = connections
	}
	return l.WithDefaults(c.LargestBody())
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
	c.Intake.Memory, c.Intake.Small.Memory, c.Intake.PerAddress.Memory = Size(l.Memory), Size(l.SmallMemory), Size(l.AddressBytes)
	c.Intake.PerAddress.Connections = l.AddressConnections
}

// writtenIntake returns the section without what [Config.fillIntake] has computed: a source that comes or goes may change that, and
// needs no restart.
func (c *Config) writtenIntake() Intake {
	i := c.Intake
	for path, value := range map[string]*Size{
		"intake.memory": &i.Memory, "intake.small.memory": &i.Small.Memory, "intake.per_address.memory": &i.PerAddress.Memory,
	} {
		if _, written := c.places[path]; !written {
			*value = 0
		}
	}
	if _, written := c.places["intake.per_address.connections"]; !written {
		i.PerAddress.Connections = 0
	}
	return i
}

func (ck *checker) intake() {
	i := ck.c.Intake
	if i.PublicURL != "" && !ck.unresolved("intake.public_url") && (!callable(i.PublicURL) || strings.HasSuffix(i.PublicURL, "/")) {
		ck.problem("intake.public_url", "is not a URL such as https://hooks.example.com, without a slash at its end")
	}
	// A response may take a minute from the request's header on.
	ck.between("intake.body_timeout", i.BodyTimeout, Duration(time.Second), Duration(30*time.Second))
	ck.between("intake.pace.grace", i.Pace.Grace, Duration(time.Second), Duration(30*time.Second))
	ck.between("intake.yield_after", i.YieldAfter, Duration(100*time.Millisecond), Duration(30*time.Second))
	ck.between("intake.stop_delay", i.StopDelay, 0, Duration(time.Minute))
	ck.atMost("intake.per_address.connections", i.PerAddress.Connections, 1_000_000)
	ck.atMost("intake.connections", i.Connections, 1_000_000)
	ck.sizes("intake.memory", i.Memory, 16<<20, 1<<40)
	ck.sizes("intake.small.max_body", i.Small.MaxBody, 4<<10, 1<<20)
	ck.sizes("intake.spool.max_size", i.Spool.MaxSize, 16<<20, 1<<50)
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
	if slices.ContainsFunc([]string{"intake.memory", "intake.small.memory", "intake.small.max_body", "intake.per_address.memory"}, ck.unresolved) {
		return
	}
	l := i.Limits()
	switch {
	case i.Small.Memory >= i.Memory:
		ck.problem("intake.small.memory", "%s must be less than intake.memory (%s)", i.Small.Memory, i.Memory)
	case l.LargestBody() >= largest:
	case i.PerAddress.Memory < i.Memory-i.Small.Memory:
		ck.problem("intake.per_address.memory", "%s is too little for a body of %s, the largest max_body of the sources, which takes one and a half times that while it arrives", i.PerAddress.Memory, Size(largest))
	default:
		ck.problem("intake.memory", "%s without the %s of small bodies is too little for a body of %s, the largest max_body of the sources, which takes one and a half times that while it arrives",
			i.Memory, i.Small.Memory, Size(largest))
	}
}

func (ck *checker) sizes(path string, s, low, high Size) {
	if !ck.unresolved(path) && (s < low || s > high) {
		ck.problem(path, "%s is not between %s and %s", s, low, high)
	}
}
