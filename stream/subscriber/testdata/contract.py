"""What becomes of each record of a partition, as CONTRACT.md says it. Standard library only.

    contract.py VECTORS    decides every case of a file of test vectors; says what differs, and exits with 1 then
"""

import hashlib
import json
import re
import sys
from bisect import insort
from datetime import datetime
from types import SimpleNamespace

MAX_SPANS = 16  # skipped ranges that a line remembers


def nanoseconds(text):
    return int(datetime.fromisoformat(text[:19] + "+00:00").timestamp()) * 10**9 + int(text[20:29])


COUNTER = r"(\d{20})(?:\+(\d{5}))?"
TIME = r"(\d{4}(?:-\d\d){2}T(?:\d\d:){2}\d\d\.\d{9}Z)(?:\+(\d{5}))?"
TEXT = r"=([!-~]{1,64}?)(?: \+(\d{5}))?"
FORMS = {"sequence": {COUNTER: int}, "monotonic": {COUNTER: int, TEXT: str}, "timestamp": {TIME: nanoseconds}}


def parse_version(kind, text):
    """The type of a version, of which only equal ones compare, and what they compare by: epoch, value and rank."""
    for form, value in FORMS[kind].items():
        if m := re.fullmatch(r"(?:e(\d{6}):)?" + form, text, re.ASCII):
            return (kind, form), (int(m[1] or 0), value(m[2]), int(m[3] or 0))
    raise ValueError(text)


def decode(record):
    """The event of a record in binary mode; ValueError or KeyError if it is none."""
    h, key, value = record["headers"], record["key"], record["value"]
    if None in (key, value) or h["ce_specversion"] != "1.0" or not h["ce_type"] or h.get("ce_partitionkey", key) != key:
        raise ValueError("not a CloudEvent with a key")
    e = SimpleNamespace(id=(h["ce_source"], h["ce_id"]), offset=record["offset"], type=None)
    e.hash = h.get("ce_bodyhash", hashlib.sha256(value.encode()).hexdigest()[:32])
    e.line = (h.get("ce_partitionkey") or h.get("ce_subject") or key, h.get("ce_versionclock", ""))
    e.append_time = record["timestamp_ms"] * 10**6
    e.first = int(h["ce_versionfirst"]) if "ce_versionfirst" in h else None
    e.snapshot, e.backfill = h.get("ce_payloadkind") == "snapshot", h.get("ce_backfill") == "true"
    if (kind := h.get("ce_versionkind", "none")) != "none" or h.get("ce_entityversion"):
        e.type, e.version = parse_version(kind, h.get("ce_entityversion", ""))
    return e


def ahead(e, line):
    return e.type[0] == "sequence" and e.version[1] > line.version[1] + 1


