package ingest

import (
	"errors"
	"net/netip"
	"time"
)

// Limits bound what deliveries may use. Zero values have the defaults.
type Limits struct {
	// Memory bounds the bytes of all deliveries that are being read or produced, with those of their connections and of a second buffer
	// while a body is moved to a larger one; beyond it the answer is 503. While an Ed25519 signature is verified, its body is in memory twice. Default 256 MiB, or three times MaxBody.
	Memory int64
	// SmallMemory is the part of Memory that is for small bodies alone. Default a quarter.
	SmallMemory int64
	// SmallBody is the largest body that is small. Default 64 KiB.
	SmallBody int64
	// YieldAfter is how long a body is on its way before it gives way to newer ones where there is no room. Default 1 s.
	YieldAfter time.Duration
	// Pace is how many bytes of a body have to come a second, on an average over Grace; else the answer is 408. Default 16 KiB in 5 s.
	// Negative: however slowly.
	Pace  int64
	Grace time.Duration
	// Connections bounds the connections of a listener; see [Connections]. Of the intake's, half may be those of bodies that are on their
	// way: where another one comes, the oldest gives way at once. Default 16384.
	Connections int
	// AddressConnections and AddressBytes bound how many bodies may be on their way from one address at once, and what the large ones
	// of them hold; beyond it the answer is 429. Of IPv6, an address is its first 64 bits. Defaults 2048, a quarter of Connections at most, and half of Memory, what a
	// body of MaxBody takes at least.
	AddressConnections int
	AddressBytes       int64
	// TrustedProxies are the networks of proxies whose X-Forwarded-For is believed. Default none.
	TrustedProxies []netip.Prefix
}

// Defaults of Limits.
const (
	defaultMemory             = 256 << 20
	defaultSmallBody          = 64 << 10
	defaultYieldAfter         = time.Second
	defaultPace               = 16 << 10
	defaultGrace              = 5 * time.Second
	defaultConnections        = 16384
	defaultAddressConnections = 2048
)

// WithDefaults returns the limits with their defaults, for bodies of up to maxBody bytes.
func (l Limits) WithDefaults(maxBody int64) Limits {
	if l.Memory == 0 {
		l.Memory = max(defaultMemory, 3*maxBody)
	}
	if l.SmallMemory == 0 {
		l.SmallMemory = l.Memory / 4
	}
	if l.SmallBody == 0 {
		l.SmallBody = defaultSmallBody
	}
	if l.YieldAfter == 0 {
		l.YieldAfter = defaultYieldAfter
	}
	if l.Pace == 0 {
		l.Pace = defaultPace
	}
	if l.Grace == 0 {
		l.Grace = defaultGrace
	}
	if l.Connections == 0 {
		l.Connections = defaultConnections
	}
	if l.AddressConnections == 0 {
		l.AddressConnections = min(defaultAddressConnections, max(1, l.Connections/4))
	}
	if l.AddressBytes == 0 {
		l.AddressBytes = max(l.Memory/2, maxBody+maxBody/2+ownMemory+4)
	}
	return l
}

// LargestBody returns the largest body that fits: it takes one and a half times its size while it is moved to its last buffer.
func (l Limits) LargestBody() int64 {
	room := min(max(l.Memory-l.SmallMemory, min(l.SmallBody, l.Memory)), l.AddressBytes)
	return (room - ownMemory - 2) * 2 / 3
}

func (l Limits) validate(maxBody int64) error {
	switch {
	case l.SmallMemory < 0 || l.SmallMemory > l.Memory || l.SmallBody < smallBuffer || l.YieldAfter < 0 || l.Grace < 0 || l.Connections < 2 || l.AddressConnections < 1:
		return errors.New("ingest: Limits: SmallMemory must be a part of Memory, SmallBody at least 4 KiB, and no limit negative")
	case l.LargestBody() < maxBody:
		return errors.New("ingest: Limits: one and a half times MaxBody must fit into Memory without SmallMemory, and into AddressBytes")
	}
	return nil
}
