#!/usr/bin/busybox sh
# PID 1 of the VM that run.py boots: sets it up, runs every check, prints one line for each, powers off.
#
#   CHECK name ok
#   CHECK name FAIL detail
#   DONE count
#
# Each check runs as one of several callers: who they are, and in which cgroup, says `paddock` below.
# A function named check_* is a check: silent success, or words that say what is wrong.

export PATH=/usr/bin HOME=/root
CGROUPS=/sys/fs/cgroup
CONTROLLERS="+memory +cpu +pids"
# Software emulation is slow and its clock jumps: nothing here depends on less than this many seconds.
PATIENCE=120

# ---- the VM

# The kernel cannot pivot_root away from the file system that it unpacks an initramfs to, so a copy becomes the root.
if [ "$1" != second-stage ]; then
    mkdir -p /proc /new-root
    mount -t proc proc /proc
    mount -t tmpfs -o mode=755 tmpfs /new-root
    cp -a /usr /etc /modules /init /bin /sbin /lib /lib64 /new-root/
    umount /proc
    exec switch_root /new-root /init second-stage
fi

set_up() {
    mkdir -p /proc /sys /dev /tmp /run /root /home/user /disk /var/lib
    mount -t proc proc /proc
    mount -t sysfs sysfs /sys
    mount -t devtmpfs devtmpfs /dev
    mkdir -p /dev/pts /dev/shm
    mount -t devpts devpts /dev/pts
    mount -t tmpfs -o mode=1777 tmpfs /tmp
    mount -t tmpfs tmpfs /run
    mount -t cgroup2 -o nsdelegate cgroup2 $CGROUPS
    ip link set lo up
    chown 1000:1000 /home/user
    for module in /modules/*.ko; do
        insmod "$module" || echo "note: insmod $module failed"
    done
    for _ in $(seq 50); do [ -b /dev/vda ] && break; usleep 100000; done
    mount -t ext4 /dev/vda /disk
}

make_image() {
    mkdir -p "$1/usr/bin" "$1/etc" "$1/srv/data"
    ln -s usr/bin "$1/bin"
    cp /usr/bin/busybox "$1/usr/bin/"
    for applet in sh cat ls rm mkdir touch id mv dd true; do ln -s busybox "$1/usr/bin/$applet"; done
    echo original >"$1/etc/greeting"
    echo original >"$1/srv/data/file"
}

# ---- telling

checks=0
check() {
    name=$1 function=check_$2
    shift 2
    checks=$((checks + 1))
    said=$("$function" "$@" 2>&1)
    if [ -z "$said" ]; then
        echo "CHECK $name ok"
        return
    fi
    echo "CHECK $name FAIL $(echo "$said" | head -n 1)"
    echo "$said" | tail -n +2 | sed 's/^/    /'
    dmesg -c | tail -n 5 | sed 's/^/    kernel: /'
}

# Runs paddock as the current caller; what it wrote is in $out and $err, its exit code in $code.
paddock() {
    out=/tmp/out-$caller err=/tmp/err-$caller
    line="/usr/bin/paddock"
    for argument; do
        line="$line '$(echo "$argument" | sed "s/'/'\\\\''/g")'"
    done
    case $caller in
    root) timeout $PATIENCE sh -c "exec $line" ;;
    # A login session as it is by default: root's cgroup, without controllers for children.
    user) mkdir -p $CGROUPS/login && as_user $CGROUPS/login "exec $line" ;;
    # As `systemd-run --user --scope` does it: paddock is the only process of the cgroup.
    scope) delegate $CGROUPS/scope && as_user $CGROUPS/scope "exec $line" ;;
    # At the prompt of a desktop's terminal: a shell shares paddock's cgroup, those above are the user's too.
    terminal)
        delegate $CGROUPS/session && echo "$CONTROLLERS" >$CGROUPS/session/cgroup.subtree_control &&
            delegate $CGROUPS/session/terminal && as_user $CGROUPS/session/terminal "$line; exit \$?"
        ;;
    # Without an init that sorts processes: a user in the topmost cgroup, where root has enabled controllers.
    no-init) as_user $CGROUPS "exec $line" ;;
    # Root in a container: a cgroup namespace, whose topmost cgroup holds the container's other processes.
    container)
        mkdir -p $CGROUPS/container
        timeout $PATIENCE sh -c "echo 0 >$CGROUPS/container/cgroup.procs && exec /usr/bin/unshare --cgroup --mount sh -c \"
            umount $CGROUPS && mount -t cgroup2 cgroup2 $CGROUPS && $line; exit \\\$?\""
        ;;
    esac >$out 2>$err
    code=$?
}

# busybox's timeout leaves a watcher, which has to stay outside of the cgroup: so that comes first.
as_user() {
    COMMAND=$2 timeout $PATIENCE sh -c "
        echo 0 >$1/cgroup.procs && cd /home/user && exec su -s /usr/bin/sh user -c \"\$COMMAND\""
}

# A fresh cgroup with the controllers, owned by the user as systemd's Delegate=yes leaves it.
delegate() {
    [ ! -d "$1" ] || find "$1" -depth -type d -exec rmdir {} \; || return
    echo "$CONTROLLERS" >$CGROUPS/cgroup.subtree_control
    mkdir "$1"
    chown 1000:1000 "$1" "$1/cgroup.procs" "$1/cgroup.subtree_control" "$1/cgroup.threads"
}

# The value of the first such field of the JSON that the last run printed.
field() {
    sed -n "s/^ *\"$1\": \(.*\)$/\1/p" $out | head -n 1 | sed 's/,$//; s/^"//; s/"$//'
}

expect() {
    [ "$2" = "$3" ] || echo "$1 is '$(one_line "$2")', not '$(one_line "$3")' ($(happened))"
}

expect_positive() {
    case $2 in
    '' | null | 0 | 0.0 | -*) echo "$1 is '$2' ($(happened))" ;;
    esac
}

expect_text() {
    grep -q "$2" "$1" || echo "nothing says '$2' ($(happened))"
}

one_line() {
    echo "$1" | tr -s '[:space:]' ' ' | sed 's/ $//'
}

happened() {
    one_line "exit code $code; stdout: $(head -c 1500 $out); stderr: $(head -c 600 $err)"
}

# Follows the cgroup of the only sandbox while it runs, and writes what its files say to a table.
watch_cgroup() {
    while [ ! -e /tmp/watched-enough ]; do
        for file in cpu.max memory.max pids.max pids.current; do
            for path in $CGROUPS/paddock-sb-*/$file $CGROUPS/*/paddock-sb-*/$file; do
                { read -r value <"$path"; } 2>/dev/null && echo "$file $value"
            done
        done
        usleep 100000
    done >/tmp/watched
}

