// Libraries that are opened at run time, from beside libplait: what needs them works without them
// where they are not installed.
#pragma once

#include <string>

namespace plait {

/// Folder of the library (or program) that holds this code, without a slash at its end.
std::string library_directory();

/// Opens `file` in `directory` and returns the address of `symbol` in it. It is never closed: the
/// libraries behind plug-ins do not survive that. Throws `not_built` with path and reason.
void* open_plugin(const std::string& directory, const std::string& file, const char* symbol);

}  // namespace plait
