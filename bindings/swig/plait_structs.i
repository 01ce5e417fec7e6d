// Emitted by tests/checks/abi_header.py from the public headers: the structs that a host makes and the library
// fills. Whoever includes it defines PLAIT_SIZED_STRUCT(TYPE).
PLAIT_SIZED_STRUCT(plait_metrics)
PLAIT_SIZED_STRUCT(plait_batch_spec)
PLAIT_SIZED_STRUCT(plait_plan_info)
PLAIT_SIZED_STRUCT(plait_rank_info)
PLAIT_SIZED_STRUCT(plait_key_info)
PLAIT_SIZED_STRUCT(plait_entry_info)
PLAIT_SIZED_STRUCT(plait_dataset_info)
PLAIT_SIZED_STRUCT(plait_progress)
