"""Is somebody else using the machine?"""
import time

BUSY = 0.05  # share of all cores from which on timings are not trusted


def busy_share(seconds=1.0):
    """Share of all cores that was busy or taken by the hypervisor, 0 to 1."""
    def read():
        with open("/proc/stat") as stat:
            values = [int(v) for v in stat.readline().split()[1:9]]
        return sum(values), values[3] + values[4]
    total, idle = read()
    time.sleep(seconds)
    total_after, idle_after = read()
    return 1.0 - (idle_after - idle) / max(1, total_after - total)


def check_idle(table, where, seconds=1.0, is_quiet=False):
    """A line in the table; with `is_quiet` only when the machine is not idle."""
    share = busy_share(seconds)
    if share > BUSY:
        table.note(f"NOT IDLE {where}: {share:.0%} of the cores are busy with something else; what follows is too slow")
    elif not is_quiet:
        table.note(f"idle {where}: {share:.0%} of the cores busy")
