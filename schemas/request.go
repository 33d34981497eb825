package schemas

// CheckRequest refuses, with kind Invalid, a request for a change that does not say who asks or why.
func CheckRequest(op, by, reason string) error {
	switch {
	case by == "":
		return Errorf(Invalid, op, "it does not say who asks")
	case reason == "":
		return Errorf(Invalid, op, "it does not say why: give a reason")
	}
	return nil
}
