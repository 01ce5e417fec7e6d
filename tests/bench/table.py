"""Rows of fixed columns, printed as they come."""

WIDTHS = (40, 16, 5, 10, 16, 8, 13, 7)
NAMES = ("what", "pass", "type", "ms", "rate", "share", "floor→aim", "spread")


class Table:
    def __init__(self):
        self.failures, self.below, self.reached = [], [], 0
        self.has_head = False

    def section(self, title):
        print(f"\n{title}")
        self._line(NAMES)
        self._line(["-" * width for width in WIDTHS])

    def _line(self, cells, note=""):
        text = "  ".join(cell.ljust(w) if i < 3 else cell.rjust(w) for i, (cell, w) in enumerate(zip(cells, WIDTHS)))
        print(f"{text}  {note}".rstrip(), flush=True)

    def row(self, what, when, dtype, seconds=None, rate="", share=None, target=None, spread=None, note="", unit="%",
            is_at_most=False):
        """`share` in percent, or a ratio (unit "x"). `target` (floor, aim) marks the row when its floor is missed."""
        cells = [what, when, dtype, "" if seconds is None else f"{seconds * 1e3:.2f}", rate,
                 "" if share is None else f"{share:.1f} %" if unit == "%" else f"{share:.2f} x", "",
                 "" if spread is None else f"{spread:.1%}"]
        if target is not None:
            floor, aim = target
            cells[6] = (f"{'≤ ' if is_at_most else ''}{floor:g}" + ("" if aim is None else f" → {aim:g}")
                        + (" %" if unit == "%" else " x"))
            if share is not None:
                # What rounds to the floor meets it.
                digits = 1 if unit == "%" else 2
                is_below = round(share, digits) > floor if is_at_most else round(share, digits) < floor
                if is_below:
                    self.below.append(" ".join(f"{what} {when} {dtype}".split()))
                    note = f"BELOW {note}" if note else "BELOW"
                else:
                    self.reached += 1
        self._line(cells, note)

    def note(self, text):
        print(f"  # {text}", flush=True)

    def failed(self, what, why):
        self.failures.append(what)
        print(f"  ! {what} FAILED: {why}", flush=True)

    def end(self, seconds):
        print(f"\nTook {seconds / 60:.1f} min. {self.reached} values reach their floor, {len(self.below)} do not"
              + (f", {len(self.failures)} failed" if self.failures else "") + ".")
        for what in self.below:
            print(f"  below: {what}")
        for what in self.failures:
            print(f"  failed: {what}")
