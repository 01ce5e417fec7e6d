#include "kernels/base/net.h"

#include "kernels/base/error.h"

namespace plait {

HostAndPort split_address(const std::string& address) {
  const size_t colon = address.rfind(':');
  HostAndPort parts;
  if (colon != std::string::npos) {
    parts.host = address.substr(0, colon);
    parts.port = address.substr(colon + 1);
  }
  if (parts.host.size() >= 2 && parts.host.front() == '[' && parts.host.back() == ']') {
    parts.host = parts.host.substr(1, parts.host.size() - 2);
  }
  bool is_port = !parts.port.empty() && parts.port.size() <= 5;
  for (const char c : parts.port) is_port = is_port && c >= '0' && c <= '9';
  if (!is_port || std::stol(parts.port) > 65535) {
    throw Error("address", "an address is host:port").with("address", address);
  }
  return parts;
}

}  // namespace plait
