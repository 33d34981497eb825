package streamtest

// What the owner of one partition with three records does, as brokers, ledger and lanes see it, in order. The tests of package
// stream show that it does so over a real broker; those of package owner that its model can take these steps, and in no other
// order.
const (
	// StepsOverASeek are those of a process that is stopped, whose group is moved to 1, and that is started again.
	StepsOverASeek = "lock heartbeat commit log open apply apply apply close mirror release leave " +
		"lock heartbeat commit log mirror open apply apply close mirror release leave"
	// StepsOfTheExpelled are those of a process that is expelled while it joins, and the group is moved to 2 then. The first
	// leave is not its own.
	StepsOfTheExpelled = "lock heartbeat commit log open apply apply apply leave lock heartbeat commit log mirror open apply close mirror release leave"
)
