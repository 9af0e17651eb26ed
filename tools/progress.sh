# Shows on standard error how far installing packages and building are; ./muster sources it. In a terminal it is one line,
# written again and again; elsewhere a line at the start and every 15 seconds.

progress_interval=15
progress_at=
progress_on_screen=

# Shows TEXT, unless the line before is too young.
show_progress() {
  local text="muster: $1" size
  if [ -t 2 ]; then
    [ "$progress_at" = "$EPOCHSECONDS" ] && return
    size=$(stty size <&2 2>/dev/null) || size="24 80"
    [ "${size#* }" -ge 20 ] || size="24 80"
    text=${text:0:${size#* } - 1}
    printf '\r%s\e[K' "$text" >&2
    progress_on_screen=yes
  else
    [ -z "$progress_at" ] || [ $((EPOCHSECONDS - progress_at)) -ge $progress_interval ] || return 0
    echo "$text" >&2
  fi
  progress_at=$EPOCHSECONDS
}

# Takes the line off the screen, for what is to stay there.
clear_progress() {
  [ -z "$progress_on_screen" ] || printf '\r\e[K' >&2
  progress_on_screen=
}

# "40 s", "7 min".
show_duration() {
  if [ "$1" -lt 90 ]; then echo "$1 s"; else echo "$((($1 + 30) / 60)) min"; fi
}

# Reads what apt-get says while it installs TOTAL packages.
follow_packages() {
  local total=$1 line unpacked=0 done=0 rest
  trap '' INT
  while IFS= read -r line; do
    case $line in
      dlstatus:*)
        rest=${line#dlstatus:*:*:}
        show_progress "fetching $total packages: ${rest#Retrieving }"
        ;;
      pmstatus:*:*:"Unpacking "*)
        unpacked=$((unpacked + 1))
        rest=${line##*Unpacking }
        show_progress "unpacked $unpacked of $total packages: ${rest%% *}"
        ;;
      pmstatus:*:*:"Installed "*)
        done=$((done + 1))
        rest=${line##*Installed }
        show_progress "installed $done of $total packages: ${rest%% *}"
        ;;
    esac
  done
  clear_progress
}

# What the parts of a build cost, in files to compile: averages of a run from nothing (docs/performance/building.md).
declare -A progress_cost=([small]=0.5 [medium]=2.5 [large]=9)

# Reads what Bazel says with --subcommands. Its errors and warnings are passed on. FILES is how many files there are to
# compile, or empty; TESTS has a line `LABEL SHARDS SIZE` for each test program to run. Of progress nothing is shown in the
# first QUIET_SECONDS, since most commands find everything built.
follow_build() {
  local quiet=$1 files=$2 tests=${3:-} began=$EPOCHSECONDS now line command= compiled=0 text= name label shards size
  # Costs are in hundredths of a file.
  local -A cost=()
  local all=$((${files:-0} * 100)) done=0 each
  while read -r label shards size; do
    [ -n "$label" ] || continue
    each=$(hundredths "${progress_cost[$size]}")
    cost[$label]=$each
    all=$((all + shards * each))
  done <<<"$tests"
  # The rate is that since `from`: a minute with more than a file a second and processor came from a cache, and says
  # nothing of the rest.
  local from= from_done=0 minute=0 minute_done=0 left= processors
  processors=$(nproc)
  trap '' INT
  while IFS= read -r line || [ -n "$line" ]; do
    now=$EPOCHSECONDS
    if [ -n "$command" ]; then
      # A command is in brackets, and of many lines.
      [[ $line != *")" ]] || command=
    elif [[ $line == "SUBCOMMAND: "* ]]; then
      command=yes
      each=
      if [[ $line =~ \[action\ \'Compiling\ ([^\']*)\' ]]; then
        name=${BASH_REMATCH[1]}
        # Of what is compiled as one, the folder tells more.
        case ${name##*/} in
          folder.cc | fixtures.cc | tests.cc) name=${name%.cc} ;;
          *) name=${name##*/} ;;
        esac
        compiled=$((compiled + 1))
        [ -z "$files" ] || [ "$files" -ge "$compiled" ] || files=$compiled
        each=100
        text="compiling ${files:+file $compiled of $files}LEFT: $name"
        [ -n "$files" ] || text="compiling $name"
      elif [[ $line =~ \[action\ \'Testing\ ([^\ \']*) ]]; then
        each=${cost[${BASH_REMATCH[1]}]:-}
        text="testing ${BASH_REMATCH[1]}LEFT"
      elif [[ $line =~ \[action\ \'Linking\ ([^\']*)\' ]]; then
        text="linking ${BASH_REMATCH[1]##*/}"
      fi
      if [ -n "$each" ]; then
        done=$((done + each))
        [ "$all" -ge "$done" ] || all=$done
        if [ -z "$from" ]; then
          from=$now from_done=$done minute=$now minute_done=$done
        elif [ $((now - minute)) -ge 60 ]; then
          [ $((done - minute_done)) -le $((100 * (now - minute) * processors)) ] || from=$now from_done=$done
          minute=$now minute_done=$done
        fi
      fi
      left=
      if [ "$all" -gt "$done" ] && [ -n "$from" ] && [ $((now - from)) -ge 10 ] && [ "$done" -gt "$from_done" ]; then
        left=", about $(show_duration $(((all - done) * (now - from) / (done - from_done)))) left"
      fi
      text=${text/LEFT/$left}
    elif [[ $line =~ ^\[[0-9,]+\ /\ [0-9,]+\](\ ([0-9,]+)\ /\ ([0-9,]+)\ tests)? ]]; then
      [ "${BASH_REMATCH[2]:-0}" = 0 ] || text="ran ${BASH_REMATCH[2]} of ${BASH_REMATCH[3]} test programs$left"
    elif [[ $line =~ ^(Loading|Analyzing)(:|$) || $line =~ ^\ *(currently\ loading:|Fetching\ ) ]]; then
      text="reading what there is to build"
    elif [[ $line =~ ^(Extracting\ Bazel|Starting\ local\ Bazel|\.\.\.\ still\ trying) ]]; then
      text="starting Bazel"
    elif [ -n "$line" ] && [[ $line != "INFO: Build completed"* ]]; then
      clear_progress
      printf '%s\n' "$line" >&2
    fi
    [ -z "$text" ] || [ $((now - began)) -lt "$quiet" ] || show_progress "$text"
  done
  clear_progress
}

# Prints a decimal number in hundredths: 0.5 as 50.
hundredths() {
  local whole=${1%.*} part=00
  [[ $1 != *.* ]] || part=${1#*.}00
  echo $((whole * 100 + 10#${part:0:2}))
}