start_watching() {
    rm -f /tmp/watched-enough
    watch_cgroup &
    watcher=$!
}

stop_watching() {
    touch /tmp/watched-enough
    wait $watcher
}

# ---- the checks

check_doctor() {
    paddock doctor
    expect "exit code" $code 0
    expect_text $out "process  *usable"
    for limit in memory cpu; do expect_text $out "$limit limit .*$1"; done
    expect_text $out 'Landlock .*ABI [1-9]'
    expect_text $out 'time namespace .*available'
    expect_text $out 'overlay .*available'
}

check_true() {
    paddock run -- true
    expect "exit code" $code 0
    expect "its errors" "$(cat $err)" ""
    paddock run -- sh -c 'exit 7'
    expect "exit code" $code 7
}

check_guarantees() {
    paddock run --json -- true
    expect memory_limit "$(field memory_limit)" "$1"
    expect cpu_limit "$(field cpu_limit)" "$2"
    expect identity "$(field identity)" "$3"
    expect pids_limit "$(field pids_limit)" kernel
    expect seccomp "$(field seccomp)" on
    expect_positive landlock_abi "$(field landlock_abi)"
    expect_positive cpu_ms "$(field cpu_ms)"
    expect_positive peak_memory "$(field peak_memory)"
}

check_out_of_memory() {
    paddock run --json --memory 32MiB --timeout 100s -- "$@"
    expect "exit code" $code 137
    expect "exit_code" "$(field exit_code)" 137
    expect "cause" "$(field kind)" out_of_memory
    peak=$(field peak_memory)
    expect_positive peak_memory "$peak"
    [ "${peak:-0}" -ge 16777216 ] || echo "peak_memory is only '$peak'"
    # A limit that the kernel holds is never passed; one that is watched may be, for a moment.
    [ $limited != kernel ] || [ "${peak:-0}" -le 33554432 ] || echo "peak_memory $peak is above the limit"
}

