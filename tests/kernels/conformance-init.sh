#!/bin/busybox sh
# PID 1 of the VM that conformance.py boots. First from the archive: loads modules and goes on to the disk. There it
# runs the suite and `paddock verify`, prints the result of each, and powers off.
#
#   CHECK name ok
#   CHECK name FAIL exit code N
#   DONE count

if [ "$1" != on-disk ]; then
    busybox=/bin/busybox
    $busybox mkdir -p /proc /sys /dev /disk
    $busybox mount -t proc proc /proc
    $busybox mount -t sysfs sysfs /sys
    $busybox mount -t devtmpfs devtmpfs /dev
    for module in /modules/*.ko; do
        $busybox insmod "$module" || echo "note: insmod $module failed"
    done
    for _ in $($busybox seq 100); do [ -b /dev/vda ] && break; $busybox usleep 100000; done
    $busybox mount -t ext4 /dev/vda /disk
    $busybox cp /bin/busybox /disk/bin/busybox
    $busybox umount /proc /sys
    exec $busybox switch_root /disk /conformance-init on-disk
fi

export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts -o ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
ip link set lo up
# Something for the attacks to find, and what an init gives those it starts.
ip link add outside0 type veth peer name outside1
ip link set outside0 up
ulimit -i 131072 -n 65536

asked() {
    sed -n "s/.*paddock\.$1=\([^ ]*\).*/\1/p" /proc/cmdline
}

told() {
    [ "$2" = 0 ] && echo "CHECK $1 ok" || echo "CHECK $1 FAIL exit code $2"
}

paddock doctor </dev/null
PADDOCK_BIN=/usr/local/bin/paddock PADDOCK_BACKENDS=process PADDOCK_ATTACKS=$(asked attacks) PADDOCK_ENGINES=$(asked engines) \
    conformance --nocapture --test-threads=1 the_fence_stands </dev/null
told suite $?
# As a person asks for it.
paddock verify --backend process --group C --group F </dev/null
told verify $?
echo "DONE 2"
busybox poweroff -f
