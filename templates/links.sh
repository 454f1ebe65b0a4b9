#!/bin/sh
# Keeps the link networks of this Mac as `macluster network apply` left them: after a restart, after a cable was pulled,
# and when macOS puts an interface back into its bridge. Run by launchd as com.macluster.links. Usage: links.sh ROOT
#
# Reads links.conf: link INTERFACE ETHER|- ADDRESS PREFIX NETMASK PEER-ADDRESS PEER
# Changes only what differs, only on those interfaces, and writes every change to the log. Waits for carrier as long as
# it takes. Never touches services, locations, routes or another interface; never destroys a bridge.

R=${1%/}
D=$R/opt/macluster/network
LOG=$R/opt/macluster/var/log/links.log
# Seconds between two looks.
PAUSE=5
# Changes of one interface within WINDOW looks after which it is left alone for as long: something else sets it, and
# two that fight do more harm than one that gives way.
LIMIT=24
WINDOW=120
FOUGHT="something else keeps changing it: left alone for 10 minutes"
# Lines of the log that are kept, and once as much in links.log.old.
KEEP=2000

lines=0
if [ -f "$LOG" ]; then
  while read -r line; do lines=$((lines + 1)); done <"$LOG"
fi

log() {
  if [ "$lines" -ge "$KEEP" ]; then
    "$R/bin/mv" -f "$LOG" "$LOG.old"
    lines=0
  fi
  lines=$((lines + 1))
  echo "$("$R/bin/date" -u +%Y-%m-%dT%H:%M:%SZ) $*" >>"$LOG"
}

# Says a thing once, until it is unsaid: INTERFACE TOPIC TEXT.
said=
once() {
  case "$said" in
    *"|$1 $2|"*) ;;
    *)
      said="$said|$1 $2|"
      log "$1: $3"
      ;;
  esac
}

unsay() {
  case "$said" in
    *"|$1 $2|"*) said="${said%%"|$1 $2|"*}${said#*"|$1 $2|"}" ;;
  esac
}

# Is this an address as four numbers? `hex` is how ifconfig writes it as a netmask.
dotted() {
  case $1 in *[!0-9.]* | *.) return 1 ;; esac
  IFS=.
  set -- $1
  unset IFS
  if [ $# -ne 4 ]; then return 1; fi
  for part; do
    case $part in '' | 0?* | ????*) return 1 ;; esac
    if [ "$part" -gt 255 ]; then return 1; fi
  done
  hex=$(printf '0x%02x%02x%02x%02x' "$@")
}

# Is this the whole of a line? interface, ether, address, netmask. `mask` is the netmask as ifconfig writes it.
whole() {
  case $1 in '' | *[!a-z0-9]*) return 1 ;; esac
  case $2 in - | ??:??:??:??:??:??) ;; *) return 1 ;; esac
  dotted "$3" && dotted "$4" && mask=$hex
}

changed=no
run() {
  changed=yes
  if out=$("$@" 2>&1 </dev/null); then log "done: $*"; else log "failed: $*: $out"; fi
}

# What `ifconfig` says of one interface: there, up, carrier, ether, addresses (ADDRESS/NETMASK), bridge.
look() {
  there=no
  up=no
  carrier=yes
  ether=-
  addresses=
  bridges=
  block=
  while read -r word a b c rest; do
    case "$word $a" in
      *": flags="*)
        block=${word%:}
        if [ "$block" = "$1" ]; then
          there=yes
          case $a in *"<UP,"* | *"<UP>"*) up=yes ;; esac
        fi
        ;;
    esac
    if [ "$word" = "member:" ] && [ "$a" = "$1" ]; then bridges="$bridges $block"; fi
    if [ "$block" = "$1" ]; then
      case $word in
        ether) ether=$a ;;
        inet) addresses="$addresses $a/$c" ;;
        "status:") if [ "$a" != active ]; then carrier=no; fi ;;
      esac
    fi
  done <<END
$STATE
END
}

again() {
  STATE=$("$R/sbin/ifconfig" 2>/dev/null)
  look "$1"
}

# interface, ether, address, netmask; `mask` is the netmask as ifconfig writes it
keep() {
  look "$1"
  if [ "$there" = no ]; then
    once "$1" there "does not exist"
    return
  fi
  unsay "$1" there
  if [ "$2" != - ] && [ "$ether" != - ] && [ "$2" != "$ether" ]; then
    once "$1" ether "is not the interface it was ($ether, not $2): left alone"
    return
  fi
  unsay "$1" ether
  for bridge in $bridges; do
    run "$R/sbin/ifconfig" "$bridge" deletem "$1"
  done
  if [ -n "$bridges" ]; then again "$1"; fi
  if [ "$up" = no ]; then
    run "$R/sbin/ifconfig" "$1" up
    again "$1"
  fi
  if [ "$carrier" = no ]; then
    once "$1" carrier "no carrier: waiting for it"
    return
  fi
  unsay "$1" carrier
  right=no
  for entry in $addresses; do
    case $entry in
      "$3/$mask" | "$3/$4") right=yes ;;
      *) run "$R/sbin/ifconfig" "$1" inet "${entry%/*}" -alias ;;
    esac
  done
  if [ "$right" = no ]; then run "$R/sbin/ifconfig" "$1" inet "$3" netmask "$4"; fi
}

log "started"
looks=0
while :; do
  if [ ! -f "$D/links.conf" ]; then
    log "there is no links.conf: nothing to keep"
    exit 0
  fi
  looks=$((looks + 1))
  STATE=$("$R/sbin/ifconfig" 2>/dev/null)
  understood=yes
  # A last line without its end is not read: it is not all there yet.
  while read -r word interface ether address prefix netmask rest; do
    if [ "$word" != link ]; then continue; fi
    if ! whole "$interface" "$ether" "$address" "$netmask"; then
      understood=no
      once links.conf line "not understood, left alone: link $interface $ether $address $prefix $netmask"
      continue
    fi
    # changes_en3: looks that changed en3 since since_en3.
    eval "changes=\${changes_$interface:-0} since=\${since_$interface:-$looks}"
    if [ $((looks - since)) -ge "$WINDOW" ]; then
      changes=0
      since=$looks
      unsay "$interface" fight
    fi
    if [ "$changes" -lt "$LIMIT" ]; then
      changed=no
      keep "$interface" "$ether" "$address" "$netmask"
      if [ "$changed" = yes ]; then changes=$((changes + 1)); fi
      if [ "$changes" -ge "$LIMIT" ]; then
        since=$looks
        once "$interface" fight "$FOUGHT"
      fi
    fi
    eval "changes_$interface=$changes since_$interface=$since"
  done <"$D/links.conf"
  if [ "$understood" = yes ]; then unsay links.conf line; fi
  "$R/bin/sleep" "$PAUSE"
done
