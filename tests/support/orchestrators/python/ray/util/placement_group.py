"""See the package."""
import concurrent.futures


class PlacementGroup:
    """Bundles that are there at once."""

    def __init__(self, bundles):
        self.bundles = bundles

    def ready(self):
        future = concurrent.futures.Future()
        future.set_result(self)
        return future


def placement_group(bundles, strategy):
    assert strategy == "PACK"
    return PlacementGroup(bundles)


def remove_placement_group(group):
    group.bundles = None
