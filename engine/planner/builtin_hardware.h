// Built-in descriptions of hardware: the files of engine/planner/hardware as text. CMake makes the
// source of this header from them.
#pragma once

#include <span>

namespace plait {

struct BuiltinHardware {
  const char* name;
  const char* json;  ///< a configuration of hardware.* keys
};

std::span<const BuiltinHardware> builtin_hardware();

}  // namespace plait
