# Reads go test -json and prints "N passed, N failed" (and skipped, where there are any). A test with subtests counts
# once itself and once for each. A package that failed without a failed test of its own (it did not build, it timed
# out) counts as one failure. Exit code 1 on any failure, or when nothing ran.
function field(name,   at, rest) {
  at = index($0, "\"" name "\":\"")
  if (!at) return ""
  rest = substr($0, at + length(name) + 4)
  return substr(rest, 1, index(rest, "\"") - 1)
}
{
  action = field("Action")
  if (action != "pass" && action != "fail" && action != "skip") next
  package = field("Package")
  if (field("Test") != "") {
    total[action]++
    if (action == "fail") failed_in[package]++
  } else if (action == "fail") failed_packages[package] = 1
}
END {
  for (p in failed_packages) if (!failed_in[p]) total["fail"]++
  printf "%d passed, %d failed", total["pass"], total["fail"]
  if (total["skip"]) printf ", %d skipped", total["skip"]
  printf "\n"
  exit total["fail"] > 0 || total["pass"] == 0
}
