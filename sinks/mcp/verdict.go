package mcpsink

// verdict reads a JSON-RPC message byte by byte and says whether it is a tool's result and whether that has isError. It is for results
// that are too long to be parsed: of the message it keeps no more than the beginning of one word.
type verdict struct {
	known, failed bool // isError was read, or the result's end without it

	depth    int // of objects and arrays
	text     bool
	escaped  bool   // the next byte of the text
	word     []byte // the newest text, number or literal, as much as tells it from isError
	key, sub string // the newest key of the message, and the newest of what is under it
}

// isResult reports whether the message has a result, as far as it was read.
func (v *verdict) isResult() bool { return v.known || v.key == "result" }

func (v *verdict) read(c byte) {
	switch {
	case v.known:
	case v.escaped:
		v.escaped = false
		v.keep(c)
	case v.text && c == '"':
		v.text = false
	case v.text:
		v.escaped = c == '\\'
		v.keep(c)
	default:
		v.mark(c)
	}
}

// mark reads a byte outside of a text.
func (v *verdict) mark(c byte) {
	switch c {
	case '"':
		v.text, v.word = true, v.word[:0]
	case ':':
		switch v.depth {
		case 1:
			v.key, v.sub = string(v.word), ""
		case 2:
			v.sub = string(v.word)
		}
		v.word = v.word[:0]
	case '{', '[':
		v.depth++
		v.word = v.word[:0]
	case ',', '}', ']':
		v.end(c)
	case ' ', '\t', '\r', '\n':
	default:
		v.keep(c)
	}
}

// end reads what ends a value.
func (v *verdict) end(c byte) {
	inResult := v.depth == 2 && v.key == "result"
	if word := string(v.word); inResult && v.sub == "isError" && (word == "true" || word == "false") {
		v.known, v.failed = true, word == "true"
	}
	v.word = v.word[:0]
	if c == ',' {
		return
	}
	v.depth--
	v.known = v.known || inResult // its end
}

func (v *verdict) keep(c byte) {
	if len(v.word) < 16 {
		v.word = append(v.word, c)
	}
}
