"""What becomes of each record of a partition, as CONTRACT.md says it. Standard library only.

    contract.py VECTORS    decides every case of a file of test vectors; says what differs, and exits with 1 then
"""

import calendar
import hashlib
import json
import re
import sys
from bisect import insort
from dataclasses import dataclass, field
from datetime import datetime

VERSION = re.compile(r"(?:e(\d{6}):)?(?:=([!-~]{1,64}?)(?: \+(\d{5}))?|([^=+]+)(?:\+(\d{5}))?)", re.ASCII)
MAX_SPANS = 16


@dataclass(frozen=True)
class Version:
    kind: tuple  # the kind, and whether it is a text: only equal ones compare
    epoch: int
    value: object  # a counter, nanoseconds or a text
    sub: int

    def rank(self):
        return self.epoch, self.value, self.sub


@dataclass(frozen=True)
class Event:
    offset: int
    append_time: int  # ns
    key: tuple  # source and id
    hash: str
    line: tuple  # entity and clock
    version: Version
    first: int | None
    snapshot: bool
    backfill: bool


@dataclass
class Line:
    at: Version
    skipped: list = field(default_factory=list)  # [from, to], ascending


def nanoseconds(text):
    t = datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")
    if not re.fullmatch(r"\.\d{9}Z", text[19:], re.ASCII):
        raise ValueError(text)
    return calendar.timegm(t.timetuple()) * 10**9 + int(text[20:29])


def parse_version(kind, text):
    if kind == "none":
        if text:
            raise ValueError("a version of kind none")
        return Version((kind, False), 0, 0, 0)
    m = VERSION.fullmatch(text)
    if kind not in ("sequence", "monotonic", "timestamp") or not m:
        raise ValueError(text)
    epoch, word, word_sub, plain, sub = m.groups()
    if word is not None:
        if kind != "monotonic":
            raise ValueError(text)
        value = word
    elif kind == "timestamp":
        value = nanoseconds(plain)
    elif re.fullmatch(r"\d{20}", plain, re.ASCII):
        value = int(plain)
    else:
        raise ValueError(text)
    return Version((kind, word is not None), int(epoch or 0), value, int(word_sub or sub or 0))


def decode(record):
    """The event of a record in binary mode; ValueError or KeyError if it is none."""
    headers = record["headers"]
    if record["key"] is None or record["value"] is None or headers["ce_specversion"] != "1.0":
        raise ValueError("not a CloudEvent with a key")
    if headers.get("ce_partitionkey", record["key"]) != record["key"] or not headers["ce_type"]:
        raise ValueError("the key is not the partitionkey")
    entity = headers.get("ce_partitionkey") or headers.get("ce_subject") or record["key"]
    body = hashlib.sha256(record["value"].encode()).hexdigest()[:32]
    first = headers.get("ce_versionfirst")
    return Event(
        offset=record["offset"],
        append_time=record["timestamp_ms"] * 10**6,
        key=(headers["ce_source"], headers["ce_id"]),
        hash=headers.get("ce_bodyhash", body),
        line=(entity, headers.get("ce_versionclock", "")),
        version=parse_version(headers.get("ce_versionkind", "none"), headers.get("ce_entityversion", "")),
        first=None if first is None else int(first),
        snapshot=headers.get("ce_payloadkind") == "snapshot",
        backfill=headers.get("ce_backfill") == "true",
    )


def ahead(version, at):
    return version.kind[0] == "sequence" and version.value > at.value + 1


