#pragma once

#include <string>

namespace host {

/// "name value" lines: size of every public struct, offset of every field, value of every constant.
std::string layout_text();

}  // namespace host
