#!/bin/sh
# Takes back a change of the link networks that nobody confirmed. Written by `macluster network apply`, run by launchd as
# com.macluster.deadman when it is loaded and at every boot. Usage: restore.sh ROOT
#
# Everything happens by renaming one file, which either succeeds or does not:
#   armed      a change waits for its confirmation; three lines: seconds to wait, boot session, record to go back to
#   confirmed  a new SSH session has renamed `armed`: the change stands
#   fire       go back now (time is over, the node was restarted, or macluster asks for it)
#   reverted   gone back; what was done is inside
# `beat` is written by macluster while it works: each new content starts the wait anew.
#
# Records (`before` the change, `first` before any) hold: boot SESSION · links yes|no · interface NAME up|down BRIDGE|- ·
# address NAME ADDRESS NETMASK · foreign LABEL · entry BRIDGE
#
# Time is counted in seconds slept, never read off a clock that somebody may set. It may be ended at any point, and begins
# anew then: nothing that it needs is gone before `fire` is.

R=${1%/}
D=$R/opt/macluster/network
DAEMONS=$R/Library/LaunchDaemons
PREFERENCES=$R/Library/Preferences/SystemConfiguration/preferences.plist
NOW=$("$R/usr/sbin/sysctl" -n kern.bootsessionuuid)

log() {
  line="$("$R/bin/date" -u +%Y-%m-%dT%H:%M:%SZ) $*"
  echo "$line"
  if [ -f "$D/fire" ]; then echo "$line" >>"$D/fire"; fi
}

run() {
  if out=$("$@" 2>&1 </dev/null); then
    log "done: $*"
  else
    log "failed: $*: $out"
    return 1
  fi
}

# Waits until there is something to do; ends when there is nothing.
beat=none
left=0
while [ ! -f "$D/fire" ]; do
  if [ ! -f "$D/armed" ]; then
    log "nothing waits for a confirmation"
    exit 0
  fi
  { read -r seconds && read -r boot; } <"$D/armed"
  case $seconds in '' | *[!0-9]*) seconds=60 ;; esac
  reason=
  new=$("$R/bin/cat" "$D/beat" 2>/dev/null)
  if [ "$boot" != "$NOW" ]; then
    reason="the node was restarted before the change was confirmed"
  elif [ "$new" != "$beat" ]; then
    beat=$new
    left=$seconds
  elif [ "$left" -le 0 ]; then
    reason="no new SSH session confirmed the change within $seconds s"
  fi
  if [ -n "$reason" ]; then
    # Whoever renames first decides: the confirmation or this.
    if "$R/bin/mv" "$D/armed" "$D/fire"; then log "$reason"; fi
  else
    left=$((left - 1))
    "$R/bin/sleep" 1
  fi
done

{ read -r seconds && read -r boot && read -r record; } <"$D/fire"
case $record in first) ;; *) record=before ;; esac
log "going back to what was there $record"
# A last line without its end is not all there, and left out.
TEXT=
if [ -f "$D/$record" ]; then
  while read -r line; do
    TEXT="$TEXT$line
"
  done <"$D/$record"
fi

same=no
links=
names=
while read -r word a b c; do
  case $word in
    boot) if [ "$a" = "$NOW" ]; then same=yes; fi ;;
    links) links=$a ;;
    interface) names="$names $a" ;;
  esac
done <<END
$TEXT
END
if [ -z "$links" ]; then log "the record is not whole: going back as far as it says"; fi

# What `ifconfig` says of one interface: there, up, addresses, bridge.
look() {
  there=no
  up=no
  addresses=
  bridge=-
  block=
  while read -r word a rest; do
    case "$word $a" in
      *": flags="*)
        block=${word%:}
        if [ "$block" = "$1" ]; then
          there=yes
          case $a in *"<UP,"* | *"<UP>"*) up=yes ;; esac
        fi
        ;;
    esac
    if [ "$block" = "$1" ] && [ "$word" = inet ]; then addresses="$addresses $a"; fi
    if [ "$word" = "member:" ] && [ "$a" = "$1" ]; then bridge=$block; fi
  done <<END