class Gate:
    """The state of one partition. All of it has to be stored in the transaction in which the events run."""

    def __init__(self, start="any", equal="apply", future_skew_ms=0):
        self.start, self.equal_policy, self.skew = start, equal, future_skew_ms * 10**6
        self.seen, self.lines = {}, {}

    def decide(self, record):
        self.out = []
        try:
            e = decode(record)
        except (KeyError, ValueError):
            return [(record["offset"], "quarantined", "undecodable")]
        if e.id in self.seen:
            return [(e.offset, "duplicate", "seen") if self.seen[e.id] == e.hash else (e.offset, "conflict", "body_differs")]
        if e.type is None:
            self.conclude(e, "applied", "arrival")
        else:
            self.by_version(self.lines.setdefault(e.line, SimpleNamespace(version=None, skipped=[], waiting=[])), e)
        return self.out

    def expire(self, keys):
        self.out = []
        for key in dict.fromkeys(map(tuple, keys)):
            if key in self.lines and self.lines[key].waiting:
                self.skip(self.lines[key])
        return self.out

    def by_version(self, line, e):
        known = line if line.version else line.waiting[0] if line.waiting else None
        line_epoch = known.version[0] if known else 0
        epoch, value, rank = e.version
        epoch = epoch or line_epoch
        if e.type[0] == "timestamp":
            value = min(value, e.append_time + self.skew)
        e.version = (epoch, value, rank)
        if epoch < line_epoch:
            self.older(line, e)
        elif known and (epoch > line_epoch or e.type != known.type):
            while line.waiting:
                self.skip(line)
            line.skipped = []
            self.move(line, e, "new_epoch" if epoch > line_epoch else "first")
        elif not line.version:
            self.begin(line, e)
        elif e.version < line.version:
            self.older(line, e)
        elif e.version == line.version:
            self.equal(e, "equal")
        elif e.backfill and e.snapshot:
            self.move(line, e, "backfilled")
        elif ahead(e, line):
            self.wait(line, e, "gap")
        else:
            self.move(line, e, "next")
        self.release(line)

    def begin(self, line, e):
        promised = e.type[0] == "sequence" and e.first is not None
        if e.backfill and e.snapshot:
            self.move(line, e, "backfilled")
        elif promised and e.version[1] == e.first or not line.waiting and not (promised and self.start == "first"):
            self.move(line, e, "first")
        elif promised and e.version[1] < e.first:
            self.older(line, e)
        else:
            self.wait(line, e, "start_gap")

    def conclude(self, e, decision, reason):
        self.seen[e.id] = e.hash
        self.out.append((e.offset, decision, reason))

    def move(self, line, e, reason):
        line.type, line.version = e.type, e.version
        self.conclude(e, "applied", reason)

    def wait(self, line, e, reason):
        insort(line.waiting, e, key=lambda w: w.version)
        self.conclude(e, "buffered", reason)

    def equal(self, e, reason):
        if self.equal_policy == "first" or e.backfill:
            self.conclude(e, "stale" if e.snapshot else "late", "equal_first")
        else:
            self.conclude(e, "applied", reason)

    def older(self, line, e):
        epoch, value, _ = e.version
        for i, span in enumerate(line.skipped if line.version and line.version[0] == epoch else []):
            if value in span:
                rest = range(span.start, value), range(value + 1, span.stop)
                line.skipped[i : i + 1] = [r for r in rest if r]
                line.skipped = line.skipped[-MAX_SPANS:]
                return self.conclude(e, "stale" if e.snapshot else "late", "filler")
        self.conclude(e, *(("stale", "older") if e.snapshot else ("late", "older_delta")))

    def replaced(self, line, e):
        """Whether, with equal: last, a later snapshot of the same version waits too."""
        return self.equal_policy == "last" and e.snapshot and any(w.snapshot and w.version == e.version for w in line.waiting)

    def skip(self, line):
        """Ends the wait for what is missing below the lowest event that waits."""
        e = line.waiting.pop(0)
        while self.replaced(line, e):
            self.conclude(e, "stale", "equal_last")
            e = line.waiting.pop(0)
        low = line.version[1] + 1 if line.version else e.first
        if low is not None and low < e.version[1]:
            line.skipped = (line.skipped + [range(low, e.version[1])])[-MAX_SPANS:]
        self.move(line, e, "gap_skipped")
        self.release(line)

    def release(self, line):
        while line.waiting and line.version and not ahead(line.waiting[0], line):
            e = line.waiting.pop(0)
            if e.version < line.version:
                self.older(line, e)
            elif self.replaced(line, e):
                self.conclude(e, "stale", "equal_last")
            elif e.version == line.version:
                self.equal(e, "released")
            else:
                self.move(line, e, "released")


def main(path):
    with open(path, encoding="utf-8") as f:
        cases = json.load(f)["cases"]
    steps = failed = 0
    for case in cases:
        gate = Gate(**case["policy"])
        for n, step in enumerate(case["steps"]):
            got = gate.decide(step["record"]) if "record" in step else gate.expire(step["expire"])
            want = [(d["offset"], d["decision"], d["reason"]) for d in step["decisions"]]
            steps += 1
            if got != want:
                failed += 1
                print(f"{case['name']}, step {n}: decided {got}, want {want}")
                break
    print(f"{len(cases)} cases, {steps} steps, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