class Gate:
    """The state of one partition. All of it has to be stored in the transaction in which the events run."""

    def __init__(self, start="any", equal="apply", future_skew_ms=0):
        self.start, self.equal_policy, self.skew = start, equal, future_skew_ms * 10**6
        self.seen, self.lines, self.waiting, self.out = {}, {}, {}, []

    def decide(self, record):
        self.out = []
        try:
            e = decode(record)
        except (KeyError, ValueError):
            return [(record["offset"], "quarantined", "undecodable")]
        if e.key not in self.seen:
            self.by_version(e)
        elif self.seen[e.key] == e.hash:
            self.out.append((e.offset, "duplicate", "seen"))
        else:
            self.out.append((e.offset, "conflict", "body_differs"))
        return self.out

    def expire(self, lines):
        self.out = []
        for k in dict.fromkeys(tuple(k) for k in lines):
            if self.waiting.get(k):
                self.skip(k)
        return self.out

    def conclude(self, e, decision, reason):
        self.seen[e.key] = e.hash
        self.out.append((e.offset, decision, reason))

    def by_version(self, e):
        if e.version.kind[0] == "none":
            return self.conclude(e, "applied", "arrival")
        k, v = e.line, e.version
        line, waiting = self.lines.get(k), self.waiting.get(k, [])
        known = line.at if line else waiting[0].version if waiting else None
        epoch = v.epoch or (known.epoch if known else 0)
        value = min(v.value, e.append_time + self.skew) if v.kind[0] == "timestamp" else v.value
        v = Version(v.kind, epoch, value, v.sub)
        e = Event(**{**e.__dict__, "version": v})
        if known is None:
            self.first_of(k, e)
        elif v.epoch < known.epoch:
            self.behind(line, e)
        elif v.epoch > known.epoch or v.kind != known.kind:
            while self.waiting.get(k):
                self.skip(k)
            self.begin(k, e, "new_epoch" if v.epoch > known.epoch else "first")
        elif line is None:
            self.first_of(k, e)
        else:
            self.compare(k, line, e)

    def first_of(self, k, e):
        promised = e.version.kind[0] == "sequence" and e.first is not None
        if e.backfill and e.snapshot:
            self.begin(k, e, "backfilled")
        elif not self.waiting.get(k) and (self.start != "first" or not promised) or promised and e.version.value == e.first:
            self.begin(k, e, "first")
        elif promised and e.version.value < e.first:
            self.behind(None, e)
        else:
            self.wait(k, e, "start_gap")

    def begin(self, k, e, reason):
        self.lines[k] = Line(e.version)
        self.conclude(e, "applied", reason)
        self.release(k)

    def compare(self, k, line, e):
        if e.version.rank() < line.at.rank():
            self.behind(line, e)
        elif e.version == line.at:
            self.equal(e, "equal")
        elif ahead(e.version, line.at) and not (e.backfill and e.snapshot):
            self.wait(k, e, "gap")
        else:
            line.at = e.version
            self.conclude(e, "applied", "backfilled" if e.backfill and e.snapshot else "next")
            self.release(k)

    def behind(self, line, e):
        if line and e.version.epoch == line.at.epoch and self.fill(line, e.version.value):
            self.conclude(e, "late", "filler")
        else:
            self.conclude(e, *(("stale", "older") if e.snapshot else ("late", "older_delta")))

    def equal(self, e, reason):
        if self.equal_policy == "first" or e.backfill:
            self.conclude(e, "stale" if e.snapshot else "late", "equal_first")
        else:
            self.conclude(e, "applied", reason)

    def wait(self, k, e, reason):
        insort(self.waiting.setdefault(k, []), e, key=lambda w: w.version.rank())
        self.conclude(e, "buffered", reason)

    def skip(self, k):
        """Ends the wait for what is missing below the lowest event that waits."""
        e = self.waiting[k].pop(0)
        while self.replaced(k, e):
            self.conclude(e, "stale", "equal_last")
            e = self.waiting[k].pop(0)
        line = self.lines.get(k)
        low = line.at.value + 1 if line else e.first
        line = self.lines.setdefault(k, Line(e.version))
        if low is not None and low < e.version.value:
            line.skipped = (line.skipped + [[low, e.version.value - 1]])[-MAX_SPANS:]
        line.at = e.version
        self.conclude(e, "applied", "gap_skipped")
        self.release(k)

    def release(self, k):
        line = self.lines[k]
        while self.waiting.get(k) and not ahead(self.waiting[k][0].version, line.at):
            e = self.waiting[k].pop(0)
            if e.version.rank() < line.at.rank():
                self.behind(line, e)
            elif self.replaced(k, e):
                self.conclude(e, "stale", "equal_last")
            elif e.version == line.at:
                self.equal(e, "released")
            else:
                line.at = e.version
                self.conclude(e, "applied", "released")

    def replaced(self, k, e):
        """Whether, with equal: last, a later snapshot of the same version waits too."""
        same = [w for w in self.waiting[k] if w.version == e.version]
        return self.equal_policy == "last" and e.snapshot and any(w.snapshot for w in same)

    def fill(self, line, value):
        for i, (low, high) in enumerate(line.skipped):
            if isinstance(value, int) and low <= value <= high:
                rest = [[low, value - 1], [value + 1, high]]
                line.skipped[i : i + 1] = [s for s in rest if s[0] <= s[1]]
                line.skipped = line.skipped[-MAX_SPANS:]
                return True
        return False


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
