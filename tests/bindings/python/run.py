#!/usr/bin/env python3
"""Runs the tests beside this file and prints TAP.

  run.py [NAME…]      default: all; NAME is a file, a class or a test, as unittest takes it"""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


class Tap(unittest.TestResult):
    number = 0

    def line(self, test, word, note="", text=""):
        self.number += 1
        print(f"{word} {self.number} - python: {test.shortDescription() or test.id()}{note}")
        for row in text.splitlines():
            print("# " + row)
        sys.stdout.flush()

    def addSuccess(self, test):
        self.line(test, "ok")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.line(test, "ok", f" # SKIP {reason}")

    def addError(self, test, error):
        super().addError(test, error)
        self.line(test, "not ok", text=self._exc_info_to_string(error, test))

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.line(test, "not ok", text=self._exc_info_to_string(error, test))


def main():
    sys.path.insert(0, HERE)
    loader = unittest.TestLoader()
    names = sys.argv[1:]
    suite = loader.loadTestsFromNames(names) if names else loader.discover(HERE)
    result = Tap()
    suite.run(result)
    print(f"1..{result.number}")
    return 0 if result.wasSuccessful() and result.number > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
