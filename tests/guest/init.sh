#!/bin/busybox sh
# The guest's first process: what the checks need of a system, then the checks, then off.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
insmod /brd.ko rd_nr=1 rd_size=524288 && mkswap /dev/ram0 && swapon /dev/ram0
cd /headway && PYTHONPATH=src "$PYTHON" -S -m tests.guest.inside > /dev/ttyS1
poweroff -f
