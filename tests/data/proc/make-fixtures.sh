#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes fixture roots in a new folder: sh make-fixtures.sh DIR. Below each, proc/… and sys/fs/cgroup/… stand for /proc and /sys/fs/cgroup; every number is
# chosen here, so that a test knows it.
#   v2           one container process (pid 42) in cgroup v2 with limits, throttling and pressure; a descriptor of each class; TCP in each state; a restricted host
#   v2-ancestor  the limits are those of the parent cgroup; only the machine has pressure
#   v2-bare      cgroup v2 of another container, reachable through /proc/42/root only, and nearly empty
#   v2-lost      cgroup v2 that is mounted nowhere
#   v1           hybrid: v1 controllers beside an empty v2 hierarchy
#   none         no cgroup file at all
set -eu
mkdir -p "$1"
cd "$1"

put() { mkdir -p "$(dirname "$1")"; cat >"$1"; }

process() { # ROOT: what every root has of pid 42
  put "$1/proc/42/stat" <<'X'
42 (dot net) (x) S 1 42 42 0 -1 4194304 5001 0 12 0 250 50 0 0 20 0 17 0 98765 3133440000 25600 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0
X
  put "$1/proc/42/status" <<'X'
Name:	dot net) (x
Umask:	0022
State:	S (sleeping)
Tgid:	42
Pid:	42
PPid:	1
TracerPid:	0
Uid:	1000	1001	1000	1000
Gid:	1000	1000	1000	1000
NSpid:	42	7
VmHWM:	  204800 kB
VmRSS:	  102400 kB
RssAnon:	   81920 kB
VmSwap:	       0 kB
Threads:	17
CapPrm:	0000000000000000
CapEff:	0000000000000000
CapBnd:	00000000a80425fb
NoNewPrivs:	1
Seccomp:	2
X
  printf '/usr/bin/dotnet\0/app/My App.dll\0--name=\377x\0' | put "$1/proc/42/cmdline"
  printf 'PATH=/bin\0TMPDIR=/var/tmp/x\0DOTNET_gcServer=1\0DOTNET_EnableDiagnostics=0\0SECRET_TOKEN=hush\0' | put "$1/proc/42/environ"
  put "$1/proc/42/smaps_rollup" <<'X'
55d0c0000000-7ffd00000000 ---p 00000000 00:00 0                          [rollup]
Rss:              102400 kB
Pss:               51200 kB
Pss_Anon:          40000 kB
Private_Dirty:     78000 kB
Anonymous:         81920 kB
Swap:                  0 kB
X
  put "$1/proc/42/limits" <<'X'
Limit                     Soft Limit           Hard Limit           Units     
Max processes             96364                96364                processes 
Max open files            64                   unlimited            files     
Max core file size        0                    unlimited            bytes     
Max address space         unlimited            unlimited            bytes     
X
  put "$1/proc/42/io" <<'X'
rchar: 1000
wchar: 2000
syscr: 3
syscw: 4
read_bytes: 4096
write_bytes: 8192
cancelled_write_bytes: 0
X
  echo 667 | put "$1/proc/42/oom_score"
}

v2_mount='30 20 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate'

# ---- v2 -----------------------------------------------------------------------------------------------------------------------
process v2
mkdir -p v2/proc/42/fd
i=0
for target in 'socket:[1001]' 'socket:[1002]' 'socket:[1003]' 'socket:[1004]' 'socket:[9999]' /app/data.bin /dev/null 'pipe:[55]' 'anon_inode:[eventfd]' 'anon_inode:[eventpoll]'; do
  ln -s "$target" "v2/proc/42/fd/$i"
  i=$((i + 1))
done
put v2/proc/42/net/tcp <<'X'
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1001 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 1002 1 0000000000000000 20 4 30 10 -1
   2: 0100007F:1F90 0100007F:C002 08 00000000:00000000 00:00000000 00000000  1000        0 1003 1 0000000000000000 20 4 30 10 -1
   3: 0100007F:1F90 0100007F:C003 06 00000000:00000000 03:00001770 00000000     0        0 0 3 0000000000000000
   4: 0100007F:2222 0100007F:C004 06 00000000:00000000 03:00001770 00000000     0        0 0 3 0000000000000000
   5: 0100007F:2222 0100007F:C005 01 00000000:00000000 00:00000000 00000000  1000        0 5555 1 0000000000000000 20 4 30 10 -1
X
put v2/proc/42/net/tcp6 <<'X'
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000001000000:C010 00000000000000000000000001000000:01BB 02 00000000:00000000 00:00000000 00000000  1000        0 1004 1 0000000000000000 20 4 30 10 -1
   1: 00000000000000000000000001000000:C011 00000000000000000000000001000000:01BB 06 00000000:00000000 03:00001770 00000000     0        0 0 3 0000000000000000
