package streamtest

// What the owner of one partition with three records does, as brokers, ledger and lanes see it, in order. The tests of package
// stream show that it does so over a real broker; those of package owner that its model can take these steps, and in no other
// order.
const (
	// StepsOverASeek are the steps of a process that is stopped and started again after its group was moved to 1.
	StepsOverASeek = "lock heartbeat commit log open apply apply apply close mirror release leave " +
		"lock heartbeat commit log mirror open apply apply close mirror release leave"
	// StepsOfTheExpelled are the steps of a process that the group expels while the process joins again; then the group is moved to 2.
	// The first leave is the broker's doing.
	StepsOfTheExpelled = "lock heartbeat commit log open apply apply apply leave lock heartbeat commit log mirror open apply close mirror release leave"
)
