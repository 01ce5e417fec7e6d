"""See the package."""
import collections

PlacementGroupSchedulingStrategy = collections.namedtuple(
    "PlacementGroupSchedulingStrategy", "placement_group placement_group_bundle_index")
