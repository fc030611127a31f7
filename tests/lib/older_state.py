"""A mount as a version made it that knew no lock of the state: takes the lock from the processes of which PID is one."""
import ctypes, fcntl, os, struct, sys

SYS_PIDFD_GETFD = 438
pid = int(sys.argv[1])
for fd in os.listdir(f"/proc/{pid}/fd"):
    if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("/memfd:sampan-state"):
        shared = ctypes.CDLL(None).syscall(SYS_PIDFD_GETFD, os.pidfd_open(pid), int(fd), 0)
        fcntl.fcntl(shared, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))
        break
else:
    sys.exit(f"{pid} has no state")