# Half of the memory, so that the file system is full before the limit is reached.
check_shared_memory() {
    paddock run --memory 32MiB -- dd if=/dev/zero of=/dev/shm/x bs=1M count=200
    expect "exit code" $code 1
    expect_text $err 'No space left on device'
}

check_below_the_memory_limit() {
    paddock run --json --memory 64MiB -- dd if=/dev/zero of=/dev/shm/x bs=1M count=16
    expect "exit code" $code 0
    expect cause "$(field kind)" finished
}

check_processes() {
    start_watching
    paddock run --json --pids 16 --timeout 100s -- sh -c 'for i in $(seq 40); do sleep 60 & done; wait'
    stop_watching
    expect_text $out "can't fork"
    [ "$(field timed_out)" = false ] || echo "the run did not end by itself"
    [ $limited != kernel ] || expect_text /tmp/watched '^pids.max 16$'
}

check_fork_bomb() {
    start_watching
    paddock run --json --pids 16 --timeout 2s -- sh -c 'bomb() { bomb | bomb & }; bomb; sleep 60'
    stop_watching
    case $code in 124 | 2 | 0) ;; *) expect "exit code" $code "0, 2 or 124" ;; esac
    most=$(sed -n 's/^pids.current //p' /tmp/watched | sort -n | tail -n 1)
    [ $limited != kernel ] || [ "${most:-99}" -le 16 ] || echo "$most processes at one time"
    left=$(ps -o pid,args | grep '[b]omb' | grep -v timeout)
    [ -z "$left" ] || echo "some of it still runs: $left"
}

check_processor() {
    start_watching
    paddock run --json --cpus 0.2 --memory 100MiB -- timeout 2 sh -c 'while :; do :; done'
    stop_watching
    expect_text /tmp/watched '^cpu.max 20000 100000$'
    expect_text /tmp/watched '^memory.max 104857600$'
    cpu=$(field cpu_ms) wall=$(field wall_ms)
    cpu=${cpu%.*} wall=${wall%.*}
    expect_positive cpu_ms "$cpu"
    # A fifth, with room for the start: without a limit it would be all of it.
    [ "$((cpu * 2))" -lt "$wall" ] || echo "$cpu ms of processor time in $wall ms"
}

check_disk() {
    paddock run --disk 4MiB -- dd if=/dev/zero of=/tmp/x bs=1M count=8
    expect "exit code" $code 1
    expect_text $err 'No space left on device'
}

check_time_limit() {
    paddock run --timeout 1s -- sleep 60
    expect "exit code" $code 124
}

check_standard_input() {
    echo hello >/tmp/hello
    paddock run -- cat </tmp/hello
    expect "exit code" $code 0
    expect "what came back" "$(cat $out)" hello
}

check_image() {
    paddock run --user root --image "$1" -- sh -c 'echo changed >/etc/greeting; rm /srv/data/file; cat /etc/greeting; ls /srv/data'
    expect "exit code" $code 0
    expect "what it says" "$(cat $out)" changed
    expect "the image's file" "$(cat "$1/etc/greeting" "$1/srv/data/file")" "original
original"
}

