#include "kernels/device/plugin.h"

#include <dlfcn.h>

#include "kernels/base/env.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

Error not_built(const std::string& path) {
  const char* reason = ::dlerror();
  return Error("not_built", "a plug-in is not installed or cannot be loaded")
      .with("path", path)
      .with("reason", reason == nullptr ? "" : reason);
}

}  // namespace

std::string library_directory() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&library_directory), &info) == 0 ||
      info.dli_fname == nullptr) {
    return ".";
  }
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

void* open_plugin(const std::string& directory, const std::string& file, const char* symbol) {
  const std::string path = join_path(directory, file);
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) throw not_built(path);
  void* address = ::dlsym(library, symbol);
  if (address == nullptr) throw not_built(path);
  return address;
}

}  // namespace plait
