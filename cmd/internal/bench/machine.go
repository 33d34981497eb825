package bench

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Machine says where the figures come from.
type Machine struct {
	CPU    string    `json:"cpu"`
	Cores  int       `json:"cores"`
	Memory string    `json:"memory"`
	Kernel string    `json:"kernel"`
	Go     string    `json:"go"`
	When   time.Time `json:"when"`
}

func (m Machine) String() string {
	return fmt.Sprintf("%d cores of %s, %s, Linux %s, %s, %s", m.Cores, m.CPU, m.Memory, m.Kernel, m.Go, m.When.Format(time.DateOnly))
}

// ThisMachine reads the machine's facts; what cannot be read stays empty.
func ThisMachine() Machine {
	kernel, _ := exec.Command("uname", "-r").Output()
	return Machine{
		CPU: procField("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(), Memory: procField("/proc/meminfo", "MemTotal"),
		Kernel: strings.TrimSpace(string(kernel)), Go: runtime.Version(), When: time.Now().UTC().Truncate(time.Second),
	}
}

// quarterOfMemory is what Postgres' manual begins with for shared_buffers, and at most 4GB; empty where the total is not known.
func quarterOfMemory(total string) string {
	kib, err := strconv.ParseInt(strings.TrimSuffix(total, " kB"), 10, 64)
	if err != nil {
		return ""
	}
	return strconv.FormatInt(min(kib>>12, 4096), 10) + "MB"
}

func procField(file, key string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if k, v, ok := strings.Cut(sc.Text(), ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// clockTick is Linux's USER_HZ, which is 100 on every architecture Go runs on.
const clockTick = 10 * time.Millisecond

// cpuOf is the processor time used so far by a process, or by all whose parent it is when children is set.
func cpuOf(pid int, children bool) time.Duration {
	var total time.Duration
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		p, parent, used := readStat(file)
		if p == pid || children && parent == pid {
			total += used
		}
	}
	return total
}

// readStat reads pid, parent and user+system+reaped time of a /proc/PID/stat file; see proc(5).
func readStat(file string) (pid, parent int, used time.Duration) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, 0 // the process has ended
	}
	head, tail, ok := strings.Cut(string(b), ") ")
	if !ok {
		return 0, 0, 0
	}
	first, _, _ := strings.Cut(head, " ")
	f := strings.Fields(tail)
	if len(f) < 15 {
		return 0, 0, 0
	}
	num := func(s string) int { n, _ := strconv.Atoi(s); return n }
	// Fields 14 to 17 of the file: utime stime cutime cstime.
	ticks := num(f[11]) + num(f[12]) + num(f[13]) + num(f[14])
	return num(first), num(f[1]), time.Duration(ticks) * clockTick
}

// ownCPU is this process's processor time, exact where /proc counts in ticks.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
