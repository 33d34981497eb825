#!/usr/bin/env bash
# A real Apache Kafka for tests: one or three brokers in KRaft mode on free loopback ports.
#
#   kafka.sh install                           look for Java, fetch the jars once (Maven; 54 MB, outside the checkout)
#   kafka.sh start [--brokers 1|3] [--owner PID] [--secured CERTS] [--session MS] --dir DIR
#                                              format if new, start, print the bootstrap addresses
#   kafka.sh stop [--now] --dir DIR            SIGTERM with a deadline, or SIGKILL at once
#   kafka.sh kill N --dir DIR                  SIGKILL broker N (1, 2, 3)
#   kafka.sh restart N --dir DIR               start broker N again: same ports, same data
#   kafka.sh status --dir DIR                  one line a broker; exit 1 unless all of them run
#   kafka.sh groups --dir DIR ARGS...          Kafka's own consumer group tool
#   kafka.sh acls --dir DIR ARGS...            Kafka's own tool for rights
#   kafka.sh consume --dir DIR ARGS...         Kafka's own console consumer
#
# With --secured, one broker has users and rights: nobody may do anything but root (password "root-secret", by SCRAM-SHA-512).
# CERTS holds ca.pem, and server.pem and expired.pem, each a key and its certificate. Beside the listener of the bootstrap address
# (SASL without TLS), DIR/listeners names encrypted (SASL with TLS; SCRAM, PLAIN with user plain, password pencil; OAUTHBEARER with
# unsigned tokens), mutual (TLS with a certificate of the client) and expired (the same, with a certificate that has expired).
#
# A death is noticed within --session milliseconds, 2000 by default, and a restart is not held up by it longer. A broker that a busy machine
# holds up for as long takes no topics meanwhile: one that nobody kills wants a long session.
#
# DIR may also come from FOREBAY_KAFKA_DIR. With --owner the brokers do not outlive process PID, so that a test
# that was killed leaves nothing behind. What DIR holds:
#   bootstrap, cluster-id, brokers, watchdog.pid, broker-N/{port,pid,log,server.properties,data/}
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kafka_version=$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$here/pom.xml")
cache=${FOREBAY_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/forebay}
jars=$cache/kafka-$kafka_version
heap=${FOREBAY_KAFKA_HEAP:-768m}
start_seconds=270 # a JVM on a machine with dozens of other processes; 2 to 4 are usual
stop_seconds=15  # controlled shutdown waits for a quorum that the other brokers may have left already

