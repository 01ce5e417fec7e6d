"""Stands in for the little of Ray that samples/orchestrators/ray uses: actors are objects of this process, whose
calls run on threads of their own."""
import concurrent.futures
import functools

from . import exceptions, util  # noqa: F401

_pool = concurrent.futures.ThreadPoolExecutor()


def init():
    pass


def remote(**options):
    assert options == {"max_concurrency": 2}, options  # stop() runs beside run()
    return _Actor


class _Method:
    def __init__(self, call):
        self.remote = functools.partial(_pool.submit, call)


class _Handle:
    def __init__(self, actor):
        self._actor = actor

    def __getattr__(self, name):
        return _Method(getattr(self._actor, name))


class _Actor:
    def __init__(self, cls):
        self._cls = cls

    def options(self, num_cpus, scheduling_strategy):
        assert scheduling_strategy.placement_group.bundles[scheduling_strategy.placement_group_bundle_index] == {
            "CPU": num_cpus}
        return self

    def remote(self):
        return _Handle(self._cls())


def get(what):
    return [get(one) for one in what] if isinstance(what, list) else what.result()


def wait(what, num_returns, timeout):
    done, _ = concurrent.futures.wait(what, timeout, concurrent.futures.FIRST_COMPLETED)
    ended = [one for one in what if one in done][:num_returns]
    return ended, [one for one in what if one not in ended]
