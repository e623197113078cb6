"""The POSIX shell scripts by which files are handled where a sandbox has no file service.

``$1`` is an absolute path. The exit codes stand in `sandboxio.command_files`.
"""

DECODE = """
for a; do shift; a=$(printf '%b.' "$a"); set -- "$@" "${a%.}"; done
"""
"""Goes before a script whose arguments are octal escapes; the mark keeps a newline at the end, which $( ) would cut."""

READ = """
[ -e "$1" ] || exit 44
[ -d "$1" ] && exit 45
[ -f "$1" ] || exit 46
[ -r "$1" ] || exit 47
exec cat < "$1"
"""

READ_SMALL = READ.replace(
    "exec cat", 's=$(wc -c < "$1")\n[ "$s" -gt "$2" ] && { printf %s "$s" >&2; exit 52; }\nexec cat'
)
"""The same for a file of at most ``$2`` bytes; a larger one is left to another way, and its size is told on stderr."""

COUNT = """
if [ -n "$2" ]; then touch -c -d "@$2" "$1" || exit 50; fi
wc -c < "$1"
"""
"""Tells what arrived of a content that came another way, and sets its time."""

WHY_NOT = """
why_not() {
  p=$1
  while [ ! -e "$p" ] && [ ! -L "$p" ]; do p=${p%/*}; p=${p:-/}; done
  [ -d "$p" ] || exit 49
  [ -w "$p" ] || exit 47
  exit 51
}
"""
"""Says why ``mkdir -p`` failed; its own words depend on language and implementation."""

FOLLOW = """
follow() {
  t=$1; k=0
  while [ -L "$t" ]; do
    k=$((k + 1)); [ $k -gt 40 ] && exit 44
    # The mark keeps a newline at the end of a name, which $( ) would cut.
    l=$(readlink "$t" && printf .) || exit 44
    l=${l%??}
    case $l in /*) t=$l ;; *) t=${t%/*}/$l ;; esac
  done
}
"""
"""Sets ``t`` to what a link leads to; ``readlink -f`` of some busybox fails where that is missing."""

WRITE = (
    WHY_NOT
    + FOLLOW
    + """
case $1 in */) exit 45 ;; esac
follow "$1"
[ -d "$t" ] && exit 45
if [ -e "$t" ] && [ ! -f "$t" ]; then exit 46; fi
d=${t%/*}; d=${d:-/}
mkdir -p "$d" 2>/dev/null || why_not "$d"
[ -w "$d" ] || exit 47
n=$d/.sandboxio.$2
m=$3
if [ -z "$m" ]; then
  m=644
  [ -e "$t" ] && m=$(stat -c %a "$t")
fi
(set -C; : > "$n") 2>/dev/null || exit 51
if cat > "$n" 2>/dev/null; then :; else rm -f "$n"; exit 51; fi
chmod "$m" "$n"
if [ -n "$4" ]; then touch -c -d "@$4" "$n" || { rm -f "$n"; exit 50; }; fi
printf '%s\\0%s' "$(wc -c < "$n")" "$t"
"""
)

COMMIT = """
n=${1%/*}/.sandboxio.$2
mv -f "$n" "$1" || { rm -f "$n"; exit 50; }
"""

DISCARD = (
    FOLLOW
    + """
follow "$1"
rm -f "${t%/*}/.sandboxio.$2"
"""
)

ENTRY = """
entry() {
  if [ -L "$1" ]; then l=l; else l=-; fi
  s=$(stat -L -c '%s %f %Y' "$1" 2>/dev/null) || s='0 0 0'
  printf '%s %s\\n%s\\0' "$l" "$s" "$1"
}
"""

LIST = (
    ENTRY
    + """
[ -e "$1" ] || exit 44
[ -d "$1" ] || exit 49
{ [ -r "$1" ] && [ -x "$1" ]; } || exit 47
d=${1%/}
for f in "$d"/* "$d"/.[!.]* "$d"/..?*; do
  if [ -e "$f" ] || [ -L "$f" ]; then entry "$f"; fi
done
"""
)

STAT = (
    ENTRY
    + """
[ -e "$1" ] || exit 44
entry "$1"
"""
)

MKDIR = (
    WHY_NOT
    + """
if [ "$2" = parents ]; then
  if [ -e "$1" ] && [ ! -d "$1" ]; then exit 48; fi
  mkdir -p "$1" 2>/dev/null || why_not "$1"
else
  if [ -e "$1" ] || [ -L "$1" ]; then exit 48; fi
  d=${1%/*}; d=${d:-/}
  [ -e "$d" ] || exit 44
  [ -d "$d" ] || exit 49
  mkdir "$1" 2>/dev/null || why_not "$1"
fi
"""
)

REMOVE = """
if [ ! -e "$1" ] && [ ! -L "$1" ]; then exit 44; fi
if [ -d "$1" ] && [ ! -L "$1" ]; then
  if [ "$2" = recursive ]; then rm -rf "$1" || exit 47; else rmdir "$1" || exit 45; fi
else
  rm -f "$1" || exit 47
fi
"""

READLINK = """
[ -L "$1" ] || { [ -e "$1" ] && exit 46; exit 44; }
# The mark keeps a newline at the end of what the link holds apart from the one that is added.
readlink "$1" && printf .
"""

LINK = (
    WHY_NOT
    + """
if [ -d "$1" ] && [ ! -L "$1" ]; then exit 45; fi
rm -f "$1" && ln -s -n -- "$2" "$1" || why_not "${1%/*}/"
"""
)

SET = """
[ -d "$1" ] || exit 44
chmod "$2" "$1" && touch -c -d "@$3" "$1" || exit 47
"""