die() { printf 'kafka.sh: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,/^set -euo/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }

# ---- the jars -------------------------------------------------------------------------------------------------

# installed tells whether the cache holds every jar, whole, as this pom.xml wants them.
installed() {
  [[ -f $jars/MANIFEST ]] && cmp -s "$here/pom.xml" "$jars/pom.xml" &&
    (cd "$jars" && sha256sum --quiet --check MANIFEST >/dev/null 2>&1)
}

install_jars() {
  if installed; then return; fi
  command -v mvn >/dev/null || die "Maven is needed once to fetch Kafka's jars (Debian: apt-get install maven)"
  mkdir -p "$cache"
  exec 9>"$cache/kafka.lock"
  flock 9
  if installed; then exec 9>&-; return; fi # another process was faster
  printf 'kafka.sh: fetching Apache Kafka %s into %s\n' "$kafka_version" "$jars" >&2
  local fresh=$jars.new
  rm -rf "$fresh"
  mkdir "$fresh"
  # Java takes the home directory from the user database; a user without one there may still have HOME.
  MAVEN_OPTS="${MAVEN_OPTS:-}${HOME:+ -Duser.home=$HOME}" mvn -B -q -ntp -l "$fresh/maven.log" -f "$here/pom.xml" \
    dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$fresh" >/dev/null 2>&1 9>&- ||
    { cat "$fresh/maven.log" >&2; die "Maven could not fetch the jars"; }
  cp "$here/pom.xml" "$fresh/pom.xml"
  (cd "$fresh" && sha256sum -- *.jar >MANIFEST)
  rm -rf "$jars"
  mv "$fresh" "$jars" # the rename is what makes an interrupted fetch invisible
  exec 9>&-
}

java_bin() {
  local java=${JAVA_HOME:+$JAVA_HOME/bin/java}
  if [[ -z $java || ! -x $java ]]; then
    java=$(command -v java) || die "Java 17 or newer is needed (Debian: apt-get install default-jre-headless)"
  fi
  local major
  major=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
  [[ ${major:-0} -ge 17 ]] || die "Java 17 or newer is needed, $java is ${major:-of an unknown version}"
  printf '%s\n' "$java"
}

# tool CLASS ARGS...: runs one of Kafka's command line programs.
tool() {
  local java
  java=$(java_bin)
  "$java" -Xmx128m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC \
    -Dlog4j2.configurationFile="file:$here/log4j2.xml" -cp "$jars/*" "$@"
}

# ---- ports ----------------------------------------------------------------------------------------------------

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_ports COUNT: distinct ports that nobody listens on, below Linux's ephemeral range: an outgoing connection
# must not take a dead broker's port before its restart.
free_ports() {
  local -A taken=()
  local port
  while ((${#taken[@]} < $1)); do
    port=$((17000 + (RANDOM * 32768 + RANDOM) % 15000))
    if [[ -n ${taken[$port]:-} ]] || port_open "$port"; then continue; fi
    taken[$port]=1
    printf '%s\n' "$port"
  done
}

# ---- one broker -----------------------------------------------------------------------------------------------

# alive N: the PID in the file belongs to this very broker, not to whoever got the number since.
alive() {
  local pid
  pid=$(cat "$dir/broker-$1/pid" 2>/dev/null) || return 1
  [[ -n $pid ]] && grep -qzxF -- "$dir/broker-$1/server.properties" "/proc/$pid/cmdline" 2>/dev/null
}

write_properties() { # N PORT CONTROLLER_PORT VOTERS BROKERS
  local n=$1 port=$2 controller_port=$3 voters=$4 brokers=$5
  cat >"$dir/broker-$n/server.properties" <<PROPERTIES
node.id=$n
process.roles=broker,controller
controller.quorum.voters=$voters
controller.listener.names=CONTROLLER
listeners=CLIENT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller_port
advertised.listeners=CLIENT://127.0.0.1:$port
listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENT
log.dirs=$dir/broker-$n/data

# A topic must exist because "topics apply" made it, with the settings that the promises need.
auto.create.topics.enable=false
offsets.topic.replication.factor=$brokers
offsets.topic.num.partitions=8
transaction.state.log.replication.factor=$brokers
transaction.state.log.min.isr=$((brokers > 1 ? 2 : 1))
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=$brokers
share.coordinator.state.topic.min.isr=$((brokers > 1 ? 2 : 1))
share.coordinator.state.topic.num.partitions=4

# Groups that form and notice a death quickly. Both group protocols, classic and consumer, are on by default.
group.initial.rebalance.delay.ms=100
group.min.session.timeout.ms=1000
group.consumer.min.session.timeout.ms=1000
group.consumer.min.heartbeat.interval.ms=100

broker.heartbeat.interval.ms=500
broker.session.timeout.ms=$session
controller.quorum.election.timeout.ms=500
controller.quorum.fetch.timeout.ms=1000
controlled.shutdown.max.retries=1

# Retention is looked at every second: a test with a topic of seconds' retention sees its log move on.
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=1000

# Each broker in a zone of its own. A client that names a zone reads from the copy there.
broker.rack=zone-$n
replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector

# Small machine: the cleaner would take 128 MiB of the heap at start.
log.cleaner.dedupe.buffer.size=16777216
num.network.threads=3
num.io.threads=4
PROPERTIES
  if [[ -n $secured ]]; then secure "$n" "$port" "$controller_port"; fi
}

secure() { # N PORT CONTROLLER_PORT: adds users, rights and more listeners to the properties
  local n=$1 port=$2 controller_port=$3
  local module=org.apache.kafka.common.security
  local root='required username="root" password="root-secret"'
  local -a more
  mapfile -t more < <(free_ports 3)
  printf 'encrypted 127.0.0.1:%s\nmutual 127.0.0.1:%s\nexpired 127.0.0.1:%s\n' "${more[@]}" >"$dir/listeners"
  local listeners=CLIENT://127.0.0.1:$port,ENCRYPTED://127.0.0.1:${more[0]},MUTUAL://127.0.0.1:${more[1]},EXPIRED://127.0.0.1:${more[2]}
  cat >>"$dir/broker-$n/server.properties" <<PROPERTIES

listeners=$listeners,CONTROLLER://127.0.0.1:$controller_port
advertised.listeners=$listeners
listener.security.protocol.map=CLIENT:SASL_PLAINTEXT,ENCRYPTED:SASL_SSL,MUTUAL:SSL,EXPIRED:SSL,CONTROLLER:PLAINTEXT
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
# Anonymous is the broker itself, on the listener of the controller; no other listener lets anybody in without a name.
super.users=User:root;User:ANONYMOUS

listener.name.client.sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512
listener.name.client.scram-sha-256.sasl.jaas.config=$module.scram.ScramLoginModule $root;
listener.name.client.scram-sha-512.sasl.jaas.config=$module.scram.ScramLoginModule $root;
listener.name.encrypted.sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN,OAUTHBEARER
listener.name.encrypted.scram-sha-512.sasl.jaas.config=$module.scram.ScramLoginModule $root;
listener.name.encrypted.plain.sasl.jaas.config=$module.plain.PlainLoginModule $root user_plain="pencil";
listener.name.encrypted.oauthbearer.sasl.jaas.config=$module.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="root";

ssl.keystore.type=PEM
ssl.keystore.location=$secured/server.pem
ssl.truststore.type=PEM
ssl.truststore.location=$secured/ca.pem
ssl.principal.mapping.rules=RULE:^CN=([^,]*).*\$/\$1/
listener.name.mutual.ssl.client.auth=required
listener.name.expired.ssl.client.auth=required
listener.name.expired.ssl.keystore.type=PEM
listener.name.expired.ssl.keystore.location=$secured/expired.pem
PROPERTIES
  cat >"$dir/admin.properties" <<PROPERTIES
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=$module.scram.ScramLoginModule $root;
PROPERTIES
}

launch() { # N: starts the process; does not wait
  local n=$1 home=$dir/broker-$1 java
  java=$(java_bin)
  if [[ -f $home/log ]]; then cat "$home/log" >>"$home/log.old"; fi # the log is read for the line of this start
  : >"$home/log"
  # A session of its own: Ctrl-C on a test run reaches the test, whose clean-up then stops the brokers.
  setsid "$java" "-Xmx$heap" -Xms256m -XX:+ExitOnOutOfMemoryError \
    -Dlog4j2.configurationFile="file:$here/log4j2.xml" -cp "$jars/*" \
    kafka.Kafka "$home/server.properties" </dev/null >>"$home/log" 2>&1 &
  printf '%s\n' "$!" >"$home/pid"
}

await() { # N: until the broker serves; 1 if it died or the time is over
  local deadline=$((SECONDS + start_seconds))
  until grep -q 'Kafka Server started' "$dir/broker-$1/log"; do
    # Not alive(): between fork and exec the new process still has this script's arguments.
    kill -0 "$(cat "$dir/broker-$1/pid")" 2>/dev/null || return 1
    ((SECONDS < deadline)) || return 1
    sleep 0.1
  done
}

broken() { # N: says why broker N did not start
  printf 'kafka.sh: broker %s did not start; the end of %s:\n' "$1" "$dir/broker-$1/log" >&2
  tail -n 20 "$dir/broker-$1/log" >&2
  return 1
}

terminate() { # SIGNAL N...: signals the brokers and waits until they are gone, with SIGKILL at the deadline
  local signal=$1 n deadline=$((SECONDS + stop_seconds))
  shift
  for n in "$@"; do
    if alive "$n"; then kill "-$signal" "$(cat "$dir/broker-$n/pid")" 2>/dev/null || true; fi
  done
  for n in "$@"; do
    while alive "$n"; do
      if ((SECONDS >= deadline)); then kill -KILL "$(cat "$dir/broker-$n/pid")" 2>/dev/null || true; fi
      sleep 0.05
    done
    rm -f "$dir/broker-$n/pid"
  done
}

# ---- the cluster ----------------------------------------------------------------------------------------------

count() { cat "$dir/brokers" 2>/dev/null || die "no cluster in $dir: run start first"; }
all() { seq 1 "$(count)"; }

layout() { # BROKERS: chooses ports and writes every file of a new cluster
  local brokers=$1 n voters='' bootstrap=''
  local -a ports
  mapfile -t ports < <(free_ports $((2 * brokers)))
  for ((n = 1; n <= brokers; n++)); do
    voters+=${voters:+,}$n@127.0.0.1:${ports[2 * n - 1]}
    bootstrap+=${bootstrap:+,}127.0.0.1:${ports[2 * n - 2]}
  done
  for ((n = 1; n <= brokers; n++)); do
    mkdir -p "$dir/broker-$n/data"
    printf '%s\n' "${ports[2 * n - 2]}" >"$dir/broker-$n/port"
    write_properties "$n" "${ports[2 * n - 2]}" "${ports[2 * n - 1]}" "$voters" "$brokers"
  done
  printf '%s\n' "$bootstrap" >"$dir/bootstrap"
}

# new_cluster_id: a UUID as Kafka writes one, 22 characters of URL-safe base64. StorageTool random-uuid prints the
# same after starting a JVM for it.
new_cluster_id() {
  # 15 bytes are 20 characters; the A behind them ends the sixteenth byte, the F in front keeps off a leading dash.
  printf 'F%sA\n' "$(head -c 15 /dev/urandom | base64 | tr '+/' '-_')"
}

format() { # BROKERS: one cluster id, every data directory
  local n
  local -a users=()
  if [[ -n $secured ]]; then
    users=(--add-scram 'SCRAM-SHA-512=[name="root",password="root-secret"]' --add-scram 'SCRAM-SHA-256=[name="root",password="root-secret"]')
  fi
  new_cluster_id >"$dir/cluster-id"
  for ((n = 1; n <= $1; n++)); do
    tool kafka.tools.StorageTool format --cluster-id "$(cat "$dir/cluster-id")" \
      --config "$dir/broker-$n/server.properties" "${users[@]}" >"$dir/broker-$n/format.log" 2>&1 ||
      { cat "$dir/broker-$n/format.log" >&2; die "broker $n could not be formatted"; }
  done
  printf '%s\n' "$1" >"$dir/brokers" # last: a directory without it was never whole and is laid out again
}

create() { # BROKERS
  rm -rf "$dir"/broker-* "$dir/brokers"
  layout "$1"
  format "$1"
}

launch_all() {
  local n
  for n in $(all); do alive "$n" || launch "$n"; done
  for n in $(all); do await "$n" || return 1; done
}

watchdog() { # PID: stops the brokers when that process is gone
  # shellcheck disable=SC2016 # expanded by the shell that waits, not by this one
  setsid bash -c 'tail --pid="$1" -f /dev/null; rm -f "$3/watchdog.pid"; exec "$2" stop --now --dir "$3"' \
    kafka-watchdog "$1" "$here/kafka.sh" "$dir" </dev/null >/dev/null 2>&1 &
  printf '%s\n' "$!" >"$dir/watchdog.pid"
}

start() {
  [[ $brokers == 1 || $brokers == 3 ]] || die "--brokers takes 1 or 3, not $brokers"
  [[ -z $secured || $brokers == 1 ]] || die "--secured goes with one broker"
  install_jars
  mkdir -p "$dir"
  local try new=''
  for try in 1 2 3; do
    if [[ ! -f $dir/brokers ]]; then create "$brokers"; new=yes; fi
    if [[ $(count) != "$brokers" ]]; then die "$dir holds a cluster of $(count) brokers, not $brokers"; fi
    if launch_all; then break; fi
    # Somebody may have taken a port between the choice and the start. Only a cluster that never ran may move.
    if [[ -n $new && $try -lt 3 ]] && grep -qs 'Address already in use' "$dir"/broker-*/log; then
      mapfile -t ids < <(all)
      terminate KILL "${ids[@]}"
      rm -f "$dir/brokers"
      continue
    fi
    local n
    for n in $(all); do grep -q 'Kafka Server started' "$dir/broker-$n/log" || broken "$n" || true; done
    mapfile -t ids < <(all)
    terminate KILL "${ids[@]}"
    exit 1
  done
  if [[ -n $owner ]]; then watchdog "$owner"; fi
  cat "$dir/bootstrap"
}

stop() {
  [[ -f $dir/brokers ]] || return 0
  local pid
  if pid=$(cat "$dir/watchdog.pid" 2>/dev/null); then
    # The group: the watchdog and its tail. Gone already is fine.
    kill -TERM -- "-$pid" 2>/dev/null || true
    rm -f "$dir/watchdog.pid"
  fi
  mapfile -t ids < <(all)
  terminate "$1" "${ids[@]}"
}

status() {
  local n down=0
  for n in $(all); do
    if alive "$n"; then
      printf 'broker %s  running  127.0.0.1:%s  pid %s\n' "$n" "$(cat "$dir/broker-$n/port")" "$(cat "$dir/broker-$n/pid")"
    else
      printf 'broker %s  stopped  127.0.0.1:%s\n' "$n" "$(cat "$dir/broker-$n/port")"
      down=1
    fi
  done
  return "$down"
}

one() { # N: checks a broker number
  [[ $1 =~ ^[0-9]+$ && $1 -ge 1 && $1 -le $(count) ]] || die "no broker $1 in $dir: it has $(count)"
}

# ---- the command line -----------------------------------------------------------------------------------------

command=${1:-help}
[[ $# -eq 0 ]] || shift
dir=${FOREBAY_KAFKA_DIR:-}
brokers=1
owner=''
secured=''
session=2000
signal=TERM
rest=()
while (($#)); do
  case $1 in
    --dir) dir=${2:?--dir needs a directory}; shift 2 ;;
    --brokers) brokers=${2:?--brokers needs 1 or 3}; shift 2 ;;
    --secured) secured=${2:?--secured needs a directory of certificates}; shift 2 ;;
    --session) session=${2:?--session needs milliseconds}; shift 2 ;;
    --owner) owner=${2:?--owner needs a process id}; shift 2 ;;
    --now) signal=KILL; shift ;;
    *) rest+=("$1"); shift ;;
  esac
done

case $command in
  help | -h | --help) usage; exit 0 ;;
  install) java_bin >/dev/null; install_jars; printf '%s\n' "$jars"; exit 0 ;;
  start | stop | kill | restart | status | groups | acls | consume) ;;
  *) usage >&2; die "unknown command $command" ;;
