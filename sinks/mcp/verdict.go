package mcpsink

// verdict reads a JSON-RPC message byte by byte and says whether it is a tool's result, and what it says of how the call ended. It is for
// results that are too long to be parsed: of the message it keeps no more than the beginnings of a few words.
type verdict struct {
	ended   bool   // the result was read to its end
	isError string // true or false; empty: not read, or something else
	kind    string // the result's resultType; empty: not read
	asks    bool   // inputRequests has something in it

	depth    int // of objects and arrays
	text     bool
	escaped  bool   // the next byte of the text
	word     []byte // the newest text, number or literal, as much as tells it from isError
	key, sub string // the newest key of the message, and the newest of what is under it
}

// isResult reports whether the message has a result, as far as it was read.
func (v *verdict) isResult() bool { return v.ended || v.key == "result" }

// known reports whether enough was read to say how the call ended. Servers older than protocol 2026-07-28 know no resultType.
func (v *verdict) known(older bool) bool {
	switch {
	case v.ended, v.isError == "true":
		return true
	case v.kind == inputRequired:
		return v.asks
	}
	return v.isError == "false" && (older || v.kind != "")
}

// ending returns how the call ended.
func (v *verdict) ending() *ending {
	return &ending{needsInput: v.kind == inputRequired, asks: v.asks, failed: v.isError == "true"}
}

func (v *verdict) read(c byte) {
	switch {
	case v.ended:
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
		case 3:
			v.asks = v.asks || v.key == "result" && v.sub == "inputRequests"
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
	word := string(v.word)
	switch {
	case !inResult:
	case v.sub == "isError" && (word == "true" || word == "false"):
		v.isError = word
	case v.sub == "resultType":
		v.kind = word
	}
	v.word = v.word[:0]
	if c == ',' {
		return
	}
	v.depth--
	v.ended = v.ended || inResult
}

func (v *verdict) keep(c byte) {
	if len(v.word) < 16 {
		v.word = append(v.word, c)
	}
}