$("$R/sbin/ifconfig" 2>/dev/null)
END
}

# Is this address to be on this interface, as far as the record says?
recorded() {
  while read -r word a b rest; do
    if [ "$word $a $b" = "address $1 $2" ]; then return 0; fi
  done <<END
$TEXT
END
  return 1
}

# Is this address one of ours?
ours() {
  while read -r word a ether b rest; do
    if [ "$word $a $b" = "link $1 $2" ]; then return 0; fi
  done <<END
$("$R/bin/cat" "$D/links.conf" "$D/before.links" 2>/dev/null)
END
  return 1
}

# The daemon would put the links back.
"$R/bin/launchctl" bootout system/com.macluster.links 2>/dev/null
tries=0
while [ "$tries" -lt 20 ] && "$R/bin/launchctl" print system/com.macluster.links >/dev/null 2>&1; do
  tries=$((tries + 1))
  "$R/bin/sleep" 1
done

for name in $names; do
  state=up
  wanted=-
  while read -r word a b c; do
    if [ "$word $a" = "interface $name" ]; then
      state=$b
      wanted=$c
    fi
  done <<END
$TEXT
END
  look "$name"
  if [ "$there" = no ]; then
    log "$name is not there"
    continue
  fi
  # In the boot of the record nothing else belongs there; after a restart only our own addresses are known not to.
  for address in $addresses; do
    if ours "$name" "$address" || [ "$same" = yes ]; then
      recorded "$name" "$address" || run "$R/sbin/ifconfig" "$name" inet "$address" -alias
    fi
  done
  if [ "$wanted" != - ] && [ "$bridge" = - ] && "$R/sbin/ifconfig" "$wanted" >/dev/null 2>&1; then
    run "$R/sbin/ifconfig" "$wanted" addm "$name"
  fi
  if [ "$state" = up ] && [ "$up" = no ]; then run "$R/sbin/ifconfig" "$name" up; fi
  if [ "$same" = yes ]; then
    while read -r word a b c; do
      if [ "$word $a" = "address $name" ]; then
        case "$addresses " in *" $b "*) ;; *) run "$R/sbin/ifconfig" "$name" inet "$b" netmask "$c" alias ;; esac
      fi
    done <<END
$TEXT
END
    if [ "$state" = down ] && [ "$wanted" = - ]; then
      look "$name"
      if [ "$up" = yes ]; then run "$R/sbin/ifconfig" "$name" down; fi
    fi
  fi
done

# What outlives a restart. before.links stays until all is done.
if [ "$links" != no ] && [ -f "$D/before.links" ]; then
  run "$R/bin/cp" "$D/before.links" "$D/links.conf"
  run "$R/bin/launchctl" bootstrap system "$DAEMONS/com.macluster.links.plist"
else
  run "$R/bin/rm" -f "$DAEMONS/com.macluster.links.plist" "$D/links.conf" "$D/links.sh"
fi
while read -r word a; do
  if [ "$word" = foreign ] && [ -f "$D/foreign/$a.plist" ]; then
    run "$R/bin/mv" -f "$D/foreign/$a.plist" "$DAEMONS/$a.plist"
    run "$R/bin/launchctl" bootstrap system "$DAEMONS/$a.plist"
  fi
  if [ "$word" = entry ] && [ -f "$D/entry.$a" ]; then
    # Kept when it cannot be put back: nobody else has it.
    run "$R/usr/bin/plutil" -insert "VirtualNetworkInterfaces.Bridge.$a" -json "$("$R/bin/cat" "$D/entry.$a")" \
      "$PREFERENCES" && run "$R/bin/rm" -f "$D/entry.$a"
  fi
done <<END
$TEXT
END

log "gone back"
"$R/bin/rm" -rf "$D/lock"
"$R/bin/rm" -f "$DAEMONS/com.macluster.deadman.plist"
"$R/bin/mv" -f "$D/fire" "$D/reverted"
"$R/bin/rm" -f "$D/before.links"
