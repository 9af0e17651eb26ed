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

# Reads what Bazel says with --subcommands. Its errors and warnings are passed on. FILES is how many files there are to
# compile, or empty. Of progress nothing is shown in the first QUIET_SECONDS, since most commands find everything built.
follow_build() {
  local quiet=$1 files=$2 began=$EPOCHSECONDS now line command= compiled=0 text=
  # The rate is that since `from`, which follows a minute or two behind: files that a cache has come first, and say
  # nothing of the others.
  local from= from_compiled=0 next=0 next_compiled=0 left=
  trap '' INT
  while IFS= read -r line || [ -n "$line" ]; do
    now=$EPOCHSECONDS
    if [ -n "$command" ]; then
      # A command is in brackets, and of many lines.
      [[ $line != *")" ]] || command=
    elif [[ $line == "SUBCOMMAND: "* ]]; then
      command=yes
      if [[ $line =~ \[action\ \'Compiling\ ([^\']*)\' ]]; then
        compiled=$((compiled + 1))
        [ -z "$files" ] || [ "$files" -ge "$compiled" ] || files=$compiled
        if [ -z "$from" ]; then
          from=$now from_compiled=$compiled next=$now next_compiled=$compiled
        elif [ $((now - next)) -ge 60 ]; then
          from=$next from_compiled=$next_compiled
          next=$now next_compiled=$compiled
        fi
        left=
        if [ -n "$files" ] && [ "$files" -gt "$compiled" ] && [ $((now - from)) -ge 10 ] &&
          [ "$compiled" -gt "$from_compiled" ]; then
          left=", about $(show_duration $(((files - compiled) * (now - from) / (compiled - from_compiled)))) left"
        fi
        text="compiling ${files:+file $compiled of $files$left: }${BASH_REMATCH[1]##*/}"
      elif [[ $line =~ \[action\ \'Linking\ ([^\']*)\' ]]; then
        text="linking ${BASH_REMATCH[1]##*/}"
      fi
    elif [[ $line =~ ^\[[0-9,]+\ /\ [0-9,]+\](\ ([0-9,]+)\ /\ ([0-9,]+)\ tests)? ]]; then
      [ "${BASH_REMATCH[2]:-0}" = 0 ] || text="ran ${BASH_REMATCH[2]} of ${BASH_REMATCH[3]} test programs"
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
