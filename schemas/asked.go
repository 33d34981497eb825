package schemas

// CheckAsked refuses, with kind Invalid, what somebody asks to be changed without saying who asks or why.
func CheckAsked(op, by, reason string) error {
	switch {
	case by == "":
		return Errorf(Invalid, op, "it does not say who asks")
	case reason == "":
		return Errorf(Invalid, op, "it does not say why: give a reason")
	}
	return nil
}
