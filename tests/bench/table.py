"""Rows of fixed columns, printed as they come."""

WIDTHS = (40, 16, 5, 10, 16, 8, 13, 7)
NAMES = ("what", "pass", "type", "ms", "rate", "share", "floor→aim", "spread")


class Table:
    def __init__(self):
        self.failures, self.missed, self.reached = [], [], 0

    def section(self, title):
        print(f"\n{title}")
        self._line(NAMES)
        self._line(["-" * width for width in WIDTHS])

    def _line(self, cells, note=""):
        text = "  ".join(cell.ljust(w) if i < 3 else cell.rjust(w) for i, (cell, w) in enumerate(zip(cells, WIDTHS)))
        print(f"{text}  {note}".rstrip(), flush=True)

    def row(self, what, when, dtype, seconds=None, rate="", share=None, target=None, spread=None, note="", unit="%",
            is_at_most=False):
        """`share` is in percent, or of another `unit`. `target` (floor, aim) marks the row when its floor is missed."""
        digits = 1 if unit == "%" else 2
        cells = [what, when, dtype, "" if seconds is None else f"{seconds * 1e3:.2f}", rate,
                 "" if share is None else f"{share:.{digits}f} {unit}", "", "" if spread is None else f"{spread:.1%}"]
        if target is not None:
            floor, aim = target
            bounds = f"{floor:g}" if aim is None else f"{floor:g} → {aim:g}"
            cells[6] = f"{'≤ ' if is_at_most else ''}{bounds} {unit}"
            # What rounds to the floor meets it.
            value = round(share, digits)
            if value > floor if is_at_most else value < floor:
                self.missed.append(" ".join(f"{what} {when} {dtype}".split()))
                note = f"MISSED {note}".rstrip()
            else:
                self.reached += 1
        self._line(cells, note)

    def note(self, text):
        print(f"  # {text}", flush=True)

    def failed(self, what, why):
        self.failures.append(what)
        print(f"  ! {what} FAILED: {why}", flush=True)

    def end(self, seconds):
        print(f"\nTook {seconds / 60:.1f} min. {self.reached} values reach their floor, {len(self.missed)} do not"
              + (f", {len(self.failures)} failed" if self.failures else "") + ".")
        for what in self.missed:
            print(f"  missed: {what}")
        for what in self.failures:
            print(f"  failed: {what}")
