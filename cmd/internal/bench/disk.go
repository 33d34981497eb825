package bench

import (
	"fmt"
	"syscall"
)

// What scale needs on the disk: an event's row with its index entries, measured, rounded up; as much again for the WAL
// of it, until max_wal_size lets the server take WAL back; and room for what the rounds themselves write.
const (
	diskPerEvent = 450
	diskWAL      = 8 << 30
	diskRounds   = 2 << 30
)

// diskNeeded is how many bytes scale needs for its seen ids.
func diskNeeded(seen []int) int64 {
	var rows int64
	for _, n := range seen {
		rows += int64(n)
	}
	return rows*diskPerEvent + min(rows*diskPerEvent, diskWAL) + diskRounds
}

// checkDisk refuses to begin where the seen ids do not fit. dir is the server's data directory.
func (o Options) checkDisk(dir string, r *Report) error {
	need := diskNeeded(o.Seen)
	free, known := diskFree(dir)
	if !known { // a server elsewhere
		r.Settings["scale.disk"] = fmt.Sprintf("%.1f GiB needed; what the server has is not known here", gib(need))
		o.logf("scale needs %.1f GiB on the server's disk; whether it has them cannot be seen from here", gib(need))
		return nil
	}
	r.Settings["scale.disk"] = fmt.Sprintf("%.1f GiB needed, %.1f GiB free", gib(need), gib(free))
	o.logf("scale needs %.1f GiB on the disk of %s, which has %.1f GiB free", gib(need), dir, gib(free))
	if free < need {
		return fmt.Errorf("%s has %.1f GiB free and %v seen ids need %.1f GiB (%d bytes each, WAL, and room for the rounds): "+
			"free some, set TMPDIR to a larger disk, name a server with --postgres, or ask for fewer with --seen", dir, gib(free), o.Seen, gib(need), diskPerEvent)
	}
	return nil
}

func diskFree(dir string) (free int64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * s.Bsize, true
}

func gib(n int64) float64 { return float64(n) / (1 << 30) }

// memoryRoom is what the servers of a scenario that keep their data in memory may need, with room to spare.
const memoryRoom = 2 << 30

// memoryDir is a directory in memory with that much room; empty where there is none.
func memoryDir() string {
	const dir, tmpfs = "/dev/shm", 0x01021994 // statfs(2)
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil || s.Type != tmpfs || int64(s.Bavail)*s.Bsize < memoryRoom {
		return ""
	}
	return dir
}
