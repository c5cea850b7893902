#!/bin/busybox sh
# The guest's first process: what the checks need of a system, those without systemd, and then systemd in its place.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
printf 'root:x:0:0::/:/bin/sh\nheadway:x:1000:1000::/:/bin/sh\n' > /etc/passwd
printf 'root:x:0:\nheadway:x:1000:\n' > /etc/group
insmod /brd.ko rd_nr=1 rd_size=524288 && mkswap /dev/ram0 && swapon /dev/ram0
cd /headway && PYTHONPATH=src "$PYTHON" -S -m tests.guest.inside groups > /dev/ttyS1
exec /lib/systemd/systemd --log-target=kmsg --unit=lab.service