esac
[[ -n $dir ]] || die "$command needs --dir DIR"
[[ $dir == /* ]] || dir=$PWD/$dir
[[ $dir != *[[:space:]]* ]] || die "a directory with spaces cannot be written into Kafka's properties: $dir"

case $command in
  start) start ;;
  stop) stop "$signal" ;;
  kill) one "${rest[0]:?kill needs the number of a broker}"; terminate KILL "${rest[0]}" ;;
  restart)
    one "${rest[0]:?restart needs the number of a broker}"
    terminate TERM "${rest[0]}"
    launch "${rest[0]}"
    await "${rest[0]}" || { broken "${rest[0]}" || exit 1; }
    ;;
  status) status ;;
  groups)
    tool org.apache.kafka.tools.consumer.group.ConsumerGroupCommand \
      --bootstrap-server "$(cat "$dir/bootstrap")" "${rest[@]}"
    ;;
  acls)
    tool org.apache.kafka.tools.AclCommand \
      --bootstrap-server "$(cat "$dir/bootstrap")" --command-config "$dir/admin.properties" "${rest[@]}"
    ;;
  consume)
    tool org.apache.kafka.tools.consumer.ConsoleConsumer \
      --bootstrap-server "$(cat "$dir/bootstrap")" "${rest[@]}"
    ;;
esac