# A directory of the image that is removed and made anew must come back empty.
check_image_directories() {
    paddock run --user root --image "$1" -- sh -c 'rm -r /srv/data && mkdir /srv/data && ls -a /srv/data && mv /srv/data /srv/moved'
    expect "exit code" $code 0
    expect "what is in it" "$(tr '\n' ' ' <$out)" ". .. "
}

check_image_disk() {
    paddock run --user root --image "$1" --disk 4MiB -- dd if=/dev/zero of=/srv/x bs=1M count=8
    expect "exit code" $code 1
    expect_text $err 'No space left on device'
}

make_workspace() {
    mkdir -p "$1/.git/hooks" "$1/module"
    echo original >"$1/.git/config"
    echo original >"$1/file"
    chown -R 1000:1000 "$1"
}

check_workspace() {
    make_workspace "$1"
    paddock run --workspace "$1" -- sh -c '
        cd /workspace
        echo changed >file && echo new >new || echo "cannot write"
        for path in .git/config .git/hooks/pre-commit .envrc .vscode/tasks.json; do
            { echo evil >$path; } 2>/dev/null && echo "wrote $path"
        done
        mv .git moved 2>/dev/null && echo "moved .git"
        rm -rf .git 2>/dev/null && echo "removed .git"
        true'
    expect "exit code" $code 0
    expect "what came through" "$(cat $out)" ""
    expect "the file" "$(cat "$1/file")" changed
    expect "the owner of what it made" "$(stat -c %u:%g "$1/new")" 1000:1000
    expect "the protected file" "$(cat "$1/.git/config")" original
    expect "the directory" "$(ls -A "$1" | tr '\n' ' ')" ".git file module new "
}

# An overlay notes in user.* attributes that a directory was replaced, which tmpfs has from Linux 6.6 on; without
# root there is no other way. The limit is as sharp as a check, so that it is noticed when it goes.
check_image_directories_as_user() {
    if kernel_is_at_least 6.6; then
        check_image_directories "$1"
        return
    fi
    paddock run --user root --image "$1" -- rm -r /srv/data
    expect "exit code" $code 1
    expect_text $err 'Input/output error'
}

kernel_is_at_least() {
    [ "$(printf '%s\n' "$1" "$(uname -r | cut -d- -f1)" | sort -V | head -n 1)" = "$1" ]
}

# tmpfs maps ids from Linux 6.3 on; before, root has to hear why, and nothing may be left.
check_unmappable_workspace() {
    if kernel_is_at_least 6.3; then
        check_workspace "$1"
        return
    fi
    make_workspace "$1"
    paddock run --workspace "$1" -- true
    expect "exit code" $code 125
    expect_text $err 'its file system cannot map ids'
    expect "the directory" "$(ls -A "$1" | tr '\n' ' ')" ".git file module "
}

# Without those that have ended and were not collected yet.
processes_left() {
    ps -o pid,stat,args | grep '[p]addock' | grep -v timeout | grep -v '^ *[0-9]* Z'
}

check_nothing_left() {
    left=$(find $CGROUPS -name 'paddock-sb-*')
    [ -z "$left" ] || echo "cgroups: $left"
    # A server that was killed may still be ending.
    for _ in $(seq 150); do
        left=$(processes_left)
        [ -n "$left" ] || break
        usleep 200000
    done
    [ -z "$left" ] || echo "processes: $left"
    left=$(find /var/lib/paddock/run /home/user/.local/state/paddock/run -name '*.json' 2>/dev/null)
    [ -z "$left" ] || echo "records: $left"
    [ "$(grep -c paddock /proc/self/mounts)" = 0 ] || echo "mounts: $(grep paddock /proc/self/mounts)"
}

# ---- a server, and a wall clock that is set by hand

DAY=86400
# Seconds that a short life lasts: longer than its check takes, also on a busy host.
SHORT=40