X
echo '0::/kubepods/pod1/app' | put v2/proc/42/cgroup
echo "$v2_mount" | put v2/proc/self/mountinfo
g=v2/sys/fs/cgroup/kubepods/pod1/app
echo domain | put $g/cgroup.type
echo '50000 100000' | put $g/cpu.max
printf 'usage_usec 5000000\nuser_usec 4000000\nsystem_usec 1000000\nnr_periods 200\nnr_throttled 30\nthrottled_usec 1500000\n' | put $g/cpu.stat
echo 966367641 | put $g/memory.current
echo 1073741824 | put $g/memory.max
echo max | put $g/memory.high
printf 'low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n' | put $g/memory.events
echo 19 | put $g/pids.current
echo 100 | put $g/pids.max
printf 'some avg10=12.50 avg60=10.00 avg300=9.00 total=100\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n' | put $g/cpu.pressure
printf 'some avg10=3.25 avg60=2.00 avg300=1.00 total=100\nfull avg10=1.75 avg60=1.00 avg300=0.50 total=50\n' | put $g/memory.pressure
printf 'some avg10=0.10 avg60=0.20 avg300=0.30 total=10\nfull avg10=0.05 avg60=0.06 avg300=0.07 total=5\n' | put $g/io.pressure
printf 'Name:\tlunette\nState:\tR (running)\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\nCapBnd:\t00000000a80425fb\nNoNewPrivs:\t0\nSeccomp:\t2\n' | put v2/proc/self/status
echo '         0       1000          1' | put v2/proc/self/uid_map
echo 1 | put v2/proc/sys/kernel/yama/ptrace_scope
echo 4 | put v2/proc/sys/kernel/perf_event_paranoid
echo 1 | put v2/proc/sys/kernel/kptr_restrict
echo 6.1.0-fixture | put v2/proc/sys/kernel/osrelease
printf 'cpu  1 2 3\nctxt 5\nbtime 1700000000\nprocesses 9\n' | put v2/proc/stat
mkdir -p v2/proc/1 v2/proc/7 v2/proc/notapid
mkdir -p v2/usr/bin v2/sys/kernel/tracing/events/sched/sched_switch
printf '#!/bin/sh\n' >v2/usr/bin/perf
chmod +x v2/usr/bin/perf
echo 316 >v2/sys/kernel/tracing/events/sched/sched_switch/id
printf 'some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n' | put v2/proc/pressure/cpu

# ---- v2-ancestor --------------------------------------------------------------------------------------------------------------
process v2-ancestor
echo '0::/kubepods/pod1/app' | put v2-ancestor/proc/42/cgroup
echo "$v2_mount" | put v2-ancestor/proc/self/mountinfo
p=v2-ancestor/sys/fs/cgroup/kubepods/pod1
echo 'max 100000' | put $p/app/cpu.max
printf 'usage_usec 10\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n' | put $p/app/cpu.stat
echo 100 | put $p/app/memory.current
echo max | put $p/app/memory.max
echo max | put $p/app/memory.high
printf 'max 0\noom_kill 0\n' | put $p/app/memory.events
echo 3 | put $p/app/pids.current
echo max | put $p/app/pids.max
echo '200000 100000' | put $p/cpu.max
printf 'usage_usec 99\nnr_periods 1000\nnr_throttled 10\nthrottled_usec 5\n' | put $p/cpu.stat
echo 500 | put $p/memory.current
echo 1000 | put $p/memory.max
printf 'some avg10=1.00 avg60=2.00 avg300=3.00 total=4\n' | put v2-ancestor/proc/pressure/cpu

# ---- v2-bare ------------------------------------------------------------------------------------------------------------------
process v2-bare
rm v2-bare/proc/42/oom_score
echo '0::/../other' | put v2-bare/proc/42/cgroup
echo "$v2_mount" | put v2-bare/proc/self/mountinfo
echo '31 21 0:26 /../other /sys/fs/cgroup ro - cgroup2 cgroup rw' | put v2-bare/proc/42/mountinfo
echo 4096 | put v2-bare/proc/42/root/sys/fs/cgroup/memory.current

# ---- v2-lost ------------------------------------------------------------------------------------------------------------------
process v2-lost
echo '0::/system.slice/app.service' | put v2-lost/proc/42/cgroup
echo '22 1 8:1 / / rw - ext4 /dev/root rw' | put v2-lost/proc/self/mountinfo

# ---- v1 (hybrid) --------------------------------------------------------------------------------------------------------------
process v1
printf '9:name=systemd:/\n8:pids:/docker/abc\n4:memory:/docker/abc\n2:cpuacct:/docker/abc\n1:cpu:/docker/abc\n0::/\n' | put v1/proc/42/cgroup
{
  for c in cpu cpuacct memory pids; do echo "4$((${#c})) 35 0:3${#c} / /sys/fs/cgroup/$c rw - cgroup cgroup rw,$c"; done
  echo '50 35 0:50 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw'
} | put v1/proc/self/mountinfo
c=v1/sys/fs/cgroup
echo 25000 | put $c/cpu/docker/abc/cpu.cfs_quota_us
echo 100000 | put $c/cpu/docker/abc/cpu.cfs_period_us
printf 'nr_periods 40\nnr_throttled 4\nthrottled_time 7000000\n' | put $c/cpu/docker/abc/cpu.stat
echo 2000000 | put $c/cpuacct/docker/abc/cpuacct.usage
echo 1000 | put $c/memory/docker/abc/memory.usage_in_bytes
echo 9223372036854771712 | put $c/memory/docker/abc/memory.limit_in_bytes
printf 'oom_kill_disable 0\nunder_oom 0\noom_kill 2\n' | put $c/memory/docker/abc/memory.oom_control
echo 3 | put $c/memory/docker/abc/memory.failcnt
echo 5 | put $c/pids/docker/abc/pids.current
echo max | put $c/pids/docker/abc/pids.max

# ---- none ---------------------------------------------------------------------------------------------------------------------
process none
