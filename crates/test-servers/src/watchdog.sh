# Lets servers live only as long as the process that holds the other end of standard input: however that process ends
# (a panic, kill -9), the pipe closes, and then every server is killed and the directory is removed.
# The first line of output is the directory. Then one request a line, and one line of answer to each:
#   run COMMAND       runs it to its end             exit status
#   start COMMAND     starts it beside               pid
#   signal NAME PID   STOP or CONT                   exit status
#   end PID           kills it, and waits till it is gone   exit status
# COMMAND is shell text with its own redirection of output.
set -u
dir=$(mktemp -d "${TMPDIR:-/tmp}/punctual-servers.XXXXXX") || exit 1
pids=' '
echo "$dir"
while read -r verb rest; do
  case $verb in
  run)
    (eval "$rest") </dev/null
    echo $?
    ;;
  start)
    # exec: the pid is the server's own, not that of a shell around it
    eval "exec $rest" &
    pids="$pids$! "
    echo $!
    ;;
  signal)
    kill -s "${rest% *}" "${rest#* }"
    echo $?
    ;;
  end)
    kill -s KILL "$rest"
    wait "$rest" 2>/dev/null
    # waited for: from here on the number may be another process's
    pids="${pids%% "${rest}" *} ${pids#* "${rest}" }"
    echo 0
    ;;
  esac
done
# One that has ended by itself is no longer there.
for pid in $pids; do kill -s KILL "$pid" 2>/dev/null; done
wait 2>/dev/null
# A child that a server had forked (a dump for a replica) may write for another moment.
for _ in 1 2 3 4 5; do rm -rf "$dir" 2>/dev/null && break; done