set_clock() {
    date -s "@$(($(date +%s) + $1))" >/dev/null
}

# Whole seconds of the clock that is never set.
uptime_seconds() {
    cut -d. -f1 /proc/uptime
}

start_server() {
    /usr/bin/paddock serve --socket /run/clock.sock --listen 127.0.0.1:8099 >/tmp/server 2>&1 </dev/null &
    echo $! >/tmp/server-process
    for _ in $(seq 100); do
        paddock ps
        [ $code != 0 ] || return 0
        usleep 200000
    done
    echo "no server: $(one_line "$(cat /tmp/server)")"
}

# As a crash would; what runs goes on.
restart_server() {
    kill -9 "$(cat /tmp/server-process)"
    start_server
}

# That both sandboxes are there, unless so much time has really passed that one may have ended.
expect_alive() {
    paddock ps -q
    expect_text $out "$(cat /tmp/long)"
    [ $(($(uptime_seconds) - $(cat /tmp/begun))) -ge $((SHORT - 5)) ] || expect_text $out "$(cat /tmp/short)"
}

check_clock_begin() {
    start_server
    paddock create
    cp $out /tmp/gone
    paddock kill "$(cat /tmp/gone)"
    paddock create --ttl ${SHORT}s
    cp $out /tmp/short
    uptime_seconds >/tmp/begun
    paddock create --ttl 1h --idle 1800 --name long
    cp $out /tmp/long
    paddock exec long -- sh -c 'echo content >/tmp/file'
    expect "exit code" $code 0
    paddock exec -d long -- sh -c 'echo begin; sleep 2; echo end'
    expect "exit code" $code 0
}

check_clock_jump() {
    set_clock "$1"
    expect_alive
    paddock exec --timeout 1s long -- sleep 1000
    expect "exit code of a command that is too long" $code 124
    paddock exec --timeout 500s long -- cat /tmp/file
    expect "exit code" $code 0
    # When it ends is told by the clock as it is now.
    paddock inspect long
    left=$(($(field expires_at_ms) / 1000 - $(date +%s)))
    [ $left -gt 1800 ] && [ $left -le 3600 ] || echo "it ends in $left seconds ($(happened))"
    restart_server
    expect_alive
    paddock inspect "$(cat /tmp/gone)"
    expect "what is remembered of an end" "$(field kind)" killed
}

# A time to live is time that passes, whatever the clock says.
check_clock_end() {
    for _ in $(seq 60); do
        paddock ps -q
        grep -q "$(cat /tmp/short)" $out || break
        sleep 1
    done
    lived=$(($(uptime_seconds) - $(cat /tmp/begun)))
    [ $lived -ge $((SHORT - 1)) ] || echo "it lived $lived seconds, not $SHORT"
    paddock inspect "$(cat /tmp/short)"
    expect "why it ended" "$(field kind)" time_to_live
    paddock exec long -- true
    expect "exit code" $code 0
}

check_clock_timeline() {
    paddock audit export long -o /tmp/timeline
    paddock audit verify /tmp/timeline
    expect "exit code" $code 0
    expect_text $out 'is whole'
    # Entries are in the order in which things happened, which their times no longer are.
    for number in $(seq 0 5); do
        expect_text /tmp/timeline "\"seq\":$number,"
    done
    expect "entries out of order" "$(sed -n 's/.*"seq":\([0-9]*\),.*/\1/p' /tmp/timeline | sort -nc 2>&1)" ""
}

# A signed URL carries an instant of the wall clock, for its receiver: that clock ends it.
check_clock_signed_url() {
    paddock token create --tenant owner
    token=$(cat $out)
    code=0 out=/tmp/signed err=/tmp/signed-err
    wget -q -O $out --header "Authorization: Bearer $token" --header 'Content-Type: application/json' \
        --post-data '{"path": "/tmp/file", "operation": "read", "expires_seconds": 3600}' \
        http://127.0.0.1:8099/v1/sandboxes/long/files/sign 2>$err || code=$?
    url=http://127.0.0.1:8099$(sed -n 's/.*"url":"\([^"]*\)".*/\1/p' $out)
    expect "what it leads to" "$(wget -q -O - "$url" 2>&1)" content
    set_clock $DAY
    wget -q -O /dev/null "$url" 2>/dev/null && echo "it still leads there a day later"
    set_clock -$DAY
    expect "what it leads to again" "$(wget -q -O - "$url" 2>&1)" content
}

check_clock_stop() {
    paddock kill --all
    expect "exit code" $code 0
    kill "$(cat /tmp/server-process)"
    for _ in $(seq 100); do
        [ -e "/proc/$(cat /tmp/server-process)/exe" ] || break
        usleep 100000
    done
}

with_a_clock_that_jumps() {
    caller=root limited=kernel
    export PADDOCK_URL=unix:/run/clock.sock
    check clock/begin clock_begin
    check clock/a-day-forward clock_jump $DAY
    check clock/two-days-back clock_jump -$((2 * DAY))
    check clock/time-to-live clock_end
    check clock/timeline clock_timeline
    check clock/signed-url clock_signed_url
    check clock/stop clock_stop
    set_clock $DAY
    unset PADDOCK_URL
}

# ---- the callers

shared_limits() {
    check "$caller/memory-heap" out_of_memory tail /dev/zero
    check "$caller/memory-disk" out_of_memory dd if=/dev/zero of=/tmp/x bs=1M count=200
    check "$caller/processes" processes
    check "$caller/fork-bomb" fork_bomb
}

own_limits() {
    check "$caller/memory-shm" shared_memory
    check "$caller/memory-below" below_the_memory_limit
    check "$caller/disk" disk
    check "$caller/time-limit" time_limit
    check "$caller/stdin" standard_input
}

as_root() {
    caller=root limited=kernel
    check root/doctor doctor 'held by the kernel (cgroup v2)'
    check root/true true
    check root/guarantees guarantees kernel kernel own
    shared_limits
    own_limits
    check root/processor processor
    check root/image image /disk/image
    check root/image-directories image_directories /disk/image
    check root/image-disk image_disk /disk/image
    check root/workspace workspace /disk/workspace
    check root/workspace-in-memory unmappable_workspace /tmp/workspace
}

as_ordinary_user() {
    caller=user limited=watched
    check user/doctor doctor '\(watched\|none\)'
    check user/true true
    check user/guarantees guarantees watched none caller
    shared_limits
    own_limits
    check user/image image /home/user/image
    check user/image-directories image_directories_as_user /home/user/image
    check user/workspace workspace /home/user/workspace
    check user/workspace-on-disk workspace /disk/workspace-of-user
}

as_user_with_delegation() {
    caller=scope limited=kernel
    check scope/doctor doctor 'held by the kernel (cgroup v2)'
    check scope/true true
    check scope/guarantees guarantees kernel kernel caller
    shared_limits
    check scope/processor processor
    check scope/workspace workspace /home/user/scope-workspace

    caller=terminal
    check terminal/guarantees guarantees kernel kernel caller
    check terminal/memory-heap out_of_memory tail /dev/zero
}

# Where the cgroup cannot be used, the run goes on and says so.
in_places_without_cgroups() {
    caller=no-init limited=watched
    check no-init/doctor doctor '\(watched\|none\)'
    check no-init/guarantees guarantees watched none caller
    caller=container
    check container/guarantees guarantees watched none own
    check container/memory-heap out_of_memory tail /dev/zero
}

set_up
make_image /disk/image
make_image /home/user/image
chown -R 1000:1000 /home/user/image
as_root
as_ordinary_user
as_user_with_delegation
in_places_without_cgroups
with_a_clock_that_jumps
check all/nothing-left nothing_left
echo "DONE $checks"
poweroff -f
